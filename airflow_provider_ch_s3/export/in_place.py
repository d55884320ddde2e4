"""A SELECT over files where they are: nothing is loaded, and nothing is written."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from airflow_provider_ch_s3.arguments import Arrivals, OnNothing
from airflow_provider_ch_s3.clickhouse.statement import shorten_lines
from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.cluster.spec import ClusterDeclaration
from airflow_provider_ch_s3.common.text import count_of, format_bytes
from airflow_provider_ch_s3.common.work import log_folded
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import ConfigError, LoadError, ServerError, SourceError
from airflow_provider_ch_s3.files.access import warn_if_plain
from airflow_provider_ch_s3.files.addresses import Source
from airflow_provider_ch_s3.files.file_format import infer_format
from airflow_provider_ch_s3.files.source import SourceSpec
from airflow_provider_ch_s3.files.stores import ObjectStore
from airflow_provider_ch_s3.introspection.cluster import detect_cluster, read_server
from airflow_provider_ch_s3.introspection.files import check_format
from airflow_provider_ch_s3.load.arrivals import list_files
from airflow_provider_ch_s3.load.prepare import read_server_settings
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.sql.export_queries import FILES, render_select_files
from airflow_provider_ch_s3.sql.filters import short_identifier
from airflow_provider_ch_s3.table.file_schema import parse_structure
from airflow_provider_ch_s3.tuning import IN_PLACE_RULES, InPlaceFacts, Plan, SettingValue, plan_query

log = get_log(__name__)


@dataclass(frozen=True, kw_only=True)
class InPlaceRequest:
    """A query over files.

    :param sql: a SELECT with ``{files}`` in place of the files.
    :param data_format: ClickHouse's name; None to infer the format from the file names.
    :param compression: ClickHouse's name; None to infer the compression from each file name.
    :param structure: ``name Type, …`` of the files; None to let the server infer the columns.
    :param settings: ClickHouse settings, which override all computed settings.
    :param connection_settings: settings of the Airflow connection.
    :param max_rows: fail if the result has more.
    :param timeout_seconds: the task's ``execution_timeout``.
    """

    source: Source
    sql: str
    data_format: str | None = None
    compression: str | None = None
    structure: str | None = None
    settings: Mapping[str, SettingValue] = field(default_factory=dict)
    connection_settings: Mapping[str, SettingValue] = field(default_factory=dict)
    max_rows: int = 1000
    timeout_seconds: float | None = None


def query_in_place(
    client: ClickHouseClient,
    store: ObjectStore,
    declaration: ClusterDeclaration,
    request: InPlaceRequest,
    query_id: str,
) -> list[dict[str, Any]]:
    """Run the query on the connected server; return the rows as native Python values.

    :raises ConfigError: if the query does not name the files, a setting is wrong, or Airflow cannot keep a result of
        this type.
    :raises SourceError: if there are no files, or the server refuses the query.
    :raises LoadError: if the result has more than ``max_rows`` rows.
    """
    if FILES not in request.sql:
        raise ConfigError(
            "argument-invalid",
            f"sql={request.sql!r} does not name the files; write {FILES} where a table would be",
        )
    if request.structure:
        parse_structure(request.structure, frozenset())
    source = _read_source(client, store, request)
    plan = _plan(client, declaration, request, source)
    log_folded(log, f"the plan for {request.source}", plan.describe())
    warn_if_plain(source.access)
    rendered = partial(
        render_select_files,
        source.read_with(**plan.sent),
        request.sql,
        structure=request.structure or "auto",
        limit_rows=request.max_rows + 1,
    )
    statement = rendered()
    try:
        _check_types(client.query(rendered(is_described=True)))
        log.info("submitting %s", query_id)
        log_folded(log, "the SQL", shorten_lines(statement.text))
        rows = client.query(statement, query_id=query_id)
    except ServerError as error:
        raise SourceError(
            "query-refused",
            f"the server refuses the query over {request.source}: {error.sentence}; give one SELECT without"
            " FORMAT, whose columns the files have",
        ) from error
    if len(rows) > request.max_rows:
        raise LoadError(
            "rows-too-many",
            f"the query over {request.source} yields more than max_rows={request.max_rows:,} rows, and all of them"
            " would go to Airflow's database; aggregate them, raise max_rows, or load the files into a table",
        )
    return rows


def _check_types(columns: Sequence[Mapping[str, Any]]) -> None:
    """Check that Airflow can keep values of these types.

    :raises ConfigError: if it cannot.
    """
    for column in columns:
        if re.search(r"\bIPv[46]\b", column["type"]):
            name = short_identifier(column["name"])
            raise ConfigError(
                "type-not-returned",
                f"column {name} of the result is {column['type']}, and Airflow cannot keep such values; write it as"
                f" text: toString({name}) AS {name}",
            )


def _plan(
    client: ClickHouseClient, declaration: ClusterDeclaration, request: InPlaceRequest, source: SourceSpec
) -> Plan:
    cluster = detect_cluster(client, declaration, read_server(client))
    source.access.check_version(cluster.server_version)
    facts = InPlaceFacts(
        vcpus=cluster.weakest.vcpus,
        data_format=source.data_format,
        uses_server_role=source.access.uses_server_role,
        timeout_seconds=request.timeout_seconds,
    )
    return plan_query(
        IN_PLACE_RULES,
        facts,
        server=read_server_settings(client),
        operator=request.settings,
        connection=request.connection_settings,
    )


def _read_source(client: ClickHouseClient, store: ObjectStore, request: InPlaceRequest) -> SourceSpec:
    listed = LoadRequest(source=request.source, table="", arrivals=Arrivals(on_none=OnNothing.SUCCEED))
    files = list_files(store, listed, is_recorded=False)
    if not files:
        raise SourceError(
            "no-file-matches",
            f"no file matches {request.source.with_hint}; check the address, and that the files were delivered",
        )
    given = check_format(client, request.data_format) if request.data_format else None
    data_format, compression = infer_format((file.key for file in files), given, request.compression)
    source = SourceSpec(
        origin=request.source,
        access=store.access(),
        files=files,
        data_format=data_format,
        compression=compression,
        columns=(),
    )
    if source.is_glob:
        raise SourceError(
            "files-too-many",
            f"{request.source}: {count_of(len(files), 'file')} are too many to be named in one statement, as they"
            " must be for the query to read what was listed; narrow the source, or load the files into a table",
        )
    log.info("%s, %s in %s", request.source, format_bytes(source.size_bytes), count_of(len(files), "file"))
    return source
