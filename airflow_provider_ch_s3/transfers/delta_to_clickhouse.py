"""The operator that loads Delta tables into ClickHouse."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_ch_s3.files.addresses import DELTA
from airflow_provider_ch_s3.transfers.lake_to_clickhouse import LakeToClickHouseOperator

if TYPE_CHECKING:
    from airflow_provider_ch_s3.lakes.store import OpenTable


class DeltaToClickHouseOperator(LakeToClickHouseOperator):
    """Load a Delta table into a ClickHouse table; needs the extra ``delta``.

    All arguments are those of :class:`LakeToClickHouseOperator`.
    """

    scheme = DELTA

    def load_reader(self) -> OpenTable:
        """Import deltalake."""
        from airflow_provider_ch_s3.lakes.delta import DeltaTable

        return DeltaTable
