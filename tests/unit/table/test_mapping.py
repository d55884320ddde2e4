"""Which column goes where, and that no number changes silently on the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from airflow_provider_ch_s3.clickhouse.conversion import Conversion, Method
from airflow_provider_ch_s3.errors import ConfigError, TargetError
from airflow_provider_ch_s3.files.source import FileColumn
from airflow_provider_ch_s3.table.mapping import MappedColumn, find_sources, map_columns
from airflow_provider_ch_s3.table.target import TableColumn, TableName, TargetSpec
from tests.failures import coded

NAME = TableName(database="d", table="t")


def target(*columns: TableColumn) -> TargetSpec:
    return TargetSpec(name=NAME, local=NAME, engine="MergeTree", columns=columns, partition_key="")


def column(name: str, type_name: str = "UInt32", default_kind: str = "") -> TableColumn:
    return TableColumn(name=name, type=type_name, default_kind=default_kind)


def in_file(name: str, type_name: str = "UInt32") -> FileColumn:
    return FileColumn(name=name, type=type_name)


FLIGHTS = target(
    column("id"),
    column("at", "DateTime"),
    column("note", "String", "DEFAULT"),
    column("year", "UInt16", "MATERIALIZED"),
    column("alias", "UInt16", "ALIAS"),
    column("e", "UInt16", "EPHEMERAL"),
)
FILE = [in_file("at", "DateTime"), in_file("id")]


def test_columns_match_by_name_in_the_order_of_the_table() -> None:
    assert map_columns(FILE, FLIGHTS) == (
        MappedColumn(target="id", source="id"),
        MappedColumn(target="at", source="at"),
    )


def test_each_column_tells_from_which_columns_of_the_files_it_is_filled() -> None:
    of_table = target(column("id"), column("sum"), column("one"), column("n.a", "Array(UInt32)"))
    files = [in_file("id"), in_file("x y"), in_file("z"), in_file("n", "Array(Tuple(a UInt32))")]
    select = {"sum": "`x y` + z + length('id')", "one": "1"}
    mapped = map_columns(files, of_table, select=select, used=("x y", "z"))
    assert find_sources(mapped, files) == {"id": ["id"], "sum": ["x y", "z"], "one": [], "n.a": ["n"]}


def test_a_column_with_a_default_is_loaded_where_the_files_have_it() -> None:
    mapped = map_columns([*FILE, in_file("note", "String")], FLIGHTS)
    assert [m.target for m in mapped] == ["id", "at", "note"]


def test_names_that_differ_only_in_case_or_signs_are_told() -> None:
    of_files = [in_file("ID"), in_file("At-Now", "DateTime"), in_file("note")]
    of_table = target(column("id"), column("at now", "DateTime"), column("more"))
    with pytest.raises(TargetError) as caught:
        map_columns(of_files, of_table)
    assert caught.value.code == "names-differ-in-case"
    assert "id is ID in the files, at now is At-Now in the files; load them with" in caught.value.sentence
    assert f"select={ {'id': '`ID`', 'at now': '`At-Now`'}!r}" in caught.value.sentence


def test_a_column_of_the_table_is_no_other_spelling_of_another() -> None:
    with pytest.raises(TargetError) as caught:
        map_columns([in_file("x1")], target(column("x1"), column("x_1")))
    assert caught.value.code == "columns-missing"


@pytest.mark.parametrize(
    ("columns", "select", "expected"),
    [
        pytest.param(["id"], None, [("id", "id", "")], id="columns-alone"),
        pytest.param(None, {"at": "now()"}, [("id", "id", ""), ("at", "", "now()")], id="select-replaces-a-column"),
        pytest.param(
            None,
            {"note": "toString(id)"},
            [("id", "id", ""), ("at", "at", ""), ("note", "", "toString(id)")],
            id="select-adds-a-column",
        ),
        pytest.param(["id"], {"at": "x"}, [("id", "id", ""), ("at", "", "x")], id="both"),
        pytest.param(["at", "id"], None, [("id", "id", ""), ("at", "at", "")], id="order-of-the-table"),
    ],
)
def test_columns_and_select(
    columns: Sequence[str] | None, select: Mapping[str, str] | None, expected: list[tuple[str, str, str]]
) -> None:
    mapped = map_columns(FILE, FLIGHTS, columns=columns, select=select, ignores_new=True)
    assert [(m.target, m.source, m.expression) for m in mapped] == expected


def test_columns_of_the_files_that_an_expression_names_are_used() -> None:
    files = [*FILE, in_file("other")]
    assert len(map_columns(files, FLIGHTS, columns=["id", "at"])) == 2
    assert len(map_columns(files, FLIGHTS, select={"at": "other"}, used=["other"])) == 2


def test_missing_columns_are_named_with_what_there_is_and_the_remedies() -> None:
    with pytest.raises(TargetError) as caught:
        map_columns([in_file("note")], FLIGHTS)
    assert caught.value.sentence == (
        "d.t has the columns at, id without a DEFAULT, and the files have no such columns (they have note);"
        " give them a DEFAULT, name what to load with columns=[…], compute them with select={…}, or use"
        " Columns(on_missing='default')"
    )


def test_files_with_other_columns_are_refused_once() -> None:
    files = [in_file("x"), in_file("note")]
    with pytest.raises(TargetError) as caught:
        map_columns(files, FLIGHTS)
    assert caught.value.code == "columns-missing"
    assert caught.value.sentence == (
        "d.t has the columns at, id without a DEFAULT, which the files lack, and the files have the columns x, which"
        " the table lacks; correct source or table, load a column under another name with select={'id': '`x`'}, or"
        " use Columns(on_missing='default', on_new='add' or 'ignore')"
    )
    with pytest.raises(TargetError, match=coded("columns-missing", "at, id", "note, x")):
        map_columns(files, FLIGHTS, ignores_new=True)


def test_surplus_columns_are_named() -> None:
    with pytest.raises(TargetError) as caught:
        map_columns([*FILE, in_file("x"), in_file("year")], FLIGHTS)
    assert caught.value.sentence == (
        "the files have the columns x, year, and d.t has no such columns; add them to the table, name what to load"
        " with columns=[…], or use Columns(on_new='add' or 'ignore')"
    )


def test_surplus_columns_that_the_table_computes_are_told_from_unknown_ones() -> None:
    with pytest.raises(TargetError) as caught:
        map_columns([*FILE, in_file("year"), in_file("alias")], FLIGHTS)
    assert caught.value.sentence == (
        "the files have the columns alias (ALIAS), year (MATERIALIZED), which d.t computes or does not store, so"
        " nothing can be loaded into them; make them ordinary columns, or name what to load with columns=[…]"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(
            {"columns": ["ID"]},
            "columns names 'ID', but d.t has no such column; it has alias, at, e, id, note, year",
            id="columns-unknown",
        ),
        pytest.param(
            {"select": {"x": "1"}},
            "select names 'x', but d.t has no such column; it has alias, at, e, id, note, year",
            id="select-unknown",
        ),
        pytest.param(
            {"columns": ["id", "year"]},
            "columns names 'year', which d.t computes itself (MATERIALIZED); leave it out",
            id="columns-computed",
        ),
        pytest.param(
            {"select": {"alias": "1"}},
            "select names 'alias', which d.t computes itself (ALIAS); leave it out",
            id="select-computed",
        ),
        pytest.param(
            {"columns": ["id", "e"]},
            "columns names 'e', which d.t does not store (EPHEMERAL), and a load only fills stored columns; leave it"
            " out, and compute the columns that depend on it with select={…}",
            id="columns-ephemeral",
        ),
    ],
)
def test_columns_that_cannot_be_loaded(arguments: dict[str, list[str] | dict[str, str]], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        map_columns(FILE, FLIGHTS, **arguments)  # type: ignore[arg-type]
    assert caught.value.sentence == said


def test_types_without_a_conversion_are_refused() -> None:
    with pytest.raises(TargetError) as caught:
        map_columns([in_file("a", "Array(String)")], target(column("a", "DateTime")))
    assert caught.value.sentence == (
        "column 'a' is Array(String) in the files and DateTime in d.t, and there is no conversion that"
        " keeps each value; change the table, or convert it with select={'a': '…'}"
    )


def test_a_folder_is_text() -> None:
    folder = FileColumn(name="a", type="Array(String)", in_path=True)
    with pytest.raises(
        TargetError,
        match=coded("type-not-convertible", "column 'a' is Array(String) in the path", "there is no conversion"),
    ):
        map_columns([folder], target(column("a", "Array(String)")))


def test_a_conversion_is_planned_for_what_may_not_fit() -> None:
    mapped = map_columns([in_file("a", "Int64"), in_file("b", "UInt8")], target(column("a", "UInt16"), column("b")))
    assert mapped == (
        MappedColumn(target="a", source="a", conversion=Conversion(method=Method.CAST, type="UInt16")),
        MappedColumn(target="b", source="b"),
    )


def test_what_an_expression_makes_is_converted_as_the_files_values_are() -> None:
    mapped = map_columns(FILE, FLIGHTS, select={"id": "id + 255"}, select_types={"id": "UInt64"})
    cast = Conversion(method=Method.CAST, type="UInt32")
    assert mapped[0] == MappedColumn(target="id", expression="id + 255", conversion=cast)


def test_an_expression_that_would_lose_something_is_refused() -> None:
    with pytest.raises(TargetError) as caught:
        map_columns([], target(column("p", "Decimal(9, 2)")), select={"p": "x / 3"}, select_types={"p": "Float64"})
    assert caught.value.sentence == (
        "the expression 'x / 3' is Float64 and its column 'p' is Decimal(9, 2) in d.t, and ClickHouse would silently"
        " cut off the digits after the last one that fits; change the table, or have it return Decimal(9, 2), or a"
        " text, which the load converts without loss"
    )


def test_a_column_of_the_path_that_the_table_lacks_is_ignored() -> None:
    files = [*FILE, FileColumn(name="dt", in_path=True, type="Date32")]
    assert [m.target for m in map_columns(files, FLIGHTS)] == ["id", "at"]


def test_no_column_at_all_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        map_columns(FILE, FLIGHTS, columns=[])
    assert caught.value.sentence == (
        "columns=[] leaves no column of d.t to load; the files have at, id: name some of these, or omit columns to"
        " load all"
    )


def test_a_type_that_would_change_silently_is_refused_with_the_remedy() -> None:
    with pytest.raises(TargetError) as caught:
        map_columns([in_file("a", "Float64")], target(column("a", "Decimal(10, 2)")))
    assert caught.value.sentence == (
        "column 'a' is Float64 in the files and Decimal(10, 2) in d.t, and ClickHouse would silently cut off the"
        " digits after the last one that fits; change the table, or convert it with select={'a': '…'}"
    )


STRUCTS = "Array(Tuple(a Nullable(Int64), `b c` Nullable(String)))"


def test_a_list_of_structs_becomes_nested() -> None:
    mapped = map_columns(
        [in_file("n", STRUCTS)], target(column("n.a", "Array(UInt8)"), column("n.b c", "Array(String)"))
    )
    assert [(m.target, m.expression) for m in mapped] == [
        ("n.a", "tupleElement(`n`, 1)"),
        ("n.b c", "tupleElement(`n`, 2)"),
    ]
    assert mapped[0].conversion is not None
    assert mapped[0].conversion.inside == (Conversion(method=Method.CAST, type="Nullable(UInt8)"),)


def test_structs_with_other_fields_than_nested_are_no_column_of_it() -> None:
    with pytest.raises(TargetError, match=coded("columns-missing", "columns n.a")):
        map_columns([in_file("n", STRUCTS)], target(column("n.a", "Array(UInt8)")))
