"""What is away is named, with what to do; the texts are those of servers whose peer or Keeper was stopped."""

from __future__ import annotations

import pytest

from airflow_provider_ch_s3.clickhouse.away import find_away
from airflow_provider_ch_s3.hooks.driver_errors import explain as explain_driver
from airflow_provider_ch_s3.introspection.explain import explain

REFUSED = (
    "Code: 279. DB::Exception: All connection tries failed. Log: Code: 32. DB::Exception: Attempt to read after eof."
    " (ATTEMPT_TO_READ_AFTER_EOF) Code: 210. DB::NetException: Connection refused (127.0.0.1:23108, local address:"
    " 127.0.0.1:46116). (NETWORK_ERROR) Code: 210. DB::NetException: Connection refused (127.0.0.1:23108, local"
    " address: 127.0.0.1:46116). (NETWORK_ERROR) : While executing Remote. (ALL_CONNECTION_TRIES_FAILED)"
)
THEN = "start it, or wait until it is back, then try again (clear the task, or repeat the command)"


@pytest.mark.parametrize(
    ("code", "message", "named"),
    [
        pytest.param(279, REFUSED, "gets no answer from 127.0.0.1:23108; start it,", id="refused"),
        pytest.param(
            32,
            "Code: 32. DB::Exception: Attempt to read after eof: while receiving packet from ch-2.lan:9000, local"
            " address: 10.0.0.1:4. (ATTEMPT_TO_READ_AFTER_EOF)",
            "gets no answer from ch-2.lan:9000; start it,",
            id="died-in-the-middle",
        ),
        pytest.param(
            209,
            "Code: 209. DB::NetException: Timeout exceeded while reading from socket (peer: [::1]:9000, local"
            " address: [::1]:5, 300000 ms). (SOCKET_TIMEOUT)",
            "gets no answer from [::1]:9000; start it,",
            id="silent",
        ),
        pytest.param(
            279,
            "Code: 279. DB::NetException: All connection tries failed. Log: Code: 198. DB::NetException: Not found"
            " address of host: ch-2. (DNS_ERROR)",
            "gets no answer from ch-2; start it,",
            id="no-such-host",
        ),
        pytest.param(
            999,
            "Code: 999. Coordination::Exception: Session expired. (KEEPER_EXCEPTION)",
            "has lost the connection to Keeper; start Keeper (ZooKeeper), or wait",
            id="session",
        ),
        pytest.param(
            242,
            "Code: 242. DB::Exception: Table is in readonly mode (replica path: /x). (TABLE_IS_READ_ONLY)",
            "has lost the connection to Keeper;",
            id="read-only",
        ),
        pytest.param(285, "Number of alive replicas (1) is less than 2", "finds too few live replicas", id="quorum"),
        pytest.param(319, "Timeout while waiting for quorum", "finds too few live replicas", id="quorum-in-time"),
        pytest.param(
            159,
            "Distributed DDL task /x is not finished on 1 of 4 hosts (distributed_ddl_task_timeout = 300)",
            "waits in vain for other servers",
            id="replicated-database",
        ),
        pytest.param(
            32, "Attempt to read after eof: while reading a.csv.gz (ATTEMPT_TO_READ_AFTER_EOF)", "", id="file"
        ),
        pytest.param(999, "Code: 999. Node exists, path /x (KEEPER_EXCEPTION)", "", id="keeper-works"),
        pytest.param(159, "Timeout exceeded: elapsed 10 s, maximum: 10 s (TIMEOUT_EXCEEDED)", "", id="slow-query"),
        pytest.param(47, "Unknown identifier x (127.0.0.1:9000)", "", id="something-else"),
    ],
)
def test_what_is_away(code: int, message: str, named: str) -> None:
    found = find_away(code, message)
    assert found.startswith(named)
    assert bool(found) == bool(named)


def test_where_a_statement_or_an_insert_fails() -> None:
    said = explain_driver(Exception(REFUSED), address="ch1:8123", conn_id="unit", secrets=[])
    assert said.sentence == f"ClickHouse at ch1:8123 gets no answer from 127.0.0.1:23108; {THEN}"
    assert explain(REFUSED) == f"a server gets no answer from 127.0.0.1:23108; {THEN}"
