"""A lab for real loads: tables on every node, files in a bucket, and an operator that loads them."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from botocore.client import BaseClient

from airflow_provider_ch_s3.cli import build_parser, main
from airflow_provider_ch_s3.common.timing import REAL_TIME, Timing
from airflow_provider_ch_s3.common.work import batches
from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from ch_s3_lab.errors import SandboxError
from ch_s3_lab.planned import read_settings
from ch_s3_lab.sandbox import Sandbox, SandboxConfig
from ch_s3_lab.sandbox.config import EMBEDDED, SERVERS
from ch_s3_lab.sandbox.engine import package_of
from ch_s3_lab.sandbox.launch import running_sandbox
from ch_s3_lab.sandbox.zookeeper import find_classpath
from tests.failures import own_errors
from tests.marks import thorough
from tests.sandbox.gates import Gate, watch_statements
from tests.sandbox.processes import all_answer
from tests.sandbox.topologies import TOPOLOGIES
from tests.sandbox.worker import Worker, running_worker
from tests.sandbox.written import parquet_file

WAIT_SECONDS = 60

Background = Callable[..., Future[Any]]
Freeze = Callable[..., Gate]

ROWS = [{"n": n} for n in range(240)]
SLOW_FILES = 12
# 12 files with 20 rows each; a file is a block that takes a second, and every node reads one at a time
SLOW: dict[str, Any] = {
    "where": "sleepEachRow(0.05) = 0",
    "settings": {"max_threads": 1, "max_insert_threads": 1, "max_block_size": 20},
}


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Wait until a condition holds; the time limit is for failing, not for measuring."""
    assert REAL_TIME.poll(condition, seconds=WAIT_SECONDS, pause_seconds=0.05), f"still waiting for {what}"


@dataclass(kw_only=True)
class Lab:
    """One test's tables, files and connections (``ch`` and ``aws``).

    Names are used as SQL without quoting: a test with hostile names quotes them itself.
    """

    sandbox: Sandbox
    database: str
    bucket: str
    s3: BaseClient
    monkeypatch: pytest.MonkeyPatch
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    has_cluster: bool = True
    timing: Timing = REAL_TIME

    def connect_clickhouse(self, extra: Mapping[str, Any] | None = None, **fields: Any) -> None:
        self._connect("CH", self.sandbox.airflow_conn_clickhouse, extra, {"schema": self.database, **fields})

    def connect_one_node(self) -> None:
        """Remove the cluster from the connection, and create the test's tables on the connected node only."""
        for node in range(1, self.sandbox.nodes):
            self.sandbox.drop_database(self.database, node=node)
            self.sandbox.create_database(self.database, node=node)
        self.has_cluster = False
        self.connect_clickhouse({"cluster": None, "ddl_mode": None, "http_endpoints": None})

    def connect_aws(self, extra: Mapping[str, Any] | None = None, **fields: Any) -> None:
        self._connect("AWS", self.sandbox.airflow_conn_aws, extra, fields)

    def _connect(self, name: str, text: str, extra: Mapping[str, Any] | None, fields: Mapping[str, Any]) -> None:
        connection = json.loads(text)
        connection["extra"].update(extra or {})
        self.monkeypatch.setenv(f"AIRFLOW_CONN_{name}", json.dumps({**connection, **fields}))

    def ddl(self, *statements: str) -> None:
        """Run statements on every node."""
        hook = ClickHouseS3Hook(clickhouse_conn_id="ch")
        hook.run_ddl(*statements)
        hook.close()

    def create(self, table: str, columns: str, engine: str = "MergeTree ORDER BY tuple()") -> str:
        """Create a local table on every node, with replicas if the cluster has them; returns its full name."""
        name = f"{self.database}.{table}"
        replicated = "Replicated" if self.sandbox.replicas > 1 else ""
        self.ddl(f"CREATE TABLE {name} {{on_cluster}} ({columns}) ENGINE = {replicated}{engine}")
        return name

    def distribute(self, local: str, sharding_key: str = "rand()") -> str:
        """Create ``<local>_all``, a Distributed table over the local ones; returns its full name."""
        database, _, table = local.partition(".")
        engine = f"Distributed('{self.sandbox.cluster}', '{database}', '{table}', {sharding_key})"
        self.ddl(f"CREATE TABLE {local}_all {{on_cluster}} AS {local} ENGINE = {engine}")
        return f"{local}_all"

    def put(self, key: str, body: bytes) -> None:
        self.s3.put_object(Bucket=self.bucket, Key=key, Body=body)

    def put_parquet(self, key: str, data: pa.Table | Mapping[str, Any]) -> None:
        table = data if isinstance(data, pa.Table) else pa.table(dict(data))
        self.put(key, parquet_file(table))

    def uri(self, glob: str) -> str:
        return f"s3://{self.bucket}/{glob}"

    def arguments(self, table: str, *more: str, **further: Any) -> list[str]:
        """Return the arguments of a command that loads, or plans to load, the files under ``in/``.

        :param further: arguments of the operator.
        """
        given = ["--conn-id", "ch", "--aws-conn-id", "aws", "--source", self.uri("in/*"), "--table", table]
        texts = {name: one if isinstance(one, str) else json.dumps(one) for name, one in further.items()}
        return [*given, *more, *(word for name, text in texts.items() for word in ("--argument", f"{name}={text}"))]

    def operator(self, glob: str | Sequence[str], table: str, **arguments: Any) -> S3ToClickHouseOperator:
        source = self.uri(glob) if isinstance(glob, str) else [self.uri(one) for one in glob]
        given = {"task_id": "load", "clickhouse_conn_id": "ch", "aws_conn_id": "aws", "poll_interval": 0.25}
        operator = S3ToClickHouseOperator(source=source, table=table, **{**given, **arguments})
        operator.timing = self.timing
        return operator

    def context(self, operator: S3ToClickHouseOperator, *, try_number: int = 1, max_tries: int = 0) -> Any:
        """Build the context that Airflow passes to ``execute``; the run is named after the test's database."""
        ti = SimpleNamespace(
            dag_id="lab",
            task_id=operator.task_id,
            run_id=self.database,
            map_index=-1,
            try_number=try_number,
            max_tries=max_tries,
        )
        return {"ti": ti, "dag_run": SimpleNamespace(start_date=self.started), "task": operator}

    def load(
        self,
        glob: str | Sequence[str],
        table: str,
        *,
        try_number: int = 1,
        max_tries: int = 0,
        **arguments: Any,
    ) -> dict[str, Any]:
        """Load as the given try of a task; returns the report."""
        operator = self.operator(glob, table, **arguments)
        with own_errors():
            report = operator.execute(self.context(operator, try_number=try_number, max_tries=max_tries))
        assert report is not None
        return report

    def settings(self, report: Mapping[str, Any]) -> Mapping[str, Any]:
        """The settings of a load, which are in the report only without staging."""
        return report.get("settings") or read_settings(
            self.sandbox, f"{self.database}.ch_s3_ledger", report["query_id"]
        )

    def loads(self, *arguments: str) -> int:
        """Run ``ch-s3 loads`` in the test's database; returns its exit code."""
        return main(self._loads(arguments))

    def undo(self, load_id: str) -> None:
        """Run ``ch-s3 loads undo`` without a question; raises its error."""
        args = build_parser("loads").parse_args(self._loads(["undo", "--yes", load_id]))
        args.timing = self.timing
        args.run(args)

    def _loads(self, arguments: Iterable[str]) -> list[str]:
        return ["loads", "--conn-id", "ch", "--database", self.database, *arguments]

    def query(self, sql: str, *, node: int = 0, settings: Mapping[str, object] | None = None) -> list[dict[str, Any]]:
        """Query one node."""
        return self.sandbox.query(sql, node=node, settings=settings)

    def nodes(self) -> range:
        return range(self.sandbox.nodes if self.has_cluster else 1)

    def everywhere(self, sql: str) -> list[dict[str, Any]]:
        return [row for node in self.nodes() for row in self.query(sql, node=node)]

    def rows(self, local: str, *, columns: str = "*", node: int | None = None) -> list[dict[str, Any]]:
        """Read all rows of a local table on one node, or on all shards, in no particular order.

        Checks that the replicas of a shard hold the same rows.
        """
        sql = f"SELECT {columns} FROM {local}"
        if node is not None:
            return self.query(sql, node=node)
        found = [self.query(sql, node=node) for node in self.nodes()]
        shards = list(batches(found, self.sandbox.replicas))
        for first, *others in shards:
            assert all(sorted(first, key=str) == sorted(other, key=str) for other in others)
        return [row for first, *_ in shards for row in first]

    def sync(self, table: str) -> None:
        """Wait until each replica has the rows that others than a load have inserted; a load waits by itself."""
        if self.sandbox.replicas > 1:
            self.everywhere(f"SYSTEM SYNC REPLICA {table}")

    def inserts(self) -> list[str]:
        """Query ids of all INSERTs into the test's database that a client has started."""
        self.everywhere("SYSTEM FLUSH LOGS query_log")
        logged = self.everywhere(
            "SELECT query_id FROM system.query_log WHERE type = 'QueryStart' AND is_initial_query AND "
            f"query_kind = 'Insert' AND position(query, '{self.database}') > 0 AND startsWith(query_id, 'ch-s3-') "
            "ORDER BY event_time_microseconds"
        )
        return [row["query_id"] for row in logged]

    def left_overs(self) -> list[str]:
        """Locks, places in line and staging tables in the test's database, on any node."""
        found = self.everywhere(
            f"SELECT name FROM system.tables WHERE database = '{self.database}'"
            " AND match(name, '^ch_s3_(lock|wait|stage)_')"
        )
        return [row["name"] for row in found]

    def drop_database(self) -> None:
        """Drop the test's tables on every node: a hundred replicas that nobody needs keep one core busy."""
        wait_until(lambda: all_answer(self.sandbox), "the nodes")
        for node in range(self.sandbox.nodes):
            self.sandbox.drop_database(self.database, node=node)

    def running(self) -> list[dict[str, Any]]:
        """Loads into the test's database that are running on any node."""
        return self.everywhere(
            "SELECT initial_query_id AS id, tcpPort() AS port FROM system.processes "
            f"WHERE position(query, '{self.database}') > 0 AND startsWith(initial_query_id, 'ch-s3-')"
        )


def put_slow_files(lab: Lab) -> None:
    """Write ``ROWS`` to files that load slowly with ``SLOW``."""
    for number in range(SLOW_FILES):
        lab.put(f"in/{number}.csv", "".join(f"{row['n']}\n" for row in ROWS[number::SLOW_FILES]).encode())


@contextmanager
def start_worker(
    lab: Lab, table: str, *, try_number: int = 1, max_tries: int = 0, before: str = "", **arguments: Any
) -> Iterator[Worker]:
    """Run a try of the task ``load`` in a process of its own, which is killed at the end of the block.

    :param before: Python code that it runs first.
    """
    given = {"source": lab.uri("in/*.csv"), "table": table, "clickhouse_conn_id": "ch", "aws_conn_id": "aws"}
    given |= arguments
    operator = lab.operator("in/*.csv", table, task_id=given.get("task_id", "load"))
    context = lab.context(operator, try_number=try_number, max_tries=max_tries)
    with running_worker(given, vars(context["ti"]), lab.started, before) as worker:
        yield worker


def bag(rows: Iterable[Mapping[str, Any]]) -> Counter[frozenset[tuple[str, Any]]]:
    """Collect rows without their order: equal bags hold the same rows the same number of times."""
    return Counter(frozenset(row.items()) for row in rows)


@pytest.fixture
def background() -> Iterator[Background]:
    """Run a function on a thread."""
    with ThreadPoolExecutor(4) as pool:
        yield pool.submit


@pytest.fixture
def pause(monkeypatch: pytest.MonkeyPatch, background: Background) -> Iterator[Freeze]:
    """Start on a thread what is called, and return when it has reached its gate."""
    gates: dict[int, Gate] = {}
    watch_statements(monkeypatch, gates)

    def start(gate: Gate, run: Callable[..., Any], *given: Any, **named: Any) -> Gate:
        def body() -> Any:
            gates[threading.get_ident()] = gate
            return run(*given, **named)

        gate.task = background(body)
        wait_until(lambda: gate.reached.is_set() or gate.task.done(), gate.name)
        assert gate.reached.is_set(), f"{gate.name} never came: {gate.task.exception()}"
        return gate

    yield start
    for gate in gates.values():
        gate.opened.set()


@pytest.fixture
def freeze(lab: Lab, pause: Freeze) -> Freeze:
    """Start a load on a thread, and return when it has reached its gate."""
    return lambda gate, *given, **named: pause(gate, lab.load, *given, **named)


@pytest.fixture
def impatient(lab: Lab) -> None:
    """Make other loads wait for a silent owner of the lock for one second instead of ten."""
    lab.timing = replace(lab.timing, lock_patience_seconds=1.0, lock_poll_seconds=0.1)


@pytest.fixture
def lab(
    ch_s3_sandbox: Sandbox,
    ch_s3_database: str,
    ch_s3_bucket: str,
    ch_s3_client: BaseClient,
    monkeypatch: pytest.MonkeyPatch,
) -> Lab:
    made = Lab(
        sandbox=ch_s3_sandbox, database=ch_s3_database, bucket=ch_s3_bucket, s3=ch_s3_client, monkeypatch=monkeypatch
    )
    made.connect_clickhouse()
    made.connect_aws()
    return made


@pytest.fixture(scope="session")
def fragile_sandbox() -> Iterator[Sandbox]:
    """Two nodes, for tests that kill nodes."""
    with running_sandbox(SandboxConfig(shards=2, memory_bytes_per_node=2 * 1024**3)) as sandbox:
        yield sandbox


@pytest.fixture
def fragile_lab(fragile_sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Lab:
    return lab_in(fragile_sandbox, monkeypatch)


@pytest.fixture(scope="session")
def replicated_sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """Two shards with two replicas each, in one of the ``TOPOLOGIES``."""
    config = TOPOLOGIES[request.param]
    try:
        find_classpath(config.zookeeper)
        package_of(config.engine)
    except SandboxError as error:
        pytest.skip(str(error))
    with running_sandbox(config) as sandbox:
        yield sandbox


@pytest.fixture
def replicated_lab(replicated_sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """A lab whose tables have replicas."""
    lab = lab_in(replicated_sandbox, monkeypatch)
    yield lab
    lab.drop_database()


def lab_in(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """Create a lab in a sandbox that a test may break; nothing is removed by itself afterwards."""
    wait_until(lambda: all_answer(sandbox), "the nodes")
    s3 = sandbox.s3_client()
    name = f"lab{time.monotonic_ns()}"
    s3.create_bucket(Bucket=name)
    for node in range(sandbox.nodes):
        sandbox.create_database(name, node=node)
    made = Lab(sandbox=sandbox, database=name, bucket=name, s3=s3, monkeypatch=monkeypatch)
    made.connect_clickhouse()
    made.connect_aws()
    return made


@pytest.fixture(scope="session", params=[EMBEDDED, *(thorough(version) for version in SERVERS)])
def engine(request: pytest.FixtureRequest) -> Iterator[tuple[float, Sandbox]]:
    """A server of each version, with its number."""
    version = float(".".join(request.param.split(".")[:2]))
    if request.param == EMBEDDED:
        yield version, request.getfixturevalue("ch_s3_sandbox")
        return
    config = SandboxConfig(shards=1, engine=request.param)
    try:
        package_of(config.engine)
        find_classpath(config.zookeeper)
    except SandboxError as error:
        pytest.skip(str(error))
    with running_sandbox(config) as sandbox:
        yield version, sandbox


@pytest.fixture
def engine_lab(engine: tuple[float, Sandbox], monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """A lab on a single node of each version."""
    made = lab_in(engine[1], monkeypatch)
    made.connect_one_node()
    yield made
    made.drop_database()
