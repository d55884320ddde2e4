"""After a value of a typed file did not fit its column: look for the first one, because the servers name no row."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from airflow_provider_ch_s3.clickhouse.column_types import base_type, family, is_nullable
from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.common.text import format_count
from airflow_provider_ch_s3.errors import ChS3Error
from airflow_provider_ch_s3.files.source import SourceSpec
from airflow_provider_ch_s3.inspect.explain import is_null_refused, named_column
from airflow_provider_ch_s3.sql.load_queries import Suspect, render_find_misfit
from airflow_provider_ch_s3.table.mapping import MappedColumn
from airflow_provider_ch_s3.table.target import TargetSpec
from airflow_provider_ch_s3.tuning import SettingValue

log = logging.getLogger(__name__)

SEARCH_SECONDS = 30.0
SHOWN_CHARACTERS = 60
SCALARS = frozenset({"number", "string", "time", "uuid", "address"})


def find_misfit(
    client: ClickHouseClient,
    source: SourceSpec,
    mapping: Sequence[MappedColumn],
    target: TargetSpec,
    message: str,
    *,
    where: str,
    settings: Mapping[str, SettingValue],
    now: Callable[[], float] = time.monotonic,
) -> str:
    """Describe the first value that does not fit, as the end of an error message; '' if it is not found in time.

    :param message: of the server that refused it.
    :param where: the load's condition: other rows are not loaded.
    :param settings: with which the files are read.
    """
    suspects = _suspects(source, mapping, target, message)
    if not suspects or not source.format.is_typed:
        return ""
    deadline = now() + SEARCH_SECONDS
    for file in source.files:
        if (left := deadline - now()) <= 0:
            break
        statement = render_find_misfit(
            replace(source, files=(file,)), suspects, where=where, seconds=math.ceil(left), settings=settings
        )
        try:
            rows = client.query(statement)
        except ChS3Error as error:
            log.info("cannot look for the value in %s: %s", file.key, error)
            break
        if rows:
            suspect = suspects[int(rows[0]["number"]) - 1]
            value = "NULL" if rows[0]["value"] is None else repr(str(rows[0]["value"])[:SHOWN_CHARACTERS])
            return (
                f"; the first one is {value} in row {format_count(int(rows[0]['row']) + 1)} of"
                f" {source.pattern.path(file.key)!r}, for column {suspect.column.target!r}"
            )
    return ""


def _suspects(source: SourceSpec, mapping: Sequence[MappedColumn], target: TargetSpec, message: str) -> list[Suspect]:
    """The columns that may have the value: the one that the server names, or all that could."""
    in_path = {column.name for column in source.columns if column.in_path}
    is_null, types = is_null_refused(message), target.column_types
    found = [
        Suspect(
            column=replace(column, conversion=None),
            type="" if is_null else base_type(types[column.target]),
            is_time=column.conversion is not None
            and not column.conversion.is_text
            and family(base_type(types[column.target])) == "time",
        )
        for column in mapping
        if column.source not in in_path
        and (not is_nullable(types[column.target]) if is_null else column.conversion is not None)
        and family(base_type(types[column.target])) in SCALARS
    ]
    name = named_column(message)
    named = [suspect for suspect in found if name in (suspect.column.target, suspect.column.source)]
    return named or found
