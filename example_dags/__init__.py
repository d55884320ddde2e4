"""Example DAGs; `ch-s3 demo` runs one of them."""
