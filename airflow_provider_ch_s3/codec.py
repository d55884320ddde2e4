"""What loads leave for each other (in the ledger, in locks, in triggers), read by another release than wrote it.

A field that this release does not know says nothing to it, and is left out; one that the other release did not know
is filled in. What changes the meaning of the known fields raises the schema's version instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_provider_ch_s3.errors import LoadError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Value = TypeVar("Value", bound="DataclassInstance")

SCHEMA_VERSION = 2
"""Of the ledger; a release that knows a lower one only does not touch it."""


def decode(cls: type[Value], written: Mapping[str, Any], **blanks: Any) -> Value:
    """Make a value of its written fields.

    :param blanks: for missing fields that have no default.
    :raises LoadError: if a field is missing that has neither.
    """
    known = {field.name for field in fields(cls)}
    required = {f.name for f in fields(cls) if f.default is MISSING and f.default_factory is MISSING}
    given = {name: value for name, value in blanks.items() if name in required}
    given |= {name: value for name, value in written.items() if name in known}
    if missing := sorted(required - given.keys()):
        raise LoadError(
            f"what another version of airflow-provider-ch-s3 wrote of a load lacks {', '.join(missing)}"
            f" ({cls.__name__}); go on with that version on this worker"
        )
    return cls(**given)
