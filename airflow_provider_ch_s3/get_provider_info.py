"""The provider's metadata; Airflow reads them through the entry point ``apache_airflow_provider``."""

from __future__ import annotations

from typing import Any

from airflow_provider_ch_s3.cluster.fields import CONNECTION_FIELDS, FIELD_BEHAVIOUR, build_conn_fields

_INTEGRATION = "ClickHouse S3 loads"
CLICKHOUSE_DOCS = (
    "https://clickhouse.com/docs/integrations/connectors/data-ingestion/AWS/integrating-s3-with-clickhouse"
)
_S3 = "Amazon Simple Storage Service (S3)"
_SOURCES = {
    _S3: "s3",
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
            {"integration-name": _INTEGRATION, "external-doc-url": CLICKHOUSE_DOCS, "tags": ["software"]}
        ],
        "transfers": [
            *(_transfer(name, _INTEGRATION, f"{module}_to_clickhouse") for name, module in _SOURCES.items()),
            _transfer(_INTEGRATION, _S3, "clickhouse_to_s3"),
        ],
        "operators": _modules("operators.held", "operators.s3_query"),
        "hooks": _modules("hooks.clickhouse_s3"),
        "sensors": _modules("sensors.parts_settled"),
        "triggers": _modules(
            "triggers.export",
            "triggers.load",
            "triggers.new_files",
            "triggers.new_snapshot",
            "triggers.parts_settled",
        ),
        "asset-uris": [
            {
                "schemes": ["clickhouse"],
                "handler": "airflow_provider_ch_s3.assets.clickhouse.sanitize_uri",
                "factory": "airflow_provider_ch_s3.assets.clickhouse.clickhouse_asset",
                "to_openlineage_converter": "airflow_provider_ch_s3.assets.clickhouse.convert_asset_to_openlineage",
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


def _transfer(source: str, target: str, module: str) -> dict[str, str]:
    return {
        "source-integration-name": source,
        "target-integration-name": target,
        "python-module": f"airflow_provider_ch_s3.transfers.{module}",
    }


def _modules(*names: str) -> list[dict[str, Any]]:
    modules = [f"airflow_provider_ch_s3.{name}" for name in names]
    return [{"integration-name": _INTEGRATION, "python-modules": modules}]
