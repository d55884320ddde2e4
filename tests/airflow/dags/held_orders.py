"""The example of the same name, for a real scheduler."""

from airflow_provider_ch_s3.example_dags.held_orders import dag

__all__ = ["dag"]
