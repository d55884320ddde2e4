"""Each argument of the operator, each field of a value and each word of a choice is in a factor."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any

import pytest

from airflow_provider_ch_s3 import arguments, modes
from airflow_provider_ch_s3.common.declared import Value, declared_fields, default_of
from airflow_provider_ch_s3.modes import MODES, Mode
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.table.new_table import CreateTable
from airflow_provider_ch_s3.table.row_check import Check, Expect
from airflow_provider_ch_s3.transfers.files_to_clickhouse import FilesToClickHouseOperator
from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from docs._site.reference_page import OPERATORS
from tests.combinations.factors import ARGUMENTS, FACTORS, case_of

GIVEN = {
    "source": "follows from the factor 'files'",
    "table": "follows from the factors 'kind' and 'cluster'",
    "clickhouse_conn_id": "follows from the factor 'cluster'",
    "aws_conn_id": "the sandbox's",
    "store_conn_id": "the sandbox's",
    "wasb_conn_id": "the emulator's",
    "poll_interval": "short, so that tests are fast",
}
"""Arguments without levels, with the reason."""
ELSEWHERE = {
    "Role.arn": "tests/sandbox/test_credentials.py: no server of the sandbox assumes a role",
    "Role.external_id": "tests/sandbox/test_credentials.py: no server of the sandbox assumes a role",
    "snapshot": "tests/sandbox/test_lakes.py: a case has no history that is worth reading",
    "catalog_conn_id": "tests/unit/lakes/test_catalog.py and tests/sandbox/test_lakes.py: a case needs no catalog",
    "max_metadata_bytes": "tests/unit/lakes/test_store.py: a case has small metadata",
    "hmac_conn_id": "tests/sandbox/test_stores.py: Google's store is S3-compatible, but for the keys",
    "OwnKeys": "the keys of the connection, which each case without credentials has",
    "CatalogKeys": "tests/unit/lakes/test_catalog.py and tests/sandbox/test_lakes.py: a case needs no catalog",
    "requester_pays": "tests/sandbox/test_credentials.py: the sandbox's store has no other owner",
}
"""What another test tries, because files in a sandbox cannot."""


def every_kind() -> list[type[Value]]:
    """List the classes of values."""
    found = {
        one
        for module in (arguments, modes)
        for one in vars(module).values()
        if inspect.isclass(one) and issubclass(one, Value) and one is not Mode
    }
    return sorted({*found, CreateTable, Check, Expect} - {Value}, key=lambda one: one.__name__)


def every_value() -> Iterator[Any]:
    """Yield the values of all levels, also those that follow from the levels of other factors."""
    cases = [case_of(**{name: level}) for name in FACTORS for level in FACTORS[name]]
    cases += [
        case_of(compression="unnamed gz", format="json"),
        case_of(compression="unnamed gz", format="csv dialect"),
        case_of(kind="new as told", cluster="local tables"),
        case_of(kind="new as told", cluster="sharded by id"),
    ]
    for case in cases:
        yield from case.arguments.items()


def walk(value: Any) -> Iterator[Value]:
    if isinstance(value, Value):
        yield value
        for field in dataclasses.fields(value):
            yield from walk(getattr(value, field.name))
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from walk(one)


def parsed() -> Iterator[Value]:
    """Yield each value as the operator parses it: names and dicts stand for values, too."""
    kinds = S3ToClickHouseOperator.kinds
    for name, value in every_value():
        if name in kinds:
            yield from walk(kinds[name].parse(name, value))


@pytest.mark.parametrize("operator", [one for one in OPERATORS if issubclass(one, FilesToClickHouseOperator)])
def test_each_argument_is_a_factor(operator: type) -> None:
    named = {
        name
        for base in operator.__mro__
        if base.__module__.startswith("airflow_provider_ch_s3")
        for name in inspect.signature(base.__init__).parameters
    }
    arguments_ = named - {"self", "kwargs", "args"}
    assert declared_fields(LoadRequest).keys() <= arguments_
    assert arguments_ - set(ARGUMENTS) - GIVEN.keys() - ELSEWHERE.keys() == set()


def test_each_value_without_fields_is_in_a_level() -> None:
    usual = {type(default_of(field)) for field in declared_fields(LoadRequest).values()}
    wanted = {kind for kind in every_kind() if not declared_fields(kind)} - usual
    assert {kind.__name__ for kind in wanted - {type(value) for value in parsed()}} - ELSEWHERE.keys() == set()


def test_each_field_of_a_value_is_in_a_level() -> None:
    used = {
        f"{type(value).__name__}.{name}"
        for value in parsed()
        for name, field in declared_fields(type(value)).items()
        if getattr(value, name) != default_of(field)
    }
    wanted = {f"{kind.__name__}.{name}" for kind in every_kind() for name in declared_fields(kind)}
    assert wanted - used - ELSEWHERE.keys() == set()


def test_each_word_of_a_choice_is_in_a_level() -> None:
    used: dict[str, set[Any]] = {}
    words: dict[str, type[Enum]] = {}
    for value in parsed():
        for field in dataclasses.fields(value):
            one = getattr(value, field.name)
            if isinstance(one, Enum):
                used.setdefault(f"{type(value).__name__}.{field.name}", set()).add(one)
                words[f"{type(value).__name__}.{field.name}"] = type(one)
    unused = {name: set(kind) - used[name] for name, kind in words.items()}
    assert {name: left for name, left in unused.items() if left and name not in ELSEWHERE} == {}


def test_each_mode_is_a_level() -> None:
    assert {type(value) for value in parsed() if isinstance(value, Mode)} == set(MODES)
