"""From the operator's arguments, with all templates rendered, to the request of a load."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from airflow_provider_ch_s3.arguments import (
    check_expressions_of,
    check_flag,
    check_seconds,
    check_settings,
    check_text,
    check_texts,
    parse_choice,
    parse_count,
    parse_file_names,
    parse_seconds,
)
from airflow_provider_ch_s3.request import (
    LoadMode,
    LoadRequest,
    MaterializedViews,
    OnChangedFiles,
    OnLoadedFiles,
    OnNoFiles,
    OnPartialPartitions,
)
from airflow_provider_ch_s3.source import parse_source
from airflow_provider_ch_s3.tuning import LoadLimit, SettingValue

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import BaseOperator


def check_arguments(operator: BaseOperator) -> None:
    """Check the types of those arguments that a request takes as they are.

    :raises ConfigError: for the first argument of a wrong type.
    """
    for name in ("table", "clickhouse_conn_id", "named_collection", "role_arn", "where", "replace_where"):
        check_text(name, getattr(operator, name))
    for name in ("aws_conn_id", "data_format", "compression", "structure"):
        check_text(name, getattr(operator, name), is_optional=True)
    for name in ("staging", "settle_before_commit", "skip_downstream_if_nothing_new", "deferrable"):
        check_flag(name, getattr(operator, name))
    check_texts("columns", operator.columns)
    check_expressions_of("select", operator.select)
    check_settings("settings", operator.settings)
    check_seconds("poll_interval", operator.poll_interval, is_positive=True)


def build_request(
    operator: BaseOperator, connection_settings: Mapping[str, SettingValue], limit: LoadLimit
) -> LoadRequest:
    """Build the request.

    :param limit: how many loads of the task Airflow may run at once.
    :raises ConfigError: if an argument has a wrong value.
    """
    timeout = operator.execution_timeout
    return LoadRequest(
        pattern=parse_source(operator.source),
        table=operator.table,
        data_format=operator.data_format,
        compression=operator.compression,
        structure=operator.structure,
        columns=operator.columns,
        select=operator.select or {},
        where=operator.where,
        settings=operator.settings or {},
        connection_settings=connection_settings,
        timeout_seconds=timeout.total_seconds() if timeout else None,
        limit=limit,
        load_mode=parse_choice("load_mode", operator.load_mode, LoadMode),
        replace_where=operator.replace_where,
        on_loaded_files=parse_choice("on_loaded_files", operator.on_loaded_files, OnLoadedFiles),
        on_changed_files=parse_choice("on_changed_files", operator.on_changed_files, OnChangedFiles),
        on_partial_partitions=parse_choice(
            "on_partial_partitions", operator.on_partial_partitions, OnPartialPartitions
        ),
        materialized_views=parse_choice("materialized_views", operator.materialized_views, MaterializedViews),
        settle_before_commit=operator.settle_before_commit,
        on_no_files=parse_choice("on_no_files", operator.on_no_files, OnNoFiles),
        min_files=parse_count("min_files", operator.min_files),
        min_file_age_seconds=parse_seconds("min_file_age", operator.min_file_age),
        expected_files=parse_file_names("expected_files", operator.expected_files),
        min_rows=parse_count("min_rows", operator.min_rows),
    )
