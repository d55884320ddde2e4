"""The trigger that waits until the parts of a table have settled."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import SettleError, TargetError
from airflow_provider_ch_s3.introspection.parts import read_watched, select_nodes, summarize_parts
from airflow_provider_ch_s3.table.settle import SettleRule, judge_parts
from airflow_provider_ch_s3.table.target import TableName, TablePartitions
from airflow_provider_ch_s3.triggers.describe import Described
from airflow_provider_ch_s3.triggers.polling import join_poller, until

log = get_log(__name__)


class PartsSettledTrigger(Described, BaseTrigger):  # type: ignore[misc]
    """Wait until a table's parts have settled on every node.

    The event is ``{"status": "settled", "result": …, "cluster": …, "database": …, "table": …}``, or
    ``{"status": "failed", "message": …, "code": …}``, or ``{"status": "timeout", "message": …}``.

    :param cluster: name in ``system.clusters``; None for a single node.
    :param database: database of the local table, not of a Distributed table.
    :param partitions: ids of the partitions to wait for; None for the whole table.
    :param nodes: names of the nodes that must have the table.
    :param rule: the limits of a ``SettleRule``.
    :param poll_interval: seconds between two polls.
    :param deadline: Unix time; None to wait without a limit.
    :param silent_fail: keep waiting even if the parts cannot settle.
    """

    def __init__(
        self,
        *,
        clickhouse_conn_id: str,
        cluster: str | None,
        database: str,
        table: str,
        nodes: Sequence[str],
        rule: Mapping[str, Any],
        poll_interval: float,
        deadline: float | None = None,
        silent_fail: bool = False,
        partitions: Sequence[str] | None = None,
    ) -> None:
        super().__init__()
        self.clickhouse_conn_id = clickhouse_conn_id
        self.cluster = cluster
        self.database = database
        self.table = table
        self.nodes = list(nodes)
        self.rule = dict(rule)
        self.poll_interval = poll_interval
        self.deadline = deadline
        self.silent_fail = silent_fail
        self.partitions = None if partitions is None else list(partitions)
        self._reason = "not polled yet"

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait, then yield an event with the outcome."""
        try:
            async with until(self.deadline):
                event = await self._wait()
        except TimeoutError:
            event = {"status": "timeout", "message": self._reason}
        yield TriggerEvent(event)

    async def _wait(self) -> dict[str, Any]:
        name, rule = TableName(database=self.database, table=self.table), SettleRule(**self.rule)
        partitions = None if self.partitions is None else tuple(self.partitions)
        watched = TablePartitions(table=name, partitions=partitions)
        async with join_poller(self.clickhouse_conn_id, self.cluster, read_watched) as poller:
            while True:
                by_node = await poller.poll(watched, self.poll_interval)
                try:
                    nodes = select_nodes(name, by_node, self.nodes)
                    verdict = judge_parts(rule, nodes)
                except (SettleError, TargetError) as error:
                    if not self.silent_fail:
                        return {"status": "failed", "message": error.sentence, "code": error.code}
                    self._log_reason(error.sentence, str(error))
                    continue
                self._log_reason(verdict.reason, verdict.line)
                if verdict.is_settled:
                    place = {"cluster": self.cluster, "database": self.database, "table": self.table}
                    return {"status": "settled", "result": summarize_parts(nodes), **place}

    def _log_reason(self, reason: str, line: str) -> None:
        self._reason = reason
        log.info("%s.%s: %s", self.database, self.table, line)
