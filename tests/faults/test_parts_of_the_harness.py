"""The harness itself: proxies fail as requested, the oracle detects wrong rows, plans are repeatable."""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.faults.folder_judge import Folder
from tests.faults.harness import other_names
from tests.faults.judge import FIRST_VERSIONS, Judge, Outcome
from tests.faults.oracle import (
    ACTS_OF_PEOPLE,
    CHUNKS,
    DELETE,
    EXPORT,
    FAILED_CHECK,
    GONE_FILE,
    MANY,
    MISSING,
    MODES,
    REJECT,
    REPLACED,
    UNDO,
    Difference,
    People,
    Row,
    act_of_people,
    bag,
    before,
    between,
    closest,
    expected,
    file_rows,
    rows_of,
    write_file,
)
from tests.faults.plans import (
    DURING_INSERT,
    REPLICATED_WEIGHTS,
    WEIGHTS,
    Kind,
    Plan,
    Points,
    random_plan,
    random_way,
    stores_of,
    suits,
)
from tests.faults.points import boundaries
from tests.faults.proxies import Loop, Proxy
from tests.faults.report import format_report, is_good
from tests.faults.scene import Scene

BODY = b"0123456789"


@pytest.fixture
def asked() -> list[bytes]:
    """The requests that reached the server behind the proxy."""
    return []


@pytest.fixture
def proxy(asked: list[bytes]) -> Iterator[Proxy]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", str(len(BODY)))
            self.end_headers()
            self.wfile.write(BODY)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    loop = Loop()
    made = Proxy(loop, server.server_port)
    made.start()
    yield made
    loop.close()
    server.shutdown()
    server.server_close()


def ask(proxy: Proxy, body: bytes = b"question", *, timeout: float = 20) -> tuple[int, bytes]:
    connection = HTTPConnection("127.0.0.1", proxy.port, timeout=timeout)
    try:
        connection.request("POST", "/", body=body)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_a_whole_proxy_forwards(proxy: Proxy, asked: list[bytes]) -> None:
    assert ask(proxy) == (200, BODY)
    assert asked == [b"question"]


@pytest.mark.parametrize("kind", ["500", "503"])
def test_a_status_for_so_many_requests(proxy: Proxy, asked: list[bytes], kind: str) -> None:
    proxy.trouble(kind, 2)
    assert [ask(proxy)[0] for _ in range(3)] == [int(kind), int(kind), 200]
    assert asked == [b"question"]


@pytest.mark.parametrize("kind", ["reset", "truncated"])
def test_an_answer_that_breaks_off(proxy: Proxy, kind: str) -> None:
    proxy.trouble(kind, 1)
    with pytest.raises((OSError, HTTPException)):
        ask(proxy)
    assert ask(proxy) == (200, BODY)


def test_a_cut_lasts_until_it_is_healed(proxy: Proxy, asked: list[bytes]) -> None:
    proxy.cut()
    for _ in range(2):
        with pytest.raises((OSError, HTTPException)):
            ask(proxy)
    proxy.heal()
    assert ask(proxy) == (200, BODY)
    assert asked == [b"question"]


def test_a_stall_keeps_the_request(proxy: Proxy, asked: list[bytes]) -> None:
    proxy.stall()
    with pytest.raises(TimeoutError):
        ask(proxy, timeout=0.5)
    assert asked == []
    proxy.heal()
    assert ask(proxy) == (200, BODY)


def test_a_held_request_arrives_after_its_sender_has_gone(proxy: Proxy, asked: list[bytes]) -> None:
    hold = proxy.hold("late-1")
    with pytest.raises(TimeoutError):
        ask(proxy, b"DROP -- late-1", timeout=0.5)
    assert hold.has_arrived.is_set()
    assert ask(proxy, b"other") == (200, BODY)
    assert asked == [b"other"]
    hold.release()
    assert hold.is_answered.wait(20)
    assert asked == [b"other", b"DROP -- late-1"]


def test_the_oracle_prints_rows_as_clickhouse_does() -> None:
    assert Row(id=14, p=2, kind="kept").text == "14\t2\tkept\t\\N\t2026-01-01 00:00:00.854\tv0 of 14v0 of 14"
    assert Row(id=5, p=1, kind="loaded", version=1).text == "5\t1\tloaded\t-484\t2026-01-02 00:00:00.305\tv1 of 5"


def test_the_oracle_sees_lost_and_doubled_rows() -> None:
    wanted = Counter({"a": 1, "b": 1, "c": 1})
    assert Difference.between(Counter({"a": 1, "b": 2}), wanted) == Difference(lost=1, extra=1)
    assert not Difference.between(wanted, wanted)


def test_the_oracle_takes_no_mixture_of_two_versions() -> None:
    old, new = Counter({"a1": 1, "b1": 1}), Counter({"a2": 1, "b2": 1})
    assert closest(Counter({"a1": 1, "b2": 1}), [old, new]) == Difference(lost=1, extra=1)
    assert not closest(new, [old, new])


@pytest.mark.parametrize(
    ("mode", "rows"),
    [
        # before, on 2 nodes: 60 loaded in p=1, 40 kept in p=2, 25 loaded and 25 kept in p=3, 25 kept in p=4
        pytest.param("append", 175 + 60, id="append"),
        pytest.param("replace_partitions", 25 + 60, id="replace_partitions"),
        pytest.param("replace_where", 90 + 60, id="replace_where"),
        pytest.param("replace_table", 60, id="replace_table"),
        # besides, 20 older and 10 newer rows of each file; of the file's other 50 rows, 5 are deletions
        pytest.param("merge", 175 + 5 * 30 + 10 + 45, id="merge"),
        pytest.param("append_reject", 175 + 60 + 3, id="append_reject"),
        pytest.param("append_new_table", 60, id="append_new_table"),
        # the rows of the five files that did not change stay, or are all gone
        pytest.param("append_replaced", 175 + 6 * 60, id="append_replaced"),
        # what is no longer in the source is gone
        pytest.param("append_missing", 175 + 60, id="append_missing"),
        pytest.param("undo", 175, id="undo"),
    ],
)
def test_what_each_mode_must_leave(mode: str, rows: int) -> None:
    assert expected(mode, 2, {0: 0}).total() == rows


def test_what_is_there_before_a_load_of_files_that_changed() -> None:
    found, wanted = before(REPLACED, 2), expected(REPLACED, 2, dict.fromkeys(range(6), 0))
    assert found.total() == wanted.total()
    # three files of six changed, and in each of them all times
    assert (found - wanted).total() == 3 * 60
    gone = before(MISSING, 2) - found
    assert gone == Counter(row.text for row in file_rows(GONE_FILE))
    assert len(rows_of(dict.fromkeys(MANY, 1))) == len(MANY) == 2000
    assert before(UNDO, 2) - expected(UNDO, 2, {}) == Counter(row.text for n in range(6) for row in file_rows(n))


@pytest.mark.parametrize("weights", [WEIGHTS, REPLICATED_WEIGHTS], ids=["shards", "replicas"])
def test_a_plan_repeats_and_numbers_differ(weights: Mapping[Kind, int]) -> None:
    writes = [
        "execute:after:write_event_planned#1",
        "execute:before:create_staging#1",
        "execute:before:move_partitions#1",
        "execute:after:move_partitions#1",
    ]
    some = Points(all=["execute:before:x#1", "execute:after:x#1"], writes=writes)
    points = {(mode, way): some for mode in MODES for way in (False, True)}
    first, again, other = (
        [random_plan(seed, number, points, weights) for number in range(len(weights))] for seed in (7, 7, 8)
    )
    assert first == again
    assert {plan.kind for plan in first} == set(weights)
    assert first != other


@pytest.mark.parametrize("weights", [WEIGHTS, REPLICATED_WEIGHTS, {Kind.KILL_NODE: 1}])
def test_a_check_fails_in_each_series(weights: Mapping[Kind, int]) -> None:
    for seed in range(20):
        kind, (mode, _) = random_way(seed, len(weights), weights)
        assert (kind, mode) == (next(iter(weights)), FAILED_CHECK)


def test_every_mode_and_store_happens_and_no_fault_hits_what_is_not_there() -> None:
    ways = [random_way(7, number, REPLICATED_WEIGHTS) for number in range(500)]
    assert {mode for _, (mode, _) in ways} == set(MODES)
    assert not [mode for kind, (mode, _) in ways if kind.changes_objects and mode in (EXPORT, UNDO)]
    assert {mode: set(stores_of(mode)) for mode in (EXPORT, UNDO, DELETE, REPLACED, MISSING, "append")} == {
        EXPORT: {"s3"},
        UNDO: {"s3"},
        DELETE: {"s3", "azure"},
        REPLACED: {"s3", "azure"},
        MISSING: {"s3", "azure"},
        "append": {"s3", "azure", "http"},
    }


@pytest.mark.parametrize("mode", [mode for mode in MODES if suits(Kind.PEOPLE, mode)])
def test_what_people_do_is_there_before_and_after_a_load(mode: str) -> None:
    acts = [act_of_people(mode, number) for number in range(ACTS_OF_PEOPLE)]
    told = {(act.taking, act.statements, act.part_of, act.how) for act in acts}
    assert ACTS_OF_PEOPLE - 1 <= len(told) <= ACTS_OF_PEOPLE
    for act in acts:
        for rows in (before(mode, 2), expected(mode, 2, {0: 0})):
            changed = act.change(rows)
            assert changed - rows == act.added
            assert rows - changed == act.removed
    # an update takes seven rows away, and adds them with another value
    updates = [act for act in acts if act.added and act.removed and not any("INSERT" in s for s in act.statements)]
    assert {(update.added.total(), update.removed.total()) for update in updates} == {(7, 7)}


def test_rows_that_people_drop_come_again_only_where_the_commit_adds_rows() -> None:
    people = People(taking="DROP", takes="p = 2", takes_partitions=True, removed=bag(file_rows(1)))

    def may_come_again(mode: str) -> bool:
        plan = Plan(name="p", mode=mode, is_deferred=False, kind=Kind.PEOPLE)
        scene: Any = SimpleNamespace(plan=plan, people=people, sandbox=SimpleNamespace(shards=2))
        judge = Judge(scene=scene, outcome=Outcome(plan=plan, state="committed", reached=True))
        return expected(mode, 2, FIRST_VERSIONS) in judge._allowed()

    loading = {mode for mode in MODES if suits(Kind.PEOPLE, mode)} - {UNDO, FAILED_CHECK}
    assert {mode for mode in loading if may_come_again(mode)} == {"append", CHUNKS, DELETE, REJECT}


def test_readers_of_a_folder_see_what_is_missing_or_doubled() -> None:
    body = write_file(0, 0, "parquet")
    wanted = Counter(row.text for row in file_rows(0))
    manifest = {"query_id": "q-1", "rows": 60, "files": [{"key": "out/a.parquet"}]}
    objects = {"a.parquet": body, "_manifest.json": json.dumps(manifest).encode(), "_SUCCESS": b"q-1\n"}
    good = Folder(objects=objects)
    assert (good.is_complete, good.find_wrong(wanted), good.find_doubled(wanted)) == (
        True,
        (Difference(lost=0, extra=0), []),
        0,
    )
    assert Folder(objects={**objects, "b.parquet": body}).find_doubled(wanted) == 60
    gone = {name: content for name, content in objects.items() if name != "a.parquet"}
    difference, notes = Folder(objects=gone).find_wrong(wanted)
    assert (difference.lost, notes) == (60, ["the manifest says 60 rows, and its files hold 0"])
    assert Folder(objects={**objects, "_SUCCESS": b"q-2\n"}).find_wrong(wanted)[1] == [
        "_SUCCESS is not that of the manifest"
    ]
    assert not Folder(objects={"a.parquet": body}).is_complete


def test_every_kind_happens_somewhere() -> None:
    assert set(REPLICATED_WEIGHTS) == set(Kind) - {Kind.NONE}


def test_a_node_is_killed_before_the_first_move_and_a_table_altered_before_the_first_change() -> None:
    writes = [
        "execute:after:create_ledger#1",
        "execute:before:write_event_planned#1",
        "execute:after:write_event_planned#1",
        "execute_complete:before:write_event_committing#1",
        "execute_complete:before:move_partitions#1",
        "execute_complete:after:move_partitions#1",
        "execute_complete:before:move_partitions#2",
    ]
    points = {(mode, way): Points(all=writes, writes=writes) for mode in MODES for way in (False, True)}
    plans = [random_plan(seed, number, points) for seed in range(50) for number in (20, 21)]
    assert {(plan.mode, plan.point) for plan in plans if plan.kind is Kind.KILL_IN_MOVE} == {("append", writes[4])}
    assert {plan.point for plan in plans if plan.kind is Kind.ALTER_TABLE} == {DURING_INSERT, *writes[2:5]}


def test_other_names_put_another_node_first() -> None:
    names = other_names(["127.0.0.1:2003", "127.0.0.1:2001", "127.0.0.1:2002"])
    assert names == ["127.0.0.1:2003", "localhost:2002", "localhost:2001"]
    assert min(names) == "127.0.0.1:2003"


def test_what_a_table_may_hold_when_nobody_knows() -> None:
    old, new = Counter({"a": 1}), Counter({"a": 1, "b": 1, "c": 1})
    assert not between(Counter({"a": 1, "c": 1}), old, new)
    assert between(Counter({"b": 2}), old, new) == Difference(lost=1, extra=1)


def test_boundaries_drop_what_the_next_point_repeats() -> None:
    points = [
        "execute:before:create_lock#1",
        "execute:after:create_lock#1",
        "execute:before:insert_load#1",
        "execute:after:insert_load#1",
        "execute_complete:before:drop_lock#1",
        "execute_complete:after:drop_lock#1",
    ]
    assert boundaries(points, is_deferred=False) == [points[0], *points[2:]]
    assert boundaries(points, is_deferred=True) == [points[0], points[2], *points[4:]]


def outcome(state: str, *, kind: Kind = Kind.KILL_NODE, **numbers: Any) -> Outcome:
    plan = Plan(name="r", mode="append", is_deferred=False, kind=kind)
    return Outcome(plan=plan, state=state, reached=True, **numbers)


def test_the_report_of_good_runs() -> None:
    outcomes = [outcome("committed"), outcome("failed_clean", kind=Kind.OUT_OF_MEMORY)]
    assert is_good(outcomes)
    *_, last = format_report(outcomes).splitlines()
    assert last == "faults: OK runs=2 kinds=2 committed=1 failed_clean=1 lost=0 doubled=0 leftovers=0"


def test_the_report_of_a_run_that_said_that_it_does_not_know() -> None:
    outcomes = [outcome("unknown", kind=Kind.KILL_IN_MOVE)]
    assert is_good(outcomes)
    *_, last = format_report(outcomes).splitlines()
    assert last == "faults: OK runs=1 kinds=1 committed=0 failed_clean=0 unknown=1 lost=0 doubled=0 leftovers=0"


def test_the_report_of_a_bad_run() -> None:
    outcomes = [outcome("committed"), outcome("wrong", lost=3, doubled=2, leftovers=1)]
    assert not is_good(outcomes)
    *_, last = format_report(outcomes).splitlines()
    assert last == "faults: FAILED runs=2 kinds=1 committed=1 failed_clean=0 wrong=1 lost=3 doubled=2 leftovers=1"


@pytest.mark.parametrize("page", ["README.md", "docs/exactly-once.md"])
def test_the_pages_name_no_more_kinds_than_a_series_in_forked_processes_has(page: str) -> None:
    """The series that they tell of may be older than some kinds."""
    text = (Path(__file__).parents[2] / page).read_text()
    (number,) = re.findall(r"(\d+) kinds of fault", text)
    assert int(number) <= len([kind for kind in WEIGHTS if not kind.needs_airflow])


@pytest.mark.parametrize("state", ["stuck", "broken"])
def test_a_run_without_a_verdict_is_no_good_run(state: str) -> None:
    assert not is_good([outcome(state)])
    first, *_, last = format_report([outcome(state, notes=["why"])]).splitlines()
    assert first.startswith(f"{state}: r append/worker s3 kill_node")
    assert last == f"faults: FAILED runs=1 kinds=1 committed=0 failed_clean=0 {state}=1 lost=0 doubled=0 leftovers=0"


def test_statements_without_an_answer_are_underway(tmp_path: Path) -> None:
    def note(place: str, when: str, pid: int = 1) -> str:
        return json.dumps({"place": place, "when": when, "pid": pid})

    lines = [
        *(note("insert#1", "before"), note("insert#1", "after"), note("replace#1", "before")),
        *(note("replace#2", "before"), note("replace#3", "before"), note("replace#3", "failed")),
        note("insert#1", "before", pid=2),
    ]
    (tmp_path / "run.trace").write_text("".join(f"{line}\n" for line in lines))
    plan = SimpleNamespace(point="execute:before:replace#2")
    scene: Any = SimpleNamespace(hit={"pid": 1}, run_file=tmp_path / "run.json", plan=plan)
    assert Scene.statements_underway(scene) == {"replace#1"}
