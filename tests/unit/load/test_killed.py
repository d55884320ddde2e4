"""What became of a killed load, in words."""

from __future__ import annotations

import datetime
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ch_s3.cluster.spec import ClusterDeclaration
from airflow_provider_ch_s3.errors import TargetChangingError
from airflow_provider_ch_s3.exactly_once.history import Attempt, AttemptId, Event, EventKind
from airflow_provider_ch_s3.files.chunk import Chunk
from airflow_provider_ch_s3.identity import LoadIdentity
from airflow_provider_ch_s3.load import kill
from airflow_provider_ch_s3.load.kill import describe_kill

ID = AttemptId(load_id="ch-s3-a", generation=0, number=1)


def attempt(*kinds: EventKind, is_broken: bool = False, chunk: Chunk | None = None) -> Attempt:
    detail = {"is_broken": is_broken, "chunk": (chunk or Chunk()).as_dict()}
    events = [
        Event(kind=kind, attempt=ID, epoch=1, try_number=1, detail=detail, time=0.0)
        for kind in (EventKind.PLANNED, *kinds)
    ]
    return Attempt(id=ID, events=events)


THREE = ("n1", "n2", "n3")


@pytest.mark.parametrize(
    ("nodes", "attempts", "said"),
    [
        pytest.param(
            THREE,
            [attempt(EventKind.ABANDONED)],
            "killed on 3 nodes; d.t was not changed",
            id="while-it-staged",
        ),
        pytest.param(
            (),
            [attempt(EventKind.ABANDONED), attempt(EventKind.COMMITTING, EventKind.COMMITTED)],
            "killed: none of its queries is running; its commit had begun and was finished: d.t holds all of its"
            " rows",
            id="while-it-committed",
        ),
        pytest.param(
            THREE,
            [attempt(EventKind.COMMITTED, chunk=Chunk(last="d/9.csv")), attempt(EventKind.ABANDONED)],
            "killed on 3 nodes; d.t holds the rows of its first chunks (1 committed)",
            id="in-its-second-chunk",
        ),
        pytest.param(
            ("n1",),
            [attempt(EventKind.COMMITTING, EventKind.ABANDONED, is_broken=True)],
            "killed on 1 node; its commit had begun and cannot be finished: d.t may hold some of its rows",
            id="a-commit-that-nobody-can-finish",
        ),
        pytest.param(
            THREE,
            [],
            "killed on 3 nodes; rows that it had written stay in d.t (mode='direct')",
            id="straight-into-the-table",
        ),
        pytest.param((), [], "killed: none of its queries is running; nothing had been staged", id="before-it-began"),
    ],
)
def test_what_became_of_it(nodes: tuple[str, ...], attempts: list[Attempt], said: str) -> None:
    assert describe_kill(nodes, "d.t", attempts) == said


@pytest.mark.parametrize(
    ("nodes", "code", "said"),
    [
        ((), "table-missing", "queries is running; the table d.t does not exist: nothing had been staged"),
        (("n1",), "table-missing", "killed on 1 node; leaving staged rows"),
        ((), "server-away", "killed: none of its queries is running; leaving staged rows"),
    ],
)
def test_a_kill_before_the_table_exists_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, nodes: tuple[str, ...], code: str, said: str
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise TargetChangingError(code, "no")

    monkeypatch.setattr(kill, "kill_queries", lambda *_, **__: nodes)
    client: Any = SimpleNamespace(within=lambda _: None)
    since = datetime.datetime.now(datetime.UTC)
    identity = LoadIdentity(dag_id="d", task_id="t", run_id="r", table="d.t", since=since)
    with caplog.at_level("INFO"):
        kill.kill_load(client, ClusterDeclaration(), identity, find_target=refuse)
    assert said in caplog.text
