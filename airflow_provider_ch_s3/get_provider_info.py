"""The provider's metadata, which Airflow reads through the entry point ``apache_airflow_provider``."""

from __future__ import annotations

from typing import Any

from airflow_provider_ch_s3.cluster.fields import CONNECTION_FIELDS, FIELD_BEHAVIOUR, build_conn_fields

_INTEGRATION = "ClickHouse S3 loads"
CLICKHOUSE_DOCS = (
    "https://clickhouse.com/docs/integrations/connectors/data-ingestion/AWS/integrating-s3-with-clickhouse"
)
_SOURCES = {
    "Amazon Simple Storage Service (S3)": "s3",
    "Google Cloud Storage (GCS)": "gcs",
    "Microsoft Azure Blob Storage": "azure_blob",
    "Hypertext Transfer Protocol (HTTP)": "http",
    "Apache Iceberg": "iceberg",
    "Delta Lake": "delta",
}


def get_provider_info() -> dict[str, Any]:
    """Describe the provider."""
    return {
        "package-name": "airflow-provider-ch-s3",
        "name": "ClickHouse S3 loads",
        "description": "Bulk loads from object storage into ClickHouse: tuned to the cluster, exactly once.",
        "integrations": [
            {
                "integration-name": _INTEGRATION,
                "external-doc-url": CLICKHOUSE_DOCS,
                "tags": ["software"],
            }
        ],
        "transfers": [
            {
                "source-integration-name": name,
                "target-integration-name": _INTEGRATION,
                "python-module": f"airflow_provider_ch_s3.transfers.{module}_to_clickhouse",
            }
            for name, module in _SOURCES.items()
        ]
        + [
            {
                "source-integration-name": _INTEGRATION,
                "target-integration-name": "Amazon Simple Storage Service (S3)",
                "python-module": "airflow_provider_ch_s3.transfers.clickhouse_to_s3",
            }
        ],
        "operators": [
            {"integration-name": _INTEGRATION, "python-modules": ["airflow_provider_ch_s3.operators.s3_query"]}
        ],
        "hooks": [
            {
                "integration-name": _INTEGRATION,
                "python-modules": ["airflow_provider_ch_s3.hooks.clickhouse_s3"],
            }
        ],
        "sensors": [
            {
                "integration-name": _INTEGRATION,
                "python-modules": ["airflow_provider_ch_s3.sensors.parts_settled"],
            }
        ],
        "triggers": [
            {
                "integration-name": _INTEGRATION,
                "python-modules": [
                    "airflow_provider_ch_s3.triggers.export",
                    "airflow_provider_ch_s3.triggers.load",
                    "airflow_provider_ch_s3.triggers.parts_settled",
                ],
            }
        ],
        "extra-links": [
            "airflow_provider_ch_s3.transfers.links.LoadReportLink",
            "airflow_provider_ch_s3.transfers.links.ClickHouseLink",
        ],
        "connection-types": [
            {
                "connection-type": "clickhouse_s3",
                "hook-class-name": "airflow_provider_ch_s3.hooks.clickhouse_s3.ClickHouseS3Hook",
                "hook-name": "ClickHouse S3 cluster",
                "ui-field-behaviour": {key.replace("_", "-"): value for key, value in FIELD_BEHAVIOUR.items()},
                "conn-fields": build_conn_fields(CONNECTION_FIELDS),
            }
        ],
    }
