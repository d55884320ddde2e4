"""Example DAGs, which `ch-s3 demo` runs."""
