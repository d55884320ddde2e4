"""The page of lakes has the table of what servers read right, and each entry has a case that is tried on engines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_ch_s3.errors import SnapshotError
from airflow_provider_ch_s3.files.access import TableFunction
from airflow_provider_ch_s3.files.snapshots import DataFile, count_rows
from airflow_provider_ch_s3.lakes.functions import DELTA, ICEBERG, Need, need, read_through
from tests.failures import coded
from tests.lake_shapes import CASES

PAGE = Path(__file__).parents[3] / "docs" / "lakes.md"
FEATURES = {"iceberg": ICEBERG, "delta": DELTA}


def lines() -> Iterator[str]:
    yield "| format | what plain Parquet files do not tell | loaded from |"
    yield "| --- | --- | --- |"
    for kind, features in FEATURES.items():
        for feature, since in features.items():
            version = (
                "never: no measured version reads it right" if since is None else "ClickHouse {}.{}".format(*since)
            )
            yield f"| {kind.title()} | {feature} | {version} |"


def test_the_page_is_what_the_code_says(request: pytest.FixtureRequest) -> None:
    table = "<!-- functions: generated -->\n\n{}\n\n<!-- functions: end -->".format("\n".join(lines()))
    found = PAGE.read_text()
    text = re.sub(r"<!-- functions: generated -->.*<!-- functions: end -->", lambda _: table, found, flags=re.S)
    if request.config.getoption("--update-golden"):
        PAGE.write_text(text)
    assert PAGE.read_text() == text, f"to write it again: pytest {__file__} --update-golden"
    assert found.count("<!-- functions: generated -->") == 1


@pytest.mark.parametrize("kind", FEATURES)
def test_each_feature_is_tried_on_engines(kind: str) -> None:
    assert FEATURES[kind].keys() == {case.feature for case in CASES if case.kind == kind and case.feature}


REFUSAL = SnapshotError("lake-rows-deleted", "rows are deleted: rewrite the files")
FILES = [DataFile(key=f"lake/t/{n}.parquet", size_bytes=9, rows=n, columns={"id": False, "p": True}) for n in (1, 2)]


def read(*needs: Need) -> list[DataFile]:
    found = read_through(TableFunction.DELTA, FILES, needs, location="lake/t", settings={"version": 1})
    assert all(isinstance(one, DataFile) for one in found)
    return [one for one in found if isinstance(one, DataFile)]


def test_plain_files_stay_as_they_are() -> None:
    assert [one.reader for one in read()] == [None, None]


def test_the_newest_feature_decides_which_servers_can() -> None:
    found = read(Need(since=(25, 8), refusal=REFUSAL), Need(since=(26, 7), refusal=REFUSAL))
    reader = found[0].reader
    assert reader is not None
    assert found[1].reader is reader
    assert (found, count_rows(found)) == (FILES, 3)
    assert found[0].columns == {"id": False, "p": False}  # the function has the values of folders
    reader.check((26, 7), is_whole=True)
    with pytest.raises(SnapshotError, match=coded("lake-rows-deleted", "rewrite the files", "26.7", "one has 26.6")):
        reader.check((26, 6), is_whole=True)
    with pytest.raises(SnapshotError, match=coded("lake-rows-deleted", "all modes but 'append' do")):
        reader.check((26, 7), is_whole=False)


def test_what_no_server_reads_right_is_refused() -> None:
    with pytest.raises(SnapshotError, match=coded("lake-rows-deleted")):
        need({"deletes": None}, "deletes", REFUSAL)
    assert need({"deletes": (26, 7)}, "deletes", REFUSAL).since == (26, 7)
