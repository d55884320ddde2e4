"""The environment of a workload: a ClickHouse cluster, an object store, and the connections to both."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from airflow_provider_ch_s3.files.addresses import Source
from airflow_provider_ch_s3.hooks.lookup import clickhouse_hook
from airflow_provider_ch_s3.introspection.cluster import read_server
from airflow_provider_ch_s3.table.target import TableName
from airflow_provider_ch_s3.trials.measure import scratch_table
from ch_s3_lab.bench import queries
from ch_s3_lab.bench.latency import delayed
from ch_s3_lab.bench.workloads import Dataset, Hardware, Workload
from ch_s3_lab.sandbox import Sandbox, SandboxConfig
from ch_s3_lab.sandbox.launch import running_sandbox
from ch_s3_lab.sandbox.s3_server import S3Server

if TYPE_CHECKING:
    from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
    from airflow_provider_ch_s3.stores.s3 import S3FileStore

BUCKET = "ch-s3-bench"
CLICKHOUSE_CONN_ID = "ch_s3_bench_clickhouse"
S3_CONN_ID = "ch_s3_bench_s3"
# Concurrent INSERTs: ClickHouse writes each file with a single thread.
WRITERS = 2


@dataclass(frozen=True, kw_only=True)
class Arena:
    """A cluster and an object store.

    :param database: database for the benchmark's tables.
    :param bucket: bucket for the benchmark's files.
    :param sandbox: the sandbox of the cluster; None for a cluster of the user.
    """

    hook: ClickHouseS3Hook
    store: S3FileStore
    database: str
    bucket: str = BUCKET
    sandbox: Sandbox | None = None

    def source(self, dataset: Dataset) -> Source:
        """Return the pattern of a dataset's files."""
        return Source(bucket=self.bucket, globs=(f"{dataset.prefix}*.{dataset.suffix}",))

    @contextmanager
    def table(self, workload: Workload, *, engine: str = "") -> Iterator[TableName]:
        """Create an empty table on every node for the rows of a workload, and drop the table at the end of the block.

        :param engine: used instead of the workload's engine, without keys.
        """
        table = TableName(database=self.database, table=f"ch_s3_bench_{workload.name}")
        create = partial(
            queries.render_create_bench_table,
            table,
            columns=workload.columns,
            engine=engine or workload.engine,
            order_by=() if engine else workload.order_by,
            partition_by="" if engine else workload.partition_by,
            storage_policy="" if engine else workload.hardware.storage_policy,
        )
        with scratch_table(self.hook, table, create):
            yield table

    def make_files(self, dataset: Dataset) -> None:
        """Have ClickHouse write the files that do not exist yet."""
        there = {file.key for file in self.store.list_files(self.source(dataset))}
        lacking = [number for number, key in enumerate(dataset.keys) if key not in there]
        with ThreadPoolExecutor(WRITERS) as pool:
            list(pool.map(partial(self._make_file, dataset), lacking))

    def _make_file(self, dataset: Dataset, number: int) -> None:
        first = dataset.first_row(number)
        statement = queries.render_write_bench_file(
            self.store.access(),
            f"{self.bucket}/{dataset.keys[number]}",
            dataset.columns,
            first=first,
            count=dataset.first_row(number + 1) - first,
            row_count=dataset.row_count,
        )
        self.hook.execute(statement)


@contextmanager
def open_sandbox(hardware: Hardware, store: S3Server) -> Iterator[Arena]:
    """Run a sandbox with this hardware that loads from a running store."""
    config = SandboxConfig(
        shards=hardware.nodes,
        memory_bytes_per_node=hardware.memory_bytes,
        cores=hardware.cores,
        engine=hardware.engine,
    )
    store.make_bucket(BUCKET)
    with ExitStack() as stack:
        sandbox = stack.enter_context(running_sandbox(config))
        if hardware.latency_seconds:
            store = stack.enter_context(delayed(store, hardware.latency_seconds))
        _name_connections(sandbox, store, is_clustered=hardware.is_clustered)
        arena = stack.enter_context(open_connections(CLICKHOUSE_CONN_ID, S3_CONN_ID, bucket=BUCKET))
        yield replace(arena, sandbox=sandbox)


@contextmanager
def open_connections(conn_id: str, aws_conn_id: str, *, bucket: str) -> Iterator[Arena]:
    """Use a cluster and a store for which Airflow has connections; the tables go to the connection's database."""
    from airflow_provider_ch_s3.stores.s3 import S3FileStore

    with clickhouse_hook(conn_id) as hook:
        database = read_server(hook).database
        yield Arena(hook=hook, store=S3FileStore(aws_conn_id=aws_conn_id), database=database, bucket=bucket)


def _name_connections(sandbox: Sandbox, store: S3Server, *, is_clustered: bool) -> None:
    clickhouse = json.loads(sandbox.airflow_conn_clickhouse)
    if not is_clustered:
        clickhouse["extra"] = {}
    for conn_id, connection in ((CLICKHOUSE_CONN_ID, json.dumps(clickhouse)), (S3_CONN_ID, store.airflow_conn)):
        os.environ[f"AIRFLOW_CONN_{conn_id.upper()}"] = connection
