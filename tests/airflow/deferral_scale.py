"""Many tasks deferred to one triggerer: every event comes in time, and the load on the cluster is small."""

from __future__ import annotations

import asyncio
import datetime
import logging
import os
import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from urllib.parse import urlencode

import pytest
from airflow.triggers.base import BaseTrigger

from airflow_provider_ch_s3.identity import LoadIdentity
from airflow_provider_ch_s3.triggers.load import LoadTrigger, dump_identity
from airflow_provider_ch_s3.triggers.parts_settled import PartsSettledTrigger
from ch_s3_lab.demo.local_airflow import LocalAirflow
from ch_s3_lab.sandbox.info import Sandbox
from tests.airflow.conftest import wait_for
from tests.airflow.triggerer import Deferral, make_deferral

pytestmark = [pytest.mark.sandbox, pytest.mark.airflow_run]

log = logging.getLogger(__name__)

CONNECTION = "clickhouse_s3_default"
LOADS = SENSORS = int(os.environ.get("CH_S3_DEFERRED_TASKS", "1000")) // 2
POLL_SECONDS = 5.0
QUIET_SECONDS = 10.0
WAVES = 5
WAVE_SECONDS = 2.0
SQL_OF_POLLS = "initial_query_id IN|\\(database, .(name|table).\\) IN"


class Queries:
    """Many queries that run until they are killed, with the time at which each of them ended."""

    def __init__(self, sandbox: Sandbox, query_ids: Sequence[str]) -> None:
        self.sandbox = sandbox
        self.nodes = {query_id: number % 3 for number, query_id in enumerate(query_ids)}
        self.ended: dict[str, float] = {}

    @contextmanager
    def run(self) -> Iterator[None]:
        thread = threading.Thread(target=lambda: asyncio.run(self._submit_all()))
        thread.start()
        try:
            wait_for(lambda: self._running() == len(self.nodes), "the queries")
            yield
        finally:
            self.kill([query_id for query_id in self.nodes if query_id not in self.ended])
            thread.join(60)

    def kill(self, query_ids: Sequence[str]) -> None:
        for node in range(3):
            here = ", ".join(f"'{query_id}'" for query_id in query_ids if self.nodes[query_id] == node)
            self.sandbox.query(f"KILL QUERY WHERE query_id IN ('', {here or repr('')}) ASYNC", node=node)

    def _running(self) -> int:
        counted = "SELECT count() AS n FROM system.processes WHERE startsWith(query_id, 'ch-s3-')"
        return sum(int(self.sandbox.query(counted, node=node)[0]["n"]) for node in range(3))

    async def _submit_all(self) -> None:
        await asyncio.gather(*(self._submit(query_id, node) for query_id, node in self.nodes.items()))

    async def _submit(self, query_id: str, node: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.sandbox.http_ports[node])
        body = "SELECT sleepEachRow(0.2) FROM numbers(3000) SETTINGS max_block_size = 1, max_threads = 1 FORMAT Null"
        head = (
            f"POST /?{urlencode({'query_id': query_id})} HTTP/1.1",
            "Host: 127.0.0.1",
            f"X-ClickHouse-User: {self.sandbox.user}",
            f"X-ClickHouse-Key: {self.sandbox.password}",
            "Connection: close",
            f"Content-Length: {len(body)}",
        )
        writer.write(("\r\n".join((*head, "", "")) + body).encode())
        await reader.read()
        self.ended[query_id] = time.time()
        writer.close()


def make_tables(sandbox: Sandbox, database: str) -> list[str]:
    """Create tables on every node, each with two parts on the first node that are never merged."""
    names = [f"t{number}" for number in range(SENSORS)]

    def make(node: int) -> None:
        for name in names:
            table = f"{database}.{name}"
            sandbox.query(f"CREATE TABLE {table} (n UInt8) ENGINE MergeTree PARTITION BY n ORDER BY n", node=node)
            if node == 0:
                sandbox.query(f"INSERT INTO {table} VALUES (0), (1)")

    threads = [threading.Thread(target=make, args=(node,)) for node in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return names


def make_triggers(sandbox: Sandbox, database: str, tables: Sequence[str]) -> list[BaseTrigger]:
    name = "SELECT concat(hostName(), ':', toString(tcpPort())) AS name"
    nodes = [sandbox.query(name, node=node)[0]["name"] for node in range(3)]
    shared = {"clickhouse_conn_id": CONNECTION, "cluster": "sandbox", "poll_interval": POLL_SECONDS}
    rule = {"max_parts": 1, "max_parts_per_partition": None, "stable_seconds": 0, "stalled_seconds": 3600}
    now = datetime.datetime.now(datetime.UTC)
    identities = [
        LoadIdentity(dag_id="d", task_id="t", run_id=database, map_index=n, table="t", since=now)
        for n in range(LOADS)
    ]
    loads = [
        LoadTrigger(**shared, query_id=identity.query_id(1), identity=dump_identity(identity))
        for identity in identities
    ]
    return [
        *loads,
        *(PartsSettledTrigger(**shared, database=database, table=table, nodes=nodes, rule=rule) for table in tables),
    ]


def group_members(leader: int) -> list[int]:
    members = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if os.getpgid(int(entry.name)) == leader:
                members.append(int(entry.name))
        except ProcessLookupError:
            continue
    return members


def memory_mib(leader: int) -> float:
    """Sum the proportional set sizes of the triggerer and its runner."""
    found = [
        re.search(r"^Pss:\s+(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M)
        for pid in group_members(leader)
    ]
    return sum(int(match[1]) for match in found if match) / 1024


def cpu_seconds(leader: int) -> float:
    ticks = 0
    for pid in group_members(leader):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def count_polls(sandbox: Sandbox, since: float, until: float) -> int:
    total = 0
    for node in range(3):
        sandbox.query("SYSTEM FLUSH LOGS query_log", node=node)
        (row,) = sandbox.query(
            "SELECT count() AS n FROM system.query_log WHERE type = 'QueryFinish' AND is_initial_query"
            f" AND event_time_microseconds BETWEEN fromUnixTimestamp64Milli({int(since * 1000)})"
            f" AND fromUnixTimestamp64Milli({int(until * 1000)}) AND match(query, '{SQL_OF_POLLS}')"
            " AND NOT has(tables, 'system.query_log')",
            node=node,
        )
        total += int(row["n"])
    return total


def fired(deferral: Deferral, index: int) -> list[float]:
    """Return the times at which the task's triggers fired an event."""
    return [
        datetime.datetime.fromisoformat(line["timestamp"]).timestamp()
        for line in deferral.log(index)
        if line["event"] == "Trigger fired event"
    ]


def test_many_tasks_in_one_triggerer(
    ch_s3_sandbox: Sandbox, ch_s3_database: str, examples: LocalAirflow, tmp_path: Path
) -> None:
    tables = make_tables(ch_s3_sandbox, ch_s3_database)
    triggers = make_triggers(ch_s3_sandbox, ch_s3_database, tables)
    query_ids = [trigger.query_id for trigger in triggers if isinstance(trigger, LoadTrigger)]
    deferral = make_deferral(examples, tmp_path)
    deferral.defer(triggers)
    queries = Queries(ch_s3_sandbox, query_ids)
    ready: dict[int, float] = {}
    with queries.run(), deferral.triggerer() as triggerer:
        tasks = range(LOADS + SENSORS)
        wait_for(lambda: all(deferral.is_started(index) for index in tasks), "the triggers")
        started, cpu = time.time(), cpu_seconds(triggerer.pid)
        time.sleep(QUIET_SECONDS)
        cpu_share = (cpu_seconds(triggerer.pid) - cpu) / (time.time() - started)
        memory = memory_mib(triggerer.pid)
        polls = count_polls(ch_s3_sandbox, started, time.time()) / QUIET_SECONDS
        assert deferral.resumed() == []
        for wave in range(WAVES):
            queries.kill(query_ids[wave::WAVES])
            for number in range(wave, SENSORS, WAVES):
                ch_s3_sandbox.query(f"ALTER TABLE {ch_s3_database}.t{number} DROP PARTITION 1")
                ready[LOADS + number] = time.time()
            time.sleep(WAVE_SECONDS)
        wait_for(lambda: len(deferral.resumed()) == LOADS + SENSORS, "the events")
    ready |= {index: queries.ended[query_id] for index, query_id in enumerate(query_ids)}
    events = {index: fired(deferral, index) for index in ready}
    assert {index: times for index, times in events.items() if len(times) > 1} == {}
    stored = {task.index: task.time - ready[task.index] for task in deferral.resumed()}
    # The triggerer may close a task's log before its last line: then the database's time, which is later, counts.
    late = {index: times[0] - ready[index] if times else stored[index] for index, times in events.items()}
    for name, chosen in (("loads", range(LOADS)), ("sensors", range(LOADS, LOADS + SENSORS))):
        log.info(
            "%s: event after %.1f s (median %.1f), in the database after %.1f s",
            name,
            max(late[index] for index in chosen),
            median(late[index] for index in chosen),
            max(stored[index] for index in chosen),
        )
    log.info("%.0f MiB, %.2f of a core, %.1f statements a second", memory, cpu_share, polls)
    assert max(late.values()) < 2 * POLL_SECONDS
    # one statement for all loads and four for all tables, each every five seconds
    assert polls <= 2 * 5 / POLL_SECONDS
