"""Bulk loads from object storage into ClickHouse, driven by Apache Airflow."""

__version__ = "0.1.0"
