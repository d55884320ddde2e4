"""What the operator makes of its arguments."""

from __future__ import annotations

import datetime
import json
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.execution_time import task_runner

from airflow_provider_ch_s3.common.arguments import parse_whole
from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.files.addresses import parse_source
from airflow_provider_ch_s3.load.report import LoadReport
from airflow_provider_ch_s3.request import (
    CommitAt,
    LoadMode,
    LoadRequest,
    MaterializedViews,
    OnChangedFiles,
    OnLoadedFiles,
    OnMissingFiles,
    OnNoFiles,
    OnPartialPartitions,
)
from airflow_provider_ch_s3.sensors.parts_settled import ClickHousePartsSettledSensor
from airflow_provider_ch_s3.table.merge_rule import MergeRule
from airflow_provider_ch_s3.table.row_check import Check
from airflow_provider_ch_s3.transfers import files_to_clickhouse, task
from airflow_provider_ch_s3.transfers.load_request import build_request
from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from airflow_provider_ch_s3.tuning import LoadLimit
from tests.failures import own_errors


@pytest.fixture(autouse=True)
def _connection(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = {"conn_type": "clickhouse_s3", "host": "127.0.0.1", "port": 1}  # nothing listens there
    monkeypatch.setenv("AIRFLOW_CONN_UNIT", json.dumps(connection))


def make_request(**arguments: Any) -> LoadRequest:
    operator = S3ToClickHouseOperator(
        task_id="load", source="s3://flights/**", table="d.t", clickhouse_conn_id="unit", **arguments
    )
    return build_request(operator, parse_source(operator.source), {}, LoadLimit())


@pytest.mark.parametrize("is_only_validated", [True, False])
def test_a_validation_tells_nobody_even_if_nothing_is_new(
    is_only_validated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[LoadReport] = []
    monkeypatch.setattr(files_to_clickhouse, "emit_metrics", told.append)
    operator = S3ToClickHouseOperator(
        task_id="load", source="s3://flights/**", table="d.t", validate_only=is_only_validated
    )
    load: Any = SimpleNamespace(table_name=None)
    operator._result({}, load, LoadReport.nothing_new("d.t", files_skipped=1))  # type: ignore[arg-type]
    assert bool(told) is not is_only_validated


def test_defaults_are_the_careful_ones() -> None:
    request = make_request()
    assert request.load_mode is LoadMode.APPEND
    assert request.on_loaded_files is OnLoadedFiles.SKIP
    assert request.on_changed_files is OnChangedFiles.FAIL
    assert request.on_partial_partitions is OnPartialPartitions.FAIL
    assert request.materialized_views is MaterializedViews.REFUSE
    assert (request.min_files, request.min_rows, request.replace_where) == (1, 1, "")
    assert request.settle_before_commit is False
    assert request.provenance == {}
    assert request.on_missing_files is OnMissingFiles.KEEP
    assert request.on_no_files is OnNoFiles.FAIL
    assert (request.min_file_age_seconds, request.expected_files) == (0.0, ())
    assert request.commit is CommitAt.CHUNK
    assert (request.max_files_per_chunk, request.max_bytes_per_chunk) == (10_000, None)


def test_arguments_arrive() -> None:
    request = make_request(
        load_mode="replace_where",
        replace_where="dt = '2013-01-01'",
        on_loaded_files="load",
        on_changed_files="skip",
        on_partial_partitions="replace",
        materialized_views="replay",
        min_files="3",
        min_rows="0",
        checks={"sane": "min(n) >= 0"},
        settle_before_commit=True,
        keep_staged_seconds=datetime.timedelta(hours=1),
        on_no_files="succeed",
        min_file_age=datetime.timedelta(minutes=5),
        expected_files="_SUCCESS",
        commit="end",
        max_files_per_chunk="500",
        max_bytes_per_chunk="1000000000000",
    )
    assert request.load_mode is LoadMode.REPLACE_WHERE
    assert request.replace_where == "dt = '2013-01-01'"
    assert request.on_loaded_files is OnLoadedFiles.LOAD
    assert request.on_changed_files is OnChangedFiles.SKIP
    assert request.on_partial_partitions is OnPartialPartitions.REPLACE
    assert request.materialized_views is MaterializedViews.REPLAY
    assert (request.min_files, request.min_rows) == (3, 0)
    assert request.checks == {"sane": Check("min(n) >= 0", on_failure="fail")}
    assert request.settle_before_commit is True
    assert request.keep_staged_seconds == 3600
    assert request.on_no_files is OnNoFiles.SUCCEED
    assert (request.min_file_age_seconds, request.expected_files) == (300.0, ("_SUCCESS",))
    assert request.commit is CommitAt.END
    assert (request.max_files_per_chunk, request.max_bytes_per_chunk) == (500, 10**12)


def test_the_arguments_of_a_merge_arrive() -> None:
    request = make_request(
        load_mode="merge",
        merge_key=["id"],
        merge_version="at",
        merge_deleted="op = 'D'",
        merge_duplicates="collapse",
        max_rewritten_bytes="1000",
    )
    assert request.merge == MergeRule(
        key=("id",), version="at", deleted="op = 'D'", collapses=True, max_rewritten_bytes=1000
    )
    assert make_request().merge is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(
            {"merge_key": "id"},
            "merge_key='id' is of type str; write a list: merge_key=['id']",
            id="merge_key-is-no-list",
        ),
        ({"table": ["t"]}, "table=['t'] is of type list; give a string"),
        ({"table": None}, "table=None is of type NoneType; give a string"),
        ({"clickhouse_conn_id": 3}, "clickhouse_conn_id=3 is of type int; give a string"),
        ({"aws_conn_id": ["a"]}, "aws_conn_id=['a'] is of type list; give a string, or leave it out"),
        ({"named_collection": None}, "named_collection=None is of type NoneType; give a string"),
        ({"role_arn": None}, "role_arn=None is of type NoneType; give a string"),
        ({"external_id": 7}, "external_id=7 is of type int; give a string"),
        ({"requester_pays": "yes"}, "requester_pays='yes' is of type str; give True or False"),
        ({"where": None}, "where=None is of type NoneType; give a string"),
        ({"replace_where": ["a"]}, "replace_where=['a'] is of type list; give a string"),
        ({"data_format": 1}, "data_format=1 is of type int; give a string, or leave it out"),
        ({"compression": b"gz"}, "compression=b'gz' is of type bytes; give a string, or leave it out"),
        ({"structure": {"a": "Int8"}}, "structure={'a': 'Int8'} is of type dict; give a string, or leave it out"),
        ({"staging": "false"}, "staging='false' is of type str; give True or False"),
        ({"settle_before_commit": None}, "settle_before_commit=None is of type NoneType; give True or False"),
        (
            {"skip_downstream_if_nothing_new": "no"},
            "skip_downstream_if_nothing_new='no' is of type str; give True or False",
        ),
        ({"deferrable": 1}, "deferrable=1 is of type int; give True or False"),
        ({"columns": "a"}, "columns='a' is of type str; write a list: columns=['a']"),
        ({"columns": 7}, "columns=7 is of type int; give a list of strings, or leave it out"),
        ({"columns": ["a", None]}, "columns[1]=None is of type NoneType; give a string"),
        (
            {"select": ["a"]},
            "select=['a'] is of type list; give a dict such as {'column': 'expression'}, or leave it out",
        ),
        ({"select": {"a": 1}}, "select['a']=1 is of type int; give a string"),
        ({"select": {1: "a"}}, "a key of select=1 is of type int; give a string"),
        (
            {"settings": "max_threads=1"},
            "settings='max_threads=1' is of type str; give a dict such as {'max_threads': 4}, or leave it out",
        ),
        (
            {"settings": {"max_threads": None}},
            "settings['max_threads']=None is of type NoneType; give a string or a number, or leave it out",
        ),
        (
            {"settings": {"max_threads": float("nan")}},
            "settings['max_threads']=nan is not a finite number; give one, or leave it out",
        ),
        ({"poll_interval": "5"}, "poll_interval='5' is of type str; give a number of seconds"),
        ({"poll_interval": None}, "poll_interval=None is of type NoneType; give a number of seconds"),
        (
            {"poll_interval": float("nan")},
            "poll_interval=nan is not a duration; give a number of seconds above 0",
        ),
        ({"poll_interval": 0}, "poll_interval=0 is not a duration; give a number of seconds above 0"),
    ],
)
def test_an_argument_of_another_type_is_named(arguments: dict[str, Any], message: str) -> None:
    given = {"source": "s3://flights/**", "table": "d.t", "clickhouse_conn_id": "unit", **arguments}
    operator = S3ToClickHouseOperator(task_id="load", **given)
    with pytest.raises(ConfigError) as caught, own_errors():
        operator.execute({})
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"table": None}, "table=None is of type NoneType; give a string"),
        ({"table": ["t"]}, "table=['t'] is of type list; give a string"),
        ({"clickhouse_conn_id": 3}, "clickhouse_conn_id=3 is of type int; give a string"),
        ({"deferrable": "no"}, "deferrable='no' is of type str; give True or False"),
        ({"max_parts": None}, "max_parts=None must be a whole number, 0 or more"),
        ({"max_parts": 2.7}, "max_parts=2.7 must be a whole number, 0 or more"),
        ({"max_parts": True}, "max_parts=True must be a whole number, 0 or more"),
        (
            {"max_parts_per_partition": ["3"]},
            "max_parts_per_partition=['3'] must be a whole number, 0 or more",
        ),
        ({"stable_seconds": "10"}, "stable_seconds='10' is of type str; give a number of seconds"),
        (
            {"stable_seconds": float("nan")},
            "stable_seconds=nan is not a duration; give a number of seconds of 0 or more",
        ),
        ({"stalled_seconds": None}, "stalled_seconds=None is of type NoneType; give a number of seconds"),
    ],
)
def test_an_argument_of_the_sensor_of_another_type_is_named(arguments: dict[str, Any], message: str) -> None:
    given = {"table": "d.t", "clickhouse_conn_id": "unit", **arguments}
    sensor = ClickHousePartsSettledSensor(task_id="settled", **given)
    with pytest.raises(ConfigError) as caught:
        sensor.poke({})
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(
            {"merge_duplicates": "drop"},
            "merge_duplicates='drop' is unknown; use one of 'refuse', 'collapse'",
            id="merge_duplicates",
        ),
        pytest.param(
            {"load_mode": "overwrite"},
            "load_mode='overwrite' is unknown; use one of 'append', 'replace_partitions', 'replace_where',"
            " 'replace_table', 'merge'",
            id="load_mode",
        ),
        pytest.param(
            {"load_mode": "APPEND"},
            "load_mode='APPEND' is unknown; use one of 'append', 'replace_partitions', 'replace_where',"
            " 'replace_table', 'merge'",
            id="load_mode-in-capitals",
        ),
        pytest.param(
            {"load_mode": None},
            "load_mode=None is unknown; use one of 'append', 'replace_partitions', 'replace_where', 'replace_table',"
            " 'merge'",
            id="no-load_mode",
        ),
        pytest.param(
            {"on_loaded_files": "fail"},
            "on_loaded_files='fail' is unknown; use one of 'skip', 'load'",
            id="on_loaded_files",
        ),
        pytest.param(
            {"provenance": {"source_file": "name"}},
            "provenance['source_file']='name' is unknown; use one of 'path', 'row', 'time', 'load'",
            id="provenance",
        ),
        pytest.param(
            {"on_changed_files": "merge"},
            "on_changed_files='merge' is unknown; use one of 'fail', 'load', 'skip', 'replace'",
            id="on_changed_files",
        ),
        pytest.param(
            {"on_missing_files": "remove"},
            "on_missing_files='remove' is unknown; use one of 'keep', 'delete'",
            id="on_missing_files",
        ),
        pytest.param(
            {"on_partial_partitions": "skip"},
            "on_partial_partitions='skip' is unknown; use one of 'fail', 'replace'",
            id="on_partial_partitions",
        ),
        pytest.param(
            {"materialized_views": "ignore"},
            "materialized_views='ignore' is unknown; use one of 'refuse', 'replay'",
            id="materialized_views",
        ),
        pytest.param(
            {"min_files": "{{ undefined }}"},
            "min_files='{{ undefined }}' must be a whole number, 0 or more",
            id="min_files",
        ),
        pytest.param(
            {"on_no_files": "ignore"},
            "on_no_files='ignore' is unknown; use one of 'fail', 'skip', 'succeed'",
            id="on_no_files",
        ),
        pytest.param(
            {"min_file_age": "5 min"},
            "min_file_age='5 min' is of type str; give a number of seconds, or a timedelta",
            id="min_file_age",
        ),
        pytest.param({"min_rows": -1}, "min_rows=-1 must be a whole number, 0 or more", id="min_rows"),
        pytest.param({"commit": "none"}, "commit='none' is unknown; use one of 'chunk', 'end'", id="commit"),
        pytest.param({"commit": None}, "commit=None is unknown; use one of 'chunk', 'end'", id="no-commit"),
        *(
            pytest.param(
                {"max_files_per_chunk": value},
                f"max_files_per_chunk={value!r} must be a whole number, from 1 to 10000",
                id=f"max_files_per_chunk-{value}",
            )
            for value in (0, 10_001, "many", None)
        ),
        *(
            pytest.param(
                {"max_bytes_per_chunk": value},
                f"max_bytes_per_chunk={value!r} must be a whole number, 1 or more",
                id=f"max_bytes_per_chunk-{value}",
            )
            for value in (0, "10 GB", 0.5)
        ),
    ],
)
def test_a_wrong_argument_is_named_with_what_is_known(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make_request(**arguments)
    assert str(caught.value) == message


@pytest.mark.parametrize("value", [8, 8.0, "8", " 8 ", "8.0"])
def test_a_whole_number_may_be_written_in_several_ways(value: object) -> None:
    assert parse_whole(value) == 8


@pytest.mark.parametrize("value", [2.7, "2.7", True, None, "", "8 files", "1e3", float("inf"), [8]])
def test_what_is_no_whole_number(value: object) -> None:
    with pytest.raises(ValueError, match="is not a whole number"):
        parse_whole(value)


def test_airflow_renders_the_conditions_of_checks() -> None:
    operator = S3ToClickHouseOperator(
        task_id="load",
        source="s3://flights/**",
        table="d.t",
        checks={
            "one": "max(day) = '{{ day }}'",
            "two": Check("min(day) = '{{ day }}'", on_failure="warn"),
            "three": {"expression": "any(day) = '{{ day }}'"},
        },
    )
    operator.render_template_fields({"day": "2013-01-01"})
    request = build_request(operator, parse_source(operator.source), {}, LoadLimit())
    assert {name: check.expression for name, check in request.checks.items()} == {
        "one": "max(day) = '2013-01-01'",
        "two": "min(day) = '2013-01-01'",
        "three": "any(day) = '2013-01-01'",
    }


def test_an_external_id_is_masked_before_the_rendered_fields_are_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    masked: list[str] = []
    monkeypatch.setattr(task, "mask_secret", masked.append)
    operator = S3ToClickHouseOperator(
        task_id="load", source="s3://b/**", table="d.t", role_arn="arn", external_id="{{ id }}"
    )
    operator.render_template_fields({"id": "only-for-us"})
    assert (operator.external_id, masked) == ("only-for-us", ["only-for-us"])


def test_an_external_id_is_on_no_rendered_page() -> None:
    """By Airflow's own way from a task to the page "Rendered Templates", whatever fields it is in."""
    operator = S3ToClickHouseOperator(
        task_id="load",
        source="s3://b/{{ id }}/**",
        table="d.t",
        role_arn="arn",
        external_id="{{ id }}",
        where="x != '{{ id }}'",
    )
    operator.render_template_fields({"id": "only-for-us"})
    shown = task_runner._serialize_rendered_fields(operator)
    assert (shown["source"], shown["external_id"], shown["where"]) == ("s3://b/***/**", "***", "x != '***'")
    assert "only-for-us" not in json.dumps(shown)
