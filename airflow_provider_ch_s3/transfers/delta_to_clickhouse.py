"""The operator for loads of Delta tables into ClickHouse."""

from __future__ import annotations

from airflow_provider_ch_s3.files.addresses import DELTA
from airflow_provider_ch_s3.transfers.lake_to_clickhouse import LakeToClickHouseOperator


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
