"""The target's columns are altered while a load is staging its rows."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ch_s3.errors import ChS3Error, UnknownStateError
from airflow_provider_ch_s3.load import wiring
from airflow_provider_ch_s3.modes import Append, Merge, ReplacePartitions, ReplaceWhere
from tests.failures import coded
from tests.marks import thorough
from tests.sandbox.conftest import Freeze, Lab, bag
from tests.sandbox.few import EVEN_AND_ODD, is_clean
from tests.sandbox.gates import Gate

pytestmark = [pytest.mark.sandbox, pytest.mark.every_case]

OLD = [{"n": 77, "m": 7}]
ROWS = [{"n": n, "m": n + 1} for n in range(30)]
OTHER = [{"n": n, "m": n + 1} for n in range(100, 104)]
COLUMNS = ("n", "m")
# the files have both columns, and a load uses those that the table has
LOAD: dict[str, Any] = {
    "data_format": "CSVWithNames",
    "settings": {"input_format_skip_unknown_fields": 1},
    "mode": Append(on_unknown_rows="keep"),
}


@pytest.fixture
def table(lab: Lab) -> str:
    for number in range(3):
        put(lab, f"in/{number}.csv", ROWS[number::3])
    put(lab, "other/a.csv", OTHER)
    table = lab.create("t", "n UInt32, m UInt32 DEFAULT 5", EVEN_AND_ODD)
    lab.query(f"INSERT INTO {table} VALUES (77, 7)")
    return table


def put(lab: Lab, key: str, rows: list[dict[str, int]]) -> None:
    lines = "".join(f"{row['n']},{row['m']}\n" for row in rows)
    lab.put(key, f"n,m\n{lines}".encode())


def with_x(rows: list[dict[str, int]]) -> list[dict[str, int]]:
    return [{**row, "x": 9} for row in rows]


def without_m(rows: list[dict[str, int]]) -> list[dict[str, int]]:
    return [{"n": row["n"]} for row in rows]


ADD = "ADD COLUMN x UInt8 DEFAULT 9"
# the load's next statement after the ALTER; nothing has been committed at that point
PLACES = {
    "before-the-insert": ("submit", 1),
    "staged": ("read_partitions", 1),
    "verified": ("create_lock", 2),
    "last-moment": ("write_event_committing", 1),
    "committing": ("move_partitions", 1),
}
# kind → (ALTER, the columns to compare, what they show of given rows, no matter when those arrived)
ALTERED = {
    "add": (ADD, "*", with_x),
    "modify": ("MODIFY COLUMN m UInt64", "*", lambda rows: rows),
    # removes a column that the files have
    "drop": ("DROP COLUMN m", "n", without_m),
    "rename": ("RENAME COLUMN m TO k", "n", without_m),
}


@pytest.mark.parametrize(
    ("what", "where"),
    [
        ("add", "last-moment"),
        *(thorough("add", where) for where in PLACES if where != "last-moment"),
        *(thorough("drop", where) for where in ("verified", "committing")),
        *(thorough(what, where) for what in ("modify", "rename") for where in ("verified", "committing")),
    ],
)
def test_on_all_nodes(lab: Lab, table: str, freeze: Freeze, what: str, where: str) -> None:
    alter, columns, shown = ALTERED[what]
    gate = freeze(Gate(*PLACES[where]), "in/*.csv", table, **LOAD)
    lab.ddl(f"ALTER TABLE {table} {alter}")
    error = gate.wake()
    assert error is None or isinstance(error, ChS3Error)
    loaded = [] if error else ROWS
    assert bag(lab.rows(table, columns=columns)) == bag(shown(OLD + loaded))
    assert lab.left_overs() == []
    # other loads continue, and so does the next try
    arguments = {**LOAD, "columns": ["n"]} if columns == "n" else LOAD
    lab.load("other/*.csv", table, task_id="other", **arguments)
    assert bag(lab.rows(table, columns=columns)) == bag(shown(OLD + OTHER + loaded))
    lab.load("in/*.csv", table, try_number=2, **arguments)
    assert bag(lab.rows(table, columns=columns)) == bag(shown(OLD + OTHER + ROWS))
    assert is_clean(lab)


@pytest.mark.thorough
@pytest.mark.parametrize("where", ["staged", "verified"])
@pytest.mark.parametrize("node", [0, 2], ids=["first", "last"])
def test_on_one_node(lab: Lab, table: str, freeze: Freeze, node: int, where: str) -> None:
    gate = freeze(Gate(*PLACES[where]), "in/*.csv", table, **LOAD)
    lab.query(f"ALTER TABLE {table} {ADD}", node=node)
    assert isinstance(gate.wake(), ChS3Error)
    assert bag(lab.rows(table, columns="n, m")) == bag(OLD)
    assert lab.left_overs() == []
    alter_others(lab, table, node)
    lab.load("other/*.csv", table, task_id="other", **LOAD)
    assert bag(lab.rows(table)) == bag(with_x(OLD + OTHER))
    lab.load("in/*.csv", table, try_number=2, **LOAD)
    assert bag(lab.rows(table)) == bag(with_x(OLD + OTHER + ROWS))
    assert is_clean(lab)


@pytest.mark.thorough
@pytest.mark.parametrize(("what", "nth"), [("add", 4), ("add", 1), ("modify", 4), ("drop", 4)])
def test_on_one_node_in_the_middle_of_the_commit(lab: Lab, table: str, freeze: Freeze, what: str, nth: int) -> None:
    """The rest of the staged rows is altered, too, so that the commit can be completed."""
    alter, columns, shown = ALTERED[what]
    arguments = {**LOAD, "columns": ["n"]} if columns == "n" else LOAD
    lab.monkeypatch.setattr(wiring, "PARTITIONS_PER_STATEMENT", 1)
    gate = freeze(Gate("move_partitions", nth), "in/*.csv", table, **arguments)
    lab.query(f"ALTER TABLE {table} {alter}", node=2)
    error = gate.wake()
    alter_others(lab, table, 2, alter)
    loaded = ROWS
    if error is not None:  # only the altered node had read files, so nothing was moved, and all was abandoned
        assert isinstance(error, ChS3Error)
        loaded = []
    assert bag(lab.rows(table, columns=columns)) == bag(shown(OLD + loaded))
    lab.load("other/*.csv", table, task_id="other", **arguments)
    lab.load("in/*.csv", table, try_number=2, **arguments)
    assert bag(lab.rows(table, columns=columns)) == bag(shown(OLD + OTHER + ROWS))
    assert is_clean(lab)


@pytest.mark.thorough
def test_of_a_column_that_is_renamed_in_the_middle_of_the_commit(lab: Lab, table: str, freeze: Freeze) -> None:
    """Some rows are committed, and the rest would lose its values: the load says so, and others continue."""
    alter, _, _ = ALTERED["rename"]
    lab.monkeypatch.setattr(wiring, "PARTITIONS_PER_STATEMENT", 1)
    gate = freeze(Gate("move_partitions", 4), "in/*.csv", table, **LOAD)
    lab.query(f"ALTER TABLE {table} {alter}", node=2)
    error = gate.wake()
    alter_others(lab, table, 2, alter)
    if error is None:  # the altered node had not read any file
        assert bag(lab.rows(table, columns="n")) == bag(without_m(OLD + ROWS))
        return
    assert isinstance(error, ChS3Error)
    arguments = {**LOAD, "columns": ["n"]}
    lab.load("other/*.csv", table, task_id="other", **arguments)
    held = bag(lab.rows(table, columns="n"))
    assert bag(without_m(OLD + OTHER)) <= held <= bag(without_m(OLD + OTHER + ROWS))
    if held == bag(without_m(OLD + OTHER)):  # only the altered node had read files, so nothing was moved
        lab.load("in/*.csv", table, task_id="again", **arguments)
        assert bag(lab.rows(table, columns="n")) == bag(without_m(OLD + OTHER + ROWS))
        return
    # a load that would repeat rows that are there already is refused until a user has checked
    with pytest.raises(UnknownStateError, match=coded("commit-unfinished", "may hold a part of its rows")):
        lab.load("in/*.csv", table, task_id="again", **arguments)
    assert bag(lab.rows(table, columns="n")) == held


def alter_others(lab: Lab, table: str, node: int, alter: str = ADD) -> None:
    for other in {0, 1, 2} - {node}:
        lab.query(f"ALTER TABLE {table} {alter}", node=other)


# mode → the statement that collects the rows to keep
COLLECTING = {
    "where": (ReplaceWhere("n < 50"), "copy_partitions"),
    "merge": (Merge(key=["n"]), "copy_changes"),
    "changed": (Append(on_changed="replace"), "copy_partitions"),
}


@pytest.mark.parametrize("what", ["add", thorough("modify")])
@pytest.mark.parametrize("is_begun", [pytest.param(False, id="before"), thorough(True, id="meanwhile")])
@pytest.mark.parametrize("name", COLLECTING)
def test_of_a_load_that_keeps_rows(lab: Lab, freeze: Freeze, name: str, is_begun: bool, what: str) -> None:
    """The staged rows cannot be copied beside the rows to keep: the load stages the rows again."""
    mode, collects = COLLECTING[name]
    how = {"mode": mode, "data_format": "CSVWithNames", "provenance": {"path": "path", "load": "load"}}
    table = lab.create("t", "n UInt32, m UInt32 DEFAULT 5, path String, load String", EVEN_AND_ODD)
    put(lab, "in/a.csv", ROWS[:5])
    lab.load("in/*.csv", table, task_id="first", **how)
    put(lab, "in/a.csv", ROWS)
    gate = freeze(Gate(collects, 1) if is_begun else Gate("create_lock", 2), "in/*.csv", table, **how)
    alter, _, shown = ALTERED[what]
    lab.ddl(f"ALTER TABLE {table} {alter}")
    assert gate.wake() is None
    assert bag(lab.rows(table, columns="* EXCEPT (path, load)")) == bag(shown(ROWS))
    assert is_clean(lab)


@pytest.mark.thorough
@pytest.mark.parametrize("mode", [ReplacePartitions(on_partial="replace"), "replace_table"], ids=str)
@pytest.mark.parametrize("where", ["verified", "last-moment"])
def test_of_a_load_that_replaces(lab: Lab, table: str, freeze: Freeze, mode: Any, where: str) -> None:
    how = {**LOAD, "mode": mode}
    gate = freeze(Gate(*PLACES[where]), "in/*.csv", table, **how)
    lab.ddl(f"ALTER TABLE {table} {ADD}")
    error = gate.wake()
    assert error is None or isinstance(error, ChS3Error)
    assert bag(lab.rows(table)) == bag(with_x(OLD if error else ROWS))
    lab.load("in/*.csv", table, try_number=2, **how)
    assert bag(lab.rows(table)) == bag(with_x(ROWS))
    assert is_clean(lab)
