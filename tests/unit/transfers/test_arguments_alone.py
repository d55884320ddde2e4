"""No argument needs another argument outside of its value: each is given alone, found by the declarations."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import timedelta
from enum import Enum
from typing import Any

import pytest

from airflow_provider_ch_s3 import arguments, modes
from airflow_provider_ch_s3.common.declared import Value, declared_fields
from airflow_provider_ch_s3.contradictions import check_request
from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.export.request import ExportRequest
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.stores.s3 import S3FileStore
from airflow_provider_ch_s3.transfers.clickhouse_to_s3 import ClickHouseToS3Operator
from airflow_provider_ch_s3.transfers.files_to_clickhouse import FilesToClickHouseOperator
from airflow_provider_ch_s3.transfers.lake_to_clickhouse import OF_FOLDERS, LakeToClickHouseOperator
from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from airflow_provider_ch_s3.tuning import LoadLimit
from docs._site.reference_page import EXAMPLES, OPERATORS, OWN_EXAMPLES, VALUES
from tests.failures import coded

MOST_ARGUMENTS = 22
GIVEN = {"source": "s3://flights/in/*.csv", "table": "d.t"}
NEEDY_WORDS = {
    "Append(on_changed='replace')": coded("provenance-needed"),
    "Append(on_missing='delete')": coded("argument-missing", "on_changed='replace'"),  # of the same value
    "Merge(key=['order_id'], on_removed='delete')": coded("argument-without-effect", "lake table"),  # as the source
}
"""Words that are refused alone → what they need. A word that needs nothing any more fails the test, too."""
NEEDY_EXPORT_ARGUMENTS = {"compression"}
"""Needs a text format as ``data_format``."""
EXPORT_FIELDS = {field.name for field in dataclasses.fields(ExportRequest)}


def read_example(owner: type, name: str) -> Any:
    """The documented example; the reference cannot be made without."""
    known = {**vars(arguments), **vars(modes), "timedelta": timedelta}
    return eval(OWN_EXAMPLES.get((owner, name)) or EXAMPLES[name], known)


def arguments_of(operator: type) -> dict[str, tuple[type, inspect.Parameter]]:
    """Argument → the class with the argument, and its declaration; those of the base come first."""
    return {
        name: (kind, one)
        for kind in reversed(operator.__mro__)
        if issubclass(kind, FilesToClickHouseOperator | ClickHouseToS3Operator)
        for name, one in inspect.signature(kind.__init__).parameters.items()
        if one.kind is one.KEYWORD_ONLY
    }


def build(**given: Any) -> LoadRequest:
    """Build the request of a load, and look for contradictions."""
    operator = S3ToClickHouseOperator(task_id="load", **GIVEN, **given)
    store = S3FileStore(aws_conn_id=None)
    request = operator.build_request(operator.read_source(store), {}, LoadLimit())
    check_request(request)
    return request


def words_of(kind: type[Value]) -> Iterator[Value]:
    """Yield values of a class with what is required and one more field: each word, both flags, or the example."""
    fields = dataclasses.fields(kind)
    required = {
        one.name: read_example(kind, one.name)
        for one in fields
        if one.default is one.default_factory is dataclasses.MISSING
    }
    yield kind(**required)
    for field in fields:
        if isinstance(field.default, Enum):
            choices = list(type(field.default))
        else:
            choices = [True, False] if field.type == "bool" else [read_example(kind, field.name)]
        yield from (kind(**{**required, field.name: one}) for one in choices)


def arguments_with(kind: type[Value]) -> Iterator[str]:
    """Yield the arguments of a load that take a value of a class."""
    names = {base.__name__ for base in kind.__mro__}
    for name, (_, declaration) in arguments_of(S3ToClickHouseOperator).items():
        if names & set(re.findall(r"\w+", str(declaration.annotation))):
            yield name


@pytest.mark.parametrize(
    "operator", [one for one in OPERATORS if issubclass(one, FilesToClickHouseOperator | ClickHouseToS3Operator)]
)
def test_an_operator_has_few_arguments(operator: type) -> None:
    refused = OF_FOLDERS if issubclass(operator, LakeToClickHouseOperator) else set()
    assert len(arguments_of(operator).keys() - refused) <= MOST_ARGUMENTS


@pytest.mark.parametrize("name", [name for name in declared_fields(LoadRequest) if name not in GIVEN])
def test_an_argument_of_a_load_has_an_effect_alone(name: str) -> None:
    assert build(**{name: read_example(FilesToClickHouseOperator, name)}) != build()


@pytest.mark.parametrize("kind", VALUES)
def test_a_value_needs_no_other_argument(kind: type[Value]) -> None:
    names = list(arguments_with(kind))
    assert names, f"no argument takes {kind.__name__}"
    for value in words_of(kind):
        for name in names:
            given = {"a check": value} if issubclass(kind, arguments.Check) else value
            if repr(value) in NEEDY_WORDS:
                with pytest.raises(ConfigError, match=NEEDY_WORDS[repr(value)]):
                    build(**{name: given})
            else:
                build(**{name: given})


@pytest.mark.parametrize("name", sorted(ClickHouseToS3Operator.kinds.keys() & EXPORT_FIELDS - {"destination"}))
def test_an_argument_of_an_export_is_taken_alone(name: str) -> None:
    given = {"query": "SELECT 1", name: read_example(ClickHouseToS3Operator, name)}
    if name == "table":
        del given["query"]
    is_needy = name in NEEDY_EXPORT_ARGUMENTS
    refused = pytest.raises(ConfigError, match=coded("argument-invalid", "compression='gz'", "Parquet"))
    with refused if is_needy else nullcontext():
        ClickHouseToS3Operator(task_id="export", destination="s3://b/d/", **given)
