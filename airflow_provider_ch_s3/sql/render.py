"""Render templates into statements; no value gets into their text but through a filter."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from textwrap import dedent
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.files.source import SourceSpec
from airflow_provider_ch_s3.sql.conversions import (
    DATE_SHAPE,
    FILES,
    IMPOSSIBLE_TIME,
    ISO_TIME,
    read_column,
    select_item,
    select_list,
)
from airflow_provider_ch_s3.sql.filters import FILTERS, Sql, require_quoted
from airflow_provider_ch_s3.sql.fitting import (
    csv_field,
    csv_line,
    ends_text,
    field_text,
    fitting,
    is_inexact,
    opens_text,
)
from airflow_provider_ch_s3.sql.nodes import (
    NODE_NAME,
    all_nodes,
    all_replicas,
    all_shards,
    are_partitions,
    are_tables,
    into_shards,
    on_cluster,
    shard_here,
)
from airflow_provider_ch_s3.table.bad_rows import OPEN_QUOTE
from airflow_provider_ch_s3.tuning.rule import SettingValue

# The query cache refuses functions whose results may change; nothing is read from it, or kept in it.
_ONLY_REPEATABLE = Sql(
    "use_query_cache = 1, query_cache_nondeterministic_function_handling = 'throw',\n"
    "    query_cache_system_table_handling = 'throw', enable_reads_from_query_cache = 0,\n"
    "    query_cache_min_query_runs = 1000000"
)

_ENVIRONMENT = Environment(
    loader=PackageLoader("airflow_provider_ch_s3", "sql/templates"),
    undefined=StrictUndefined,
    finalize=require_quoted,
    autoescape=False,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=False,
)
_ENVIRONMENT.filters.update(
    FILTERS,
    **{
        function.__name__: function
        for function in (
            *(all_nodes, all_replicas, all_shards, into_shards, on_cluster, shard_here, are_tables, are_partitions),
            *(select_item, select_list, read_column),
            *(csv_field, csv_line, field_text, fitting, is_inexact, opens_text, ends_text),
        )
    },
)
_ENVIRONMENT.globals.update(
    node_name=NODE_NAME,
    open_quote=OPEN_QUOTE,
    files_alias=FILES,
    date_shape=DATE_SHAPE,
    iso_time=ISO_TIME,
    impossible_time=IMPOSSIBLE_TIME,
    only_repeatable=_ONLY_REPEATABLE,
)


def render(
    template: str, *, parameters: dict[str, str] | None = None, keeps_final: bool = False, **values: Any
) -> Statement:
    """Render ``sql/templates/<template>.sql.jinja``: a statement with structure.

    :param parameters: values of the placeholders in the text, kept separate from it.
    :param keeps_final: as in :class:`Statement`.
    :raises UnquotedValueError: if the template prints a value without a filter.
    """
    text = _ENVIRONMENT.get_template(f"{template}.sql.jinja").render(**values)
    return Statement(name=template, text=text.strip(), parameters=parameters or {}, keeps_final=keeps_final)


def reading(template: str, source: SourceSpec, settings: Mapping[str, SettingValue], /, **values: Any) -> Statement:
    """Render a template of a statement that reads files.

    :param values: further ones, or others for what the source says.
    """
    of_source = {
        "source": source,
        "address": source.address,
        "data_format": source.data_format,
        "structure": source.structure,
        "settings": settings,
    }
    return render(template, parameters=source.access.parameters, **{**of_source, **values})


def inline(name: str, text: str, /, **values: Any) -> Statement:
    """Render a short statement, whose text its function contains, by the same rules.

    :raises UnquotedValueError: if the text prints a value without a filter.
    """
    return Statement(name=name, text=_template(text).render(**values).strip())


@cache
def _template(text: str) -> Template:
    return _ENVIRONMENT.from_string(dedent(text))
