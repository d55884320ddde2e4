"""Decode what loads leave for each other (in the ledger, in locks, in triggers), whichever release wrote it.

A field that this release does not know is ignored; one that the other release did not know gets its default. A change
in the meaning of known fields raises the version of the schema instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_provider_ch_s3.errors import LoadError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Value = TypeVar("Value", bound="DataclassInstance")

SCHEMA_VERSION = 1
"""Version of the ledger's schema; a release that only knows lower ones does not touch the ledger."""


def as_plain(value: Any) -> Any:
    """Return a value with plain dicts and lists at every depth, as it comes back from JSON."""
    if isinstance(value, Mapping):
        return {key: as_plain(one) for key, one in value.items()}
    return [as_plain(one) for one in value] if isinstance(value, (list, tuple)) else value


def decode(cls: type[Value], written: Mapping[str, Any], **blanks: Any) -> Value:
    """Create a value from its stored fields.

    :param blanks: values for missing fields that have no default.
    :raises LoadError: if a field that has neither is missing.
    """
    known = {field.name for field in fields(cls)}
    required = {f.name for f in fields(cls) if f.default is MISSING and f.default_factory is MISSING}
    given = {name: value for name, value in blanks.items() if name in required}
    given |= {name: value for name, value in written.items() if name in known}
    if missing := sorted(required - given.keys()):
        raise LoadError(
            f"a record of a load ({cls.__name__}) that another version of airflow-provider-ch-s3 wrote lacks"
            f" {', '.join(missing)}; use that version on this worker"
        )
    return cls(**given)
