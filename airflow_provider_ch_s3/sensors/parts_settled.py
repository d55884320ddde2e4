"""The sensor that waits until the parts of a table have settled."""

from __future__ import annotations

import dataclasses
import datetime
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import (
    AirflowSensorTimeout,
    AirflowSkipException,
    AirflowTaskTimeout,
    BaseSensorOperator,
    PokeReturnValue,
    conf,
)

from airflow_provider_ch_s3.assets.clickhouse import describe_in_events, is_table
from airflow_provider_ch_s3.cluster.fields import DEFAULT_CONNECTION
from airflow_provider_ch_s3.cluster.spec import ClusterSpec
from airflow_provider_ch_s3.common.arguments import check_flag, check_seconds, refuse_argument
from airflow_provider_ch_s3.common.declared import FLAG, NAME, SECONDS, TEXT, Kind, count, parse_literal
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import ChS3Error, ConfigError, SettleError
from airflow_provider_ch_s3.table.settle import (
    DEFAULT_MAX_PARTS,
    DEFAULT_STABLE_SECONDS,
    DEFAULT_STALLED_SECONDS,
    NodeParts,
    SettleRule,
    Verdict,
    find_absent,
    judge_parts,
)
from airflow_provider_ch_s3.table.target import TABLE, TableName
from airflow_provider_ch_s3.transfers.failures import fails_plainly
from airflow_provider_ch_s3.transfers.task import timeout_of
from airflow_provider_ch_s3.transfers.templates import RendersArguments, parse_arguments

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

log = get_log(__name__)

# An older run, for example of `airflow dags test`, did not write the watched parts when the run began.
HISTORY_SECONDS = 86_400
# Nobody waits long for what is nice to know.
HISTORY_LIMITS: dict[str, Any] = {
    "session_settings": {"max_execution_time": 15},
    "client_kwargs": {"connect_timeout": 5, "send_receive_timeout": 20},
}

PARTITIONS_REMEDY = (
    "give the partitions of a load's report, \"{{ ti.xcom_pull(task_ids='load')['partitions'] }}\", or a list of"
    " partitions as system.parts has them (partition or partition_id), or leave it out to wait for the whole table"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Wanted:
    """What a sensor waits for, from the sensor's arguments."""

    table: str
    clickhouse_conn_id: str
    partitions: tuple[str, ...] | None
    rule: SettleRule


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Snapshot:
    table: TableName
    cluster: ClusterSpec
    nodes: Sequence[NodeParts]
    verdict: Verdict
    partitions: tuple[str, ...] | None


class ClickHousePartsSettledSensor(RendersArguments, BaseSensorOperator):  # type: ignore[misc]
    """Wait until a table is ready to be queried: few parts on every node, no merge running, nothing changing.

    Works in the modes ``poke`` and ``reschedule``, and deferred: a single snapshot of the cluster is enough to
    decide, and no state is kept between snapshots. Source of the defaults: ``settle.py``.

    If an asset of the table is an outlet, the event tells ``rows``, ``parts`` and ``partitions``, as after a load.

    :param table: ``table`` or ``database.table``, local or Distributed.
    :param partitions: partitions to wait for, usually the partitions of a load's report,
        ``{{ ti.xcom_pull(task_ids='load')['partitions'] }}``: a mapping partition → rows, a list of ids, of values
        such as ``2024-01-31``, or of mappings, or the rendered text of either. Empty, as after a load with nothing
        new: nothing to wait for. None: the whole table.
    :param clickhouse_conn_id: connection of type ``clickhouse_s3`` (or ``clickhouse``).
    :param max_parts: active parts that a node may have, in ``partitions`` if given.
    :param max_parts_per_partition: active parts that a partition may have on a node; None: any number.
    :param wait_for_merges: wait until the merges have ended and the newest part is ``stable_seconds`` old. False: the
        number of parts decides, whether merges are running or not.
    :param stable_seconds: age in seconds that the newest part must have, if the sensor waits for merges.
    :param stalled_seconds: the sensor fails when for so many seconds there were too many parts and no merge, or a
        replica was read-only or could not replicate.
    :param poke_interval: seconds between two pokes: parts settle in seconds or minutes.
    :param deferrable: wait in the triggerer, which polls all tables of a connection together. A cluster that does not
        answer is then polled until the timeout; a poke would fail.
    :returns: through XCom, a dict of ``parts`` and ``rows`` (on all nodes), ``last_change`` (Unix time of the newest
        part; None without parts), ``nodes``, a :class:`NodeParts` as a dict for each node, and ``history``: node →
        ``[Unix time, active parts, ended merges]`` since the DAG run began, from ``system.part_log``; empty without
        this log.
    :raises ConfigError: if an argument or a field of the connection has a wrong value.
    :raises TargetError: if the table is missing on a node.
    :raises ClusterError: if the cluster is unknown, or a node does not answer.
    :raises ServerError: if ClickHouse refuses a statement, or the login.
    :raises SettleError: if the parts will never settle.
    :raises AirflowFailException: instead of an error above, if no retry can change the error, such as wrong
        arguments; has the error as its context.
    """

    kinds: ClassVar[Mapping[str, Kind]] = {
        "table": TABLE,
        "partitions": Kind(lambda _name, value: parse_partitions(value), of=TEXT),
        "clickhouse_conn_id": NAME,
        "max_parts": count(),
        "max_parts_per_partition": count(),
        "wait_for_merges": FLAG,
        "stable_seconds": SECONDS,
        "stalled_seconds": SECONDS,
    }
    template_fields: Sequence[str] = tuple(kinds)
    ui_color = "#faff69"

    def __init__(
        self,
        *,
        table: str,
        partitions: Mapping[str, int] | Sequence[str] | Sequence[Mapping[str, int]] | str | None = None,
        clickhouse_conn_id: str = DEFAULT_CONNECTION,
        max_parts: int | str = DEFAULT_MAX_PARTS,
        max_parts_per_partition: int | str | None = None,
        wait_for_merges: bool = True,
        stable_seconds: float = DEFAULT_STABLE_SECONDS,
        stalled_seconds: float = DEFAULT_STALLED_SECONDS,
        poke_interval: float = 15.0,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(poke_interval=poke_interval, **kwargs)
        self.table = table
        self.partitions = partitions
        self.clickhouse_conn_id = clickhouse_conn_id
        self.max_parts = max_parts
        self.max_parts_per_partition = max_parts_per_partition
        self.wait_for_merges = wait_for_merges
        self.stable_seconds = stable_seconds
        self.stalled_seconds = stalled_seconds
        self.deferrable = deferrable
        check_flag("deferrable", deferrable)
        check_seconds("poke_interval", poke_interval)
        self.check_as_written(self.kinds)

    @fails_plainly
    def execute(self, context: Context) -> Any:
        """Wait, as every sensor does."""
        return super().execute(context)

    def poke(self, context: Context) -> PokeReturnValue:
        """Check once; a deferrable sensor that has to wait is deferred from here.

        :raises SettleError: if the parts will never settle.
        """
        from airflow_provider_ch_s3.introspection.parts import summarize_parts

        wanted = self._parse()
        if wanted.partitions == ():
            log.info("%s: settled: no partition to wait for, since the load added no rows", wanted.table)
            return PokeReturnValue(is_done=True, xcom_value=summarize_parts(()))
        snapshot = _take_snapshot(wanted)
        if snapshot.verdict.is_settled:
            return PokeReturnValue(is_done=True, xcom_value=self._settled(context, snapshot))
        if self.deferrable:
            self._defer(wanted, snapshot)
        return PokeReturnValue(is_done=False)

    @fails_plainly
    def execute_complete(self, context: Context, event: Mapping[str, Any]) -> dict[str, Any]:
        """Handle the trigger's event.

        :raises SettleError: if the parts will never settle.
        """
        match event["status"]:
            case "settled":
                table = TableName(database=event["database"], table=event["table"])
                return self._conclude(context, event["result"], table, event["cluster"])
            case "timeout":
                return self._check_a_last_time(context, event["message"])
        if self.never_fail:
            raise AirflowSkipException(event["message"])
        raise SettleError(event["code"], event["message"])

    def _parse(self) -> _Wanted:
        """:raises ConfigError: if an argument has a wrong value."""
        names = ("max_parts", "max_parts_per_partition", "wait_for_merges", "stable_seconds", "stalled_seconds")
        rule = SettleRule(**parse_arguments(self, [name for name in names if getattr(self, name) is not None]))
        return _Wanted(**parse_arguments(self, ("table", "clickhouse_conn_id", "partitions")), rule=rule)

    def _defer(self, wanted: _Wanted, snapshot: _Snapshot) -> None:
        from airflow_provider_ch_s3.triggers.parts_settled import PartsSettledTrigger
        from airflow_provider_ch_s3.triggers.polling import BACKSTOP_SECONDS

        seconds = self._deferred_seconds
        self.defer(
            trigger=PartsSettledTrigger(
                clickhouse_conn_id=wanted.clickhouse_conn_id,
                cluster=snapshot.cluster.name,
                database=snapshot.table.database,
                table=snapshot.table.table,
                nodes=[node.node for node in snapshot.nodes],
                rule=dataclasses.asdict(wanted.rule),
                poll_interval=self.poke_interval,
                deadline=time.time() + seconds,
                silent_fail=self.silent_fail,
                partitions=snapshot.partitions,
            ),
            method_name="execute_complete",
            timeout=datetime.timedelta(seconds=seconds + BACKSTOP_SECONDS),
        )

    @property
    def _deferred_seconds(self) -> float:
        """How long to wait: Airflow itself enforces ``execution_timeout`` only while the task runs on a worker."""
        return min(float(self.timeout), timeout_of(self) or float("inf"))

    def _settled(self, context: Context, snapshot: _Snapshot) -> dict[str, Any]:
        from airflow_provider_ch_s3.introspection.parts import summarize_parts

        return self._conclude(context, summarize_parts(snapshot.nodes), snapshot.table, snapshot.cluster.name)

    def _conclude(
        self, context: Context, result: Mapping[str, Any], table: TableName, cluster: str | None
    ) -> dict[str, Any]:
        if any(map(is_table, self.outlets)):
            self._tell(context, result)
        return self._with_history(context, result, table, cluster)

    def _tell(self, context: Context, result: Mapping[str, Any]) -> None:
        """Tell assets which partitions have settled."""
        from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
        from airflow_provider_ch_s3.introspection.parts import find_partition_ids, read_partition_keys
        from airflow_provider_ch_s3.introspection.table import locate_table

        wanted = self._parse()
        with closing(ClickHouseS3Hook(clickhouse_conn_id=wanted.clickhouse_conn_id)) as hook:
            located = locate_table(hook, hook.declaration, wanted.table)
            local, cluster = located.found.local, located.cluster.name
            ids = find_partition_ids(located.client, local, wanted.partitions or (), cluster)
            facts = {"rows": result["rows"], "parts": result["parts"], "partitions": list(ids)}
            describe_in_events(
                context, self.outlets, located.found.name, facts, lambda: read_partition_keys(located, ids)
            )

    def _with_history(
        self, context: Context, result: Mapping[str, Any], table: TableName, cluster: str | None
    ) -> dict[str, Any]:
        """Add the history from the servers' logs; the outcome does not depend on the history."""
        if absent := find_absent(node["absent_partitions"] for node in result["nodes"]):
            log.warning(
                "%s has no parts in partition %s: dropped, expired, or a typo; %s",
                table,
                ", ".join(map(repr, sorted(absent))),
                PARTITIONS_REMEDY,
            )
        from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
        from airflow_provider_ch_s3.introspection.parts import find_partition_ids, read_parts_history
        from airflow_provider_ch_s3.monitoring.log import flush_part_log

        parts = {node["node"]: node["active_parts"] for node in result["nodes"]}
        try:
            wanted = self._parse()
            with closing(ClickHouseS3Hook(clickhouse_conn_id=wanted.clickhouse_conn_id, **HISTORY_LIMITS)) as hook:
                # the connection may name no cluster, if the sensor took it from the Distributed table
                inside = hook.within(dataclasses.replace(hook.declaration, cluster=cluster))
                flush_part_log(inside, inside.cluster_spec)
                partitions = wanted.partitions and find_partition_ids(hook, table, wanted.partitions, cluster)
                history = read_parts_history(
                    hook, table, cluster, parts, partitions=partitions, since=_began(context)
                )
        except Exception as error:  # whatever fails: the parts have settled
            log.info("no history of the parts of %s: %s", table, error)
            history = {}
        return {**result, "history": history}

    def _check_a_last_time(self, context: Context, reason: str) -> dict[str, Any]:
        """Check once more before timing out, as the remaining modes do: the triggerer may have been down for long."""
        try:
            snapshot = _take_snapshot(self._parse())
        except ChS3Error as error:
            reason = error.sentence
        else:
            if snapshot.verdict.is_settled:
                return self._settled(context, snapshot)
            reason = snapshot.verdict.reason
        message = f"{self.table} has not settled in {self._deferred_seconds:.0f} s: {reason}"
        if self.soft_fail or self.never_fail:
            raise AirflowSkipException(message)
        if self._deferred_seconds < self.timeout:
            raise AirflowTaskTimeout(message)
        raise AirflowSensorTimeout(message)


def _take_snapshot(wanted: _Wanted) -> _Snapshot:
    # Imported here, because Airflow parses DAG files every few seconds, and parsing needs none of this.
    from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
    from airflow_provider_ch_s3.introspection.parts import find_partition_ids, read_parts
    from airflow_provider_ch_s3.introspection.table import locate_table

    with closing(ClickHouseS3Hook(clickhouse_conn_id=wanted.clickhouse_conn_id)) as hook:
        located = locate_table(hook, hook.declaration, wanted.table)
        cluster, local, partitions = located.cluster, located.found.local, wanted.partitions
        nodes = read_parts(hook, located.found, cluster, partitions)
        if partitions and find_absent(node.absent_partitions for node in nodes):
            partitions = find_partition_ids(hook, local, partitions, cluster.name)
            if partitions != wanted.partitions:
                nodes = read_parts(hook, located.found, cluster, partitions)
    verdict = judge_parts(wanted.rule, nodes)
    log.info("%s: %s", wanted.table, verdict.line)
    return _Snapshot(table=local, cluster=cluster, nodes=nodes, verdict=verdict, partitions=partitions)


def _began(context: Context) -> float:
    """Unix time at which the DAG run began; usually the same run has loaded the rows."""
    started = getattr(context.get("dag_run"), "start_date", None)
    return max(started.timestamp() if started else 0.0, time.time() - HISTORY_SECONDS)


def parse_partitions(value: object) -> tuple[str, ...] | None:
    """Parse ids or values of partitions, a mapping partition → rows, a list of mappings, or such a rendered text.

    :returns: ids and values, each once; None for the whole table.
    :raises ConfigError: for anything else.
    """
    given = parse_literal("partitions", value)
    if isinstance(given, str):
        raise ConfigError(
            "argument-invalid", f"partitions={value!r} is neither a list nor a mapping; {PARTITIONS_REMEDY}"
        )
    if given is None:
        return None
    items = [given] if isinstance(given, Mapping) else given
    if not isinstance(items, Sequence) or isinstance(items, str):
        raise refuse_argument("partitions", value, PARTITIONS_REMEDY)
    found: set[str] = set()
    for item in items:
        if item is None:
            return None  # a load without staging does not know its partitions
        found.update(_ids(item, value))
    return tuple(sorted(found))


def _ids(item: object, value: object) -> list[str]:
    if isinstance(item, Mapping) and all(isinstance(rows, int) for rows in item.values()):
        ids = list(item)
    elif isinstance(item, Mapping):
        raise ConfigError(
            "argument-invalid",
            f"partitions={value!r} does not map partition ids to numbers of rows; {PARTITIONS_REMEDY}",
        )
    else:
        ids = [item]
    for partition in ids:
        if not isinstance(partition, str) or not partition:
            raise ConfigError(
                "argument-invalid",
                f"partitions={value!r} contains {partition!r}, which is not a text; {PARTITIONS_REMEDY}",
            )
    return ids
