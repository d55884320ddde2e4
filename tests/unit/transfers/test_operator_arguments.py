"""What the operators make of their arguments: values, dicts, texts that templates have made, and mistakes."""

from __future__ import annotations

import dataclasses
import datetime
import inspect
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, ObjectStoragePath, XComArg

from airflow_provider_ch_s3.arguments import (
    Arrivals,
    Check,
    Checks,
    Chunks,
    Columns,
    CreateTable,
    Csv,
    Delete,
    Fail,
    Format,
    Keep,
    Move,
    NamedCollection,
    NoChunks,
    OnMissingColumns,
    OnNewColumns,
    OnNothing,
    Reject,
    Role,
)
from airflow_provider_ch_s3.common.arguments import parse_whole
from airflow_provider_ch_s3.common.declared import declared_fields, default_of
from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.modes import (
    Append,
    Direct,
    LoadMode,
    Merge,
    OnChangedFiles,
    OnLoadedFiles,
    OnMissingFiles,
    ReplacePartitions,
    ReplaceTable,
    ReplaceWhere,
    Views,
)
from airflow_provider_ch_s3.operators.held import ClickHouseCommitHeldOperator
from airflow_provider_ch_s3.report import LoadReport
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.sensors.parts_settled import ClickHousePartsSettledSensor
from airflow_provider_ch_s3.table.merge_rule import MergeRule
from airflow_provider_ch_s3.table.provenance import Origin
from airflow_provider_ch_s3.transfers import announcements
from airflow_provider_ch_s3.transfers.clickhouse_to_s3 import ClickHouseToS3Operator
from airflow_provider_ch_s3.transfers.delta_to_clickhouse import DeltaToClickHouseOperator
from airflow_provider_ch_s3.transfers.files_to_clickhouse import FilesToClickHouseOperator
from airflow_provider_ch_s3.transfers.iceberg_to_clickhouse import IcebergToClickHouseOperator
from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from airflow_provider_ch_s3.tuning import LoadLimit
from tests.failures import coded, own_errors


@pytest.fixture(autouse=True)
def _connection(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = {"conn_type": "clickhouse_s3", "host": "127.0.0.1", "port": 1}  # nothing listens there
    monkeypatch.setenv("AIRFLOW_CONN_UNIT", json.dumps(connection))


CONTRADICTING = {"bad_rows": "reject", "provenance": {"source_file": "path"}}


def make_operator(**arguments: Any) -> S3ToClickHouseOperator:
    given = {"source": "s3://flights/**", "table": "d.t", "clickhouse_conn_id": "unit", **arguments}
    return S3ToClickHouseOperator(task_id="load", **given)


def request_of(operator: S3ToClickHouseOperator) -> LoadRequest:
    return operator.build_request(operator.read_source(operator.open_store()), {}, LoadLimit())


def make_request(**arguments: Any) -> LoadRequest:
    return request_of(make_operator(**arguments))


@pytest.mark.parametrize("is_only_validated", [True, False])
def test_a_validation_tells_nobody_even_if_nothing_is_new(
    is_only_validated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[LoadReport] = []
    monkeypatch.setattr(announcements, "emit_metrics", told.append)
    operator = make_operator()
    request = make_request(checks=Checks(validate_only=is_only_validated))
    load: Any = SimpleNamespace(table_name=None, request=request)
    operator._result({}, load, LoadReport.nothing_new("d.t", files_skipped=1))  # type: ignore[arg-type]
    assert bool(told) is not is_only_validated


class TestDeclaration:
    def test_the_signature_has_each_declared_argument_with_its_default(self) -> None:
        given = inspect.signature(FilesToClickHouseOperator.__init__).parameters
        fields = declared_fields(LoadRequest)
        assert set(fields) <= set(given)
        for name, field in fields.items():
            default = given[name].default
            if default is inspect.Parameter.empty:
                assert default_of(field) is dataclasses.MISSING
            else:
                kind = field.metadata["kind"]
                parsed = default_of(field) if default is None else kind.parse(name, default)
                assert parsed == default_of(field), name

    def test_all_arguments_are_templated_but_how_the_task_waits(self) -> None:
        given = {
            parameter.name
            for kind in (S3ToClickHouseOperator, FilesToClickHouseOperator)
            for parameter in inspect.signature(kind.__init__).parameters.values()
            if parameter.kind is parameter.KEYWORD_ONLY
        }
        assert given - set(S3ToClickHouseOperator.template_fields) == {"deferrable", "poll_interval"}


def test_defaults_are_the_careful_ones() -> None:
    request = make_request()
    assert request.mode == Append(
        on_loaded=OnLoadedFiles.SKIP,
        on_changed=OnChangedFiles.FAIL,
        on_missing=OnMissingFiles.KEEP,
        views=Views.REFUSE,
    )
    assert request.arrivals == Arrivals(
        min_age=0.0, expected=(), min_files=1, on_none=OnNothing.FAIL, skip_if_nothing_new=False
    )
    assert request.checks == Checks({}, min_rows=1, keep_staged=0.0, validate_only=False)
    assert request.columns == Columns(None, on_new=OnNewColumns.FAIL, on_missing=OnMissingColumns.FAIL)
    assert (request.bad_rows, request.after_load) == (Fail(), Keep())
    assert request.chunks == Chunks(max_files=10_000, max_bytes=None)
    assert (request.settles, request.provenance, request.create_table) == (False, {}, None)


def test_none_is_the_same_as_not_given() -> None:
    names = [name for name in declared_fields(LoadRequest) if name != "table"]
    assert make_request(**dict.fromkeys(names)) == make_request()


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("append", Append()),
        ("replace_partitions", ReplacePartitions()),
        ("replace_table", ReplaceTable()),
        ("direct", Direct()),
        ({"append": {"on_loaded": "load"}}, Append(on_loaded=OnLoadedFiles.LOAD)),
        ({"append": None}, Append()),
        ({"replace_where": "n > 0"}, ReplaceWhere("n > 0")),
        ({"replace_where": {"condition": "n > 0"}}, ReplaceWhere("n > 0")),
        ("{'merge': {'key': ['id']}}", Merge(key=("id",))),
        ('{"merge": {"key": ["id"]}}', Merge(key=("id",))),
        ({"merge": ["id", "at"]}, Merge(key=("id", "at"))),
    ],
)
def test_a_mode_may_be_a_name_or_a_dict(mode: object, expected: object) -> None:
    assert make_request(mode=mode).mode == expected


def test_the_arguments_of_a_merge_arrive() -> None:
    mode = Merge(key=["id"], version="at", deleted="op = 'D'", duplicates="collapse", max_rewritten_bytes="1000")  # type: ignore[arg-type]
    request = make_request(mode=mode)
    assert request.mode.commits is LoadMode.MERGE
    assert request.mode.rule == MergeRule(
        key=("id",), version="at", deleted="op = 'D'", collapses=True, max_rewritten_bytes=1000
    )
    assert make_request().mode.rule is None


def test_other_values_arrive() -> None:
    request = make_request(
        table=20231023,
        arrivals={"min_age": datetime.timedelta(minutes=5), "expected": "_SUCCESS", "min_files": np.int64(3)},
        data_format=Csv(delimiter=";", skip_lines="2"),  # type: ignore[arg-type]
        columns=["a", "b"],
        select={"n": "m + 1"},
        provenance={"file": "path"},
        bad_rows={"reject": {"max_ratio": "0.1"}},
        checks={"sane": "min(n) >= 0"},
        chunks={"max_files": "500"},
        after_load={"move": "loaded"},
        settings={"max_threads": np.int64(4)},
        create_table={"order_by": "n"},
        commit="settled",
    )
    assert request.table == "20231023"
    assert request.arrivals == Arrivals(min_age=300.0, expected=("_SUCCESS",), min_files=3)
    assert request.csv == Csv(delimiter=";", skip_lines=2)
    assert request.columns == Columns(("a", "b"))
    assert (request.select, request.provenance) == ({"n": "m + 1"}, {"file": Origin.PATH})
    assert request.bad_rows == Reject(max_ratio=0.1)
    assert request.checks == Checks({"sane": Check("min(n) >= 0")})
    assert (request.chunks, make_request(chunks="off").chunks) == (Chunks(max_files=500), NoChunks())
    assert request.after_load == Move("loaded/")
    # the settings that the dialect stands for are those of the user, too
    assert request.settings == {"format_csv_delimiter": ";", "input_format_csv_skip_first_lines": 2, "max_threads": 4}
    assert request.create_table == CreateTable(order_by="n")
    assert request.settles


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("s3://flights/a/*", "s3://flights/a/*"),
        ("S3://flights/a", "s3://flights/a"),
        ("s3a://flights/a", "s3://flights/a"),
        ("s3n://flights/a", "s3://flights/a"),
        (ObjectStoragePath("s3://aws@flights/a/*.csv"), "s3://flights/a/*.csv"),
        ("['s3://flights/a', 's3://flights/b']", "s3://flights/a, s3://flights/b"),
    ],
)
def test_an_address_may_be_written_in_several_ways(source: object, expected: str) -> None:
    assert str(make_request(source=source).source) == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"table": ["t"]}, "table=['t'] is of type list; give a string"),
        ({"clickhouse_conn_id": 3.5}, "clickhouse_conn_id=3.5 is of type float; give a string"),
        ({"aws_conn_id": ["a"]}, "aws_conn_id=['a'] is of type list; give a string"),
        ({"credentials": "role"}, "credentials='role' lacks what it needs; give Role(arn=…)"),
        ({"credentials": NamedCollection(["a"])}, "credentials.collection=['a'] is of type list; give a string"),  # type: ignore[arg-type]
        ({"credentials": Role("", external_id="x")}, "credentials.arn='' is empty; give a name"),
        ({"credentials": NamedCollection("")}, "credentials.collection='' is empty; give a name"),
        ({"requester_pays": "yes"}, "requester_pays='yes' is of type str; give True or False"),
        ({"where": ["a"]}, "where=['a'] is of type list; give a string"),
        (
            {"data_format": 1},
            "data_format=1 is unknown; give the name of a format, such as 'Parquet', or Format(…), or Csv(…)",
        ),
        (
            {"data_format": Format("CSV", compression=["gz"])},
            "data_format.compression=['gz'] is of type list; give a",
        ),
        ({"data_format": Csv(delimiter=";;")}, "data_format=Csv(…) has delimiter=';;'; give one character, such as"),
        ({"deferrable": 1}, "deferrable=1 is of type int; give True or False"),
        ({"columns": "a"}, "columns='a' is of type str; give a list of columns, or Columns(…)"),
        ({"columns": ["a", None]}, "columns.only[1]=None is of type NoneType; give a string"),
        (
            {"select": ["a"]},
            "select=['a'] is of type list; give a dict such as {'column': 'expression'}, or leave it",
        ),
        ({"select": {1: "a"}}, "a key of select=1 is of type int; give a string"),
        ({"settings": "max_threads=1"}, "settings='max_threads=1' is of type str; give a dict such as"),
        ({"settings": {"max_threads": None}}, "settings['max_threads']=None is of type NoneType; give a string or a"),
        ({"settings": {"max_threads": float("nan")}}, "settings['max_threads']=nan is not a finite number; give one"),
        ({"poll_interval": "5"}, "poll_interval='5' is of type str; give a number of seconds"),
        ({"poll_interval": float("nan")}, "poll_interval=nan is not a duration; give a number of seconds above 0"),
        ({"poll_interval": 0}, "poll_interval=0 is not a duration; give a number of seconds above 0"),
        (
            {"mode": "overwrite"},
            "mode='overwrite' is unknown; give 'append' or 'replace_partitions' or ReplaceWhere(condition=…) or"
            " 'replace_table' or Merge(key=…) or 'direct'",
        ),
        ({"mode": "merge"}, "mode='merge' lacks what it needs; give Merge(key=…)"),
        ({"mode": Merge(key="id")}, "mode.key='id' is of type str; write a list: ['id']"),
        ({"mode": Merge(key=[])}, "mode=Merge(key=[]) names no column; name the columns of a row: key=['id']"),
        ({"mode": Merge(key=["id"], duplicates="drop")}, "mode.duplicates='drop' is unknown; use one of 'refuse', "),
        ({"mode": ReplaceWhere(" ")}, "mode=ReplaceWhere(' ') has no condition; give the one that selects the rows"),
        ({"mode": Append(on_loaded="fail")}, "mode.on_loaded='fail' is unknown; use one of 'skip', 'load'"),
        (
            {"provenance": {"f": "name"}},
            "provenance['f']='name' is unknown; use one of 'path', 'row', 'time', 'load'",
        ),
        ({"arrivals": 7}, "arrivals=7 is of type int; give Arrivals(…), or a dict of its fields"),
        ({"arrivals": {"min_age": "5 min"}}, "arrivals.min_age='5 min' is of type str; give a number of seconds, or"),
        ({"arrivals": Arrivals(on_none="ignore")}, "arrivals.on_none='ignore' is unknown; use one of 'fail', 'skip'"),
        ({"checks": Checks(min_rows=-1)}, "checks.min_rows=-1 must be a whole number, 0 or more"),
        ({"checks": {"a": 5}}, "checks.conditions['a']=5 is of type int; give an SQL condition such as"),
        ({"chunks": "none"}, "chunks='none' is unknown; give Chunks(max_files=…, max_bytes=…) or 'off'"),
        ({"chunks": {"max_files": 10_001}}, "chunks.max_files=10001 must be a whole number, from 1 to 10000"),
        ({"chunks": {"max_bytes": "10 GB"}}, "chunks.max_bytes='10 GB' must be a whole number, 1 or more"),
        ({"chunks": {"max_file": 5}}, "chunks has no field 'max_file'; did you mean 'max_files'?"),
        ({"mode": Merge}, "mode='merge' lacks what it needs; give Merge(key=…)"),
        (
            {"arrivals": Arrivals},
            "arrivals=<class 'airflow_provider_ch_s3.arguments.Arrivals'> is of type type; give",
        ),
        ({"table": ""}, "table='' is empty; give a name"),
        ({"table": "a.b.c"}, "table 'a.b.c' is not a table name; write it as 'table' or 'database.table'"),
        ({"after_load": "move"}, "after_load='move' lacks what it needs; give Move(folder=…)"),
        ({"after_load": Move("s3://b/done")}, "after_load=Move('s3://b/done') is an address, and files move within"),
        ({"bad_rows": Reject(max_ratio=3)}, "bad_rows.max_ratio=3 must be a number from 0 to 1, such as 0.01"),
        ({"create_table": 5}, "create_table=5 is of type int; give 'auto', or CreateTable(order_by=…)"),
        ({"source": "['s3://b/a'"}, "source=\"['s3://b/a'\" is neither a list nor a dict; correct its brackets"),
    ],
)
def test_a_wrong_argument_is_named_with_its_value_and_a_remedy(arguments: dict[str, Any], message: str) -> None:
    """When the DAG is parsed, and when the task runs: a template may have made the value."""
    with pytest.raises(ConfigError) as caught:
        make_operator(**arguments)
    assert caught.value.sentence.startswith(message)
    if arguments.keys() & {"deferrable", "poll_interval"}:
        return  # which are not templated
    operator = make_operator()
    vars(operator).update(arguments)
    task = SimpleNamespace(retries=0, max_active_tis_per_dag=None, get_dag=lambda: None)
    ti = SimpleNamespace(dag_id="d", task_id="t", run_id="r", map_index=-1, try_number=1, max_tries=0)
    run = SimpleNamespace(start_date=datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC), run_after=None)
    with pytest.raises(ConfigError) as caught, own_errors():
        operator.execute({"ti": ti, "dag_run": run, "task": task})
    assert caught.value.sentence.startswith(message)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"mode": "direct", "bad_rows": "reject"}, "arguments-contradict"),
        ({"mode": Append(on_changed="replace")}, "provenance-needed"),
        ({"mode": {"append": {"on_missing": "delete"}}}, "argument-missing"),
        ({"mode": "replace_table", "chunks": {"max_files": 1}}, "argument-without-effect"),
        ({"where": "n > ("}, "expression-invalid"),
        ({"table": None}, "argument-missing"),
        ({"source": "gs://bucket/in/*"}, "address-invalid"),
        ({"source": "s3://b/*.parquet", "bad_rows": "reject"}, "arguments-contradict"),
        ({"source": "s3://b/*.{a,b}.JSONL.gz", "data_format": Csv(trim=True)}, "argument-invalid"),
        ({"data_format": "ORC", "bad_rows": "reject"}, "arguments-contradict"),
    ],
)
def test_a_contradiction_is_an_error_of_the_dags_import(arguments: dict[str, Any], code: str) -> None:
    with pytest.raises(ConfigError, match=coded(code)):
        make_operator(**arguments)


@pytest.mark.parametrize("source", ["s3://b/*.csv.gz", "s3://b/*", "s3://b/*.{csv,tsv}"])
def test_files_that_may_have_lines_may_have_bad_rows(source: str) -> None:
    make_operator(source=source, bad_rows="reject", data_format=Csv(delimiter=";"))


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: IcebergToClickHouseOperator(task_id="t", source="s3://b/*/t", table="t"), "address-invalid"),
        (
            lambda: DeltaToClickHouseOperator(task_id="t", source="s3://b/t", table="t", snapshot="v5"),
            "argument-invalid",
        ),
        (lambda: ClickHousePartsSettledSensor(task_id="t", table="a.b.c"), "name-invalid"),
        (lambda: ClickHouseCommitHeldOperator(task_id="t", load="x", table="a b"), "name-invalid"),
    ],
)
def test_other_operators_refuse_wrong_names_in_the_dags_import(make: Callable[[], object], code: str) -> None:
    with pytest.raises(ConfigError, match=coded(code)):
        make()


@pytest.mark.parametrize(
    "arguments",
    [
        {"mode": "{{ params.mode }}"},
        {"mode": Merge(key=["{{ params.key }}"])},
        {"mode": ReplaceWhere("conditions/old.sql")},
        {"where": "n > ( {# a comment #}"},
        {"select": {"{{ params.name }}": "n"}},
        {"checks": {"a": Check("sane.sql")}},
        {"source": ["s3://b/{{ ds }}/*", "gs://b/a"]},
    ],
)
def test_what_a_template_makes_is_judged_when_the_task_runs(arguments: dict[str, Any]) -> None:
    make_operator(**arguments, **CONTRADICTING)
    with pytest.raises(ConfigError, match=coded("arguments-contradict")):
        make_operator(**CONTRADICTING)


@pytest.mark.parametrize("given", [lambda result: {"table": result}, lambda result: {"columns": {"only": result}}])
def test_the_result_of_an_upstream_task_is_judged_when_the_task_runs(
    given: Callable[[XComArg], dict[str, Any]],
) -> None:
    with DAG("d"):
        make_operator(**given(EmptyOperator(task_id="up").output), **CONTRADICTING)


def test_a_field_that_a_dict_misspells_is_named() -> None:
    with pytest.raises(ConfigError, match=coded("argument-invalid", "'keys'", "did you mean 'key'?")):
        make_request(mode={"merge": {"keys": ["id"]}})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"table": ["t"]}, "table=['t'] is of type list; give a string"),
        ({"clickhouse_conn_id": 3.5}, "clickhouse_conn_id=3.5 is of type float; give a string"),
        ({"deferrable": "no"}, "deferrable='no' is of type str; give True or False"),
        ({"max_parts": 2.7}, "max_parts=2.7 must be a whole number, 0 or more"),
        ({"max_parts": True}, "max_parts=True must be a whole number, 0 or more"),
        ({"max_parts_per_partition": ["3"]}, "max_parts_per_partition=['3'] must be a whole number, 0 or more"),
        (
            {"stable_seconds": "long"},
            "stable_seconds='long' is of type str; give a number of seconds, or a timedelta",
        ),
        ({"stable_seconds": float("nan")}, "stable_seconds=nan is not a duration; give a number of seconds of 0 or"),
    ],
)
def test_a_wrong_argument_of_the_sensor_is_named(arguments: dict[str, Any], message: str) -> None:
    given = {"table": "d.t", "clickhouse_conn_id": "unit", **arguments}
    with pytest.raises(ConfigError) as caught:
        ClickHousePartsSettledSensor(task_id="settled", **given)
    assert caught.value.sentence.startswith(message)
    if "deferrable" in arguments:
        return  # which is not templated
    sensor = ClickHousePartsSettledSensor(task_id="settled", table="d.t")
    vars(sensor).update(given)
    with pytest.raises(ConfigError) as caught:
        sensor.poke({})
    assert caught.value.sentence.startswith(message)


@pytest.mark.parametrize("value", [8, 8.0, "8", " 8 ", "8.0"])
def test_a_whole_number_may_be_written_in_several_ways(value: object) -> None:
    assert parse_whole(value) == 8


@pytest.mark.parametrize("value", [2.7, "2.7", True, None, "", "8 files", "1e3", float("inf"), [8]])
def test_what_is_no_whole_number(value: object) -> None:
    with pytest.raises(ValueError, match="is not a whole number"):
        parse_whole(value)


def test_a_value_is_shown_as_a_dag_writes_it() -> None:
    assert repr(Merge(key=["id"], version="at")) == "Merge(key=['id'], version='at')"
    assert repr(Columns(["a"], on_new="add")) == "Columns(['a'], on_new='add')"
    assert repr(Move("done")) == "Move('done')"
    assert repr(Role("arn:aws", external_id="only-for-us")) == "Role('arn:aws', external_id='***')"
    assert repr(make_request(mode=Append(on_loaded="load")).mode) == "Append(on_loaded='load')"


def test_a_value_without_arguments_needs_no_parentheses() -> None:
    request = make_request(mode=ReplaceTable, after_load=Delete)
    assert (request.mode, request.after_load) == (ReplaceTable(), Delete())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"query": "SELECT 1", "table": "t"}, "query='SELECT 1' and table='t': an export has one of them"),
        ({}, "query='' and table='': an export has one of them"),
        ({"table": "a.b.c"}, "table 'a.b.c' is not a table name"),
        ({"table": "t", "destination": "/tmp/x"}, "destination '/tmp/x' is not the address of a folder in S3"),
        ({"table": "t", "destination": "s3://b/*/"}, "destination 's3://b/*/' contains '*'"),
        ({"table": "t", "clickhouse_conn_id": ""}, "clickhouse_conn_id='' is empty; give a name"),
    ],
)
def test_a_wrong_export_is_an_error_of_the_import(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ClickHouseToS3Operator(task_id="export", **{"destination": "s3://b/d/", **arguments})
    assert caught.value.sentence.startswith(message)
