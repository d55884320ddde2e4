"""The operator that loads Iceberg tables into ClickHouse."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_ch_s3.files.addresses import ICEBERG
from airflow_provider_ch_s3.transfers.lake_to_clickhouse import LakeToClickHouseOperator

if TYPE_CHECKING:
    from airflow_provider_ch_s3.lakes.store import OpenTable


class IcebergToClickHouseOperator(LakeToClickHouseOperator):
    """Load an Iceberg table into a ClickHouse table; needs the extra ``iceberg``.

    All arguments are those of :class:`LakeToClickHouseOperator`.
    """

    scheme = ICEBERG

    def load_reader(self) -> OpenTable:
        """Import pyiceberg."""
        from airflow_provider_ch_s3.lakes.iceberg import IcebergTable

        return IcebergTable
