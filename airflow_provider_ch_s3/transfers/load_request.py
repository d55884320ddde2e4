"""From the operator's arguments, with all templates rendered, to the request of a load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from enum import Enum
from typing import TYPE_CHECKING, Any

from airflow_provider_ch_s3.common.arguments import (
    check_expressions_of,
    check_flag,
    check_seconds,
    check_settings,
    check_text,
    check_texts,
    parse_choice,
    parse_count,
    parse_file_names,
    parse_ratio,
    parse_seconds,
)
from airflow_provider_ch_s3.files.addresses import SourcePattern
from airflow_provider_ch_s3.files.csv_dialect import parse_csv_dialect
from airflow_provider_ch_s3.files.source import MAX_LISTED_FILES
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.table.new_table import parse_create_table
from airflow_provider_ch_s3.table.provenance import parse_provenance
from airflow_provider_ch_s3.table.row_check import parse_checks
from airflow_provider_ch_s3.transfers.task import timeout_of
from airflow_provider_ch_s3.tuning import LoadLimit, SettingValue

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import BaseOperator

# Arguments that are one of a few values, each with the enumeration of these.
CHOICES = {one.name: type(one.default) for one in fields(LoadRequest) if isinstance(one.default, Enum)}


def check_arguments(operator: BaseOperator) -> None:
    """Check the types of those arguments that a request takes as they are.

    :raises ConfigError: for the first argument of a wrong type.
    """
    for name in (
        "table",
        "clickhouse_conn_id",
        "where",
        "move_to",
        "replace_where",
        "merge_version",
        "merge_deleted",
    ):
        check_text(name, getattr(operator, name))
    for name in ("data_format", "compression", "structure"):
        check_text(name, getattr(operator, name), is_optional=True)
    for name in (
        "staging",
        "list_after_loaded",
        "settle_before_commit",
        "skip_downstream_if_nothing_new",
        "validate_only",
        "deferrable",
    ):
        check_flag(name, getattr(operator, name))
    check_texts("columns", operator.columns)
    check_texts("merge_key", operator.merge_key)
    check_expressions_of("select", operator.select)
    check_settings("settings", operator.settings)
    check_seconds("poll_interval", operator.poll_interval, is_positive=True)


def build_request(
    operator: BaseOperator,
    pattern: SourcePattern,
    connection_settings: Mapping[str, SettingValue],
    limit: LoadLimit,
) -> LoadRequest:
    """Build the request.

    :param pattern: the operator's source.
    :param limit: how many loads of the task Airflow may run at once.
    :raises ConfigError: if an argument has a wrong value.
    """
    dialect = parse_csv_dialect(operator.csv_dialect)
    choices: dict[str, Any] = {
        name: parse_choice(name, getattr(operator, name), kind) for name, kind in CHOICES.items()
    }
    return LoadRequest(
        pattern=pattern,
        snapshot=getattr(operator, "snapshot", ""),
        table=operator.table,
        create_table=parse_create_table(operator.create_table),
        data_format=operator.data_format or dialect.data_format,
        csv_dialect=dialect,
        compression=operator.compression,
        structure=operator.structure,
        columns=operator.columns,
        select=operator.select or {},
        provenance=parse_provenance(operator.provenance),
        where=operator.where,
        settings={**dialect.settings, **(operator.settings or {})},
        connection_settings=connection_settings,
        timeout_seconds=timeout_of(operator),
        limit=limit,
        replace_where=operator.replace_where,
        merge_key=tuple(operator.merge_key or ()),
        merge_version=operator.merge_version,
        merge_deleted=operator.merge_deleted,
        max_rewritten_bytes=None
        if operator.max_rewritten_bytes is None
        else parse_count("max_rewritten_bytes", operator.max_rewritten_bytes),
        list_after_loaded=operator.list_after_loaded,
        max_files_per_chunk=parse_count(
            "max_files_per_chunk", operator.max_files_per_chunk, least=1, most=MAX_LISTED_FILES
        ),
        max_bytes_per_chunk=None
        if operator.max_bytes_per_chunk is None
        else parse_count("max_bytes_per_chunk", operator.max_bytes_per_chunk, least=1),
        move_to=operator.move_to and f"{operator.move_to.strip('/')}/",
        settle_before_commit=operator.settle_before_commit,
        max_bad_rows=None if operator.max_bad_rows is None else parse_count("max_bad_rows", operator.max_bad_rows),
        max_bad_ratio=None
        if operator.max_bad_ratio is None
        else parse_ratio("max_bad_ratio", operator.max_bad_ratio),
        min_files=parse_count("min_files", operator.min_files),
        min_file_age_seconds=parse_seconds("min_file_age", operator.min_file_age),
        expected_files=parse_file_names("expected_files", operator.expected_files),
        min_rows=parse_count("min_rows", operator.min_rows),
        checks=parse_checks(operator.checks),
        validate_only=operator.validate_only,
        keep_staged_seconds=parse_seconds("keep_staged_seconds", operator.keep_staged_seconds),
        **choices,
    )
