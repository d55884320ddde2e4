"""Which of the listed files a load takes."""

from __future__ import annotations

import pytest

from airflow_provider_ch_s3.errors import SourceError
from airflow_provider_ch_s3.load.selection import FileSelection, select_files
from airflow_provider_ch_s3.request import OnChangedFiles, OnLoadedFiles
from airflow_provider_ch_s3.source import SourceFile


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
        pytest.param("load", "skip", ["new", "old"], [], ["changed"], id="again-what-is-there"),
        pytest.param("load", "load", ["changed", "new", "old"], [], [], id="everything"),
    ],
)
def test_what_is_left_out(
    on_loaded: str, on_changed: str, files: list[str], loaded: list[str], changed: list[str]
) -> None:
    choice = select_files(
        LISTED, LOADED, "b", on_loaded=OnLoadedFiles(on_loaded), on_changed=OnChangedFiles(on_changed)
    )
    assert [f.key for f in choice.files] == files
    assert [f.key for f in choice.loaded] == loaded
    assert [f.key for f in choice.changed] == changed
    assert choice.skipped_count == len(loaded) + len(changed)


@pytest.mark.parametrize("on_loaded", OnLoadedFiles)
def test_an_empty_table_takes_all(on_loaded: OnLoadedFiles) -> None:
    choice = select_files(LISTED, {}, "b", on_loaded=on_loaded, on_changed=OnChangedFiles.FAIL)
    assert (choice.files, choice.skipped_count) == (LISTED, 0)


def test_nothing_is_new() -> None:
    choice = select_files((OLD,), LOADED, "b", on_loaded=OnLoadedFiles.SKIP, on_changed=OnChangedFiles.FAIL)
    assert (choice.files, choice.loaded) == ((), (OLD,))


def test_an_older_version_that_is_back_is_in_the_table_already() -> None:
    back = file("old", "0")
    choice = select_files((back,), LOADED, "b", on_loaded=OnLoadedFiles.SKIP, on_changed=OnChangedFiles.FAIL)
    assert choice.loaded == (back,)


@pytest.mark.parametrize(
    ("listed", "begin"),
    [
        pytest.param((CHANGED, NEW), "'changed' changed since", id="one"),
        pytest.param((CHANGED, NEW, file("old", "3")), "'changed' and 1 more changed since", id="two"),
        pytest.param((file("gone", "2"), CHANGED, file("old", "3")), "'gone' and 2 more changed since", id="three"),
    ],
)
@pytest.mark.parametrize("on_loaded", OnLoadedFiles)
def test_a_changed_file_fails_the_load(listed: tuple[SourceFile, ...], begin: str, on_loaded: OnLoadedFiles) -> None:
    with pytest.raises(SourceError) as caught:
        select_files(listed, LOADED, "b", on_loaded=on_loaded, on_changed=OnChangedFiles.FAIL)
    assert str(caught.value) == (
        f"{begin} it was loaded, and the table holds the rows of the old version; use"
        " load_mode='replace_partitions' or 'replace_where' to replace those rows, on_changed_files='load' to add"
        " those of the new version to them, or on_changed_files='skip' to leave the new version out"
    )


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        pytest.param(FileSelection(files=(NEW,)), "", id="nothing"),
        pytest.param(
            FileSelection(files=(), loaded=(OLD,)), "skipping 1 file that the table already holds ('old')", id="one"
        ),
        pytest.param(
            FileSelection(files=(), loaded=(OLD, NEW), changed=(CHANGED,)),
            "skipping 2 files that the table already holds ('old', …) and 1 file of which the table holds"
            " another version ('changed')",
            id="both",
        ),
        pytest.param(
            FileSelection(files=(NEW,), changed=(CHANGED,)),
            "skipping 1 file of which the table holds another version ('changed')",
            id="other-versions-alone",
        ),
    ],
)
def test_the_log_says_what_is_left_out(choice: FileSelection, said: str) -> None:
    assert choice.describe_skipped() == said
