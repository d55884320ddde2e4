"""The operator that loads Iceberg tables into ClickHouse."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_ch_s3.files.addresses import ICEBERG
from airflow_provider_ch_s3.transfers.lake_to_clickhouse import LakeToClickHouseOperator

if TYPE_CHECKING:
    from airflow_provider_ch_s3.lakes.store import OpenTable


class IcebergToClickHouseOperator(LakeToClickHouseOperator):
    """Load an Iceberg table into a ClickHouse table; needs the extra ``iceberg``.

    All further arguments are those of :class:`LakeToClickHouseOperator`.

    :param source: location of the table, ``s3://bucket/folder/of/the/table``. (templated)
    :param snapshot: ``latest``, the id of a snapshot, or a time with its zone: the last snapshot of that time. It is
        chosen once, and all of the load reads that one. (templated)
    """

    scheme = ICEBERG

    def load_reader(self) -> OpenTable:
        """Import pyiceberg."""
        from airflow_provider_ch_s3.lakes.iceberg import IcebergTable

        return IcebergTable
