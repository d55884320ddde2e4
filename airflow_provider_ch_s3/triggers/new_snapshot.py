"""The trigger of an asset's watcher: an event names the newest snapshot of a lake table, not yet in a table."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from airflow_provider_ch_s3.cluster.fields import DEFAULT_CONNECTION
from airflow_provider_ch_s3.common.declared import CONNECTION, count
from airflow_provider_ch_s3.common.text import MIB
from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.files.addresses import DELTA, ICEBERG, LOCATION, NamedStore, parse_location
from airflow_provider_ch_s3.triggers.watcher import WatcherTrigger

if TYPE_CHECKING:
    from airflow_provider_ch_s3.hooks.lake import Lake
    from airflow_provider_ch_s3.load.watch import WatchedSource

LAKES = {"iceberg": ICEBERG, "delta": DELTA}


class NewSnapshotTrigger(WatcherTrigger):
    """Wake DAGs when a lake table has a snapshot not yet in a table; for the ``AssetWatcher`` of an asset.

    The trigger looks for newer metadata, asks the ledger, and keeps nothing: it may be restarted at any time and
    anywhere. An event tells of the newest snapshot, unless the table holds its rows, or a load has planned the
    snapshot; the payload has ``source``, ``table``, ``snapshot``, ``committed_at`` and ``operation``.

    :param lake: ``iceberg`` or ``delta``; where the triggerer runs, install the extra of this name.
    :param source: location of the lake table, ``s3://bucket/folder/of/the/table``, ``gs://…`` or ``az://…``; with
        ``catalog_conn_id`` the name in the catalog; without templates.
    :param table: ``table`` or ``database.table``, as for the operator.
    :param catalog_conn_id: connection of a catalog, as for the operator; None: the newest metadata in the location
        count.
    :param max_metadata_bytes: bytes that the triggerer reads of one object of the lake's metadata, unpacked; parsed
        metadata take several times as much memory.
    :param again_after: seconds (or a ``timedelta``) until a further event for a snapshot still missing in the table,
        because the load failed, or did not begin. Longer than a load takes with all its retries.
    :param poll_interval: seconds between two polls.
    :param clickhouse_conn_id: connection of type ``clickhouse_s3`` (or ``clickhouse``).
    :param store_conn_id: connection to the store, as for the operator; None: the triggerer's own role.
    """

    def __init__(
        self,
        *,
        lake: str,
        source: str,
        table: str,
        catalog_conn_id: str | None = None,
        max_metadata_bytes: int = 512 * MIB,
        again_after: float | datetime.timedelta = 3600.0,
        poll_interval: float = 30.0,
        clickhouse_conn_id: str = DEFAULT_CONNECTION,
        store_conn_id: str | None = "aws_default",
    ) -> None:
        super().__init__(
            table=table,
            again_after=again_after,
            poll_interval=poll_interval,
            clickhouse_conn_id=clickhouse_conn_id,
        )
        self.lake = lake
        self.source: str = LOCATION.parse("source", source)
        self.catalog_conn_id: str | None = CONNECTION.parse("catalog_conn_id", catalog_conn_id)
        self.max_metadata_bytes: int = count(least=1).parse("max_metadata_bytes", max_metadata_bytes)
        self.store_conn_id: str | None = CONNECTION.parse("store_conn_id", store_conn_id)
        self._check_names()

    def _check_names(self) -> None:
        if self.lake not in LAKES:
            raise ConfigError("argument-invalid", f"lake={self.lake!r} is unknown; give 'iceberg' or 'delta'")
        if self.catalog_conn_id is None:
            parse_location(self.source, LAKES[self.lake])

    def watch(self) -> WatchedSource:
        """Return the lake table to compare with the table."""
        # imported here, because DAG files import this module
        from airflow_provider_ch_s3.load.watch_lake import WatchedLakeTable

        return WatchedLakeTable(lake=self.named_lake(), table=self.table, again_after=self.again_after)

    def store(self) -> NamedStore:
        """Return the store with the files of the table."""
        return self.named_lake().name_store(self.store_conn_id)

    def named_lake(self) -> Lake:
        """Return the lake table, by its names."""
        from airflow_provider_ch_s3.hooks.lake import Lake  # here, because DAG files import this module

        return Lake(
            scheme=LAKES[self.lake],
            source=self.source,
            catalog_conn_id=self.catalog_conn_id,
            limit_bytes=self.max_metadata_bytes,
        )
