"""The pages of the documentation, for `ch-s3 docs`."""
