"""The line of those who wait for a lock: who goes first, who is passed, and what goes wrong there harms no load."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field

import pytest

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.common.timing import Timing
from airflow_provider_ch_s3.errors import ChS3Error, ErrorCode, OvertakenError, ServerError, ServerUnreachableError
from airflow_provider_ch_s3.exactly_once.claim import Claim, ClaimTable, ClaimTables
from airflow_provider_ch_s3.exactly_once.line import Line, line_prefix
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


def claim(load_id: str, try_number: int = 2, token: str = "another") -> Claim:
    return Claim(load_id=load_id, generation=0, try_number=try_number, attempt=0, token=token)


def stand(*claims: Claim, node: str = "n1") -> dict[int, ClaimTable]:
    return {place: ClaimTable(number=place, node=node, claim=who) for place, who in enumerate(claims, 1)}


def line_of(server: Server, *, place: int = 0) -> Line:
    tables = ClaimTables(client=server, node="n1", database="d", prefix=line_prefix(TARGET))  # type: ignore[arg-type]
    timing = Timing(now=lambda: server.now, lock_patience_seconds=10.0, lock_poll_seconds=0.5)
    line = Line(tables, OWN, TARGET, timing)
    line.place = place
    return line


OWN = claim("own", token="own")
OTHERS = stand(claim("a"), claim("b"), OWN, claim("c"))


@pytest.mark.parametrize(
    ("ahead", "least", "most"),
    [
        pytest.param(0, 0.15, 0.35, id="next"),
        pytest.param(3, 0.6, 1.4, id="fourth"),
        pytest.param(99, 2.5, 2.5, id="far-back"),
    ],
)
def test_who_is_further_back_looks_less_often(server: Server, ahead: int, least: float, most: float) -> None:
    pauses = [line_of(server).pause_seconds(ahead) for _ in range(100)]
    assert least <= min(pauses) <= max(pauses) <= most


def test_who_came_earlier_goes_first(server: Server) -> None:
    assert line_of(server, place=3).find_ahead(OTHERS, is_free=True) == [1, 2]
    assert line_of(server).find_ahead(stand(claim("a"), claim("b")), is_free=True) == [1, 2]
    assert server.sent == []


def test_all_that_leave_a_free_lock_untaken_are_removed_together(server: Server) -> None:
    line = line_of(server, place=3)
    line.find_ahead(OTHERS, is_free=True)
    server.now += 14.9
    assert line.find_ahead(OTHERS, is_free=True) == [1, 2]
    server.now += 0.2
    assert line.find_ahead(OTHERS, is_free=True) == []
    assert server.sent == [("DROP", 1, "n1"), ("DROP", 2, "n1")]


def test_time_counts_from_when_the_lock_is_free_for_the_first_one(server: Server) -> None:
    line = line_of(server, place=3)
    for _ in range(9):
        line.find_ahead(OTHERS, is_free=True)
        server.now += 9.0
        line.find_ahead(OTHERS, is_free=False)
        server.now += 9.0
    line.find_ahead(OTHERS, is_free=True)
    server.now += 9.0
    later = {place: OTHERS[place] for place in (2, 3, 4)}
    line.find_ahead(later, is_free=True)
    server.now += 9.0
    assert line.find_ahead(later, is_free=True) == [2]
    assert server.sent == []


@pytest.mark.parametrize("place", [0, 2])
@pytest.mark.parametrize(
    "other",
    [pytest.param(claim("own", 1), id="older-try"), pytest.param(claim("own", token="own"), id="left-by-itself")],
)
def test_an_older_process_of_the_load_does_not_go_first(server: Server, place: int, other: Claim) -> None:
    line = stand(other, node="n2") | ({2: OTHERS[3]} if place else {})
    assert line_of(server, place=place).find_ahead(line, is_free=False) == []
    assert server.sent == [("DROP", 1, "n2")]


def test_a_process_of_the_same_try_goes_first_if_it_came_first(server: Server) -> None:
    line = stand(claim("own"), OWN, claim("own"))
    assert line_of(server, place=2).find_ahead(line, is_free=False) == [1]
    assert server.sent == []


@pytest.mark.parametrize("place", [0, 1])
def test_who_sees_a_newer_try_in_line_stops(server: Server, place: int) -> None:
    with pytest.raises(OvertakenError, match=coded("newer-try-runs", "try 3", "d.t", "try 2")):
        line_of(server, place=place).find_ahead(stand(OWN, claim("own", 3)), is_free=True)
    assert server.sent == []


def test_the_end_of_the_line(server: Server) -> None:
    line = line_of(server)
    line.join(stand(claim("a"), claim("b")))
    line.join(OTHERS)
    line.leave()
    assert server.sent == [("CREATE", 3, "n1"), ("DROP", 3, "n1")]


def test_who_was_removed_stands_at_the_end_again(server: Server) -> None:
    line = line_of(server, place=1)
    line.join({4: OTHERS[4]})
    assert (line.place, server.sent) == (5, [("CREATE", 5, "n1")])


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
    line = line_of(server)
    server.failure = failure
    line.join({})
    line.leave()
    assert server.sent == [("CREATE", 1, "n1"), *left]
