"""What a file is by its first bytes."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile

import pyarrow as pa
import pytest

from airflow_provider_ch_s3.files.data_format import find_rivals
from airflow_provider_ch_s3.files.first_bytes import (
    HEAD_BYTES,
    Head,
    is_blank,
    is_text,
    name_other_content,
)
from airflow_provider_ch_s3.files.source import SourceFile
from tests.sandbox.written import arrow_ipc_file, orc_file, parquet_file

TABLE = pa.table({"t": ["a"]})


def zipped() -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as writing:
        writing.writestr("a.csv", "x")
    return archive.getvalue()


@pytest.mark.parametrize(
    ("content", "name"),
    [
        pytest.param(gzip.compress(b"x"), "gzip data", id="gzip"),
        pytest.param(bz2.compress(b"x"), "bzip2 data", id="bzip2"),
        pytest.param(lzma.compress(b"x"), "xz data", id="xz"),
        pytest.param(b"\x28\xb5\x2f\xfd\x20\x01", "Zstandard data", id="zstandard"),
        pytest.param(zipped(), "a zip archive (or an Excel file)", id="zip"),
        pytest.param(b"a.csv".ljust(257, b"\0") + b"ustar\x0000", "a tar archive", id="tar"),
        pytest.param(b"a.csv".ljust(257, b"\0") + b"ustar  \0", "a tar archive", id="tar-by-gnu"),
        pytest.param(parquet_file(TABLE), "Parquet data", id="parquet"),
        pytest.param(orc_file(TABLE), "ORC data", id="orc"),
        pytest.param(arrow_ipc_file(TABLE), "Arrow data", id="arrow"),
        pytest.param(b"Obj\x01\x04", "Avro data", id="avro"),
        pytest.param(b"%PDF-1.7\n", "a PDF document", id="pdf"),
        pytest.param("a,b\n".encode("utf-16"), "text in UTF-16", id="utf-16"),
        pytest.param("a,b\n".encode("utf-16-le"), "text in UTF-16", id="utf-16-without-a-mark"),
        pytest.param(b"\n<!DOCTYPE html>\n<html>", "a page in HTML", id="html"),
        pytest.param(b"<HTML><body>", "a page in HTML", id="html-without-doctype"),
        pytest.param(
            b'<?xml version="1.0"?>\n<Error><Code>NoSuchKey</Code></Error>',
            "an error message of a store (NoSuchKey)",
            id="error",
        ),
        pytest.param(b"<Error><Code>AccessDenied</Code>", "an error message of a store (AccessDenied)", id="bare"),
        pytest.param(b"\xef\xbb\xbf<?xml version='1.0'?><rows/>", "a document in XML", id="xml"),
    ],
)
def test_something_else(content: bytes, name: str) -> None:
    assert name_other_content(content) == name


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"a,b\n1,2\n",
        b"id,name\n".ljust(256, b"1") + b"Mustard,2\n",
        b"\xef\xbb\xbfa,b\n",
        b'{"a":1}\n',
        b"[]",
        b"PAR1,x\n",
        b"ORCID,n\n",
        b"Objective,n\n",
        b"BZh,n\n",
        "K\u00f6ln".encode("latin-1"),
        b"<none>,1\n",
        b"<b>x</b>,1\n",
    ],
)
def test_text(content: bytes) -> None:
    assert name_other_content(content) == ""
    assert is_text(content)


@pytest.mark.parametrize(
    ("content", "of_csv", "of_json"),
    [
        (b"", True, True),
        (b"\n", True, True),
        (b"\xef\xbb\xbf\r\n", True, True),
        (b"[]", False, True),
        (b"[ ]\n", False, True),
        (b"0", False, False),
        (b"[1]", False, False),
    ],
)
def test_blank(content: bytes, of_csv: bool, of_json: bool) -> None:
    assert (is_blank(content, is_json=False), is_blank(content, is_json=True)) == (of_csv, of_json)


def test_lines() -> None:
    def lines(content: bytes) -> list[str]:
        return Head(file=SourceFile(key="a", etag="e", size_bytes=1), content=content).lines()

    assert lines(b"\xef\xbb\xbfa,b\r\n1,2\n3,4") == ["a,b", "1,2", "3,4"]
    assert lines(b"a\n" + b"x" * HEAD_BYTES) == ["a"], "what goes on after the head is no whole line"


@pytest.mark.parametrize(
    ("lines", "rivals"),
    [
        (["Apple;1,50", "Pear;2,75"], [";"]),
        (["a,b;c|d"], [";", "|"]),
        (["a,b", "c;d,e"], []),
        (["name;price", "Apple;1,50"], []),
        (['"a;b",1', '"c",2'], []),
        (["a|b,1,x", "c|d,2,y"], []),
        (["a;b"], []),
    ],
)
def test_delimiters_that_fit_as_well_as_the_comma(lines: list[str], rivals: list[str]) -> None:
    assert find_rivals(lines) == rivals


@pytest.mark.parametrize(
    ("content", "is_utf8"),
    [
        pytest.param("Zoë".encode(), True, id="utf-8"),
        pytest.param("Zoë".encode()[:-1], True, id="cut-off"),
        pytest.param("Zoë 1".encode("windows-1252"), False, id="windows-1252"),
    ],
)
def test_what_is_utf8(content: bytes, is_utf8: bool) -> None:
    assert Head(file=SourceFile(key="a.csv", size_bytes=1, etag="e"), content=content).is_utf8 == is_utf8
