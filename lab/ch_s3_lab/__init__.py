"""Tools around airflow-provider-ch-s3: a sandbox, a demo, benchmarks, and pytest fixtures."""

__version__ = "0.1.0"
