"""Which of the listed files a load takes; test_chunks.py has how many at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_ch_s3.errors import SnapshotError, SourceError
from airflow_provider_ch_s3.exactly_once.modes.append import select_files
from airflow_provider_ch_s3.exactly_once.modes.mode import FileSelection
from airflow_provider_ch_s3.files.addresses import parse_source
from airflow_provider_ch_s3.files.chunk import Chunk
from airflow_provider_ch_s3.files.snapshots import SnapshotRange
from airflow_provider_ch_s3.files.source import SourceFile
from airflow_provider_ch_s3.load.selection import (
    ChunkSelection,
    LeftOut,
    check_added_once,
)
from airflow_provider_ch_s3.modes import Append, OnChangedFiles, OnLoadedFiles
from airflow_provider_ch_s3.request import LoadRequest
from tests.failures import coded


def request(on_loaded: str = "skip", on_changed: str = "fail") -> LoadRequest:
    return LoadRequest(
        source=parse_source("s3://b/**"),
        table="t",
        mode=Append(on_loaded=OnLoadedFiles(on_loaded), on_changed=OnChangedFiles(on_changed)),
    )


def file(key: str, etag: str) -> SourceFile:
    return SourceFile(key=key, etag=etag, size_bytes=9)


NEW, OLD, CHANGED = file("new", "1"), file("old", "1"), file("changed", "2")
LISTED = (CHANGED, NEW, OLD)
# The table holds two versions of old, what was changed since, and a new of another bucket; gone is not listed.
LOADED = {"b/old": {"0", "1"}, "b/changed": {"1"}, "b/gone": {"1"}, "other/new": {"1"}}


@pytest.mark.parametrize(
    ("on_loaded", "on_changed", "files", "loaded", "changed"),
    [
        pytest.param("skip", "skip", ["new"], ["old"], ["changed"], id="only-what-is-new"),
        pytest.param("skip", "load", ["changed", "new"], ["old"], [], id="new-versions-too"),
        pytest.param("skip", "replace", ["changed", "new"], ["old"], [], id="new-versions-instead"),
        pytest.param("load", "skip", ["new", "old"], [], ["changed"], id="again-what-is-there"),
        pytest.param("load", "load", ["changed", "new", "old"], [], [], id="everything"),
    ],
)
def test_what_is_left_out(
    on_loaded: str, on_changed: str, files: list[str], loaded: list[str], changed: list[str]
) -> None:
    choice = select_files(LISTED, LOADED, request(on_loaded, on_changed))
    assert [f.key for f in choice.files] == files
    assert [f.key for f in choice.loaded] == loaded
    assert [f.key for f in choice.changed] == changed


def test_a_changed_file_replaces_what_is_held() -> None:
    assert select_files(LISTED, LOADED, request("skip", "replace")).replaced == {"changed"}
    assert select_files(LISTED, LOADED, request("skip", "load")).replaced == frozenset()


@pytest.mark.parametrize("on_loaded", ["skip", "load"])
def test_an_empty_table_takes_all(on_loaded: str) -> None:
    assert select_files(LISTED, {}, request(on_loaded)) == FileSelection(files=LISTED)


def test_nothing_is_new() -> None:
    assert select_files((OLD,), LOADED, request()) == FileSelection(files=(), loaded=(OLD,))


def test_an_older_version_that_is_back_is_in_the_table_already() -> None:
    back = file("old", "0")
    assert select_files((back,), LOADED, request()).loaded == (back,)


@pytest.mark.parametrize(
    ("listed", "begin"),
    [
        pytest.param((CHANGED, NEW), "'changed' changed since", id="one"),
        pytest.param((CHANGED, NEW, file("old", "3")), "'changed' and 1 more changed since", id="two"),
        pytest.param((file("gone", "2"), CHANGED, file("old", "3")), "'gone' and 2 more changed since", id="three"),
    ],
)
@pytest.mark.parametrize("on_loaded", ["skip", "load"])
def test_a_changed_file_fails_the_load(listed: tuple[SourceFile, ...], begin: str, on_loaded: str) -> None:
    with pytest.raises(SourceError) as caught:
        select_files(listed, LOADED, request(on_loaded))
    assert caught.value.sentence == (
        f"{begin} it was loaded, and the table holds the rows of the old version; replace these rows with"
        " mode='replace_partitions' or 'replace_where', or with Append(on_changed='replace') if columns have the file"
        " and load of each row (provenance=…); Append(on_changed='load') adds the rows of the new version,"
        " Append(on_changed='skip') leaves the new version out"
    )


def test_files_of_a_lake_that_an_operator_for_files_has_loaded() -> None:
    of_lake = replace(request(), snapshot="latest")
    with pytest.raises(
        SnapshotError, match=coded("snapshot-unrelated", "'changed'", "mode='replace_table'")
    ) as caught:
        select_files(LISTED, LOADED, of_lake)
    assert "on_changed_files" not in caught.value.sentence


def test_a_file_that_the_lake_has_twice() -> None:
    snapshots = SnapshotRange(record_key="k", table_uuid="u", id="7", after="5", skips_held=False)
    left_out = LeftOut(loaded_count=1, loaded_key="t/a")
    with pytest.raises(SnapshotError, match=coded("lake-file-twice", "'t/a'", "'replace_table'")):
        check_added_once(ChunkSelection(chunk=Chunk(snapshots=snapshots), left_out=left_out))
    for chunk in (Chunk(), Chunk(snapshots=replace(snapshots, skips_held=True))):
        check_added_once(ChunkSelection(chunk=chunk, left_out=left_out))
    check_added_once(ChunkSelection(chunk=Chunk(snapshots=snapshots)))


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        pytest.param([FileSelection(files=(NEW,))], "", id="nothing"),
        pytest.param(
            [FileSelection(files=(), loaded=(OLD,))], "skipping 1 file that the table already holds ('old')", id="one"
        ),
        pytest.param(
            [FileSelection(files=(), loaded=(OLD, NEW), changed=(CHANGED,))],
            "skipping 2 files that the table already holds ('old', …) and 1 file that the table holds"
            " in another version ('changed')",
            id="both",
        ),
        pytest.param(
            [FileSelection(files=(NEW,), changed=(CHANGED,))],
            "skipping 1 file that the table holds in another version ('changed')",
            id="other-versions-alone",
        ),
        pytest.param(
            [FileSelection(files=(NEW,)), *(FileSelection(files=(), loaded=(file,)) for file in (OLD, NEW))],
            "skipping 2 files that the table already holds ('old', …)",
            id="the-first-of-all-parts-is-named",
        ),
    ],
)
def test_the_log_says_what_is_left_out(parts: list[FileSelection], said: str) -> None:
    left_out = LeftOut(young_count=1)
    for part in parts:
        left_out.add(part)
    assert left_out.describe_skipped() == said
    skipped = sum(len(part.loaded) + len(part.changed) for part in parts)
    assert (left_out.skipped_count, left_out.young_count) == (skipped, 1)
