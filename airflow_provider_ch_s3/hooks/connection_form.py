"""The connection form, built from the list of fields."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from airflow_provider_ch_s3.connection_fields import ConnectionField, FieldKind

FIELD_BEHAVIOUR: dict[str, Any] = {
    "hidden_fields": [],
    "relabeling": {"schema": "Database"},
    "placeholders": {
        "host": "clickhouse.example.com",
        "port": "8123",
        "login": "default",
        "schema": "default",
    },
}


def build_conn_fields(fields: Iterable[ConnectionField]) -> dict[str, Any]:
    """Build ``conn-fields`` of the provider info."""
    return {
        field.name: {"label": field.label, "description": field.description, "schema": _build_schema(field)}
        for field in fields
    }


def _build_schema(field: ConnectionField) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": [field.kind.value, "null"]}
    if field.kind is FieldKind.STRINGS:
        schema["items"] = {"type": "string"}
    if field.choices:
        schema["enum"] = list(field.choices)
    optional = {"minimum": field.minimum, "maximum": field.maximum, "default": field.default}
    return schema | {key: value for key, value in optional.items() if value is not None}
