"""One measured load: from the INSERT to the last merge."""

from __future__ import annotations

import datetime
import time
import uuid
from collections.abc import Mapping
from dataclasses import replace
from itertools import accumulate

from airflow_provider_ch_s3.bench.arena import Arena
from airflow_provider_ch_s3.bench.pushes import PUSHES, PushJob
from airflow_provider_ch_s3.bench.score import Measurement
from airflow_provider_ch_s3.bench.workloads import Workload
from airflow_provider_ch_s3.errors import LoadError, ServerError
from airflow_provider_ch_s3.load.detect import detect_cluster
from airflow_provider_ch_s3.load.inspect import declare_cluster, find_table, read_target
from airflow_provider_ch_s3.load.parts import read_parts
from airflow_provider_ch_s3.load.prepare import PreparedLoad, list_files, prepare_load
from airflow_provider_ch_s3.load.report import LoadReport, build_report
from airflow_provider_ch_s3.load.request import LoadIdentity, LoadRequest
from airflow_provider_ch_s3.load.watch import Watch
from airflow_provider_ch_s3.settle import SettleRule, judge_parts
from airflow_provider_ch_s3.sql import bench_queries
from airflow_provider_ch_s3.target import TableName
from airflow_provider_ch_s3.tuning import Setting, SettingValue

# Without a merge or a new part for so long, parts have settled: where there is something to merge, the next merge
# begins within a second or two.
QUIET_SECONDS = 4.0
POLL_SECONDS = 0.25


def prepare_workload(
    arena: Arena, workload: Workload, settings: Mapping[str, SettingValue] | None = None
) -> PreparedLoad:
    """Plan the load of a workload as the operator does.

    :param settings: the user's own.
    """
    table = arena.make_table(workload, workload.name)
    request = LoadRequest(pattern=arena.pattern(workload.dataset), table=str(table), settings=settings or {})
    found = find_table(arena.hook, str(table))
    cluster = detect_cluster(arena.hook, declare_cluster(arena.hook.declaration, found))
    return prepare_load(
        arena.hook,
        request,
        cluster,
        read_target(arena.hook, found, cluster),
        access=arena.store.access(),
        files=list_files(arena.store, request),
    )


def with_settings(prepared: PreparedLoad, settings: Mapping[str, SettingValue]) -> PreparedLoad:
    """The same load with these settings alone."""
    given = tuple(Setting(name=name, value=value, reason="given") for name, value in settings.items())
    return replace(prepared, plan=replace(prepared.plan, settings=given))


def measure_load(
    arena: Arena, workload: Workload, prepared: PreparedLoad, candidate: str, *, engine: str = ""
) -> Measurement:
    """Load into a new table, wait until its parts have settled, and drop it.

    :param engine: of the table, instead of the workload's.
    """
    table = arena.make_table(workload, workload.name, engine=engine)
    began = int(time.time())
    try:
        report = _insert(arena, prepared, table)
    except (LoadError, ServerError) as error:
        arena.drop_table(table)
        return Measurement(candidate=candidate, settings=prepared.plan.sent, error=str(error))
    if not engine:
        _wait_until_settled(arena, table, prepared)
    changes = arena.hook.query(
        bench_queries.render_read_part_changes(table, prepared.cluster.name, since_seconds=began)
    )
    arena.drop_table(table)
    start = report.ended - report.seconds
    times = [row["at_seconds"] - start for row in changes]
    counts = accumulate(row["change"] for row in changes)
    return Measurement(
        candidate=candidate,
        settings=prepared.plan.sent,
        load_seconds=report.seconds,
        settled_seconds=max([report.seconds, *times]),
        peak_memory_bytes=report.peak_memory_bytes,
        initial_parts=report.initial_parts,
        s3_requests=report.s3_requests,
        rows=report.rows_written,
        parts=list(zip(times, counts, strict=True)),
    )


def measure_push(arena: Arena, workload: Workload, name: str) -> Measurement:
    """Have a worker push the files' rows, by the wall clock; its libraries are imported before.

    Needs a sandbox: some of the tools speak the native protocol, whose port no Airflow connection tells.
    """
    sandbox, access = arena.sandbox, arena.store.access()
    assert sandbox is not None
    seconds = 0.0
    for keys in (workload.dataset.keys[:1], workload.dataset.keys):
        table = arena.make_table(workload, workload.name)
        job = PushJob(
            host="127.0.0.1",
            http_port=sandbox.http_ports[0],
            tcp_port=sandbox.tcp_ports[0],
            user=sandbox.user,
            password=sandbox.password,
            database=table.database,
            table=table.table,
            s3_endpoint=access.endpoint_url,
            s3_access_key=access.access_key,
            s3_secret_key=access.secret_key,
            bucket=arena.bucket,
            keys=keys,
        )
        began = time.monotonic()
        PUSHES[name](job)
        seconds = time.monotonic() - began
        arena.drop_table(table)
    return Measurement(candidate=name, load_seconds=seconds)


def _insert(arena: Arena, prepared: PreparedLoad, table: TableName) -> LoadReport:
    identity = LoadIdentity(
        dag_id="bench",
        task_id=uuid.uuid4().hex,
        run_id="bench",
        table=str(table),
        since=datetime.datetime.now(datetime.UTC),
    )
    comment = identity.log_comment(
        files=len(prepared.source.files), bytes=prepared.source.size_bytes, rows=prepared.rows
    )
    query_id = identity.query_id(1)
    arena.hook.execute(prepared.insert(log_comment=comment, into=table), query_id=query_id)
    watch = Watch(client=arena.hook, cluster=prepared.cluster.name, identity=identity, poll_seconds=POLL_SECONDS)
    return build_report(watch.wait_for_logs(watch.wait(query_id)), table=str(table), attached=False)


def _wait_until_settled(arena: Arena, table: TableName, prepared: PreparedLoad) -> None:
    rule = SettleRule(stable_seconds=QUIET_SECONDS)
    found = find_table(arena.hook, str(table))
    while not judge_parts(rule, read_parts(arena.hook, found, prepared.cluster)).is_settled:
        time.sleep(POLL_SECONDS * 2)
