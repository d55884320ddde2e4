"""The error of the lab. The errors of the provider are in ``airflow_provider_ch_s3.errors``."""

from __future__ import annotations

from airflow_provider_ch_s3.errors import ChS3Error


class SandboxError(ChS3Error):
    """The sandbox did not start, or is not running."""
