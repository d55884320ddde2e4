"""Render a SELECT over files in place."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_ch_s3.source import SourceSpec
from airflow_provider_ch_s3.sql.filters import Sql
from airflow_provider_ch_s3.sql.render import render
from airflow_provider_ch_s3.sql.statement import Statement
from airflow_provider_ch_s3.tuning.setting import SettingValue

FILES = "{files}"
"""What stands for the files in the text of a query."""


def render_select_files(
    source: SourceSpec, sql: str, *, structure: str, limit_rows: int, settings: Mapping[str, SettingValue]
) -> Statement:
    """A user's query, in which a table function takes the place of ``FILES``.

    :param sql: printed as it is: its author may run any other query, too.
    :param structure: names and types of the columns in the files, or ``auto``.
    """
    return render(
        "select_files",
        parameters=source.access.parameters,
        source=source,
        address=source.address,
        data_format=source.data_format,
        structure=structure,
        texts=[Sql(text) for text in sql.strip().split(FILES)],
        limit_rows=limit_rows,
        settings=settings,
    )
