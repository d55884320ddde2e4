"""What all nodes together say of a query, and the ids by which it is known."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pytest

from airflow_provider_ch_s3.identity import LoadIdentity
from airflow_provider_ch_s3.monitoring.state import QueryState, QueryStatus


def logged(event: str, *, is_initial: bool = True, exception: str = "", comment: str = "") -> dict[str, Any]:
    return {"event": event, "is_initial": is_initial, "exception": exception, "log_comment": comment}


def running(*, is_initial: bool = True, comment: str = "") -> dict[str, Any]:
    return {"is_initial": is_initial, "log_comment": comment}


START, FINISH = logged("QueryStart"), logged("QueryFinish")
FAILED = logged("ExceptionWhileProcessing", exception="Code: 241. Memory limit")
REFUSED = logged("ExceptionBeforeStart", exception="Code: 60. Unknown table")
CHILD_START, CHILD_FINISH = logged("QueryStart", is_initial=False), logged("QueryFinish", is_initial=False)
CHILD_FAILED = logged("ExceptionWhileProcessing", is_initial=False, exception="Code: 210. Connection refused")


@pytest.mark.parametrize(
    ("rows", "log", "expected"),
    [
        pytest.param([], [], QueryState.UNKNOWN, id="nobody-knows-it"),
        pytest.param([], [START], QueryState.UNKNOWN, id="started-and-no-end"),
        pytest.param([running()], [], QueryState.RUNNING, id="running-not-logged"),
        pytest.param([running()], [START], QueryState.RUNNING, id="running"),
        pytest.param([running(is_initial=False)], [START, FAILED], QueryState.RUNNING, id="a-child-outlives-it"),
        pytest.param([running(is_initial=False)], [START, FINISH], QueryState.RUNNING, id="a-child-is-still-there"),
        pytest.param([], [START, FINISH], QueryState.FINISHED, id="finished"),
        pytest.param([], [FINISH], QueryState.FINISHED, id="finished-start-not-flushed"),
        pytest.param([], [START, FINISH, CHILD_FAILED], QueryState.FINISHED, id="finished-in-spite-of-a-child"),
        pytest.param([], [START, FAILED], QueryState.FAILED, id="failed-while-running"),
        pytest.param([], [REFUSED], QueryState.FAILED, id="failed-before-its-start"),
        pytest.param([], [START, CHILD_FINISH], QueryState.UNKNOWN, id="a-childs-end-is-not-its-end"),
        pytest.param([], [START, CHILD_FAILED], QueryState.UNKNOWN, id="a-childs-failure-is-not-its-own"),
        pytest.param([], [CHILD_START, CHILD_FINISH], QueryState.UNKNOWN, id="the-initiators-log-is-lost"),
    ],
)
def test_state(rows: list[dict[str, Any]], log: list[dict[str, Any]], expected: QueryState) -> None:
    assert QueryStatus(query_id="q-1", running=rows, logged=log).state is expected


def test_only_an_end_that_is_known_is_terminal() -> None:
    assert {state for state in QueryState if state.is_terminal} == {QueryState.FINISHED, QueryState.FAILED}


def test_error_is_one_line_without_another_nodes_stack_trace() -> None:
    text = "Code: 241. Received from ch2:9000.\n DB::Exception: Memory limit. Stack trace:\n\n0. ./src/a.cpp"
    failed = logged("ExceptionWhileProcessing", exception=text)
    expected = "Code: 241. Received from ch2:9000. DB::Exception: Memory limit."
    assert QueryStatus(query_id="q-1", logged=[failed]).error == expected


def test_error_of_another_node_keeps_its_name_behind_the_stack_trace() -> None:
    trace = "Stack trace:\n\n0. ./src/a.cpp: DB::(anonymous namespace)::f() (inlined)\n: While executing Remote."
    said, name = (
        "Code: 70. DB::Exception: Received from n2:9000. DB::Exception: No.",
        "(CANNOT_CONVERT_TYPE) (version 26)",
    )
    text = f"{said} {trace} {name}"
    failed = logged("ExceptionWhileProcessing", exception=text)
    assert QueryStatus(query_id="q-1", logged=[failed]).error == f"{said} {name}"


def test_error_is_the_initiators() -> None:
    assert QueryStatus(query_id="q-1", logged=[CHILD_FAILED, START, FAILED]).error == "Code: 241. Memory limit"
    assert QueryStatus(query_id="q-1", logged=[START, CHILD_FAILED]).error == ""


def test_ended_is_one_row_for_each_part_that_is_over() -> None:
    assert QueryStatus(query_id="q-1", logged=[START, CHILD_START, CHILD_FINISH]).ended == [CHILD_FINISH]


def test_log_comment_comes_from_wherever_it_is() -> None:
    assert QueryStatus(query_id="q-1", running=[running(comment="r")], logged=[START]).log_comment == "r"
    assert QueryStatus(query_id="q-1", logged=[logged("QueryStart", comment="l")]).log_comment == "l"
    assert QueryStatus(query_id="q-1").log_comment == ""


def test_attempt_is_the_end_of_the_id() -> None:
    assert QueryStatus(query_id="ch-s3-0123-2-17").attempt == 17


SINCE = datetime.datetime(2013, 1, 1, tzinfo=datetime.UTC)


def identity(**changes: Any) -> LoadIdentity:
    return LoadIdentity(**{"dag_id": "d", "task_id": "t", "run_id": "r", "table": "a.b", "since": SINCE} | changes)


def test_query_ids_are_known_before_the_query() -> None:
    # sha256 of ["d", "t", "r", -1, "a.b"] as JSON; by sha256sum
    assert identity().load_id == "ch-s3-27f1e11131044730a806"
    assert identity(generation=3).generation_prefix == "ch-s3-27f1e11131044730a806-3-"
    assert identity(generation=3).query_id(2) == "ch-s3-27f1e11131044730a806-3-2"


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"dag_id": "x"}, id="dag"),
        pytest.param({"task_id": "x"}, id="task"),
        pytest.param({"run_id": "x"}, id="run"),
        pytest.param({"map_index": 0}, id="map-index"),
        pytest.param({"table": "x"}, id="table"),
        pytest.param({"dag_id": 'd", "t', "task_id": "r"}, id="quotes-in-names"),
    ],
)
def test_another_load_has_another_id(changes: dict[str, Any]) -> None:
    assert identity(**changes).load_id != identity().load_id


def test_no_load_has_a_query_id_that_starts_with_anothers() -> None:
    # the ids have one length, and a dash ends them
    assert len(identity(dag_id="x" * 250).load_id) == len(identity().load_id) == 26
    assert identity(generation=3).generation_prefix.removeprefix(identity().load_id) == "-3-"


def test_tries_and_generations_share_the_load_id_and_generations_never_share_a_prefix() -> None:
    assert identity(try_number=2, first_try=2, generation=7).load_id == identity().load_id
    assert not identity(generation=11).query_id(1).startswith(identity(generation=1).generation_prefix)


@pytest.mark.parametrize(
    ("map_index", "expected"),
    [
        pytest.param(-1, {"dag": "d", "task": "t", "run": "r", "try": 2, "files": 3, "rows": None}, id="not-mapped"),
        pytest.param(
            4,
            {"dag": "d", "task": "t", "run": "r", "try": 2, "map_index": 4, "files": 3, "rows": None},
            id="mapped",
        ),
    ],
)
def test_log_comment_says_who_loads(map_index: int, expected: dict[str, Any]) -> None:
    assert json.loads(identity(map_index=map_index, try_number=2).log_comment(files=3, rows=None)) == expected
