"""The records of a ledger for people, read from rows that the statements would return."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.reporting.text import format_load
from airflow_provider_ch_s3.reporting.values import Selection
from airflow_provider_ch_s3.reporting.view import LedgerView
from airflow_provider_ch_s3.table.target import parse_table
from tests.failures import coded

LOADS = {"d.flights_local": ("flights", "nightly"), "d.orders": ("d.orders", "hourly"), "d.quiet": (None, None)}
"""By table, how the last load's task names it, and the DAG; of one there are only old loads."""


class RecordedView(LedgerView):
    """A ledger with one committed load into each table."""

    def query(self, render: Callable[..., Statement], **what: Any) -> list[dict[str, Any]]:
        known = {target: dag for target, (named, dag) in LOADS.items() if named}
        match render.__name__:
            case "render_read_targets":
                return [{"target": target, "commits": 1, "age_seconds": 9.0} for target in LOADS]
            case "render_read_latest_attempts":
                return [
                    {"target": target, "load_id": f"ch-s3-{dag}", "attempt": 7, "planned_at": 1.0}
                    for target, dag in known.items()
                    if what.get("target", "") in ("", target)
                    and what.get("named", "")
                    in ("", str(parse_table(LOADS[target][0], parse_table(target, "").database)))
                    and what.get("dag", "") in ("", dag)
                    and what.get("load_id", "") in ("", f"ch-s3-{dag}")
                ]
        assert render.__name__ == "render_read_history"
        return [event for target, load_id, _ in what["attempts"] for event in events(target, load_id)]


def events(target: str, load_id: str) -> list[dict[str, Any]]:
    named, dag = LOADS[target]
    planned = {"table": named, "dag": dag, "task": "load", "run": "r", "source": "s3://b/*", "load_mode": "append"}
    report = {"query_id": f"{load_id}-0-7-insert", "table": named, "partitions": {"all": 5}, "rows_written": 5}
    common = {"target": target, "load_id": load_id, "generation": 0, "attempt": 7, "epoch": 7, "try_number": 1}
    return [
        {**common, "event": event, "detail": json.dumps(detail), "time_seconds": 1.0, "age_seconds": 9.0}
        for event, detail in (("planned", planned), ("committed", {"table_uuids": ["u"], "report": report}))
    ]


@pytest.fixture
def view() -> LedgerView:
    client = SimpleNamespace(query=lambda statement: [])
    return RecordedView(client=client, cluster=None, ledger=parse_table("d.ch_s3_ledger", ""))  # type: ignore[arg-type]


def test_tables_are_named_as_their_tasks_name_them_with_the_database(view: LedgerView) -> None:
    page = view.page(Selection())
    assert [(one.table, one.named) for one in page.tables] == [
        ("d.flights_local", "d.flights"),
        ("d.orders", "d.orders"),
        ("d.quiet", "d.quiet"),
    ]


@pytest.mark.parametrize(
    ("load_id", "line"),
    [
        pytest.param(
            "ch-s3-nightly", "  s3://b/* -> d.flights (append); its rows are in d.flights_local", id="named"
        ),
        pytest.param("ch-s3-hourly", "  s3://b/* -> d.orders (append)", id="the-same"),
    ],
)
def test_a_load_names_its_table_as_its_task_does(view: LedgerView, load_id: str, line: str) -> None:
    assert line in format_load(view, load_id).splitlines()


@pytest.mark.parametrize(
    ("selection", "said"),
    [
        pytest.param(Selection(table="d.nope"), ["'d.nope'", "d.flights_local, d.orders, d.quiet"], id="table"),
        pytest.param(Selection(dag="nope"), ["'nope'", "hourly, nightly"], id="dag"),
    ],
)
def test_a_name_that_the_ledger_does_not_have(view: LedgerView, selection: Selection, said: list[str]) -> None:
    with pytest.raises(ConfigError, match=coded("load-unknown", "d.ch_s3_ledger", *said)):
        view.check_there(selection)


@pytest.mark.parametrize(
    ("named", "table"),
    [("d.flights", "d.flights_local"), ("d.flights_local", "d.flights_local"), ("d.nope", "d.nope"), ("", "")],
)
def test_a_table_is_found_by_either_name(view: LedgerView, named: str, table: str) -> None:
    assert view.find_table(named) == table


def test_names_that_the_ledger_has(view: LedgerView) -> None:
    view.check_there(Selection(table="d.orders", dag="hourly", states=("abandoned",)))
