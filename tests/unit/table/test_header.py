"""Whether the first line of a file names its columns."""

from __future__ import annotations

import pytest

from airflow_provider_ch_s3.errors import SourceError
from airflow_provider_ch_s3.table.header import FirstLine

PEOPLE = {"name": "String", "city": "String"}
YEARS = {"country": "String", "2020": "Int32", "2021": "Int32"}
COUNTS = {"country": "String", "before": "Int32", "after": "Int32"}
EVENTS = {"day": "Date", "event": "LowCardinality(String)", "kind": "String"}


def judge(fields: str, columns: dict[str, str], below: str = "", *, others: tuple[str, ...] = ()) -> bool | None:
    next_fields = below.split(",") if below else ()
    return FirstLine(key="a.csv", fields=fields.split(","), next_fields=next_fields).names_columns(columns, others)


@pytest.mark.parametrize(
    ("fields", "columns"),
    [
        pytest.param("name,city", PEOPLE, id="exact"),
        pytest.param("city,name", PEOPLE, id="another-order"),
        pytest.param("Name,CITY", PEOPLE, id="upper-case"),
        pytest.param("N a-m.e,_City", PEOPLE, id="blanks-and-signs"),
        pytest.param("country,2020,2021", YEARS, id="numbers"),
        pytest.param("day,event,sort", EVENTS, id="all-but-one-name"),
        pytest.param("name", {"name": "String"}, id="one-column"),
        pytest.param("city,zip,name,day", PEOPLE, id="all-columns-and-new-ones"),
    ],
)
def test_a_header(fields: str, columns: dict[str, str]) -> None:
    assert judge(fields, columns) is True


def test_names_in_expressions_are_names_of_columns() -> None:
    assert judge("code,kind", {"label": "String"}, others=("code", "kind")) is True


@pytest.mark.parametrize(
    ("fields", "columns"),
    [
        pytest.param("DE,1,2", YEARS, id="numbers"),
        pytest.param("2024-01-01,kind,x", EVENTS, id="a-name-in-another-place"),
        pytest.param("2024-01-01,click,x", EVENTS, id="time"),
        pytest.param("x,-1,-2", {"name": "String", "1": "Int32", "2": "Int32"}, id="numbers-like-names"),
    ],
)
def test_a_row(fields: str, columns: dict[str, str]) -> None:
    assert judge(fields, columns) is False


def test_years_in_each_line_are_values() -> None:
    assert judge("DE,2020,2021", COUNTS, "FR,2019,2020") is False


@pytest.mark.parametrize(
    ("fields", "columns"),
    [
        pytest.param("Bob,Berlin", PEOPLE, id="texts"),
        pytest.param("Vorname,Ort", PEOPLE, id="other-names"),
        pytest.param("x,1", {}, id="no-columns-are-known"),
        pytest.param("DE,x,2", COUNTS, id="does-not-fit"),
        pytest.param("-,!", {"?": "String", "+": "String"}, id="signs-alone"),
    ],
)
def test_unknown(fields: str, columns: dict[str, str]) -> None:
    assert judge(fields, columns) is None


@pytest.mark.parametrize(
    ("fields", "columns", "words"),
    [
        pytest.param("name,town", PEOPLE, "of name, town only name may name columns", id="one-of-two-names"),
        pytest.param("ab,5", {"ab": "String", "a_b": "Int32"}, "only ab may name columns", id="columns-are-alike"),
        pytest.param("country,2020,2021", COUNTS, "only country may name columns of the table", id="numbers"),
        pytest.param("land,2020,2021", COUNTS, "may be a header with years or a row", id="years-alone"),
        pytest.param("land,2020,2021", {}, "may be a header with years or a row", id="years-for-a-new-table"),
    ],
)
def test_a_refusal(fields: str, columns: dict[str, str], words: str) -> None:
    with pytest.raises(SourceError) as caught:
        judge(fields, columns, "DE,1,2")
    assert words in caught.value.sentence
    assert "give data_format=Csv(header=True) or Csv(header=False)" in caught.value.sentence
