"""The connection form, made from the field table: JSON schemas, and widgets for Airflow 3.1."""

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


def build_form_widgets(fields: Iterable[ConnectionField]) -> dict[str, Any]:
    """Build the widgets that Airflow asks of a hook before 3.2.

    Every field is a text but the booleans: the values are parsed where they are used anyway.
    """
    from flask_appbuilder.fieldwidgets import BS3TextFieldWidget
    from flask_babel import lazy_gettext
    from wtforms import BooleanField, StringField

    def build(field: ConnectionField) -> Any:
        label, description = lazy_gettext(field.label), f"{field.description} Expected: {field.expected}."
        if field.kind is FieldKind.BOOLEAN:
            return BooleanField(label, default=field.default or False, description=description)
        return StringField(label, widget=BS3TextFieldWidget(), description=description)

    return {field.name: build(field) for field in fields}
