"""Render templates into statements; a value gets into the text only through a filter."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache, wraps
from textwrap import dedent
from typing import Any, ParamSpec

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.files.source import IS_THERE, WAS_THERE
from airflow_provider_ch_s3.sql import conversions, filters, fitting, nodes
from airflow_provider_ch_s3.sql.filters import Sql, identifier, require_quoted
from airflow_provider_ch_s3.sql.text_values import has_form
from airflow_provider_ch_s3.table.bad_rows import OPEN_QUOTE
from airflow_provider_ch_s3.table.path_columns import DEFAULT_PARTITION, ENCODED_DEFAULT_PARTITION

# The query cache refuses functions whose results may change; nothing is read from the cache, or kept there.
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
_FILTERS = (*filters.FILTERS, *nodes.FILTERS, *conversions.FILTERS, *fitting.FILTERS, has_form)
_ENVIRONMENT.filters.update((function.__name__, function) for function in _FILTERS)
_ENVIRONMENT.globals.update(
    node_name=nodes.NODE_NAME,
    open_quote=OPEN_QUOTE,
    was_there=identifier(WAS_THERE),
    is_there=identifier(IS_THERE),
    object_of_line=fitting.read_object(),
    files_alias=conversions.FILES,
    null_folder=DEFAULT_PARTITION,
    null_text_folder=ENCODED_DEFAULT_PARTITION,
    only_repeatable=_ONLY_REPEATABLE,
)


IN_FILE = ""
"""The text of a statement with structure is in ``sql/templates/<name>.sql.jinja``."""

P = ParamSpec("P")


def statement(text_of: Callable[P, str]) -> Callable[P, Statement]:
    """Turn a function that returns the text of a template into a function that renders the template.

    The function's arguments are the variables of the template. The statement has the function's name without
    ``render_``.
    """
    name = text_of.__name__.removeprefix("render_")
    signature = inspect.signature(text_of)

    @wraps(text_of)
    def rendered(*args: P.args, **kwargs: P.kwargs) -> Statement:
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        return render(name, text_of(*args, **kwargs), **given.arguments)

    return rendered


def render(name: str, text: str = IN_FILE, /, **values: Any) -> Statement:
    """Render a statement.

    :param values: the variables of the text. ``source`` (files) adds ``access``, ``address``, ``data_format``,
        ``structure`` and ``settings``, also the settings that name the snapshot of a lake. ``access`` adds the
        values of placeholders in the text. ``mapping`` adds the ``definitions`` of the functions for the values.
    :raises UnquotedValueError: if the text prints a value without a filter.
    """
    if source := values.get("source"):
        of_source = ("access", "address", "data_format", "structure", "settings")
        values = {attribute: getattr(source, attribute) for attribute in of_source} | values
        if source.reader:
            values["settings"] = {**values["settings"], **source.reader.settings}
        if "mapping" in values:
            parser = str(values["settings"].get("date_time_input_format", ""))
            values["definitions"] = conversions.definitions(values["mapping"], source.read_columns, parser)
    parameters = values["access"].parameters if "access" in values else {}
    template = _template(text) if text else _ENVIRONMENT.get_template(f"{name}.sql.jinja")
    text = template.render(**values).strip()
    return Statement(name=name, text=text, parameters=parameters)


@cache
def _template(text: str) -> Template:
    return _ENVIRONMENT.from_string(dedent(text))
