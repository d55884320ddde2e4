"""Arguments that contradict each other are found without a server."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ch_s3.arguments import Arrivals, Checks, Chunks, Columns, Csv, Held, Move, Reject
from airflow_provider_ch_s3.contradictions import check_request
from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.files.addresses import (
    AZURE,
    DELTA,
    GCS,
    HTTP,
    ICEBERG,
    S3,
    Scheme,
    Source,
    parse_location,
)
from airflow_provider_ch_s3.files.stores import WritableStore
from airflow_provider_ch_s3.lakes.store import LakeStore
from airflow_provider_ch_s3.modes import Append, Merge, ReplaceWhere
from airflow_provider_ch_s3.stores.azure import AzureBlobFileStore
from airflow_provider_ch_s3.stores.gcs import GCSFileStore
from airflow_provider_ch_s3.stores.http import HttpFileStore
from airflow_provider_ch_s3.stores.s3 import S3FileStore
from tests.failures import coded
from tests.load_requests import load_request

FLAT = Source(bucket="b", globs=("a/*.csv",))
KNOWN = {"source_file": "path", "load_id": "load"}
REPLACES = {"mode": Append(on_changed="replace"), "provenance": KNOWN}
REMOVES = {"mode": Append(on_changed="replace", on_missing="delete"), "provenance": KNOWN}


def check(source: Source = FLAT, **arguments: Any) -> None:
    check_request(load_request(source, **arguments))


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        REPLACES,
        REMOVES,
        {"mode": Append(list_after_loaded=True)},
        {"mode": "direct", "columns": Columns(on_new="ignore"), "where": "n > 0"},
        {"mode": Merge(key=["id"], deleted="op = 'D'"), "after_load": "delete"},
        {"after_load": Move("loaded")},
        {"bad_rows": Reject(max_rows=3), "data_format": Csv(delimiter=";", header=True)},
        {"mode": Merge(key=["id"]), "commit": "held"},
        {"chunks": "off", "commit": "held"},
        {"chunks": Chunks(max_files=3), "mode": Append(on_loaded="load")},
    ],
)
def test_what_goes_together(arguments: dict[str, Any]) -> None:
    check(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"where": "n > ("}, "where: "),
        ({"mode": ReplaceWhere("n > (")}, "mode.condition: "),
        ({"mode": Merge(key=["n"], deleted="(")}, "mode.deleted: "),
        ({"select": {"a": "("}}, "select['a']: "),
        ({"checks": {"a": "("}}, "checks['a']: "),
        (
            {"mode": "direct", "checks": {"a": "count() > 0"}},
            "checks does not go together with mode='direct': the rows are in the table before anything can check"
            " them;"
            " remove one of them",
        ),
        ({"mode": "direct", "checks": Checks(validate_only=True)}, "Checks(validate_only=True) does not go together"),
        (
            {"mode": "direct", "columns": Columns(on_new="add")},
            "Columns(on_new='add') does not go together with mode",
        ),
        (
            {"mode": "direct", "after_load": "tag"},
            "after_load=Tag() does not go together with mode='direct': no ledger",
        ),
        ({"mode": "direct", "commit": "settled"}, "commit='settled' does not go together with mode='direct'"),
        ({"mode": "direct", "commit": "held"}, "commit='held' does not go together with mode='direct'"),
        (
            {"chunks": Chunks(max_files=3), "commit": "held"},
            "chunks=Chunks(max_files=3) does not go together with co",
        ),
        ({"checks": Checks(validate_only=True), "commit": "held"}, "Checks(validate_only=True) does not go together"),
        ({"after_load": "tag", "commit": "held"}, "after_load=Tag() does not go together with commit='held'"),
        (
            {
                "mode": Append(on_changed="replace"),
                "provenance": {"a": "path", "b": "load"},
                "commit": Held(hold_seconds=5),
            },
            "Append(on_changed='replace') does not go together with commit='held'",
        ),
        ({"mode": "direct", "bad_rows": Reject()}, "bad_rows=Reject(…) does not go together with mode='direct'"),
        (
            {"mode": "replace_table", "chunks": Chunks(max_files=5)},
            "chunks=Chunks(max_files=5) has no effect with mode='replace_table', which loads all files with one"
            " query;"
            " remove one of them",
        ),
        (
            {"mode": Append(list_after_loaded=True, on_loaded="load")},
            "Append(list_after_loaded=True) leaves out what is before the last loaded key of one address, and needs",
        ),
        (
            {"mode": Append(on_changed="replace", on_loaded="load"), "provenance": KNOWN},
            "Append(on_changed='replace')",
        ),
        (
            {"mode": Append(on_changed="replace", list_after_loaded=True), "provenance": KNOWN},
            "Append(on_changed='replace') needs a list of all files of the source, and list_after_loaded=True leaves",
        ),
        (
            {"mode": Append(on_changed="replace"), "provenance": {"f": "path"}},
            "Append(on_changed='replace') finds the old rows of a file by the columns that say which file and which",
        ),
        (
            {"mode": Append(on_missing="delete")},
            "Append(on_missing='delete') needs on_changed='replace' and provenance={'source_file': 'path',",
        ),
        (
            {**REMOVES, "after_load": Move("x")},
            "Append(on_missing='delete') would remove the rows of all files that after_load=Move('x/') takes out of"
            " the"
            " source; remove one of them",
        ),
        (
            {"mode": Merge(key=["id"], on_removed="delete")},
            "Merge(on_removed='delete') needs a lake table, whose snapshots tell removed rows, and S3 does not have",
        ),
        ({"after_load": Move("/")}, "after_load=Move('') names no folder; give one of the same bucket, such as"),
        (
            {"after_load": Move("a")},
            "after_load=Move('a/') is in reach of s3://b/a/*.csv, so the next load would load",
        ),
        ({"bad_rows": Reject(), "mode": "replace_table"}, "bad_rows=Reject(…) does not go together with mode='repla"),
        ({"bad_rows": Reject(), "select": {"a": "b"}}, "bad_rows=Reject(…) does not go together with select; remove"),
        (
            {"bad_rows": Reject(), "data_format": Csv(quote="'")},
            "bad_rows=Reject(…) does not go together with data_f",
        ),
        (
            {"bad_rows": Reject(), "mode": Append(views="replay")},
            "bad_rows=Reject(…) does not go together with Append",
        ),
        (
            {"bad_rows": Reject(), "settings": {"date_time_input_format": "basic"}},
            "bad_rows=Reject(…) does not go to",
        ),
        (
            {"checks": Checks(validate_only=True), "columns": Columns(on_new="add")},
            "Checks(validate_only=True) and Columns(on_new='add') contradict each other; remove one of them",
        ),
        (
            {"columns": Columns(["a"], on_new="add")},
            "Columns(only=…) names all columns that are loaded, so on_new='add' adds none; remove one of them",
        ),
    ],
)
def test_what_contradicts_itself(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check(**arguments)
    assert caught.value.sentence.startswith(message)


@pytest.mark.parametrize("glob", ["dt=*/a.csv", "a/**", "{a,b}/*.csv"])
def test_a_folder_that_is_not_there_yet_is_not_deleted(glob: str) -> None:
    with pytest.raises(ConfigError, match=coded("arguments-contradict", "on_missing='delete'", f"s3://b/{glob}")):
        check(Source(bucket="b", globs=(glob,)), **REMOVES)


def test_urls_are_no_object_store() -> None:
    source = Source(bucket="example.com", globs=("a.csv",), scheme=HTTP)
    with pytest.raises(ConfigError, match=coded("arguments-contradict", "on_changed='replace'")):
        check(source, **REPLACES)
    with pytest.raises(ConfigError, match=coded("arguments-contradict", "after_load=Tag()", "example.com/a.csv")):
        check(source, after_load="tag")


LAKE = Source(bucket="", globs=("**",), scheme=ICEBERG)
"""A lake table, before the worker knows where its files are."""


@pytest.mark.parametrize(
    "arguments",
    [
        {"mode": "direct"},
        {"mode": Append(on_loaded="load")},
        {"arrivals": Arrivals(min_age=5)},
        {"arrivals": Arrivals(expected="_SUCCESS")},
        REMOVES,  # before the wildcards of the table's files
    ],
)
def test_what_a_lake_table_does_not_have(arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=coded("argument-without-effect", "lake table")):
        check(LAKE, **arguments)


FOLLOWS = Merge(key=["id"], on_removed="delete")


@pytest.mark.parametrize("word", ["path", "row"])
def test_changes_do_not_name_a_file(word: str) -> None:
    with pytest.raises(ConfigError, match=coded("arguments-contradict", "remove 'path' and 'row' from provenance")):
        check(parse_location("s3://b/t", DELTA), mode=FOLLOWS, provenance={"source": word})


@pytest.mark.parametrize("lake", [DELTA, ICEBERG])
def test_lakes_tell_changes(lake: Scheme) -> None:
    check(parse_location("s3://b/t", lake), mode=FOLLOWS, provenance={"loaded_at": "time", "load": "load"})


def test_what_a_lake_table_has() -> None:
    check(LAKE, mode=Append(views="replay"), arrivals=Arrivals(on_none="skip"))


@pytest.mark.parametrize(
    ("scheme", "store"),
    [
        (S3, S3FileStore),
        (GCS, GCSFileStore),
        (AZURE, AzureBlobFileStore),
        (HTTP, HttpFileStore),
        (ICEBERG, LakeStore),
        (DELTA, LakeStore),
    ],
)
def test_the_addresses_of_a_store_tell_whether_its_files_can_be_changed(scheme: Scheme, store: type) -> None:
    methods = {name for name in vars(WritableStore) if not name.startswith("_")}
    assert scheme.is_writable == all(hasattr(store, name) for name in methods)
