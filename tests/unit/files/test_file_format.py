"""What is known of each format, and which one the names of the files tell."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ch_s3.errors import SourceError
from airflow_provider_ch_s3.files.file_format import FORMAT_SETTINGS, FORMATS, find_format, infer_format


@pytest.mark.parametrize(
    ("name", "known"),
    [
        pytest.param("Parquet", {"is_typed": True, "has_footers": True, "is_text": False}, id="parquet"),
        pytest.param("ArrowStream", {"is_typed": True, "has_footers": False}, id="typed"),
        pytest.param("CSV", {"is_text": True, "with_names": "CSVWithNames"}, id="csv"),
        pytest.param("CSVWithNames", {"is_text": True, "with_names": ""}, id="variant"),
        pytest.param(
            "TSVRaw",
            {"with_names": "", "tells_null_from_empty": False},
            id="variant-without-a-header",
        ),
        pytest.param("TabSeparatedWithNames", {"is_text": True, "tells_null_from_empty": True}, id="tsv"),
        pytest.param("JSONCompactEachRow", {"is_text": True, "tells_null_from_empty": True}, id="json"),
        pytest.param("JSONAsString", {"is_text": True, "tells_null_from_empty": False}, id="json-as-one-text"),
        pytest.param("ParquetMetadata", {"is_typed": False, "has_footers": False}, id="no-variant-of-parquet"),
        pytest.param("RowBinary", {"is_known": False}, id="unknown"),
    ],
)
def test_what_is_known_of_a_format(name: str, known: dict[str, Any]) -> None:
    found = find_format(name)
    assert found.name == name
    assert {field: getattr(found, field) for field in known} == known


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        pytest.param(
            "Parquet",
            {
                "input_format_parquet_max_block_size",
                "cluster_table_function_split_granularity",
                "input_format_parquet_allow_missing_columns",
                "output_format_parquet_row_group_size_bytes",
                "output_format_parquet_date_as_uint16",
                "output_format_parquet_datetime_as_uint32",
            },
            id="parquet",
        ),
        pytest.param("ArrowStream", {"input_format_arrow_allow_missing_columns"}, id="arrow"),
        pytest.param(
            "TabSeparatedRaw",
            {
                "input_format_parallel_parsing",
                "input_format_tsv_crlf_end_of_line",
                "input_format_tsv_empty_as_default",
                "input_format_tsv_skip_first_lines",
                "input_format_tsv_skip_trailing_empty_lines",
            },
            id="tsv",
        ),
        pytest.param("Native", set(), id="none-of-its-own"),
        pytest.param("RowBinary", set(), id="unknown"),
    ],
)
def test_which_settings_concern_a_format(name: str, settings: set[str]) -> None:
    assert {setting for setting in FORMAT_SETTINGS if find_format(name).takes(setting)} == settings
    assert find_format(name).takes("max_threads")


def test_an_extension_tells_one_format() -> None:
    extensions = [extension for known in FORMATS for extension in known.extensions]
    assert len(extensions) == len(set(extensions))


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        pytest.param(["a.parquet"], ("Parquet", "auto"), id="parquet"),
        pytest.param(["a.csv.gz", "b.csv"], ("CSV", "auto"), id="compressed-and-not"),
        pytest.param(["a.TSV.ZST"], ("TSV", "auto"), id="upper-case"),
        pytest.param(["a.jsonl", "b.ndjson.bz2", "c.json"], ("JSONEachRow", "auto"), id="three-names-of-one-format"),
        pytest.param(["a.orc"], ("ORC", "auto"), id="orc"),
        pytest.param(["a.arrow"], ("Arrow", "auto"), id="arrow"),
        pytest.param(["a.avro"], ("Avro", "auto"), id="avro"),
        pytest.param(["a.native.lz4"], ("Native", "auto"), id="native"),
    ],
)
def test_format_by_file_name(keys: list[str], expected: tuple[str, str]) -> None:
    assert infer_format(keys, None, None) == expected


def test_a_given_format_needs_no_known_name() -> None:
    assert infer_format(["a.dat"], "CSV", None) == ("CSV", "auto")
    assert infer_format(["a.csv"], "TSV", "gz") == ("TSV", "gz")
    assert infer_format(["a.csv"], None, "zstd") == ("CSV", "zstd")
    assert infer_format(["a.log.gz"], None, None, "CSV") == ("CSV", "auto")
    assert infer_format(["a.jsonl"], None, None, "CSV") == ("JSONEachRow", "auto")


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        pytest.param(
            ["a.dat"], "the format of 'a.dat' cannot be inferred from its name; give data_format", id="unknown"
        ),
        pytest.param(["d/x"], "the format of 'd/x' cannot be inferred", id="no-ending"),
        pytest.param(["x.gz"], "the format of 'x.gz' cannot be inferred", id="compression-only"),
        pytest.param(
            ["a.csv", "b.parquet"],
            "'a.csv' looks like CSV and 'b.parquet' like Parquet; one load reads one format",
            id="mixed",
        ),
        pytest.param([], "there are no files to infer a format from", id="no-files"),
    ],
)
def test_a_format_that_cannot_be_told(keys: list[str], said: str) -> None:
    with pytest.raises(SourceError) as caught:
        infer_format(keys, None, None)
    assert caught.value.sentence.startswith(said)
