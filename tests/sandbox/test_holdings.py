"""What a table holds according to its ledger, computed by the server from a real ledger."""

from __future__ import annotations

import dataclasses
import itertools
import json
import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from airflow_provider_ch_s3.errors import LoadError
from airflow_provider_ch_s3.exactly_once.history import AttemptId, EventKind
from airflow_provider_ch_s3.exactly_once.holdings import IDS_PER_STATEMENT, NEVER, Holdings
from airflow_provider_ch_s3.exactly_once.ledger import Ledger
from airflow_provider_ch_s3.exactly_once.modes.registry import EFFECTS
from airflow_provider_ch_s3.exactly_once.records import Abandoned, CommitPlan, Committed, Locked, Planned
from airflow_provider_ch_s3.files.addresses import Source
from airflow_provider_ch_s3.files.source import SourceFile
from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
from airflow_provider_ch_s3.report import LoadReport
from airflow_provider_ch_s3.sql import ledger_queries
from airflow_provider_ch_s3.table.target import TableName
from ch_s3_lab.sandbox import Sandbox
from tests.failures import coded

pytestmark = [pytest.mark.sandbox, pytest.mark.every_case]

PATTERN = Source(bucket="b", globs=("*",))

TABLE = ("u1", "u2")
Commit = dict[str, Any]


def committed(
    number: int,
    partitions: dict[str, int],
    *,
    mode: str = "append",
    epoch: int | None = None,
    uuids: tuple[str, ...] = TABLE,
) -> Commit:
    detail = Committed(load_mode=mode, partitions=partitions, table_uuids=list(uuids))
    return {"kind": EventKind.COMMITTED, "number": number, "epoch": epoch or number, "detail": detail}


DETAILS = {
    EventKind.LOCKED: Locked(),
    EventKind.PLANNED: Planned(),
    EventKind.COMMITTED: Committed(load_mode="append", table_uuids=TABLE),
    EventKind.ABANDONED: Abandoned(),
}


def undone(number: int, partitions: dict[str, int], *, epoch: int) -> Commit:
    return {**committed(number, partitions, epoch=epoch), "kind": EventKind.UNDONE}


@pytest.fixture(scope="module")
def ledgers(ch_s3_sandbox: Sandbox) -> Iterator[Iterator[Ledger]]:
    """One ledger of three nodes, each time for another target."""
    database = f"test_{secrets.token_hex(6)}"
    nodes = range(ch_s3_sandbox.nodes)
    for node in nodes:
        ch_s3_sandbox.create_database(database, node=node)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("AIRFLOW_CONN_CH", ch_s3_sandbox.airflow_conn_clickhouse)
        hook = ClickHouseS3Hook(clickhouse_conn_id="ch")
        hook.read_connection()
    name = TableName(database=database, table="ledger")
    given: dict[str, Any] = {"client": hook, "cluster": ch_s3_sandbox.cluster, "name": name, "load_id": "ch-s3-a"}
    given["database_engine"] = "Atomic"
    targets = (TableName(database="d", table=f"t{number}") for number in itertools.count())
    ledgers = (Ledger(target=target, table_uuids=TABLE, **given) for target in targets)
    next(ledgers).open([node.host for node in hook.cluster_spec.nodes])
    yield ledgers
    hook.close()
    for node in nodes:
        ch_s3_sandbox.drop_database(database, node=node)


@pytest.fixture
def ledger(ledgers: Iterator[Ledger]) -> Ledger:
    return next(ledgers)


def write(ledger: Ledger, commits: list[Commit]) -> None:
    for commit in commits:
        attempt = AttemptId(load_id="ch-s3-a", generation=0, number=commit["number"])
        ledger.write(commit["kind"], attempt, commit["detail"], epoch=commit["epoch"], try_number=1)


def read(ledger: Ledger) -> Holdings:
    return Holdings(ledger=ledger, effects=EFFECTS)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("commits", "expected"),
    [
        pytest.param([committed(1, {"p": 1}), committed(2, {"p": 1})], [1, 2], id="append-keeps-all"),
        pytest.param(
            [committed(1, {"p": 1}), committed(2, {"p": 1}, mode="replace_partitions")], [2], id="its-only-partition"
        ),
        pytest.param(
            [committed(1, {"p": 1, "q": 1}), committed(2, {"p": 1}, mode="replace_partitions")],
            [1, 2],
            id="one-of-its-partitions",
        ),
        pytest.param(
            [
                committed(1, {"p": 1, "q": 1}),
                committed(2, {"p": 1}, mode="replace_partitions"),
                committed(3, {"q": 1}, mode="replace_partitions"),
            ],
            [2, 3],
            id="its-partitions-one-after-the-other",
        ),
        pytest.param(
            [committed(1, {"p": 1}), committed(2, {"q": 1}, mode="replace_partitions")],
            [1, 2],
            id="another-partition",
        ),
        pytest.param(
            [committed(1, {"p": 1}, mode="replace_partitions"), committed(2, {"p": 1})], [1, 2], id="append-after-it"
        ),
        pytest.param(
            [
                committed(1, {"p": 1}),
                committed(2, {"q": 1}),
                committed(3, {"p": 1}, mode="replace_table"),
                committed(4, {"r": 1}),
            ],
            [3, 4],
            id="replace-table",
        ),
        pytest.param(
            [committed(1, {"p": 1}), committed(2, {}, mode="replace_table")], [2], id="replace-table-by-nothing"
        ),
        pytest.param(
            # nobody knows which rows of 1 fulfilled the condition
            [committed(1, {"p": 1}), committed(2, {"p": 1}, mode="replace_where")],
            [1, 2],
            id="replace-where",
        ),
        pytest.param(
            # 1 was planned first and committed last
            [committed(1, {"p": 1}, epoch=5), committed(2, {"p": 1}, mode="replace_partitions", epoch=3)],
            [2, 1],
            id="the-order-of-commits-counts",
        ),
        pytest.param([committed(1, {"p": 1}, uuids=("u0",))], [], id="the-table-was-dropped-and-made-again"),
        pytest.param(
            [committed(1, {"p": 1}, uuids=("u0",)), committed(2, {"p": 1})], [2], id="loaded-after-it-was-made-again"
        ),
        pytest.param(
            [committed(1, {"p": 1}), committed(2, {"p": 1}, mode="replace_table", uuids=("u0",))],
            [1],
            id="another-table-of-that-name-was-replaced",
        ),
        pytest.param([committed(1, {"p": 1}, uuids=("u2", "u3"))], [1], id="a-node-was-added-or-replaced"),
        pytest.param([committed(1, {"p": 1}, uuids=())], [], id="no-uuids"),
        pytest.param([committed(1, {}), committed(2, {"p": 1}, mode="replace_partitions")], [1, 2], id="no-rows"),
        pytest.param([committed(1, {}), committed(2, {}, mode="replace_table")], [2], id="no-rows-and-replaced"),
        pytest.param(
            [committed(1, {}), committed(2, {}, mode="replace_partitions")], [1, 2], id="no-rows-and-not-replaced"
        ),
        pytest.param(
            # whoever finished the commit of 2 recorded it once more, after 3
            [
                committed(1, {"p": 1}),
                committed(2, {"p": 1}, mode="replace_partitions"),
                committed(3, {"p": 1}),
                committed(2, {"p": 1}, mode="replace_partitions", epoch=9),
            ],
            [2, 3],
            id="recorded-twice",
        ),
        pytest.param(
            [committed(1, {"p'q": 1}), committed(2, {"p'q": 1}, mode="replace_partitions")], [2], id="quotes"
        ),
        pytest.param(
            [
                *(committed(1, {"p": 1}), committed(2, {"p": 1})),
                *(committed(3, {"p": 0}, mode="undo"), undone(1, {"p": 1}, epoch=3)),
            ],
            [2, 3],
            id="undone",
        ),
        pytest.param([undone(1, {"p": 1}, epoch=3)], [], id="undone-and-its-commit-is-forgotten"),
    ],
)
def test_holders(ledger: Ledger, commits: list[Commit], expected: list[int]) -> None:
    write(ledger, commits)
    numbers = {commit["number"] for commit in commits}
    assert sorted(number for _, number in read(ledger).holding(numbers)) == sorted(expected)


@pytest.mark.parametrize(
    ("commits", "rows", "loads"),
    [
        pytest.param([committed(1, {"p": 10}), committed(2, {"p": 5})], 15, [1, 2], id="appends-add-up"),
        pytest.param([committed(1, {"q": 10})], 0, [], id="another-partition"),
        pytest.param(
            [committed(1, {"p": 10}), committed(2, {"p": 5, "q": 7}, mode="replace_partitions")],
            5,
            [2],
            id="replaced",
        ),
        pytest.param(
            [committed(1, {"p": 10}), committed(2, {"q": 5}, mode="replace_partitions")],
            10,
            [1],
            id="another-partition-was-replaced",
        ),
        pytest.param(
            [committed(1, {"p": 10}), committed(2, {"q": 5}, mode="replace_table")],
            0,
            [],
            id="the-table-was-replaced",
        ),
        pytest.param(
            [committed(1, {"p": 10}), committed(2, {"p": 5}, mode="replace_table"), committed(3, {"p": 1})],
            6,
            [2, 3],
            id="append-after-the-table-was-replaced",
        ),
        pytest.param([committed(1, {"p": 10}, uuids=("u0",))], 0, [], id="the-table-was-made-again"),
        pytest.param(
            [
                *(committed(1, {"p": 10}), committed(2, {"p": 5})),
                *(committed(3, {"p": 0}, mode="undo"), undone(1, {"p": 10}, epoch=3)),
            ],
            5,
            [2],
            id="undone",
        ),
        pytest.param(
            # how many rows of 1 were of a file that changed is unknown
            [committed(1, {"p": 10}), committed(2, {"p": 5}, mode="replace_files")],
            5,
            [1, 2],
            id="a-file-was-replaced",
        ),
    ],
)
def test_rows_of_a_partition(ledger: Ledger, commits: list[Commit], rows: int, loads: list[int]) -> None:
    write(ledger, commits)
    found_rows, found = read(ledger).rows_of_partitions({"p"})["p"]
    assert (found_rows, [one.id.number for one in found]) == (rows, loads)


def test_a_commit_into_more_partitions_than_one_statement_names_counts_once(ledger: Ledger) -> None:
    ids = [f"{number:05}" for number in range(IDS_PER_STATEMENT + 1)]
    write(ledger, [committed(1, dict.fromkeys(ids, 3))])
    counted = read(ledger).rows_of_partitions(set(ids))
    assert {rows for rows, _ in counted.values()} == {3}
    assert {len(loads) for _, loads in counted.values()} == {1}


def test_a_load_mode_of_a_later_release_is_refused(ledger: Ledger) -> None:
    write(ledger, [committed(1, {"p": 10}), committed(2, {"p": 1}, mode="swap")])
    with pytest.raises(LoadError, match=coded("provider-version-differs", "ch-s3-a-0-2-insert", "mode='swap'")):
        read(ledger).holding({1})
    with pytest.raises(LoadError, match=coded("provider-version-differs", "mode='swap'")):
        read(ledger).rows_of_partitions({"p"})


def test_versions_of_files(ledger: Ledger) -> None:
    """Of five attempts: 1 is held, 2 was never committed, 3 was replaced, 4 replaced it, 5 came later."""
    for number, etag in enumerate(("a", "b", "c", "d", "e"), 1):
        files = [SourceFile(key=f"{key}.csv", etag=etag, size_bytes=1) for key in ("x", f"only{number}")]
        ledger.write_files(AttemptId(load_id="ch-s3-a", generation=0, number=number), files, PATTERN)
    replaced = committed(4, {"q": 1}, mode="replace_partitions")
    write(ledger, [committed(1, {"p": 1}), committed(3, {"q": 1}), replaced, committed(5, {"r": 1}, epoch=8)])
    paths = {"b/x.csv", *(f"b/only{number}.csv" for number in range(1, 7))}
    held = {"b/only1.csv": {"a"}, "b/only4.csv": {"d"}, "b/only5.csv": {"e"}}
    assert read(ledger).versions(paths) == {"b/x.csv": {"a", "d", "e"}, **held}
    assert read(ledger).versions(paths, after=4) == {"b/x.csv": {"e"}, "b/only5.csv": {"e"}}
    assert read(ledger).versions({"b/only2.csv", "b/only3.csv"}) == {}


def test_versions_of_files_that_were_replaced(ledger: Ledger) -> None:
    """1 loads two files, 2 replaces x and 3 removes y; then the partition of 2 is replaced, and x comes back."""
    paths = {"b/x", "b/y"}

    def plan(number: int, **etags: str) -> None:
        files = [SourceFile(key=key, etag=etag, size_bytes=1) for key, etag in etags.items()]
        ledger.write_files(AttemptId(load_id="ch-s3-a", generation=0, number=number), files, PATTERN)

    def holding() -> dict[str, set[int]]:
        return {path: {one.number for one in found} for path, found in read(ledger).attempts_holding(paths).items()}

    for number, etags in ((1, {"x": "1", "y": "1"}), (2, {"x": "2"}), (3, {"y": ""}), (5, {"x": "1"})):
        plan(number, **etags)
    write(ledger, [committed(1, {"p": 9})])
    assert read(ledger).versions(paths) == {"b/x": {"1"}, "b/y": {"1"}}
    write(ledger, [committed(2, {"q": 1, "p": 0}, mode="replace_files")])
    assert read(ledger).versions(paths, whole=True) == {"b/x": {"2"}, "b/y": {"1"}}
    write(ledger, [committed(3, {"p": 0}, mode="replace_files")])
    assert read(ledger).versions(paths) == {"b/x": {"2"}}
    assert holding() == {"b/x": {2}}
    write(ledger, [committed(4, {"q": 1}, mode="replace_partitions")])
    assert read(ledger).versions(paths, whole=True) == {}  # the rows of 1 do not come back
    write(ledger, [committed(5, {"r": 1})])
    assert read(ledger).versions(paths) == {"b/x": {"1"}}
    assert holding() == {"b/x": {5}}


def test_the_last_merge(ledger: Ledger) -> None:
    write(ledger, [committed(1, {"p": 1}), committed(2, {"p": 1}, mode="replace_where")])
    assert read(ledger).last_merge() == (NEVER, "")
    write(ledger, [committed(number, {}, mode="merge") for number in (3, 4)])
    write(ledger, [committed(5, {"p": 1}, mode="replace_table"), committed(6, {}, mode="merge", uuids=("u0",))])
    (epoch, _), query_id = read(ledger).last_merge()
    assert (epoch, query_id) == (4, "ch-s3-a-0-4-insert")


def test_a_file_that_was_replaced_leaves_no_load_certain(ledger: Ledger) -> None:
    ledger.write_files(
        AttemptId(load_id="ch-s3-a", generation=0, number=1),
        [SourceFile(key="x", etag="1", size_bytes=1)],
        PATTERN,
    )
    attempt = AttemptId(load_id="ch-s3-a", generation=0, number=1)
    ledger.write(EventKind.PLANNED, attempt, Planned(dag="d", task="t"), epoch=1, try_number=1)
    write(ledger, [committed(1, {"p": 1})])
    how: dict[str, Any] = {"dag": "d", "task": "t", "find_whole": set}
    assert read(ledger).loaders({"b/x": "1"}, **how) == {"b/x": attempt}
    write(ledger, [committed(2, {"q": 1}, mode="replace_files")])
    assert read(ledger).loaders({"b/x": "1"}, **how) == {}


def test_what_is_written_is_returned_as_it_will_be_read(ledger: Ledger) -> None:
    attempt = AttemptId(load_id="ch-s3-a", generation=2, number=7)
    plan = CommitPlan(
        load_mode="append",
        partitions={"p": 3},
        table_uuids=TABLE,
        allow_empty=False,
        views={"_view0": ("d", "it's")},
    )
    written = ledger.write(EventKind.COMMITTING, attempt, plan, epoch=8, try_number=3)
    (event,) = ledger.read().events
    assert event.detail["views"] == {"_view0": ["d", "it's"]}
    assert written == dataclasses.replace(event, time=0.0, age_seconds=0.0)


def test_a_look_at_the_ledger_reads_what_may_be_open(ledger: Ledger) -> None:
    def event(kind: EventKind, number: int, load: str, epoch: int | None = None, first_open: int = 0) -> None:
        attempt = AttemptId(load_id=f"ch-s3-{load}", generation=0, number=number)
        detail = DETAILS[kind]
        ledger.write(kind, attempt, detail, epoch=epoch or number, try_number=1, first_open=first_open)

    def seen() -> list[tuple[str, int]]:
        """What a process reads that looks for the first time."""
        return [(event.kind.value, event.attempt.number) for event in dataclasses.replace(ledger).read().events]

    assert seen() == []
    event(EventKind.PLANNED, 1, "b")
    assert seen() == [("planned", 1)]
    event(EventKind.COMMITTED, 1, "b", 2)
    event(EventKind.PLANNED, 2, "a")
    event(EventKind.ABANDONED, 2, "a", 3)
    event(EventKind.PLANNED, 4, "b")
    event(EventKind.LOCKED, 5, "c", first_open=4)
    # of the closed attempts only that of the ledger's own load
    assert seen() == [("planned", 2), ("abandoned", 2), ("planned", 4), ("locked", 5)]
    event(EventKind.LOCKED, 6, "c", first_open=6)
    assert seen() == [("planned", 2), ("abandoned", 2), ("locked", 6)]
    numbers = {found.attempt.number for found in ledger.read({1}).events}
    assert numbers == {1, 2, 6}


def test_a_second_look_reads_only_what_may_have_changed(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def look_up(render: Any, **what: Any) -> list[dict[str, Any]]:
        rows = real(render, **what)
        read.append(len(rows))
        return rows

    def event(kind: EventKind, number: int, epoch: int, first_open: int = 0) -> None:
        attempt = AttemptId(load_id="ch-s3-b", generation=0, number=number)
        ledger.write(kind, attempt, DETAILS[kind], epoch=epoch, try_number=1, first_open=first_open)

    real = ledger.look_up
    monkeypatch.setattr(ledger, "look_up", look_up)
    event(EventKind.PLANNED, 1, 1)
    event(EventKind.ABANDONED, 1, 2)
    event(EventKind.PLANNED, 3, 3)
    event(EventKind.LOCKED, 4, 4, first_open=1)
    first = ledger.read()
    event(EventKind.ABANDONED, 3, 5)
    event(EventKind.LOCKED, 5, 5, first_open=5)
    # 3 was open, and 4 was the last lock
    second = ledger.read()
    assert read == [4, 4]
    assert [(e.kind, e.attempt.number) for e in second.events] == [
        *((e.kind, e.attempt.number) for e in first.events),
        (EventKind.ABANDONED, 3),
        (EventKind.LOCKED, 5),
    ]
    assert second.events[0].age_seconds > first.events[0].age_seconds
    ledger.read()
    assert read == [4, 4, 1]


def test_a_manifest_is_read_without_those_of_years(ledger: Ledger, ch_s3_sandbox: Sandbox) -> None:
    ch_s3_sandbox.query(
        f"INSERT INTO {ledger.files_name} SELECT '{ledger.target}', concat('b/', leftPad(toString(number), 9, '0')),"
        " toString(number), 1, 'ch-s3-b', intDiv(number, 365) FROM numbers(365000)"
    )
    attempt = AttemptId(load_id="ch-s3-b", generation=0, number=777)
    assert len(ledger.read_manifest(attempt)) == 365
    statement = ledger_queries.render_read_attempt_files(
        ledger.files_name, None, target=str(ledger.target), attempt=attempt.key, after="", limit=1_000
    )
    (estimate,) = ch_s3_sandbox.query(f"EXPLAIN ESTIMATE {statement.text}")
    assert int(estimate["rows"]) <= 2 * 8_192


def test_the_newest_large_load_of_each_format(ledger: Ledger) -> None:
    sizes = [("Parquet", 9), ("CSV", 9), ("Parquet", 10), ("Parquet", 8), ("Parquet", 99)]
    for number, (data_format, size) in enumerate(sizes, 1):
        attempt = AttemptId(load_id="ch-s3-a", generation=0, number=number)
        report = LoadReport(data_format=data_format, volume_bytes=size, query_id=str(number))
        given: dict[str, Any] = {"load_mode": "append", "partitions": {}, "table_uuids": TABLE, "report": report}
        if size == 99:
            detail = CommitPlan(allow_empty=False, **given)
            ledger.write(EventKind.COMMITTING, attempt, detail, epoch=number, try_number=1)
        else:
            ledger.write(EventKind.COMMITTED, attempt, Committed(**given), epoch=number, try_number=1)

    def found(since: int) -> set[str]:
        rows = ledger.look_up(ledger_queries.render_read_past_reports, since=since, min_volume_bytes=9)
        return {json.loads(row["detail"])["report"]["query_id"] for row in rows}

    assert found(since=0) == {"2", "3"}
    assert found(since=3) == {"3"}
    assert found(since=4) == set()
