"""Read files by statements; an error says what is wrong with the files."""

from __future__ import annotations

import re
from typing import Any

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import ChS3Error, ConfigError, ErrorCode, ServerError, SourceError
from airflow_provider_ch_s3.files.source import SourceSpec
from airflow_provider_ch_s3.introspection.explain import build_failure, explain, read_bad_value
from airflow_provider_ch_s3.sql import server_queries
from airflow_provider_ch_s3.table.path_columns import path_column_names

log = get_log(__name__)


def query_files(client: ClickHouseClient, statement: Statement, source: SourceSpec) -> list[dict[str, Any]]:
    """Read files by a statement.

    :raises SourceError: if the servers cannot read the files, or a value does not fit.
    """
    try:
        return client.query(statement)
    except ServerError as error:
        if error.server_code == ErrorCode.NAMED_COLLECTION_DOESNT_EXIST:
            raise _collection_missing(client, source.access.named_collection) from error
        raise unreadable(source, error) from error


def _collection_missing(client: ClickHouseClient, name: str) -> ConfigError:
    try:
        seen = [row["name"] for row in client.query(server_queries.render_read_collections())]
    except ServerError as error:  # the user may not read the list
        log.debug("no list of named collections: %s", error)
        seen = []
    listed = f"this user sees {', '.join(seen)}" if seen else "this user sees none (GRANT SHOW NAMED COLLECTIONS)"
    return ConfigError(
        "collection-missing",
        f"the servers have no named collection {name!r}; {listed}: correct the name, or create it on every node",
    )


def _in_file_and_folder(source: SourceSpec, error: ServerError) -> str:
    """Name of a column that is in the text files and in their folders, against the rules; '' if none."""
    match = re.search(
        r"Unknown field found (?:in format header: '(.+?)' at|while parsing \w+ format: (.+?): )", error.sentence
    )
    name = (match[1] or match[2]) if match else ""
    return name if name in path_column_names(source.files, source.origin.scheme) else ""


def unreadable(source: SourceSpec, error: ServerError) -> ChS3Error:
    """Build the error for files that the servers cannot read, or cannot read as requested."""
    if twice := _in_file_and_folder(source, error):
        return SourceError(
            "column-in-folder",
            f"{source.origin} has a column {twice!r} in its files and in the names of its folders ({twice}=…), and"
            f" ClickHouse reads only that of the folders from {source.data_format}; give"
            " settings={'input_format_skip_unknown_fields': 1} to leave out what is in the files",
        )
    if bad_value := read_bad_value(error.sentence):
        text = str(bad_value.somewhere_in(source.origin))
    else:
        explained = explain(error.sentence, endpoint=source.access.endpoint_url or source.origin.bucket)
        text = f"ClickHouse cannot read {source.origin} as {source.data_format}: {explained}"
    return build_failure(
        SourceError,
        "files-unreadable",
        text,
        error.sentence,
        is_typed=source.format.is_typed,
        is_whole=source.origin.scheme.is_reliable,
    )
