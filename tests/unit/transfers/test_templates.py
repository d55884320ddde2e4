"""Templates mean the same in every DAG: with and without native objects, mapped, from another task."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.execution_time import task_runner
from airflow.serialization.serialized_objects import DagSerialization

from airflow_provider_ch_s3.arguments import (
    Arrivals,
    Check,
    Checks,
    Columns,
    Csv,
    Expect,
    Format,
    Move,
    Role,
    Settled,
)
from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.modes import Append, Merge, ReplaceWhere
from airflow_provider_ch_s3.operators.s3_query import S3QueryOperator
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.transfers import templates
from airflow_provider_ch_s3.transfers.clickhouse_to_s3 import ClickHouseToS3Operator
from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from airflow_provider_ch_s3.tuning import LoadLimit
from tests.failures import coded

BOTH = pytest.mark.parametrize("is_native", [False, True], ids=["text", "native"])
CONTEXT: dict[str, Any] = {"day": "2024-01-31", "number": "20240131", "n": 3, "names": ["a", "b"], "word": "id"}


def make_dag(*, is_native: bool, folder: Path | None = None) -> DAG:
    return DAG(
        "d",
        schedule=None,
        start_date=datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC),
        render_template_as_native_obj=is_native,
        template_searchpath=str(folder) if folder else None,
    )


def render(*, is_native: bool, folder: Path | None = None, **arguments: Any) -> S3ToClickHouseOperator:
    given = {"source": "s3://b/*", "table": "t", **arguments}
    with make_dag(is_native=is_native, folder=folder):
        operator = S3ToClickHouseOperator(task_id="load", **given)
    operator.render_template_fields(CONTEXT)
    return operator


def request_of(operator: S3ToClickHouseOperator) -> LoadRequest:
    return operator.build_request(operator.read_source(operator.open_store()), {}, LoadLimit())


@BOTH
def test_sql_arrives_as_it_was_written(is_native: bool) -> None:
    request = request_of(
        render(
            is_native=is_native,
            mode=Merge(key=["id"], deleted="'D' = 'D'"),
            where="1",
            select={"name": "'id'", "day": "'{{ day }}'", "n": "{{ n }}"},
            checks={"one": "'1'", "two": {"expression": "'2'"}, "three": Expect("'3'", within=0.5)},
            data_format=Format("CSV", structure="'x'"),
        )
    )
    assert (request.where, request.mode.deleted) == ("1", "'D' = 'D'")
    assert request.select == {"name": "'id'", "day": "'2024-01-31'", "n": "3"}
    assert [check.expression for check in request.checks.conditions.values()] == ["'1'", "'2'", "'3'"]
    assert request.data_format.structure == "'x'"


@BOTH
def test_a_text_is_a_text_and_a_number_its_digits(is_native: bool) -> None:
    request = request_of(
        render(
            is_native=is_native,
            table="{{ number }}",
            mode=ReplaceWhere("day = '{{ day }}'"),
            after_load=Move("{{ number }}"),
            data_format=Csv(delimiter=";", encoding="{{ 'latin-1' }}", null_words=["{{ number }}"]),
            arrivals=Arrivals(expected="{{ number }}", min_files="{{ n }}", min_age="{{ n }}"),
            settings={"s": "{{ number }}"},
            columns=["{{ word }}"],
        )
    )
    assert (request.table, request.mode.condition) == ("20240131", "day = '2024-01-31'")
    assert request.after_load == Move("20240131/")
    assert (request.csv.encoding, request.csv.null_words) == ("latin-1", ("20240131",))
    assert request.arrivals == Arrivals(expected=("20240131",), min_files=3, min_age=3.0)
    assert request.settings["s"] == "20240131"
    assert request.columns == Columns(("id",))


@BOTH
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"mode": "{{ 'append' }}"}, {"mode": Append()}),
        ({"mode": "{{ {'merge': {'key': names}} }}"}, {"mode": Merge(key=("a", "b"))}),
        ({"mode": {"merge": {"key": "{{ names }}"}}}, {"mode": Merge(key=("a", "b"))}),
        ({"mode": Merge(key="{{ names }}")}, {"mode": Merge(key=("a", "b"))}),
        ({"columns": "{{ names }}"}, {"columns": Columns(("a", "b"))}),
        ({"columns": Columns("{{ names }}")}, {"columns": Columns(("a", "b"))}),
        ({"select": "{{ {'a': 'b + 1'} }}"}, {"select": {"a": "b + 1"}}),
        ({"checks": "{{ {'a': 'count() > 0'} }}"}, {"checks": Checks({"a": Check("count() > 0")})}),
        ({"commit": "{{ 'settled' if n > 2 else 'held' }}"}, {"commit": Settled()}),
        ({"arrivals": "{{ {'min_files': n} }}"}, {"arrivals": Arrivals(min_files=3)}),
        ({"arrivals": Arrivals(skip_if_nothing_new="{{ n > 5 }}")}, {"arrivals": Arrivals()}),
        ({"where": "{{ none }}"}, {"where": "None"}),
    ],
)
def test_a_whole_argument_may_be_a_template(
    arguments: dict[str, Any], expected: dict[str, Any], is_native: bool
) -> None:
    request = request_of(render(is_native=is_native, **arguments))
    assert {name: getattr(request, name) for name in expected} == expected


@BOTH
def test_a_key_may_be_a_template(is_native: bool) -> None:
    request = request_of(
        render(
            is_native=is_native,
            select={"{{ word }}": "a"},
            checks=Checks({"{{ word }} of {{ number }}": "1"}),
            provenance={"{{ number }}": "path"},
            settings={"{{ word }}": 1},
        )
    )
    assert request.select == {"id": "a"}
    assert list(request.checks.conditions) == ["id of 20240131"]
    assert list(request.provenance) == ["20240131"]
    assert request.settings == {"id": 1}


@BOTH
def test_only_sql_is_read_from_a_file(is_native: bool, tmp_path: Path) -> None:
    (tmp_path / "cond.sql").write_text("day = '{{ day }}'")
    request = request_of(
        render(
            is_native=is_native,
            folder=tmp_path,
            table="h3.sql",
            where="cond.sql",
            mode=ReplaceWhere("cond.sql"),
            select={"h3.sql": "cond.sql"},
            checks={"c": "cond.sql"},
        )
    )
    assert request.table == "h3.sql"
    assert (request.where, request.mode.condition) == ("day = '2024-01-31'", "day = '2024-01-31'")
    assert request.select == {"h3.sql": "day = '2024-01-31'"}
    assert request.checks.conditions["c"].expression == "day = '2024-01-31'"


@BOTH
def test_exports_and_queries_in_place_do_the_same(is_native: bool, tmp_path: Path) -> None:
    (tmp_path / "q.sql").write_text("SELECT '{{ day }}'")
    with make_dag(is_native=is_native, folder=tmp_path):
        export = ClickHouseToS3Operator(task_id="e", destination="s3://b/{{ number }}/", table="h3.sql")
        query = ClickHouseToS3Operator(task_id="q", destination="s3://b/d/", query="q.sql", partition_by={"d": "'1'"})
        in_place = S3QueryOperator(task_id="i", sql="q.sql", source="s3://b/*", max_rows="{{ n }}")
    for operator in (export, query, in_place):
        operator.render_template_fields(CONTEXT)
    assert (export.destination, export.table) == ("s3://b/20240131/", "h3.sql")
    assert (query.query, query.partition_by) == ("SELECT '2024-01-31'", {"d": "'1'"})
    assert (in_place.sql, int(in_place.max_rows)) == ("SELECT '2024-01-31'", 3)


@BOTH
def test_two_tasks_may_share_a_value(is_native: bool) -> None:
    shared = Arrivals(expected="{{ word }}")
    assert request_of(render(is_native=is_native, arrivals=shared)).arrivals.expected == ("id",)
    assert shared == Arrivals(expected="{{ word }}")


@BOTH
def test_each_mapped_task_has_its_own_values(is_native: bool) -> None:
    modes = [Append(), {"replace_where": "day = '{{ day }}'"}, "replace_table"]
    with make_dag(is_native=is_native) as dag:
        mapped = S3ToClickHouseOperator.partial(task_id="load", table="{{ number }}", where="'x'").expand_kwargs(
            [{"source": f"s3://b/{n}", "mode": mode} for n, mode in enumerate(modes)]
        )
    found = []
    for index in range(3):
        ti = SimpleNamespace(map_index=index, xcom_pull=None)
        context = {**CONTEXT, "ti": ti, "run_id": "r", "dag": dag, "dag_run": SimpleNamespace(conf=None)}
        mapped.render_template_fields(context)  # type: ignore[arg-type]
        request = request_of(context["task"])
        found.append((str(request.source), request.mode.name, request.mode.condition, request.table, request.where))
    assert found == [
        ("s3://b/0", "append", "", "20240131", "'x'"),
        ("s3://b/1", "replace_where", "day = '2024-01-31'", "20240131", "'x'"),
        ("s3://b/2", "replace_table", "", "20240131", "'x'"),
    ]


def test_a_template_that_fails_is_named() -> None:
    with pytest.raises(ConfigError, match=coded("template-invalid", "mode.condition", "'day = {{ missing.name }}'")):
        render(is_native=False, mode=ReplaceWhere("day = {{ missing.name }}"))


def test_an_external_id_is_masked_before_the_rendered_fields_are_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    masked: list[str] = []
    monkeypatch.setattr(templates, "mask_secret", masked.append)
    operator = render(is_native=False, credentials=Role("arn", external_id="{{ word }}"))
    assert operator.credentials == Role("arn", external_id="id")
    assert (str(operator.credentials), masked) == ("Role('arn', external_id='***')", ["id"])


def test_an_external_id_is_on_no_rendered_page() -> None:
    """By Airflow's own way from a task to the page "Rendered Templates", whatever fields it is in."""
    operator = render(
        is_native=False,
        source="s3://b/{{ number }}/**",
        credentials=Role("arn", external_id="{{ number }}"),
        where="x != '{{ number }}'",
    )
    shown = task_runner._serialize_rendered_fields(operator)
    assert (shown["source"], shown["where"]) == ("s3://b/***/**", "x != '***'")
    assert shown["credentials"] == "Role('arn', external_id='***')"
    assert "20240131" not in json.dumps(shown)


def test_a_dag_is_stored_as_it_reads_and_without_secrets() -> None:
    with make_dag(is_native=False) as dag:
        S3ToClickHouseOperator(
            task_id="one",
            source="s3://b/*",
            table="t",
            mode=Merge(key=["id"]),
            checks=Checks({"a": Check("count() > 0", on_failure="warn"), "b": Expect.rows(within=0.5)}),
            credentials=Role("arn", external_id="only-for-us"),
        )
        S3ToClickHouseOperator.partial(
            task_id="mapped", table="t", credentials=Role("arn", external_id="only-for-us")
        ).expand(source=["s3://b/1", "s3://b/2"], mode=[Append(on_loaded="load"), {"merge": {"key": ["id"]}}])
    stored = json.dumps(DagSerialization.to_dict(dag))
    assert "only-for-us" not in stored
    assert "Role('arn', external_id='***')" in stored
    assert "Merge(key=['id'])" in stored
    assert "Append(on_loaded='load')" in stored
    assert "Checks({'a': Check('count() > 0', on_failure='warn'), 'b': Expect('count()', within=0.5)})" in stored
    assert set(DagSerialization.from_dict(json.loads(stored)).task_dict) == {"one", "mapped"}


class Series:
    """Compares by elements, as tables of pandas do."""

    def __eq__(self, other: object) -> Any:
        return self

    def __bool__(self) -> bool:
        raise ValueError("the truth value of a Series is ambiguous")

    __hash__ = None  # type: ignore[assignment]


def test_an_object_that_compares_by_elements_is_no_text() -> None:
    with make_dag(is_native=True):
        operator = S3ToClickHouseOperator(task_id="load", source="s3://b/*", table="t", columns="{{ names }}")
    series = Series()
    operator.render_template_fields({**CONTEXT, "names": series})
    assert operator.columns is series
