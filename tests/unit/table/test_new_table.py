"""Types, keys and engine of a new table, worked out by hand."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import permutations

import pytest

from airflow_provider_ch_s3.create.columns import join_guesses
from airflow_provider_ch_s3.create.layout import plan_table
from airflow_provider_ch_s3.create.observe import (
    Observation,
    choose_folder_type,
    choose_text_type,
    choose_typed_type,
    explain_text,
    kept_form,
    observe_texts,
)
from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.files.snapshots import Layout
from airflow_provider_ch_s3.table.new_table import CREATE_TABLE, CreateTable, NewColumn, NewTable
from airflow_provider_ch_s3.table.target import TableName
from tests.failures import coded

PLAIN = Layout()
TYPES = [
    pytest.param(["0", "1", "-7", "123456789012345678"], "Int64", id="integers"),
    pytest.param(["9223372036854775808", "1"], "UInt64", id="beyond-int64"),
    pytest.param(["99999999999999999999"], "String", id="beyond-uint64"),
    pytest.param(["007", "8"], "String", id="leading-zero"),
    pytest.param(["+1"], "String", id="plus"),
    pytest.param(["-0"], "Float64", id="negative-zero"),
    pytest.param(["1", "1.5", "-2e10", "0.30000000000000004", "1.500000000000000000"], "Float64", id="fractions"),
    pytest.param(["1.5", "40.712345678901234"], "String", id="a-fraction-that-a-float-cannot-hold"),
    pytest.param(["1.5", "9007199254740993"], "String", id="fractions-and-an-integer-that-a-float-cannot-hold"),
    pytest.param(["true", "False"], "Bool", id="flags"),
    pytest.param(["yes", "no"], "String", id="words"),
    pytest.param(["2013-01-31", "1970-01-01", "2148-12-31"], "Date", id="days"),
    pytest.param(["2013-01-31", "1969-12-31"], "Date32", id="days-before-1970"),
    pytest.param(["2149-01-01"], "Date32", id="days-after-2148"),
    pytest.param(["1899-12-31"], "String", id="days-before-1900"),
    pytest.param(["2013-13-01"], "String", id="no-day"),
    pytest.param(["2013-01-31 23:59:59", "2105-01-01T00:00:00Z"], "DateTime", id="seconds"),
    pytest.param(["2013-01-31 23:59:59", "1969-01-01 00:00:00"], "DateTime64(0)", id="seconds-before-1970"),
    pytest.param(["2013-01-31 24:00:00"], "String", id="no-hour"),
    pytest.param(["2013-01-31", "2013-01-31 00:00:00"], "String", id="days-and-times"),
]


def observed(texts: Sequence[str]) -> Observation:
    """Observe texts as a sample that shows too few to count repetitions."""
    return observe_texts(texts)


@pytest.mark.parametrize(("texts", "expected"), TYPES)
def test_type_of_texts(texts: Sequence[str], expected: str) -> None:
    assert choose_text_type(observed(texts)) == expected


@pytest.mark.parametrize(
    ("seen", "is_text", "expected"),
    [
        pytest.param(Observation(row_count=9, null_count=9), False, "Nullable(String)", id="nothing-but-null"),
        pytest.param(Observation(row_count=9, empty_count=9), False, "Nullable(String)", id="nothing-but-empty"),
        pytest.param(
            Observation(row_count=9, empty_count=1, fits=(8, 8, 8, 0, 0, 0)),
            False,
            "Nullable(Int64)",
            id="empty-is-null",
        ),
        pytest.param(
            Observation(row_count=9, empty_count=1, fits=(0,) * 6, hashes=range(9)), False, "String", id="empty-text"
        ),
        pytest.param(
            Observation(row_count=9, null_count=1, fits=(0,) * 6, hashes=range(8)),
            False,
            "Nullable(String)",
            id="null",
        ),
        pytest.param(Observation(row_count=9, fits=(9,) * 6, hashes=range(9)), True, "String", id="marked-as-text"),
        pytest.param(
            Observation(row_count=1000, fits=(0,) * 6, hashes=range(10)), False, "LowCardinality(String)", id="few"
        ),
        pytest.param(Observation(row_count=999, fits=(0,) * 6, hashes=range(10)), False, "String", id="not-so-few"),
        pytest.param(
            Observation(row_count=1001, null_count=1, fits=(0,) * 6, hashes=range(10)),
            False,
            "LowCardinality(Nullable(String))",
            id="few-and-null",
        ),
        pytest.param(
            Observation(row_count=1_000_100, fits=(0,) * 6, hashes=range(10_001)), False, "String", id="too-many"
        ),
        pytest.param(
            Observation(
                row_count=2, fits=(0, 0, 0, 0, 0, 2), low="2013-01-01 00:00:00.5", high="2013-01-02", digits=3
            ),
            False,
            "DateTime64(3)",
            id="milliseconds",
        ),
        pytest.param(
            Observation(row_count=2, fits=(0, 0, 0, 0, 0, 2), low="2013", high="2263-01-01", digits=9),
            False,
            "String",
            id="nanoseconds-beyond-2262",
        ),
    ],
)
def test_type_of_a_sample(seen: Observation, is_text: bool, expected: str) -> None:
    assert choose_text_type(seen, is_text=is_text) == expected


@pytest.mark.parametrize(
    ("type_name", "has_null", "expected"),
    [
        pytest.param("Nullable(Int32)", False, "Int32", id="no-null"),
        pytest.param("Nullable(Int32)", True, "Nullable(Int32)", id="null"),
        pytest.param("Int32", True, "Int32", id="never-null"),
        pytest.param("Nullable(String)", True, "Nullable(String)", id="text"),
        pytest.param("String", True, "String", id="text-never-null"),
        pytest.param("FixedString(4)", False, "FixedString(4)", id="fixed"),
    ],
)
def test_type_of_typed_files(type_name: str, has_null: bool, expected: str) -> None:
    assert choose_typed_type(type_name, Observation(row_count=5, hashes=range(5)), has_null=has_null) == expected


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        pytest.param(Observation(row_count=2, null_count=2), "the files have no values", id="nothing"),
        pytest.param(
            Observation(row_count=2, fits=(1, 1, 1, 0, 0, 0), odd="007", low="007", high="8"),
            "values like '007' are no number, date, time, true or false",
            id="no-form",
        ),
        pytest.param(
            Observation(row_count=2, odd="x" * 41), f"values like '{'x' * 40}…' are no number", id="a-long-value"
        ),
        pytest.param(
            Observation(row_count=2, fits=(1, 1, 1, 0, 1, 0), low="2013-01-01", high="7"),
            "no other type keeps all values from '2013-01-01' to '7'",
            id="two-forms",
        ),
        pytest.param(
            Observation(row_count=2, fits=(0, 0, 0, 0, 2, 0), low="0001-01-01", high="2013-01-01"),
            "no other type keeps all values from '0001-01-01' to '2013-01-01'",
            id="out-of-range",
        ),
    ],
)
def test_why_a_column_is_text(seen: Observation, reason: str) -> None:
    assert explain_text(seen).startswith(reason)


@pytest.mark.parametrize(
    ("texts", "may_be_null", "known", "expected"),
    [
        pytest.param(["1.10", "1.1"], False, "String", "LowCardinality(String)", id="known-text"),
        pytest.param(["1", "True"], True, "String", "LowCardinality(Nullable(String))", id="known-text-or-null"),
        pytest.param(["1.10"], True, "Decimal(10, 2)", "Nullable(Decimal(10, 2))", id="known-decimal"),
    ],
)
def test_type_of_folders_whose_values_have_a_known_type(
    texts: Sequence[str], may_be_null: bool, known: str, expected: str
) -> None:
    assert choose_folder_type(observe_texts(texts), may_be_null=may_be_null, known=known) == expected


@pytest.mark.parametrize(
    ("texts", "may_be_null", "expected"),
    [
        pytest.param(["2013-01-01"], False, "Date", id="days"),
        pytest.param(["007"], False, "LowCardinality(String)", id="code"),
        pytest.param(["1", "2"], True, "Nullable(Int64)", id="null"),
        pytest.param(["a"], True, "LowCardinality(Nullable(String))", id="text-or-null"),
        pytest.param([], True, "LowCardinality(Nullable(String))", id="nothing-but-null"),
    ],
)
def test_type_of_folders(texts: Sequence[str], may_be_null: bool, expected: str) -> None:
    assert choose_folder_type(observe_texts(texts), may_be_null=may_be_null) == expected


NAME = TableName(database="d", table="t")
COLUMNS = (
    NewColumn(name="id", type="Int64"),
    NewColumn(name="at", type="DateTime"),
    NewColumn(name="maybe", type="Nullable(Date)"),
    NewColumn(name="dt", type="Date", in_path=True),
    NewColumn(name="re gion", type="LowCardinality(String)", in_path=True),
)


def plan(
    create: CreateTable,
    columns: Sequence[NewColumn] = COLUMNS,
    *,
    needs_partitions: bool = False,
    layout: Layout = PLAIN,
    is_replicated: bool = False,
) -> NewTable:
    return plan_table(
        create,
        NAME,
        NAME,
        columns,
        layout=layout,
        needs_partitions=needs_partitions,
        cluster=None,
        is_replicated=is_replicated,
    )


def test_keys_are_folders_and_the_first_time() -> None:
    table = plan(CreateTable())
    assert table.order_by == ("dt", "`re gion`", "at")
    assert table.partition_by == "toYYYYMM(dt)"
    assert table.engine == "MergeTree"
    assert table.target.partition_key == "toYYYYMM(dt)"


LAKE = (
    NewColumn(name="id", type="Int64"),
    NewColumn(name="city", type="String"),
    NewColumn(name="at", type="DateTime64(6, 'UTC')"),
    NewColumn(name="paid_at", type="DateTime64(6, 'UTC')"),
    NewColumn(name="note", type="Nullable(String)"),
)
DAILY = Layout(partition_by={"city": "identity", "at": "day", "note": "identity"})


@pytest.mark.parametrize(
    ("layout", "needs_partitions", "order_by", "partition_by"),
    [
        pytest.param(DAILY, False, ("city", "at"), "toYYYYMM(at)", id="partitions"),
        pytest.param(DAILY, True, ("city", "at"), "(city, toDate(at))", id="partitions-to-be-replaced"),
        pytest.param(Layout(sorted_by=("id", "note", "at")), False, ("id",), "", id="order"),
        pytest.param(Layout(partition_by={"city": "identity"}), False, ("city", "at"), "", id="no-time"),
        pytest.param(Layout(partition_by={"gone": "day"}), False, ("at",), "", id="not-in-the-files"),
    ],
)
def test_the_layout_of_a_lake(
    layout: Layout, needs_partitions: bool, order_by: tuple[str, ...], partition_by: str
) -> None:
    table = plan(CreateTable(), LAKE, needs_partitions=needs_partitions, layout=layout)
    assert (table.order_by, table.partition_by) == (order_by, partition_by)


def test_without_folders_and_times_there_are_no_keys() -> None:
    table = plan(CreateTable(), COLUMNS[:1])
    assert (table.order_by, table.partition_by) == ((), "")
    assert "order_by names what they filter by" in "\n".join(table.reasons)


def test_a_load_that_replaces_partitions_has_one_for_each_folder() -> None:
    assert plan(CreateTable(), needs_partitions=True).partition_by == "(dt, `re gion`)"
    with pytest.raises(ConfigError, match=coded("partition-key-missing")):
        plan(CreateTable(), COLUMNS[:2], needs_partitions=True)


def test_what_the_user_says_wins() -> None:
    create = CreateTable(
        order_by="id, cityHash64(id, at)", partition_by="", engine="ReplacingMergeTree(at)", types={"id": "UInt8"}
    )
    table = plan(create)
    assert (table.order_by, table.partition_by) == (("id", "cityHash64(id, at)"), "")
    assert table.columns[0] == NewColumn(name="id", type="UInt8")
    assert table.target.engine == "ReplacingMergeTree"


@pytest.mark.parametrize(
    ("create", "said"),
    [
        (CreateTable(order_by="x"), "create_table has order_by='x', which is not a column of the files; it has id"),
        (
            CreateTable(partition_by="ddt"),
            "partition_by='ddt', which is not a column of the files; did you mean 'dt'?",
        ),
    ],
)
def test_a_key_names_columns_of_the_table(create: CreateTable, said: str) -> None:
    with pytest.raises(ConfigError, match=coded("columns-unknown", said)):
        plan(create)


def test_replicas_need_an_engine_with_replicas() -> None:
    assert plan(CreateTable(), is_replicated=True).engine == "ReplicatedMergeTree"
    assert plan(CreateTable(engine="ReplicatedMergeTree('/p', '{r}')"), is_replicated=True).engine.endswith("'{r}')")
    assert plan(CreateTable(engine="Log"), is_replicated=True).engine == "Log"
    with pytest.raises(ConfigError, match=coded("engine-not-replicated", "ReplacingMergeTree(at)")):
        plan(CreateTable(engine="ReplacingMergeTree(at)"), is_replicated=True)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("auto", CreateTable(), id="auto"),
        pytest.param({"order_by": "a"}, CreateTable(order_by="a"), id="mapping"),
        pytest.param(CreateTable(engine="Log"), CreateTable(engine="Log"), id="value"),
    ],
)
def test_create_table_is_parsed(value: object, expected: CreateTable) -> None:
    assert CREATE_TABLE.parse("create_table", value) == expected


@pytest.mark.parametrize(
    ("value", "words"),
    [
        pytest.param("yes", ["create_table='yes'", "str", "'auto'"], id="text"),
        pytest.param(True, ["create_table=True", "bool"], id="flag"),
        pytest.param({"ordre_by": "a"}, ["create_table", "'ordre_by'", "'order_by'"], id="field"),
    ],
)
def test_other_values_are_refused(value: object, words: list[str]) -> None:
    with pytest.raises(ConfigError, match=coded("argument-invalid", *words)):
        CREATE_TABLE.parse("create_table", value)


def test_observations_of_several_files_are_one() -> None:
    one = Observation(row_count=3, null_count=1, hashes=(1, 2), fits=(2, 0, 2, 0, 0, 0), low="1", high="7", digits=1)
    other = Observation(row_count=2, empty_count=1, hashes=(2,), fits=(1, 0, 1, 0, 0, 0), low="0", high="0", digits=2)
    nothing = Observation(row_count=2, null_count=2)
    assert nothing | one | other == Observation(
        row_count=7,
        null_count=3,
        empty_count=1,
        hashes={1, 2},
        fits=(3, 0, 3, 0, 0, 0),
        low="0",
        high="7",
        digits=2,
    )


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        pytest.param({"Nullable(Int64)", "Nullable(String)"}, "Nullable(Int64)", id="null-in-one"),
        pytest.param(
            {"Tuple(a Nullable(Int64))", "Tuple(a Nullable(String), b Array(Nullable(Int64)))"},
            "Tuple(a Nullable(String), b Array(Nullable(Int64)))",
            id="other-keys",
        ),
        pytest.param(
            {"Array(Tuple(a Nullable(Int64)))", "Array(Tuple(a Nullable(Int64), c Nullable(Bool)))"},
            "Array(Tuple(a Nullable(Int64), c Nullable(Bool)))",
            id="lists-of-objects",
        ),
        pytest.param(
            {"Array(Nullable(String))", "Array(Nullable(Int64))"}, "Array(Nullable(Int64))", id="empty-list"
        ),
        pytest.param({"Array(Nullable(Int64))", "Nullable(String)"}, "Nullable(String)", id="list-and-text"),
        pytest.param({"Tuple(a Nullable(Int64))", "Nullable(Int64)"}, "Nullable(String)", id="object-and-number"),
    ],
)
def test_what_is_guessed_from_several_files_is_joined(kinds: set[str], expected: str) -> None:
    assert {join_guesses(order, is_observed=True) for order in permutations(kinds)} == {expected}


@pytest.mark.parametrize(
    ("kind", "kept", "refused"),
    [
        ("Nullable(Int64)", ("0", "-7", "9223372036854775807"), ("007", "+7", "-0", "1.0", "")),
        ("Float64", ("1.10", "-3e10", "nan", "-Infinity"), ("007.5", "--1")),
        ("Bool", ("true", "FALSE"), ("yes", "1")),
        ("Date32", ("2024-02-29",), ("2023-02-30", "20240229")),
        ("DateTime64(3)", ("2024-02-29 10:00:00.5",), ("2024-02-29", "1700000000")),
        ("LowCardinality(String)", ("007", ""), ()),
    ],
)
def test_later_texts_keep_to_what_the_sample_looked_like(
    kind: str, kept: Sequence[str], refused: Sequence[str]
) -> None:
    form = kept_form(kind)
    assert [text for text in (*kept, *refused) if re.search(form, text)] == list(kept)
