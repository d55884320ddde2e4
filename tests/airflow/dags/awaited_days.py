"""The example of the same name, for a real scheduler."""

from airflow_provider_ch_s3.example_dags.awaited_days import consumer, producer

__all__ = ["consumer", "producer"]
