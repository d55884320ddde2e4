"""Tables for the example DAGs: a local table on every node, and a Distributed table over the local ones."""

from __future__ import annotations

from airflow.providers.common.compat.sdk import task

from airflow_provider_ch_s3.cluster.spec import DdlMode

LOCAL_TABLE = """
CREATE TABLE IF NOT EXISTS <table>_local {on_cluster}
(
    dt Date,
    year UInt16,
    month UInt8,
    day UInt8,
    dep_time Nullable(UInt16),
    sched_dep_time UInt16,
    dep_delay Nullable(Int16),
    arr_time Nullable(UInt16),
    sched_arr_time UInt16,
    arr_delay Nullable(Int16),
    carrier LowCardinality(String),
    flight UInt16,
    tailnum LowCardinality(Nullable(String)),
    origin LowCardinality(String),
    dest LowCardinality(String),
    air_time Nullable(UInt16),
    distance UInt16,
    hour UInt8,
    minute UInt8,
    time_hour DateTime('UTC')
)
ENGINE = <engine>
PARTITION BY <partition>
ORDER BY (carrier, dt, sched_dep_time)
"""

DISTRIBUTED_TABLE = """
CREATE TABLE IF NOT EXISTS <table> {on_cluster} AS <table>_local
ENGINE = Distributed('{cluster}', currentDatabase(), <table>_local, rand())
"""


@task
def create_tables(table: str = "flights", partition: str = "toYYYYMM(dt)") -> None:
    """Create both tables on every node where they are missing."""
    # here: whoever parses this file needs no hook
    from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook

    hook = ClickHouseS3Hook()
    # a cluster that distributes DDL to its nodes has Keeper, and so perhaps replicas
    has_keeper = hook.ddl_mode in (DdlMode.ON_CLUSTER, DdlMode.DATABASE)
    local = LOCAL_TABLE.replace("<partition>", partition).replace(
        "<engine>", "ReplicatedMergeTree" if has_keeper else "MergeTree"
    )
    hook.run_ddl(*(ddl.replace("<table>", table) for ddl in (local, DISTRIBUTED_TABLE)))
