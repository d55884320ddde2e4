"""The statements of the benchmark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from airflow_provider_ch_s3.files.access import S3Access
from airflow_provider_ch_s3.sql.render import IN_FILE, statement
from airflow_provider_ch_s3.table.target import TableName


@statement
def render_write_bench_file(
    access: S3Access, key: str, columns: Mapping[str, tuple[str, str]], *, first: int, count: int, row_count: int
) -> str:
    """Have the server write one file; its name tells format and compression.

    :param key: with the bucket.
    :param columns: name → type and expression over ``number`` and ``row_count``.
    """
    return IN_FILE


@statement
def render_create_bench_table(
    table: TableName,
    cluster: str | None,
    *,
    columns: Mapping[str, str],
    engine: str,
    order_by: Sequence[str] = (),
    partition_by: str = "",
    storage_policy: str = "",
) -> str:
    """A new table.

    :param columns: name → type.
    """
    return IN_FILE
