"""Which pairs of tables count as a ledger: whoever may create a table can give it any comment."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.errors import TargetError
from airflow_provider_ch_s3.exactly_once.ledger import check_schema, columns_of, find_ledgers, renderers
from airflow_provider_ch_s3.table.target import TableName
from tests.failures import coded

LEDGER = TableName(database="d", table="ch_s3_ledger")
COMMENT = "airflow-provider-ch-s3: what its loads did, schema "
COLUMNS = {
    table: columns_of(render(table, None, comment="", is_replicated=False))
    for table, render in renderers(LEDGER).items()
}


class Server:
    """A server with one pair of tables."""

    def __init__(self, comment: str, engine: str, columns: dict[TableName, list[tuple[str, str, str, str]]]) -> None:
        self.comment, self.engine, self.columns = comment, engine, columns

    def query(self, statement: Statement) -> list[dict[str, Any]]:
        about = [{"database": table.database, "name": table.table, "table": table.table} for table in self.columns]
        if statement.name == "find_ledgers":
            return [{**row, "engines": [self.engine], "comments": [self.comment]} for row in about]
        assert statement.name == "read_ledger_columns"
        return [{**row, "columns": [found]} for row, found in zip(about, self.columns.values(), strict=True)]


def with_alias() -> dict[TableName, list[tuple[str, str, str, str]]]:
    """The columns of a ledger, of which one reads another table."""
    name, type_, _, _ = COLUMNS[LEDGER][-2]
    computed = (name, type_, "ALIAS", "joinGet('hr.salaries', 'salary', 1)")
    return {**COLUMNS, LEDGER: [*COLUMNS[LEDGER][:-2], computed, COLUMNS[LEDGER][-1]]}


def find(comment: str, engine: str, columns: dict[TableName, list[tuple[str, str, str, str]]]) -> set[TableName]:
    return set(find_ledgers(Server(comment, engine, columns), None))  # type: ignore[arg-type]


def test_a_ledger_is_found() -> None:
    assert find(f"{COMMENT}1", "MergeTree", COLUMNS) == {LEDGER}
    assert find(f"{COMMENT}1", "ReplicatedMergeTree", COLUMNS) == {LEDGER}


@pytest.mark.parametrize("version", ["0", "00", "-1", "1", "01", "\u0661", "", "1 "])
def test_columns_that_are_computed_make_no_ledger_of_any_version(version: str) -> None:
    assert find(f"{COMMENT}{version}", "MergeTree", with_alias()) == set()


@pytest.mark.parametrize("engine", ["View", "MaterializedView", "Merge", "Buffer", "Distributed", "Memory"])
def test_what_reads_other_tables_is_none(engine: str) -> None:
    assert find(f"{COMMENT}1", engine, COLUMNS) == set()


def test_one_of_a_later_version_is_found_and_not_read() -> None:
    assert find(f"{COMMENT}2", "MergeTree", with_alias()) == {LEDGER}
    with pytest.raises(Exception, match="has schema 2, and this version"):
        check_schema(LEDGER, "ch_s3_ledger", f"{COMMENT}2")


def test_there_was_no_version_0() -> None:
    with pytest.raises(TargetError, match=coded("ledger-wrong-table")):
        check_schema(LEDGER, "ch_s3_ledger", f"{COMMENT}0")
