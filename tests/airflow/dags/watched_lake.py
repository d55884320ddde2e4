"""The example of the same name, for a real scheduler."""

from airflow_provider_ch_s3.example_dags.watched_lake import dag

__all__ = ["dag"]
