"""Find contradictory arguments: without a server, when the DAG is parsed, or before anything is listed or written."""

from __future__ import annotations

import re
from collections.abc import Mapping

from airflow_provider_ch_s3.arguments import AtOnce, Chunks, Delete, Keep, Move
from airflow_provider_ch_s3.clickhouse.expressions import parse_expression
from airflow_provider_ch_s3.common.declared import SQL, declared_fields, kind_of
from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.files.data_format import DELIMITER_SETTING, Csv
from airflow_provider_ch_s3.files.file_format import check_dialect, find_format, format_of_key
from airflow_provider_ch_s3.files.globs import before_wildcards
from airflow_provider_ch_s3.modes import Append, OnChangedFiles, OnMissingFiles, ReplaceTable
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.table.bad_rows import check_has_lines
from airflow_provider_ch_s3.table.file_schema import parse_structure
from airflow_provider_ch_s3.table.provenance import Origin, check_numbered

# Settings of the parsers, which do not take lines apart.
_OF_FORMATS = re.compile(r"(format_csv|input_format)_(?!csv_detect_header)|date_time_input_format$|bool_")


def check_request(request: LoadRequest) -> None:
    """Check whether the arguments can be read, and go together.

    :raises ConfigError: for the first mistake.
    """
    _check_expressions(request)
    _check_format(request)
    if request.source.scheme.is_lake:
        _check_lake(request)
    _check_direct(request)
    _check_chunks(request)
    _check_held(request)
    if isinstance(request.mode, Append):
        _check_append(request, request.mode)
    if request.mode.follows_changes:
        _check_changes(request)
    _check_after_load(request)
    _check_reject(request)
    _check_new_columns(request)


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


def _check_format(request: LoadRequest) -> None:
    """Refuse what files of a format do not have, such as lines, as far as the names of the files tell the format."""
    if name := request.data_format.format or next(filter(None, map(format_of_key, request.source.globs)), None):
        check_dialect(name, request.csv)
        check_numbered(request.provenance, find_format(name))
        if request.keeps_bad_rows:
            check_has_lines(name)


def _check_beside(argument: str, others: Mapping[str, tuple[object, str]]) -> None:
    """Refuse what does not go together with an argument.

    :param others: argument → whether it is given, and why not both.
    """
    for other, (is_given, reason) in others.items():
        if is_given:
            raise ConfigError(
                "arguments-contradict",
                f"{other} does not go together with {argument}: {reason}; remove one of them",
            )


def _check_direct(request: LoadRequest) -> None:
    if request.mode.is_staged:
        return
    reasons = {
        "checks": (request.checks.conditions, "the rows are in the table before anything can check them"),
        "Checks(validate_only=True)": (request.checks.validate_only, "the rows are in the table at once"),
        "Columns(on_new='add')": (request.adds_columns, "other loads have to wait while the table is altered"),
        f"after_load={request.after_load!r}": (
            not isinstance(request.after_load, Keep),
            "no ledger says which files are loaded",
        ),
        "bad_rows=Reject(…)": (request.keeps_bad_rows, "bad rows are committed together with the others"),
        f"commit={request.commit.name!r}": (
            not isinstance(request.commit, AtOnce),
            "the rows are in the table at once",
        ),
    }
    _check_beside("mode='direct'", reasons)


def _check_chunks(request: LoadRequest) -> None:
    if request.chunks != type(request).chunks and not request.mode.is_additive:
        given = request.chunks if isinstance(request.chunks, Chunks) else request.chunks.name
        raise ConfigError(
            "argument-without-effect",
            f"chunks={given!r} has no effect with mode={request.mode.name!r}, which loads all files with one"
            " query; remove one of them",
        )


def _check_held(request: LoadRequest) -> None:
    if request.holds is None:
        return
    mode = request.mode
    reasons = {
        f"chunks={request.chunks!r}": (
            isinstance(request.chunks, Chunks) and request.chunks != Chunks(),
            "all files are held, and committed, at once",
        ),
        "Checks(validate_only=True)": (request.checks.validate_only, "a validation drops the rows"),
        f"after_load={request.after_load!r}": (
            not isinstance(request.after_load, Keep),
            "the task that commits the rows knows nothing of the store",
        ),
        "Append(on_changed='replace')": (
            isinstance(mode, Append) and mode.on_changed is OnChangedFiles.REPLACE,
            "which rows are of older files is known only at the commit",
        ),
        f"{request.source}": (
            request.source.scheme.is_lake,
            "the next load goes on after the newest snapshot in the table, and would load the held rows, too",
        ),
    }
    _check_beside("commit='held'", reasons)


def _check_append(request: LoadRequest, mode: Append) -> None:
    if mode.list_after_loaded and not (mode.skips_loaded and len(request.source.prefixes) == 1):
        raise ConfigError(
            "arguments-contradict",
            "Append(list_after_loaded=True) leaves out what is before the last loaded key of one address, and"
            " needs on_loaded='skip' and a single address in source; remove it, or use one task for each address"
            f" (source is {request.source})",
        )
    if mode.on_changed is OnChangedFiles.REPLACE:
        _check_changed(request)
    elif mode.on_missing is OnMissingFiles.DELETE:
        raise ConfigError(
            "argument-missing",
            "Append(on_missing='delete') needs on_changed='replace' and"
            " provenance={'source_file': 'path', 'load_id': 'load'}; add both, or remove on_missing",
        )
    if mode.on_missing is OnMissingFiles.DELETE:
        _check_missing(request)


def _check_changed(request: LoadRequest) -> None:
    if not request.mode.skips_loaded:
        raise ConfigError(
            "arguments-contradict", "Append(on_changed='replace') needs on_loaded='skip'; remove one of them"
        )
    if request.mode.list_after_loaded:
        raise ConfigError(
            "arguments-contradict",
            "Append(on_changed='replace') needs a list of all files of the source, and list_after_loaded=True leaves"
            " out the ones that were loaded before; remove one of them",
        )
    if not {Origin.PATH, Origin.LOAD} <= set(request.provenance.values()):
        raise ConfigError(
            "provenance-needed",
            "Append(on_changed='replace') finds the old rows of a file by the columns that say which file and which"
            " load a row came from; give provenance={'source_file': 'path', 'load_id': 'load'}, and add these columns"
            " to a table that lacks them",
        )
    if not request.source.scheme.is_reliable:
        raise ConfigError(
            "arguments-contradict",
            "Append(on_changed='replace') needs an object store, since servers do not agree on the name of a URL"
            f" ({request.source}); use mode=ReplaceWhere(…)",
        )


def _check_missing(request: LoadRequest) -> None:
    if isinstance(request.after_load, (Move, Delete)):
        raise ConfigError(
            "arguments-contradict",
            "Append(on_missing='delete') would remove the rows of all files that"
            f" after_load={request.after_load!r} takes out of the source; remove one of them",
        )
    for glob in request.source.globs:
        folder, _, name = glob.rpartition("/")
        if before_wildcards(folder) != folder or "**" in name:
            raise ConfigError(
                "arguments-contradict",
                f"Append(on_missing='delete') compares a folder with the table, and {request.source} has wildcards"
                " in its folders, where one that is not there yet would count as deleted; name the folder, as in"
                " 's3://bucket/folder/*.parquet', with a task for each (dynamic task mapping does that)",
            )


def _check_changes(request: LoadRequest) -> None:
    if not request.source.scheme.is_lake:
        raise ConfigError(
            "argument-without-effect",
            "Merge(on_removed='delete') needs a lake table, whose snapshots tell removed rows, and"
            f" {request.source.scheme.store} does not have snapshots; remove it",
        )
    if {Origin.PATH, Origin.ROW} & set(request.provenance.values()):
        raise ConfigError(
            "arguments-contradict",
            "Merge(on_removed='delete') reads changes, and change data do not name the file and the row of a change;"
            " remove 'path' and 'row' from provenance",
        )


def _check_after_load(request: LoadRequest) -> None:
    source, wanted = request.source, request.after_load
    if isinstance(wanted, Keep):
        return
    if not source.scheme.is_writable:
        raise ConfigError(
            "arguments-contradict",
            f"after_load={wanted!r} is not possible with {source}, whose files cannot be changed; remove it",
        )
    if not isinstance(wanted, Move):
        return
    if not wanted.folder:
        raise ConfigError(
            "arguments-contradict",
            "after_load=Move('') names no folder; give one of the same bucket, such as Move('loaded/')",
        )
    if any(_may_match(glob, wanted.folder) for glob in source.globs):
        raise ConfigError(
            "arguments-contradict",
            f"after_load={wanted!r} is in reach of {source}, so the next load would load the moved files again; give"
            " a folder that the source does not cover",
        )


def _check_new_columns(request: LoadRequest) -> None:
    if not request.adds_columns:
        return
    if request.checks.validate_only:
        raise ConfigError(
            "arguments-contradict",
            "Checks(validate_only=True) and Columns(on_new='add') contradict each other; remove one of them",
        )
    if request.columns.only is not None:
        raise ConfigError(
            "argument-without-effect",
            "Columns(only=…) names all columns that are loaded, so on_new='add' adds none; remove one of them",
        )


def _may_match(glob: str, folder: str) -> bool:
    """Whether a glob may match a key in a folder: one text is the beginning of the other, up to a wildcard."""
    start = before_wildcards(glob)
    return start.startswith(folder) or folder.startswith(start)


def _check_reject(request: LoadRequest) -> None:
    if not request.keeps_bad_rows:
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


def _check_lake(request: LoadRequest) -> None:
    """Refuse arguments about files in a folder, for a lake table: the snapshots name the files.

    :raises ConfigError: for the first of these arguments.
    """
    again = f" (mode={ReplaceTable.name!r} loads all rows of a snapshot again)"
    given = {
        "mode='direct'": (not request.mode.is_staged, again),
        f"mode={request.mode!r}": (request.mode.is_about_files, again),
        "Arrivals(min_age=…)": (request.arrivals.min_age, ""),
        "Arrivals(expected=…)": (request.arrivals.expected, ""),
    }
    for name, (is_given, remedy) in given.items():
        if is_given:
            raise without_meaning(name, remedy)


def without_meaning(what: str, remedy: str = "") -> ConfigError:
    """Build the error for an argument about files in a folder, given for a lake table.

    :param what: the argument.
    :param remedy: what to give instead.
    """
    return ConfigError(
        "argument-without-effect",
        f"{what} has no meaning for a lake table, whose snapshots name the files, and say what is in them; remove"
        f" it{remedy}",
    )
