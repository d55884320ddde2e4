"""The sensor that waits until the parts of a table have settled."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import BaseSensorOperator, PokeReturnValue

from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
from airflow_provider_ch_s3.load.detect import detect_cluster
from airflow_provider_ch_s3.load.inspect import declare_cluster, find_table
from airflow_provider_ch_s3.load.parts import read_parts
from airflow_provider_ch_s3.settle import (
    DEFAULT_MAX_PARTS,
    DEFAULT_STABLE_SECONDS,
    DEFAULT_STALLED_SECONDS,
    SettleRule,
    judge_parts,
)

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

log = logging.getLogger(__name__)


class ClickHousePartsSettledSensor(BaseSensorOperator):  # type: ignore[misc]
    """Wait until a table is fit to query: few parts on every node, no merge running, nothing changing.

    Works in the modes ``poke`` and ``reschedule``: one look at the cluster tells all, nothing is kept between
    two of them.

    :param table: ``table`` or ``database.table``, local or Distributed. (templated)
    :param clickhouse_conn_id: connection of type ``clickhouse_s3`` (or ``clickhouse``). (templated)
    :param max_parts: active parts per node that are few enough. (templated)
    :param max_parts_per_partition: the same for each partition; None for any number. (templated)
    :param stable_seconds: no part may be younger.
    :param stalled_seconds: the sensor fails when there are too many parts and no merge ran for so long.
    :param poke_interval: seconds between two looks: parts settle in seconds or minutes.
    :returns: through XCom, parts and rows for each node, and when the parts last changed (Unix time).
    """

    template_fields: Sequence[str] = ("table", "clickhouse_conn_id", "max_parts", "max_parts_per_partition")
    ui_color = "#faff69"

    def __init__(
        self,
        *,
        table: str,
        clickhouse_conn_id: str = ClickHouseS3Hook.default_conn_name,
        max_parts: int | str = DEFAULT_MAX_PARTS,
        max_parts_per_partition: int | str | None = None,
        stable_seconds: float = DEFAULT_STABLE_SECONDS,
        stalled_seconds: float = DEFAULT_STALLED_SECONDS,
        poke_interval: float = 15.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(poke_interval=poke_interval, **kwargs)
        self.table = table
        self.clickhouse_conn_id = clickhouse_conn_id
        self.max_parts = max_parts
        self.max_parts_per_partition = max_parts_per_partition
        self.stable_seconds = stable_seconds
        self.stalled_seconds = stalled_seconds

    def poke(self, context: Context) -> PokeReturnValue:
        """Look once.

        :raises SettleError: if the parts will never settle.
        """
        rule = SettleRule(
            max_parts=_whole_number("max_parts", self.max_parts),
            max_parts_per_partition=None
            if self.max_parts_per_partition is None
            else _whole_number("max_parts_per_partition", self.max_parts_per_partition),
            stable_seconds=self.stable_seconds,
            stalled_seconds=self.stalled_seconds,
        )
        hook = ClickHouseS3Hook(clickhouse_conn_id=self.clickhouse_conn_id)
        try:
            found = find_table(hook, self.table)
            cluster = detect_cluster(hook, declare_cluster(hook.declaration, found))
            nodes = read_parts(hook, found, cluster)
        finally:
            hook.close()
        verdict = judge_parts(rule, nodes)
        log.info("%s: %s", self.table, verdict.reason)
        if not verdict.is_settled:
            return PokeReturnValue(is_done=False)
        unchanged = [node.unchanged_seconds for node in nodes if node.unchanged_seconds is not None]
        return PokeReturnValue(
            is_done=True,
            xcom_value={
                "parts": sum(node.active_parts for node in nodes),
                "rows": sum(node.rows for node in nodes),
                "last_change": time.time() - min(unchanged) if unchanged else None,
                "nodes": [dataclasses.asdict(node) for node in nodes],
            },
        )


def _whole_number(name: str, value: int | str) -> int:
    """A template renders to text."""
    try:
        return int(value)
    except ValueError as exc:
        raise ConfigError(f"{name}={value!r} is not a number of parts; give a whole number") from exc
