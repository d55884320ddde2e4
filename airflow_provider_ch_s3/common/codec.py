"""Decode what loads leave for each other (in the ledger, in locks, in triggers), whichever release wrote it.

An unknown field is ignored. A field unknown to the writer's release gets the default. A change in the meaning of
known fields raises the version of the schema instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_provider_ch_s3.errors import LoadError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from pydantic import TypeAdapter

Value = TypeVar("Value", bound="DataclassInstance")


def as_plain(value: Any) -> Any:
    """Return a value with plain dicts and lists at every depth, as JSON gives it back."""
    if isinstance(value, Mapping):
        return {key: as_plain(one) for key, one in value.items()}
    return [as_plain(one) for one in value] if isinstance(value, (list, tuple)) else value


def decode(cls: type[Value], written: Mapping[str, Any], **blanks: Any) -> Value:
    """Create a value from stored fields, and the values inside from theirs.

    :param blanks: values for missing fields without a default.
    :raises LoadError: if a field is missing and has no default and no blank, or has a value of a wrong type.
    """
    from pydantic import ValidationError

    required = {f.name for f in fields(cls) if f.default is MISSING and f.default_factory is MISSING}
    given = {name: value for name, value in blanks.items() if name in required}
    try:
        found: Value = _reader(cls).validate_python({**given, **written})
    except ValidationError as error:
        wrong = sorted(".".join(map(str, one["loc"])) for one in error.errors(include_input=False))
        raise LoadError(
            "provider-version-differs",
            f"a record of a load ({cls.__name__}) that another version of airflow-provider-ch-s3 wrote lacks"
            f" {', '.join(wrong)}, or has another type of value there; use that version on this worker",
        ) from None
    return found


@cache
def _reader(cls: type[Value]) -> TypeAdapter[Value]:
    from pydantic import TypeAdapter

    return TypeAdapter(cls)
