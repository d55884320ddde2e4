"""Find contradictory arguments: without a server, and before anything is listed or written."""

from __future__ import annotations

import re

from airflow_provider_ch_s3.arguments import Chunks, Keep, Move
from airflow_provider_ch_s3.clickhouse.expressions import parse_expression
from airflow_provider_ch_s3.common.declared import SQL, declared_fields, kind_of
from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.exactly_once.modes.registry import mode_for
from airflow_provider_ch_s3.files.data_format import DELIMITER_SETTING, Csv
from airflow_provider_ch_s3.files.globs import before_wildcards
from airflow_provider_ch_s3.files.stores import ObjectStore, WritableStore
from airflow_provider_ch_s3.modes import Direct, ReplaceTable
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.table.file_schema import parse_structure

# Settings of the parsers, which do not take lines apart.
_OF_FORMATS = re.compile(r"(format_csv|input_format)_(?!csv_detect_header)|date_time_input_format$|bool_")


def check_request(request: LoadRequest, store: ObjectStore) -> None:
    """Check whether the arguments can be read, and go together.

    :param store: the store of the files; receives no requests.
    :raises ConfigError: for the first mistake.
    """
    _check_expressions(request)
    _check_direct(request)
    _check_chunks(request)
    mode_for(request).check_arguments(request)
    _check_after_load(request, store)
    _check_reject(request)
    if request.checks.validate_only and request.adds_columns:
        raise ConfigError(
            "arguments-contradict",
            "Checks(validate_only=True) and Columns(on_new='add') contradict each other; remove one of them",
        )
    if request.pattern.scheme.is_lake:
        check_lake(request)


def _check_expressions(request: LoadRequest) -> None:
    """Parse all SQL, to find mistakes before the load."""
    if request.data_format.structure:
        parse_structure(request.data_format.structure, frozenset())
    of_mode = [name for name, field in declared_fields(type(request.mode)).items() if kind_of(field) is SQL]
    given = {
        **{f"select[{name!r}]": text for name, text in request.select.items()},
        **{f"checks[{name!r}]": check.expression for name, check in request.checks.conditions.items()},
        **({"where": request.where} if request.where else {}),
        **{f"mode.{name}": text for name in of_mode if (text := getattr(request.mode, name))},
    }
    for name, text in given.items():
        try:
            parse_expression(text)
        except ConfigError as error:
            raise ConfigError(error.code, f"{name}: {error.sentence}") from error


def _check_direct(request: LoadRequest) -> None:
    if not isinstance(request.mode, Direct):
        return
    reasons = {
        "checks": (request.checks.conditions, "the rows are in the table before anything can check them"),
        "Checks(validate_only=True)": (request.checks.validate_only, "the rows are in the table at once"),
        "Columns(on_new='add')": (request.adds_columns, "other loads have to wait while the table is altered"),
        f"after_load={request.after_load!r}": (
            not isinstance(request.after_load, Keep),
            "no ledger says which files are loaded",
        ),
        "bad_rows=Reject(…)": (request.rejects, "bad rows are committed together with the others"),
    }
    for argument, (is_given, reason) in reasons.items():
        if is_given:
            raise ConfigError(
                "arguments-contradict",
                f"{argument} does not go together with mode='direct': {reason}; remove one of them",
            )


def _check_chunks(request: LoadRequest) -> None:
    if request.chunks != type(request).chunks and not request.mode.is_additive:
        given = request.chunks if isinstance(request.chunks, Chunks) else request.chunks.name
        raise ConfigError(
            "argument-without-effect",
            f"chunks={given!r} has no effect with mode={request.mode.name!r}, which loads all files with one"
            " query; remove one of them",
        )


def _check_after_load(request: LoadRequest, store: ObjectStore) -> None:
    pattern, wanted = request.pattern, request.after_load
    if isinstance(wanted, Keep):
        return
    if not isinstance(store, WritableStore):
        raise ConfigError(
            "arguments-contradict",
            f"after_load={wanted!r} is not possible with {pattern}, whose files cannot be changed; remove it",
        )
    if not isinstance(wanted, Move):
        return
    if not wanted.folder:
        raise ConfigError(
            "arguments-contradict",
            "after_load=Move('') names no folder; give one of the same bucket, such as Move('loaded/')",
        )
    if any(_may_match(glob, wanted.folder) for glob in pattern.globs):
        raise ConfigError(
            "arguments-contradict",
            f"after_load={wanted!r} is in reach of {pattern}, so the next load would load the moved files again; give"
            " a folder that the source does not cover",
        )


def _may_match(glob: str, folder: str) -> bool:
    """Whether a glob may match a key in a folder: one text is the beginning of the other, up to a wildcard."""
    start = before_wildcards(glob)
    return start.startswith(folder) or folder.startswith(start)


def _check_reject(request: LoadRequest) -> None:
    if not request.rejects:
        return
    dialect = request.csv
    unsupported = {
        f"mode={request.mode.name!r}": not request.mode.is_additive,
        "select": request.select,
        "where": request.where,
        "provenance": request.provenance,
        "a structure": request.data_format.structure is not None,
        "Columns(on_new='add')": request.adds_columns,
        f"data_format={dialect!r}": dialect
        != Csv(delimiter=dialect.delimiter, header=dialect.header, compression=dialect.compression),
        "Append(views='replay')": request.mode.replays_views,
    }
    given = {**request.connection_settings, **request.settings}
    formats = [name for name in given if _OF_FORMATS.match(name) and name != DELIMITER_SETTING]
    unsupported.update((f"the setting {name}", True) for name in formats)
    if wrong := [name for name, is_given in unsupported.items() if is_given]:
        raise ConfigError(
            "arguments-contradict",
            f"bad_rows=Reject(…) does not go together with {wrong[0]}; remove one of them, or load the lines into a"
            " table of their own and clean them there",
        )


def check_lake(request: LoadRequest) -> None:
    """Refuse arguments about files in a folder, for a lake table: the snapshots name the files.

    :raises ConfigError: for the first of these arguments.
    """
    given = {
        "mode='direct'": isinstance(request.mode, Direct),
        f"mode={request.mode!r}": request.mode.is_about_files,
        "Arrivals(min_age=…)": request.arrivals.min_age,
        "Arrivals(expected=…)": request.arrivals.expected,
    }
    if wrong := [name for name, is_given in given.items() if is_given]:
        raise ConfigError(
            "argument-without-effect",
            f"{wrong[0]} has no meaning for a lake's table, whose snapshots say which files it has and what they"
            f" contain; remove it (mode={ReplaceTable.name!r} loads all of a snapshot again)",
        )
