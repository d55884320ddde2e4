"""The queue of those who wait for a lock: who goes first, who is passed, and what goes wrong there harms no load."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field

import pytest

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.common.timing import Timing
from airflow_provider_ch_s3.errors import ChS3Error, ErrorCode, OvertakenError, ServerError, ServerUnreachableError
from airflow_provider_ch_s3.exactly_once.lock_queue import LockQueue, queue_prefix
from airflow_provider_ch_s3.exactly_once.lock_tables import LockEntry, LockTable, LockTables
from airflow_provider_ch_s3.table.target import TableName
from tests.failures import coded

TARGET = TableName(database="d", table="t")
LOST = ServerUnreachableError("server-unreachable", "no answer")
REFUSED = ServerError("server-error", "not enough privileges", server_code=497)
THERE = ServerError("server-error", "it already exists", server_code=ErrorCode.TABLE_ALREADY_EXISTS)


@dataclass
class Server:
    """One node of two, which executes nothing, and the clock.

    :ivar sent: verb, number of the table, node.
    """

    now: float = 100.0
    failure: ChS3Error | None = None
    reachable: frozenset[str] = frozenset({"n1", "n2"})
    sent: list[tuple[str, int, str]] = field(default_factory=list)

    def execute_on(self, nodes: Collection[str], statement: Statement) -> None:
        (node,) = nodes
        verb, number = re.findall(r"^\w+|(?<=_)\d+(?=`)", statement.text)
        self.sent.append((verb, int(number), node))
        if self.failure:
            raise self.failure


@pytest.fixture
def server() -> Server:
    return Server()


def entry(load_id: str, try_number: int = 2, token: str = "another") -> LockEntry:
    return LockEntry(load_id=load_id, generation=0, try_number=try_number, attempt=0, token=token)


def stand(*entries: LockEntry, node: str = "n1") -> dict[int, LockTable]:
    return {place: LockTable(number=place, node=node, entry=who) for place, who in enumerate(entries, 1)}


def queue_of(server: Server, *, place: int = 0) -> LockQueue:
    tables = LockTables(client=server, node="n1", database="d", prefix=queue_prefix(TARGET))  # type: ignore[arg-type]
    timing = Timing(now=lambda: server.now, lock_patience_seconds=10.0, lock_poll_seconds=0.5)
    queue = LockQueue(tables, OWN, TARGET, timing)
    queue.place = place
    return queue


OWN = entry("own", token="own")
OTHERS = stand(entry("a"), entry("b"), OWN, entry("c"))


@pytest.mark.parametrize(
    ("ahead", "least", "most"),
    [
        pytest.param(0, 0.15, 0.35, id="next"),
        pytest.param(3, 0.6, 1.4, id="fourth"),
        pytest.param(99, 2.5, 2.5, id="far-back"),
    ],
)
def test_who_is_further_back_looks_less_often(server: Server, ahead: int, least: float, most: float) -> None:
    pauses = [queue_of(server).pause_seconds(ahead) for _ in range(100)]
    assert least <= min(pauses) <= max(pauses) <= most


def test_who_came_earlier_goes_first(server: Server) -> None:
    assert queue_of(server, place=3).find_ahead(OTHERS, is_free=True) == [1, 2]
    assert queue_of(server).find_ahead(stand(entry("a"), entry("b")), is_free=True) == [1, 2]
    assert server.sent == []


def test_all_that_leave_a_free_lock_untaken_are_removed_together(server: Server) -> None:
    queue = queue_of(server, place=3)
    queue.find_ahead(OTHERS, is_free=True)
    server.now += 14.9
    assert queue.find_ahead(OTHERS, is_free=True) == [1, 2]
    server.now += 0.2
    assert queue.find_ahead(OTHERS, is_free=True) == []
    assert server.sent == [("DROP", 1, "n1"), ("DROP", 2, "n1")]


def test_time_counts_from_when_the_lock_is_free_for_the_first_one(server: Server) -> None:
    queue = queue_of(server, place=3)
    for _ in range(9):
        queue.find_ahead(OTHERS, is_free=True)
        server.now += 9.0
        queue.find_ahead(OTHERS, is_free=False)
        server.now += 9.0
    queue.find_ahead(OTHERS, is_free=True)
    server.now += 9.0
    later = {place: OTHERS[place] for place in (2, 3, 4)}
    queue.find_ahead(later, is_free=True)
    server.now += 9.0
    assert queue.find_ahead(later, is_free=True) == [2]
    assert server.sent == []


@pytest.mark.parametrize("place", [0, 2])
@pytest.mark.parametrize(
    "other",
    [pytest.param(entry("own", 1), id="older-try"), pytest.param(entry("own", token="own"), id="left-by-itself")],
)
def test_an_older_process_of_the_load_does_not_go_first(server: Server, place: int, other: LockEntry) -> None:
    queue = stand(other, node="n2") | ({2: OTHERS[3]} if place else {})
    assert queue_of(server, place=place).find_ahead(queue, is_free=False) == []
    assert server.sent == [("DROP", 1, "n2")]


def test_a_process_of_the_same_try_goes_first_if_it_came_first(server: Server) -> None:
    queue = stand(entry("own"), OWN, entry("own"))
    assert queue_of(server, place=2).find_ahead(queue, is_free=False) == [1]
    assert server.sent == []


@pytest.mark.parametrize("place", [0, 1])
def test_who_sees_a_newer_try_in_the_queue_stops(server: Server, place: int) -> None:
    with pytest.raises(OvertakenError, match=coded("newer-try-runs", "try 3", "d.t", "try 2")):
        queue_of(server, place=place).find_ahead(stand(OWN, entry("own", 3)), is_free=True)
    assert server.sent == []


def test_the_end_of_the_queue(server: Server) -> None:
    queue = queue_of(server)
    queue.join(stand(entry("a"), entry("b")))
    queue.join(OTHERS)
    queue.leave()
    assert server.sent == [("CREATE", 3, "n1"), ("DROP", 3, "n1")]


def test_who_was_removed_stands_at_the_end_again(server: Server) -> None:
    queue = queue_of(server, place=1)
    queue.join({4: OTHERS[4]})
    assert (queue.place, server.sent) == (5, [("CREATE", 5, "n1")])


@pytest.mark.parametrize(
    ("failure", "left"),
    [
        pytest.param(LOST, [("DROP", 1, "n1")], id="lost-answer"),
        pytest.param(REFUSED, [("DROP", 1, "n1")], id="refused"),
        pytest.param(THERE, [], id="another-was-faster"),
    ],
)
def test_a_place_that_cannot_be_taken_fails_no_load(
    server: Server, failure: ChS3Error, left: list[tuple[str, int, str]]
) -> None:
    queue = queue_of(server)
    server.failure = failure
    queue.join({})
    queue.leave()
    assert server.sent == [("CREATE", 1, "n1"), *left]
