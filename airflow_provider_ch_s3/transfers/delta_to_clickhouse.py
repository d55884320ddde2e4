"""The operator for loads of Delta tables into ClickHouse."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from airflow_provider_ch_s3.files.addresses import DELTA
from airflow_provider_ch_s3.transfers.lake_to_clickhouse import LakeToClickHouseOperator

if TYPE_CHECKING:
    from airflow_provider_ch_s3.lakes.store import OpenTable
    from airflow_provider_ch_s3.stores.s3 import S3FileStore


class DeltaToClickHouseOperator(LakeToClickHouseOperator):
    """Load a Delta table into a ClickHouse table; needs the extra ``delta``.

    The remaining arguments are described in :class:`LakeToClickHouseOperator`.

    :param source: location of the table, ``s3://bucket/folder/of/the/table``.
    :param snapshot: ``latest``, a version, or a time with a zone: the last version of this time. The version is
        chosen once, and the whole load reads the chosen version.
    :param max_metadata_bytes: bytes that the worker reads of one object of the lake's metadata, unpacked; parsed
        metadata take several times as much memory.
    """

    scheme = DELTA

    def find_table(self, source: str, files: S3FileStore, limit_bytes: int) -> tuple[str, OpenTable]:
        """Import deltalake; the source is the location."""
        from airflow_provider_ch_s3.lakes.delta import DeltaTable

        return source, partial(DeltaTable, limit_bytes=limit_bytes)
