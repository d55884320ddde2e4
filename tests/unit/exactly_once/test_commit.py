"""An interrupted commit whose nodes have changed since; test_protocol and the sandbox test all else of commits."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ch_s3.errors import UnknownStateError
from airflow_provider_ch_s3.exactly_once.history import AttemptId
from airflow_provider_ch_s3.exactly_once.modes.append import MovingCommit
from airflow_provider_ch_s3.exactly_once.moved import Before, Part
from airflow_provider_ch_s3.exactly_once.records import CommitPlan
from airflow_provider_ch_s3.exactly_once.tables import AttemptTables
from airflow_provider_ch_s3.sql.filters import Sql
from airflow_provider_ch_s3.table.target import TableName

ATTEMPT = AttemptId(load_id="ch-s3-0123456789abcdef0123", generation=0, number=7)


def commit_on(nodes: Mapping[str, str], asked: list[Any]) -> MovingCommit:
    staging: Any = SimpleNamespace(
        target=TableName(database="d", table="t"),
        cluster="c",
        name=lambda _: TableName(database="d", table="staged"),
        agree=lambda *_, **__: nodes,
        query_agreed=lambda *_, **__: asked.append("look") or [],
    )
    plan = CommitPlan(
        load_mode="append",
        partitions={"p": 3},
        table_uuids=["u"],
        allow_empty=False,
        keeps_all_rows=True,
        before={"": {"a1": {"p": Before(staged_rows=3)}}},
    )
    tables = AttemptTables(
        client=SimpleNamespace(),  # type: ignore[arg-type]
        staging=staging,
        attempt=ATTEMPT,
        epoch=9,
        keeps_all_rows=True,
        views={},
    )
    return MovingCommit(tables=tables, plan=plan, began=0.0)


def test_nobody_guesses_what_nodes_hold_that_are_gone() -> None:
    asked: list[Any] = []
    with pytest.raises(UnknownStateError) as caught:
        commit_on({"a2": "a2", "b1": "b1"}, asked).resume(asked.append)
    assert caught.value.sentence == (
        "the commit of ch-s3-0123456789abcdef0123-0-7-insert was interrupted, and it used nodes that are no longer in"
        " the cluster, or no longer first replicas: a1; find out which rows of d.staged are in d.t already, move the"
        " rest by hand, and drop d.staged"
    )
    assert asked == []


@pytest.mark.parametrize(
    ("seen", "stored", "expected"),
    [
        pytest.param([(3, 9), (3, 9)], [3, 3], True, id="same"),
        pytest.param([(3, 9), (3, 8)], [3, 3], False, id="other-rows"),
        pytest.param([(3, 9), (3, 9)], [5, 3], False, id="staged-rows-hidden"),
        pytest.param([(3, 9), (3, 9)], [3, 5], False, id="rows-of-the-target-hidden-or-deleted"),
    ],
)
def test_rows_that_are_hidden_are_not_compared(
    seen: list[tuple[int, int]], stored: list[int], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([[{"ch_s3_rows": rows, "ch_s3_sum": total}] for rows, total in seen])
    tables = commit_on({}, []).tables
    monkeypatch.setattr(tables.client, "query", lambda *_, **__: next(answers), raising=False)
    monkeypatch.setattr(AttemptTables, "_columns", lambda *_: Sql("k"))
    coming, held = ([Part(name="p", rows=rows, first_block=1, last_block=1, digest="d")] for rows in stored)
    assert tables.holds_staged(("a1", "p"), "", coming, held) is expected
