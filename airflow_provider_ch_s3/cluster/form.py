"""The connection form, built from the list of fields."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from airflow_provider_ch_s3.cluster.fields import ConnectionField, FieldKind

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
        field.name: {"label": field.label, "description": field.help, "schema": _build_schema(field)}
        for field in fields
    }


def _build_schema(field: ConnectionField) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": [_form_type(field), "null"]}
    if field.kind is FieldKind.STRINGS:
        schema["items"] = {"type": "string"}
    if field.choices:
        schema["enum"] = list(field.choices)
    return schema if field.default is None else schema | {"default": field.default}


def _form_type(field: ConnectionField) -> str:
    """Return the JSON type of a field in the form; a number is a text, which the hook checks.

    Airflow's own fields for numbers silently change what they do not accept: "0,7" becomes the minimum.
    """
    return "string" if field.kind in (FieldKind.INTEGER, FieldKind.NUMBER) else field.kind.value
