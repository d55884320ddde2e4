"""Files that changed while they were loaded."""

from __future__ import annotations

import pytest

from airflow_provider_ch_s3.errors import LoadError
from airflow_provider_ch_s3.files.addresses import Source
from airflow_provider_ch_s3.files.source import SourceFile
from airflow_provider_ch_s3.load.verify import verify_files


def file(key: str, etag: str) -> SourceFile:
    return SourceFile(key=key, etag=etag, size_bytes=9)


PATTERN = Source(bucket="bucket", globs=("*",))
MANIFEST = {"bucket/a": "1", "bucket/b's": "2"}


@pytest.mark.parametrize(
    "listed",
    [
        pytest.param([file("b's", "2"), file("a", "1")], id="the-same"),
        pytest.param([file("a", "1"), file("b's", "2"), file("c", "3")], id="one-came-later"),
    ],
)
def test_unchanged_files(listed: list[SourceFile]) -> None:
    assert verify_files(MANIFEST, listed, PATTERN) == "2 ETags unchanged"


@pytest.mark.parametrize(
    ("listed", "what"),
    [
        pytest.param([file("a", "1"), file("b's", "9")], '"bucket/b\'s" changed', id="changed"),
        pytest.param([file("b's", "2")], "'bucket/a' was deleted", id="deleted"),
        pytest.param([], "'bucket/a' was deleted", id="all-deleted"),
    ],
)
def test_files_that_changed_while_they_were_loaded(listed: list[SourceFile], what: str) -> None:
    with pytest.raises(LoadError) as caught:
        verify_files(MANIFEST, listed, PATTERN)
    assert caught.value.sentence == (
        f"{what} while it was being loaded, so it was not committed; load again when the files are complete"
    )
