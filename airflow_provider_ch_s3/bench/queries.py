"""The statements of the benchmark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.files.access import S3Access
from airflow_provider_ch_s3.sql.render import render
from airflow_provider_ch_s3.table.target import TableName


def render_write_bench_file(
    access: S3Access, key: str, columns: Mapping[str, tuple[str, str]], *, first: int, count: int, row_count: int
) -> Statement:
    """Have the server write one file; its name tells format and compression.

    :param key: with the bucket.
    :param columns: name → type and expression over ``number`` and ``row_count``.
    """
    return render(
        "write_bench_file",
        parameters=access.parameters,
        prefix=access.parameter_prefix,
        url=f"{access.endpoint_url}/{key}",
        columns=columns,
        first=first,
        count=count,
        row_count=row_count,
    )


def render_create_bench_table(
    table: TableName,
    cluster: str | None,
    *,
    columns: Mapping[str, str],
    engine: str,
    order_by: Sequence[str] = (),
    partition_by: str = "",
    storage_policy: str = "",
) -> Statement:
    """A new table.

    :param columns: name → type.
    """
    return render(
        "create_bench_table",
        table=table,
        cluster=cluster,
        columns=columns,
        engine=engine,
        order_by=order_by,
        partition_by=partition_by,
        storage_policy=storage_policy,
    )
