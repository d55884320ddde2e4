"""The table in docs/benchmarks.md of the statements of an ordinary small load, and what such a load sends."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import clickhouse_connect
import pytest

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
from tests.sandbox.conftest import Lab
from tests.sandbox.few import EVEN_AND_ODD
from tests.sandbox.test_one_address import give_hosts, listen

pytestmark = pytest.mark.sandbox

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"
# How often depends on how long the INSERT takes, and the rest.
BY_THE_CLOCK = ("running_queries", "write_event_alive")
CONNECTION = "a connection to a node"


def read_documented(nodes: int) -> Counter[str]:
    """Read from the table how often a load sends each statement."""
    rows = re.findall(r"^\| `(\w+)` \| .+ \| (\d+|n) \|$", PAGE.read_text(), re.MULTILINE)
    return Counter({name: nodes if times == "n" else int(times) for name, times in rows})


def count_sent(lab: Lab) -> Counter[str]:
    """Load two files, the first of which creates the ledger; returns what the second load sends."""
    sent: list[str] = []
    run, connect = ClickHouseS3Hook._run, clickhouse_connect.get_client

    def counted(hook: ClickHouseS3Hook, statement: Statement, *given: Any, **named: Any) -> Any:
        sent.append(statement.name)
        return run(hook, statement, *given, **named)

    def connected(**given: Any) -> Any:
        sent.append(CONNECTION)
        return connect(**given)

    lab.monkeypatch.setattr(ClickHouseS3Hook, "_run", counted)
    lab.monkeypatch.setattr(clickhouse_connect, "get_client", connected)
    table = lab.create("t", "n UInt32", EVEN_AND_ODD)
    for number in range(2):
        lab.put_parquet(f"in/{number}.parquet", {"n": range(number * 100, number * 100 + 30)})
        sent.clear()
        lab.load(f"in/{number}.parquet", table, task_id=f"load_{number}")
    return Counter(name for name in sent if name not in BY_THE_CLOCK)


def test_a_load_sends_what_the_table_lists(lab: Lab) -> None:
    assert count_sent(lab) == read_documented(nodes=3) + Counter({CONNECTION: 3})


@pytest.mark.thorough
def test_through_one_address_the_server_is_read_once_more(lab: Lab) -> None:
    with ExitStack() as stack:
        lab.connect_clickhouse({"http_endpoints": None}, port=listen(stack, lab, give_hosts(lab)))
        assert count_sent(lab) == read_documented(nodes=3) + Counter({CONNECTION: 3, "read_server": 1})
