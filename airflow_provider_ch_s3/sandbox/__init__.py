"""A real ClickHouse cluster and an object store on this machine, for tests, demos and trials."""

from airflow_provider_ch_s3.sandbox.config import SandboxConfig
from airflow_provider_ch_s3.sandbox.info import Sandbox

__all__ = ["Sandbox", "SandboxConfig"]
