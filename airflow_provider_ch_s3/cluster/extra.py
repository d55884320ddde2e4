"""Parse the extra of a connection.

Airflow checks these values only in the browser, and a connection given as a URI holds only strings. So every value is
parsed and checked at the place of use.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from airflow_provider_ch_s3.cluster.fields import CONNECTION_FIELDS, ConnectionField, FieldKind
from airflow_provider_ch_s3.common.arguments import parse_whole
from airflow_provider_ch_s3.common.text import did_you_mean
from airflow_provider_ch_s3.errors import ConfigError

# What Airflow's own SQL hooks and operators read from the extra of any connection.
_FIELDS_OF_AIRFLOW = frozenset(
    {
        "placeholder",
        "insert_statement_format",
        "replace_statement_format",
        "escape_word_format",
        "escape_column_names",
        "log_sql",
    }
)
_KNOWN_KEYS = frozenset(field.name for field in CONNECTION_FIELDS) | _FIELDS_OF_AIRFLOW
_TRUE = frozenset({"1", "true", "yes", "on", "y", "t"})
_FALSE = frozenset({"0", "false", "no", "off", "n", "f"})


def parse_bool(value: bool | int | str) -> bool:
    """Parse a boolean as written in JSON, forms and URIs: ``"false"`` is false.

    :raises ValueError: if the value is not a boolean.
    """
    text = str(value).strip().lower()
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError(f"{value!r} is neither true nor false")


def parse_extra(text: str | None, conn_id: str) -> dict[str, Any]:
    """Parse a connection's extra as Airflow stores it. Airflow itself treats an unreadable extra as empty.

    :returns: the keys with a value; ``null`` and ``""`` are what a form saves for an empty field.
    :raises ConfigError: if the extra is not a JSON object, or has an unknown key.
    """
    try:
        extra = json.loads(text or "{}")
    except ValueError:
        extra = None
    if not isinstance(extra, dict):
        # not shown: the text may hold secrets
        raise ConfigError(
            "connection-invalid",
            f"connection {conn_id!r}: the extra is not a JSON object, so its fields cannot be read; write it as"
            ' {"cluster": "…"}, or leave it empty',
        )
    given = {name: value for name, value in extra.items() if value not in (None, "")}
    for name in given:
        if name not in _KNOWN_KEYS:
            otherwise = f"use {', '.join(sorted(_KNOWN_KEYS))}, or leave it out"
            remedy = did_you_mean(name.lower(), _KNOWN_KEYS, otherwise=otherwise)
            raise ConfigError(
                "connection-invalid",
                f"connection {conn_id!r}: the extra has the unknown key {name!r}; {remedy}",
            )
    return given


def parse_fields(extra: Mapping[str, Any], fields: tuple[ConnectionField, ...], *, conn_id: str) -> dict[str, Any]:
    """Parse and check the given fields of a connection's extra.

    :returns: the fields with a value; ``null`` and ``""`` are what a form saves for an empty field.
    :raises ConfigError: if a field does not accept the given value.
    """
    return {
        field.name: _parse_value(field, extra[field.name], conn_id=conn_id)
        for field in fields
        if extra.get(field.name) not in (None, "")
    }


def _parse_value(field: ConnectionField, value: Any, *, conn_id: str) -> Any:
    try:
        parsed = _PARSERS[field.kind](value)
    except (TypeError, ValueError, OverflowError):
        parsed = None
    if parsed is None or not _is_allowed(field, parsed):
        # an object may hold secrets, such as the password of a proxy
        shown = "not readable" if field.kind is FieldKind.OBJECT else value
        raise field_error(field.name, shown, conn_id=conn_id, remedy=f"set it to {field.expected}, or leave it empty")
    return parsed


def field_error(name: str, value: object, *, conn_id: str, remedy: str) -> ConfigError:
    """Return the error for a wrong value, with connection, field, value and remedy."""
    return ConfigError("connection-invalid", f"connection {conn_id!r}: {name} is {value!r}; {remedy}")


def _is_allowed(field: ConnectionField, value: Any) -> bool:
    if field.choices:
        return value in field.choices
    return field.span is None or bool(field.span[0] <= value <= field.span[1])


def _parse_number(value: Any) -> float:
    if isinstance(value, bool):
        raise ValueError("not a number")
    return float(value)


def _parse_string(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        raise TypeError("not a string")
    return value.strip()


def _parse_strings(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        value = json.loads(value) if value.lstrip().startswith("[") else value.replace("\n", ",").split(",")
    if not isinstance(value, (list, tuple)):
        raise TypeError("not a list")
    return tuple(text for text in map(_parse_string, value) if text)


def _parse_object(value: Any) -> dict[str, Any]:
    parsed = json.loads(value) if isinstance(value, str) else value
    if not isinstance(parsed, dict):
        raise TypeError("not an object")
    return parsed


_PARSERS = {
    FieldKind.BOOLEAN: parse_bool,
    FieldKind.INTEGER: parse_whole,
    FieldKind.NUMBER: _parse_number,
    FieldKind.STRING: _parse_string,
    FieldKind.STRINGS: _parse_strings,
    FieldKind.OBJECT: _parse_object,
}
