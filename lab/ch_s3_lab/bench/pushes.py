"""Loads with common tools: a worker reads Parquet files from S3 and pushes their rows to ClickHouse.

Each push follows the documentation of the tool, file by file, with no further tuning:

- clickhouse-connect: ``insert_arrow``, and the same with several threads, each with a separate client.
- Airflow's own ClickHouse provider: ``ClickHouseHook.bulk_insert_rows``.
- airflow-clickhouse-plugin: ``ClickHouseHook.execute("INSERT INTO … VALUES", rows)``.
- dlt: a resource that yields Arrow tables; dlt's documentation calls this the faster way. The alternative, dlt's
  ``filesystem`` source, needs s3fs and thus aiobotocore, and aiobotocore requires an older botocore than current
  boto3 does: s3fs and Airflow can be installed together only with an old boto3, so the extra ``bench`` has dlt
  without s3fs.
"""

from __future__ import annotations

import importlib
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.files.access import S3Access
from ch_s3_lab.extras import install_extra
from ch_s3_lab.sandbox import Sandbox
from ch_s3_lab.sandbox.s3_server import S3_REGION

CONN_ID = "ch_s3_bench_push"
DLT_TABLES = {"_dlt_loads", "_dlt_pipeline_state", "_dlt_version", "dlt_sentinel_table"}


@dataclass(frozen=True, kw_only=True)
class PushJob:
    """The files to push, and the table for their rows.

    :param sandbox: the cluster; some tools use the native protocol, and no Airflow connection has the native port.
    :param table: an existing table with the columns of the files; a plain identifier, as some tools do not quote
        names.
    :param keys: keys of Parquet files, without the bucket.
    """

    sandbox: Sandbox
    access: S3Access
    table: str
    bucket: str
    keys: tuple[str, ...]


def push_arrow(job: PushJob, *, threads: int) -> None:
    """Push with clickhouse-connect's ``insert_arrow``, each thread with a separate client and separate files.

    https://clickhouse.com/docs/integrations/language-clients/python/driver-api
    """

    def push(keys: Iterable[str]) -> None:
        with _client(job) as client:
            for table in _tables(job, keys):
                client.insert_arrow(job.table, table)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(push, [job.keys[number::threads] for number in range(threads)]))


def push_provider(job: PushJob) -> None:
    """Push with the hook of apache-airflow-providers-clickhousedb: HTTP, clickhouse-connect converts rows to columns.

    https://airflow.apache.org/docs/apache-airflow-providers-clickhousedb/stable/
    """
    hooks = _library("airflow.providers.clickhousedb.hooks.clickhouse")
    with _connection(job, port=job.sandbox.http_ports[0]):
        hook = hooks.ClickHouseHook(clickhouse_conn_id=CONN_ID)
        for table in _tables(job, job.keys):
            hook.bulk_insert_rows(job.table, _rows(table), table.column_names)


def push_plugin(job: PushJob) -> None:
    """Push with the hook of airflow-clickhouse-plugin: native protocol, clickhouse-driver converts rows to columns.

    https://github.com/bryzgaloff/airflow-clickhouse-plugin#clickhousehook-example
    """
    hooks = _library("airflow_clickhouse_plugin.hooks.clickhouse")
    with _connection(job, port=job.sandbox.tcp_ports[0]):
        hook = hooks.ClickHouseHook(clickhouse_conn_id=CONN_ID)
        for table in _tables(job, job.keys):
            hook.execute(f"INSERT INTO {job.table} ({', '.join(table.column_names)}) VALUES", _rows(table))


def push_dlt(job: PushJob) -> None:
    """Push with a dlt pipeline: one Parquet file on disk, one INSERT. Without a dataset, append to ``job.table``.

    https://dlthub.com/docs/dlt-ecosystem/verified-sources/arrow-pandas
    """
    dlt = _library("dlt")
    _library("clickhouse_driver")  # dlt's destination imports it only in the middle of a run
    credentials = {
        "host": "127.0.0.1",
        "port": job.sandbox.tcp_ports[0],
        "http_port": job.sandbox.http_ports[0],
        "username": job.sandbox.user,
        "password": job.sandbox.password,
        "database": job.sandbox.database,
        "secure": 0,
    }
    settings = {
        # in dlt's favour: it would query Airflow for about a hundred settings, and here Airflow has no database
        "PROVIDERS__ENABLE_AIRFLOW_SECRETS": "false",
        "RUNTIME__DLTHUB_TELEMETRY": "false",  # a benchmark sends no telemetry
        "SCHEMA__NAMING": "direct",  # otherwise dlt would convert names to snake_case
    }
    with tempfile.TemporaryDirectory() as directory, _environment(settings), _without_dlt_tables(job):
        pipeline = dlt.pipeline(
            CONN_ID, pipelines_dir=directory, destination=dlt.destinations.clickhouse(credentials=credentials)
        )
        pipeline.run(dlt.resource(_tables(job, job.keys), name=job.table))


PUSHES: Mapping[str, Callable[[PushJob], None]] = {
    "clickhouse-connect insert_arrow": partial(push_arrow, threads=1),
    "clickhouse-connect insert_arrow, 4 threads": partial(push_arrow, threads=4),
    "Airflow's ClickHouse provider": push_provider,
    "airflow-clickhouse-plugin": push_plugin,
    "dlt": push_dlt,
}


def _library(name: str) -> Any:
    """Import a module.

    :raises ConfigError: if the module, or a dependency of the module, is not installed.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as exc:
        raise ConfigError(
            "library-missing", f"{exc.name}, which this push needs, is not installed: {install_extra('bench')}"
        ) from exc


def _tables(job: PushJob, keys: Iterable[str]) -> Iterator[Any]:
    """Read a ``pyarrow.Table`` from each file."""
    parquet = _library("pyarrow.parquet")
    store = _library("pyarrow.fs").S3FileSystem(
        endpoint_override=job.access.endpoint_url,
        access_key=job.access.access_key,
        secret_key=job.access.secret_key,
        region=S3_REGION,
    )
    for key in keys:
        yield parquet.read_table(f"{job.bucket}/{key}", filesystem=store)


def _rows(table: Any) -> list[tuple[Any, ...]]:
    """Convert a ``pyarrow.Table`` to rows of Python values."""
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def _client(job: PushJob) -> Any:
    return _library("clickhouse_connect").get_client(
        host="127.0.0.1",
        port=job.sandbox.http_ports[0],
        username=job.sandbox.user,
        password=job.sandbox.password,
        database=job.sandbox.database,
    )


@contextmanager
def _without_dlt_tables(job: PushJob) -> Iterator[None]:
    """Drop the tables that dlt creates for itself, except tables that existed before."""
    with _client(job) as client:
        there = {name for (name,) in client.query("SHOW TABLES").result_rows}
        try:
            yield
        finally:
            for name in DLT_TABLES - there:
                client.command(f"DROP TABLE IF EXISTS {name}")


def _connection(job: PushJob, *, port: int) -> AbstractContextManager[None]:
    """Define the Airflow connection for the hooks, for as long as the block lasts."""
    connection = {
        "conn_type": "clickhouse",
        "host": "127.0.0.1",
        "port": port,
        "login": job.sandbox.user,
        "password": job.sandbox.password,
        "schema": job.sandbox.database,
    }
    return _environment({f"AIRFLOW_CONN_{CONN_ID.upper()}": json.dumps(connection)})


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
