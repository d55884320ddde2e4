"""Render templates into statements."""

from __future__ import annotations

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.sql.conversions import (
    DATE_SHAPE,
    FILES,
    IMPOSSIBLE_TIME,
    ISO_TIME,
    read_column,
    select_item,
)
from airflow_provider_ch_s3.sql.filters import FILTERS, require_quoted
from airflow_provider_ch_s3.sql.fitting import (
    csv_field,
    csv_line,
    ends_text,
    field_text,
    fitting,
    is_inexact,
    opens_text,
)
from airflow_provider_ch_s3.sql.nodes import NODE_NAME, all_nodes, all_replicas, all_shards, on_cluster
from airflow_provider_ch_s3.table.bad_rows import OPEN_QUOTE

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
    FILTERS, all_nodes=all_nodes, all_replicas=all_replicas, all_shards=all_shards, on_cluster=on_cluster
)
_ENVIRONMENT.filters.update(select_item=select_item, read_column=read_column)
_ENVIRONMENT.filters.update(csv_field=csv_field, csv_line=csv_line, field_text=field_text, fitting=fitting)
_ENVIRONMENT.filters.update(is_inexact=is_inexact)
_ENVIRONMENT.filters.update(opens_text=opens_text, ends_text=ends_text)
_ENVIRONMENT.globals["open_quote"] = OPEN_QUOTE
_ENVIRONMENT.globals["node_name"] = NODE_NAME
_ENVIRONMENT.globals.update(
    files_alias=FILES, date_shape=DATE_SHAPE, iso_time=ISO_TIME, impossible_time=IMPOSSIBLE_TIME
)


def render(
    template: str,
    *,
    name: str = "",
    parameters: dict[str, str] | None = None,
    keeps_final: bool = False,
    **values: Any,
) -> Statement:
    """Render ``sql/templates/<template>.sql.jinja``.

    :param name: name of the statement, if the template's name is not specific enough.
    :param parameters: values of the placeholders in the text, kept separate from it.
    :param keeps_final: as in :class:`Statement`.
    :raises UnquotedValueError: if the template prints a value without a filter.
    """
    text = _ENVIRONMENT.get_template(f"{template}.sql.jinja").render(**values)
    return Statement(name=name or template, text=text.strip(), parameters=parameters or {}, keeps_final=keeps_final)
