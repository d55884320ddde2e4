"""What people write to a table between a break of a commit and the next load is there afterwards."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from airflow_provider_ch_s3.arguments import Format
from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.errors import LoadError, UnknownStateError
from airflow_provider_ch_s3.exactly_once import staging
from airflow_provider_ch_s3.hooks import clickhouse_s3
from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
from airflow_provider_ch_s3.modes import Append, Merge, ReplacePartitions, ReplaceWhere
from airflow_provider_ch_s3.sql.filters import Sql
from airflow_provider_ch_s3.sql.nodes import NODE_NAME
from airflow_provider_ch_s3.sql.staging_queries import render_sum_rows
from airflow_provider_ch_s3.table.target import parse_table
from tests.failures import coded
from tests.marks import thorough
from tests.sandbox.conftest import Freeze, Lab, wait_until
from tests.sandbox.few import is_clean
from tests.sandbox.gates import Gate

pytestmark = pytest.mark.sandbox

COLUMNS = "k UInt32, v String, day UInt8, load String, path String"
BY_DAY = "MergeTree PARTITION BY day ORDER BY k"
WITH_PATCHES = f"{BY_DAY} SETTINGS enable_block_number_column = 1, enable_block_offset_column = 1"
PATCHING = {"enable_lightweight_update": 1}
CSV: dict[str, Any] = {"data_format": Format("CSV", structure="k UInt32, v String, day UInt8")}
ORIGIN: dict[str, Any] = {"provenance": {"load": "load", "path": "path"}}


class Killed(BaseException):
    """The process of a load is killed."""


@contextmanager
def killed_before(lab: Lab, name: str, nth: int = 1) -> Iterator[None]:
    """Let a load die before its n-th statement with a name; each node and partition has statements of its own."""
    real, left = ClickHouseS3Hook._run, [nth]

    def run(hook: ClickHouseS3Hook, statement: Statement, *given: Any, **named: Any) -> Any:
        if statement.name == name:
            left[0] -= 1
        if left[0] <= 0:
            raise Killed
        return real(hook, statement, *given, **named)

    with lab.monkeypatch.context() as patch:
        patch.setattr(staging, "batches", lambda items, _: [[item] for item in items])
        patch.setattr(clickhouse_s3, "map_at_once", lambda function, items: [function(item) for item in items])
        patch.setattr(ClickHouseS3Hook, "_run", run)
        with pytest.raises(Killed):
            yield
    assert left[0] <= 0


def put(lab: Lab, key: str, *rows: tuple[int, str, int]) -> None:
    lab.put(key, "".join(f"{k},{v},{day}\n" for k, v, day in rows).encode())


def held(lab: Lab, table: str) -> dict[int, list[str]]:
    """The rows of each day: the last digit of their keys, and their values."""
    found: dict[int, list[str]] = {}
    for row in sorted(lab.rows(table, columns="k, v, day"), key=lambda row: (row["k"], row["v"])):
        found.setdefault(row["day"], []).append(f"{row['k'] % 10} {row['v']}")
    return found


# What a person does in the partition of one day, and what its rows are then. Before, it holds the row 1 of an earlier
# load, which the interrupted one replaces, and the rows 2 and 3, which stay.
INSERT = "INSERT INTO {t} (k, v, day) VALUES ({day}9, 'mine', {day})"
DROP = "ALTER TABLE {t} DROP PARTITION {day}"
ACTS: list[tuple[list[str], list[str]]] = [
    ([], ["1 new", "2 old", "3 old"]),
    ([INSERT], ["1 new", "2 old", "3 old", "9 mine"]),
    ([INSERT, "OPTIMIZE TABLE {t} PARTITION {day} FINAL"], ["1 new", "2 old", "3 old", "9 mine"]),
    (
        ["ALTER TABLE {t} DELETE IN PARTITION {day} WHERE k = {day}2 SETTINGS mutations_sync = 2"],
        ["1 new", "3 old"],
    ),
    (["DELETE FROM {t} IN PARTITION {day} WHERE k = {day}2"], ["1 new", "3 old"]),
    (
        ["ALTER TABLE {t} UPDATE v = 'mine' IN PARTITION {day} WHERE k = {day}2 SETTINGS mutations_sync = 2"],
        ["1 new", "2 mine", "3 old"],
    ),
    ([DROP], ["1 new"]),
    ([DROP, INSERT], ["1 new", "9 mine"]),
    ([INSERT, "OPTIMIZE TABLE {t} PARTITION {day} FINAL", DROP, INSERT], ["1 new", "9 mine"]),
]
DAYS = range(1, len(ACTS) + 1)
MODES: dict[str, dict[str, Any]] = {
    "merge": {"mode": Merge(key=["k"])},
    "replace_where": {"mode": ReplaceWhere("k % 10 = 1")},
    "changed": {"mode": Append(on_changed="replace")},
    "replace_partitions": {"mode": ReplacePartitions(on_partial="replace")},
    "missing": {"mode": Append(on_changed="replace", on_missing="delete")},
}
TAKE_BACK = ("undo", "missing")


def change_file(lab: Lab, mode: str, *rows: tuple[int, str, int]) -> None:
    """Give the file of the first load the rows that a mode replaces its rows with, or remove the file."""
    if mode == "missing":
        lab.s3.delete_object(Bucket=lab.bucket, Key="in/a.csv")
        put(lab, "in/b.csv", (2000, "b", 200))
    else:
        put(lab, "in/a.csv", *rows)


def added_by(mode: str) -> dict[int, list[str]]:
    """The rows of the file that came instead of the one that is missing; its load ends before the removal."""
    return {200: ["0 b"]} if mode == "missing" else {}


def nth_of(mode: str, name: str, nth: int) -> int:
    return nth + (mode == "missing" and name == "write_event_committed")


def run_mode(lab: Lab, mode: str, table: str, first: str, **how: Any) -> None:
    """Replace the rows of the first load, or take them back.

    :param first: query id of that load.
    """
    if mode == "undo":
        lab.undo(first)
    else:
        lab.load("in/*.csv", table, **CSV, **ORIGIN, **MODES[mode], **how)


def hide_inactive_parts(lab: Lab) -> None:
    """Answer as servers do when parts that were merged or dropped are no longer listed, and the log is written."""
    real = ClickHouseS3Hook.query

    def query(hook: ClickHouseS3Hook, statement: Statement, *given: Any, **named: Any) -> Any:
        found = real(hook, statement, *given, **named)
        return [row for row in found if row["active"]] if statement.name == "read_parts" else found

    lab.everywhere("SYSTEM FLUSH LOGS")
    lab.monkeypatch.setattr(ClickHouseS3Hook, "query", query)


BREAKS = [
    pytest.param("replace_partitions", 1, [], id="before-the-first-replace"),
    pytest.param("replace_partitions", 2, [1], id="after-the-first-replace"),
    pytest.param("write_event_committed", 1, DAYS, id="when-all-is-replaced"),
]


@pytest.mark.parametrize(("name", "nth", "replaced"), BREAKS)
@pytest.mark.parametrize(
    ("mode", "is_late"),
    [
        pytest.param("merge", True, id="merge-late"),
        *(thorough(mode, False, id=mode) for mode in ("merge", "replace_where", "changed", *TAKE_BACK)),
        *(thorough(mode, True, id=f"{mode}-late") for mode in ("replace_where", "undo")),
    ],
)
@pytest.mark.usefixtures("impatient")
def test_what_people_write_stays(
    lab: Lab, mode: str, is_late: bool, name: str, nth: int, replaced: Sequence[int]
) -> None:
    """Late: when ClickHouse no longer lists the parts that were merged, as after 8 minutes."""
    lab.connect_one_node()
    table = lab.create("t", COLUMNS, BY_DAY)
    given = {**CSV, **ORIGIN}
    put(lab, "in/a.csv", *((10 * day + 1, "old", day) for day in DAYS))
    first = lab.load("in/*.csv", table, task_id="first", **given)["query_id"]
    change_file(lab, mode, *((10 * day + 1, "new", day) for day in DAYS))
    kept = ", ".join(f"({10 * day + k}, 'old', {day})" for day in DAYS for k in (2, 3))
    lab.query(f"INSERT INTO {table} (k, v, day) VALUES {kept}")
    with killed_before(lab, name, nth_of(mode, name, nth)):
        run_mode(lab, mode, table, first)
    for day, (acts, _) in zip(DAYS, ACTS, strict=True):
        for sql in acts:
            lab.query(sql.format(t=table, day=day))
    if is_late:
        hide_inactive_parts(lab)
    put(lab, "other/z.csv", (1000, "other", 100))
    lab.load("other/*.csv", table, task_id="other", **given)
    expected = {100: ["0 other"], **added_by(mode)}
    for day, (acts, rows) in zip(DAYS, ACTS, strict=True):
        is_dropped = mode in TAKE_BACK or (day in replaced and DROP in acts)
        expected[day] = [row for row in rows if not (is_dropped and row == "1 new")]
    assert held(lab, table) == {day: rows for day, rows in expected.items() if rows}
    assert lab.left_overs() == []


@pytest.mark.parametrize(("name", "nth", "replaced"), BREAKS)
@pytest.mark.parametrize(
    "mode", ["merge", *(thorough(mode) for mode in ("replace_where", "changed", "replace_partitions", *TAKE_BACK))]
)
@pytest.mark.usefixtures("impatient")
def test_what_people_truncate_stays_away(lab: Lab, mode: str, name: str, nth: int, replaced: Sequence[int]) -> None:
    """What had not been replaced by then comes afterwards."""
    lab.connect_one_node()
    table, days = lab.create("t", COLUMNS, BY_DAY), range(1, 4)
    given = {**CSV, **ORIGIN}
    put(lab, "in/a.csv", *((10 * day + 1, "old", day) for day in days))
    first = lab.load("in/*.csv", table, task_id="first", **given)["query_id"]
    change_file(lab, mode, *((10 * day + 1, "new", day) for day in days))
    lab.query(f"INSERT INTO {table} (k, v, day) SELECT 10 * number + 2, 'old', number FROM numbers(1, 3)")
    with killed_before(lab, name, nth_of(mode, name, nth)):
        run_mode(lab, mode, table, first)
    lab.query(f"TRUNCATE TABLE {table}")
    if mode != "replace_partitions":  # which would stop because of this row
        lab.query(INSERT.format(t=table, day=1))
    put(lab, "other/z.csv", (1000, "other", 100))
    lab.load("other/*.csv", table, task_id="other", **given)
    expected = {day: [] if mode in TAKE_BACK or day in replaced else ["1 new"] for day in days}
    expected[1] += [] if mode == "replace_partitions" else ["9 mine"]
    assert held(lab, table) == {**{day: rows for day, rows in expected.items() if rows}, 100: ["0 other"]}
    assert lab.left_overs() == []


SOME_ACTS = [ACTS[n] for n in (0, 2, 3, 6, 8)]  # 24.8 has no DELETE FROM … IN PARTITION
SOME_DAYS = range(1, len(SOME_ACTS) + 1)


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "nth", "replaced"), BREAKS)
@pytest.mark.parametrize(
    ("replicated_sandbox", "mode"),
    [
        *(("database", mode) for mode in ("merge", "changed", "undo")),
        ("old-database", "replace_where"),
        ("on-cluster", "missing"),
        ("old", "changed"),
    ],
    indirect=["replicated_sandbox"],
)
@pytest.mark.usefixtures("impatient")
def test_what_people_write_on_one_shard_stays(
    replicated_lab: Lab, mode: str, name: str, nth: int, replaced: Sequence[int]
) -> None:
    """A statement in a Replicated database replaces a partition on both shards."""
    lab = replicated_lab
    table = lab.create("t", COLUMNS, BY_DAY)
    put(lab, "in/a.csv", *((10 * day + 1, "old", day) for day in SOME_DAYS))
    first = lab.load("in/*.csv", table, task_id="first", **CSV, **ORIGIN)["query_id"]
    change_file(lab, mode, *((10 * day + 1, "new", day) for day in SOME_DAYS))
    here, there = (0, 2) if lab.rows(table, node=0) else (2, 0)
    kept = ", ".join(f"({10 * day + k}, 'old', {day})" for day in SOME_DAYS for k in (2, 3))
    lab.query(f"INSERT INTO {table} (k, v, day) VALUES {kept}", node=here)
    lab.query(
        f"INSERT INTO {table} (k, v, day) SELECT 10 * number + 5, 'there', number FROM numbers(1, {len(SOME_DAYS)})",
        node=there,
    )
    lab.sync(table)
    with killed_before(lab, name, nth_of(mode, name, nth)):
        run_mode(lab, mode, table, first)
    staged = [name for name in lab.left_overs() if re.fullmatch(r"ch_s3_stage\w*\d", name)]
    is_new_here = any(lab.rows(f"{lab.database}.{name}", node=here) for name in staged)
    for day, (acts, _) in zip(SOME_DAYS, SOME_ACTS, strict=True):
        for sql in acts:
            lab.query(sql.format(t=table, day=day), node=here)
    lab.sync(table)
    put(lab, "other/z.csv", (1000, "other", 100))
    lab.load("other/*.csv", table, task_id="other", **CSV, **ORIGIN)
    expected = {100: ["0 other"], **added_by(mode)}
    for day, (acts, rows) in zip(SOME_DAYS, SOME_ACTS, strict=True):
        is_dropped = mode in TAKE_BACK or (is_new_here and day in replaced and DROP in acts)
        expected[day] = sorted([*(row for row in rows if not (is_dropped and row == "1 new")), "5 there"])
    assert held(lab, table) == {day: rows for day, rows in expected.items() if rows}
    assert lab.left_overs() == []


@pytest.mark.thorough
@pytest.mark.usefixtures("impatient")
def test_a_replaced_partition_with_rows_of_others_stops_who_finishes(lab: Lab) -> None:
    """The partitions with rows of others are named, with what to do; changes of the rows that go do not matter."""
    lab.connect_one_node()
    table = lab.create("t", COLUMNS, BY_DAY)
    given = {**CSV, **ORIGIN}
    lab.query(f"INSERT INTO {table} (k, v, day) SELECT number, 'old', intDiv(number, 10) FROM numbers(10, 40)")
    put(lab, "in/a.csv", *((10 * day + 1, "new", day) for day in range(1, 5)))
    with killed_before(lab, "replace_partitions", 2):
        lab.load("in/*.csv", table, **given, **MODES["replace_partitions"])
    lab.query(INSERT.format(t=table, day=1))
    lab.query(INSERT.format(t=table, day=2))
    lab.query(f"DELETE FROM {table} WHERE k = 32")
    lab.query(DROP.format(t=table, day=4))
    put(lab, "other/z.csv", (1000, "other", 100))
    before = held(lab, table)
    with pytest.raises(
        LoadError, match=coded("partition-written-since", "others have written to partition 2")
    ) as caught:
        lab.load("other/*.csv", table, task_id="other", **given)
    assert held(lab, table) == before
    (remedy,) = re.findall(r"ALTER TABLE \S+ (?:DROP PART '\w+'(?:, )?)+", caught.value.sentence)
    lab.query(remedy.rstrip(", "))
    lab.load("other/*.csv", table, task_id="other", try_number=2, **given)
    assert held(lab, table) == {1: ["1 new", "9 mine"], 2: ["1 new"], 3: ["1 new"], 4: ["1 new"], 100: ["0 other"]}
    assert lab.left_overs() == []


@pytest.mark.parametrize("mode", ["merge", thorough("replace_where"), thorough("changed"), thorough("undo")])
@pytest.mark.usefixtures("impatient")
def test_what_is_still_owed_is_remembered_after_two_breaks(lab: Lab, mode: str) -> None:
    """The second owner has replaced what it could, and dies while it collects again what others have changed."""
    lab.connect_one_node()
    table = lab.create("t", COLUMNS, BY_DAY)
    days = range(1, 4)
    put(lab, "in/a.csv", *((10 * day + 1, "old", day) for day in days))
    first = lab.load("in/*.csv", table, task_id="first", **CSV, **ORIGIN)["query_id"]
    change_file(lab, mode, *((10 * day + 1, "new", day) for day in days))
    with killed_before(lab, "replace_partitions", 2):
        run_mode(lab, mode, table, first)
    lab.query(INSERT.format(t=table, day=2))
    put(lab, "other/z.csv", (1000, "other", 100))
    with killed_before(lab, "write_event_committing", 2):
        lab.load("other/*.csv", table, task_id="other", **CSV, **ORIGIN)
    lab.load("other/*.csv", table, task_id="other", try_number=2, **CSV, **ORIGIN)
    new = [] if mode == "undo" else ["1 new"]
    expected = {1: new, 2: [*new, "9 mine"], 3: new, 100: ["0 other"]}
    assert held(lab, table) == {day: rows for day, rows in expected.items() if rows}
    assert lab.left_overs() == []


@pytest.mark.usefixtures("impatient")
def test_rows_that_only_share_a_null_have_not_arrived(lab: Lab) -> None:
    """The partition of an append is dropped and filled by others: only the rows tell that nothing was moved."""
    lab.connect_one_node()
    table = lab.create("t", COLUMNS.replace("v String", "v Nullable(String)"), BY_DAY)
    lab.query(f"INSERT INTO {table} (k, v, day) SELECT number, 'old', 1 FROM numbers(20)")
    lab.put("in/a.csv", b"101,,1\n102,new,1\n")
    how: dict[str, Any] = {
        "data_format": Format("CSV", structure="k UInt32, v Nullable(String), day UInt8"),
        "mode": Append(on_unknown_rows="keep"),
        **ORIGIN,
    }
    with killed_before(lab, "move_partitions"):
        lab.load("in/*.csv", table, **how)
    lab.query(f"ALTER TABLE {table} DROP PARTITION 1")
    lab.query(f"INSERT INTO {table} (k, v, day) VALUES (1, NULL, 1), (2, 'mine', 1), (3, NULL, 1)")
    lab.load("in/*.csv", table, try_number=2, **how)
    found = {row["k"]: row["v"] for row in lab.rows(table, columns="k, v")}
    assert found == {1: None, 2: "mine", 3: None, 101: None, 102: "new"}
    assert lab.left_overs() == []


@pytest.mark.parametrize("mode", ["undo", thorough("missing"), thorough("merge")])
@pytest.mark.usefixtures("impatient")
def test_a_partition_attached_again_was_not_replaced(lab: Lab, mode: str) -> None:
    """Its parts have numbers as those of a REPLACE."""
    lab.connect_one_node()
    table = lab.create("t", COLUMNS, BY_DAY)
    put(lab, "in/a.csv", (11, "old", 1))
    first = lab.load("in/*.csv", table, task_id="first", **CSV, **ORIGIN)["query_id"]
    change_file(lab, mode, (11, "new", 1))
    with killed_before(lab, "replace_partitions"):
        run_mode(lab, mode, table, first)
    for act in ("DETACH", "ATTACH"):
        lab.query(f"ALTER TABLE {table} {act} PARTITION 1")
    put(lab, "other/z.csv", (1000, "other", 100))
    lab.load("other/*.csv", table, task_id="other", **CSV, **ORIGIN)
    new = {} if mode in TAKE_BACK else {1: ["1 new"]}
    assert held(lab, table) == {**new, **added_by(mode), 100: ["0 other"]}
    assert lab.left_overs() == []


# ALTERs after which each column has the values of another, and what a row of the load shows then
RENAMED = {
    "swapped": (["RENAME COLUMN v TO u", "RENAME COLUMN w TO v", "RENAME COLUMN u TO w"], ["of w", "of v"]),
    "added-again": (["RENAME COLUMN v TO u", "ADD COLUMN v String AFTER k"], ["", "of w"]),
}


@pytest.mark.parametrize(
    "mode", ["append", thorough("merge"), thorough("replace_where"), thorough("replace_partitions")]
)
@pytest.mark.parametrize("arrived", [thorough(0), 1, thorough(3)])
@pytest.mark.parametrize("renaming", ["swapped", thorough("added-again")])
@pytest.mark.usefixtures("impatient")
def test_staged_values_never_come_under_another_name(lab: Lab, mode: str, arrived: int, renaming: str) -> None:
    """Others rename columns while a commit is interrupted: the rest of the rows does not arrive."""
    lab.connect_one_node()
    table = lab.create("t", "k UInt32, v String, w String, day UInt8", BY_DAY)
    given: dict[str, Any] = {
        "data_format": Format("CSV", structure="k UInt32, v String, w String, day UInt8"),
        "columns": ["k", "v", "w", "day"],
    }
    how = {**given, **MODES.get(mode, {})}
    lab.put("in/a.csv", b"11,of v,of w,1\n21,of v,of w,2\n31,of v,of w,3\n")
    moving = "move_partitions" if mode == "append" else "replace_partitions"
    with killed_before(lab, *([moving, arrived + 1] if arrived < 3 else ["write_event_committed"])):
        lab.load("in/*.csv", table, **how)
    alters, values = RENAMED[renaming]
    for alter in alters:
        lab.query(f"ALTER TABLE {table} {alter} SETTINGS alter_sync = 2")
    lab.put("other/z.csv", b"1000,other,other,100\n")
    lab.load("other/*.csv", table, task_id="other", **given)
    found = [[row["v"], row["w"]] for row in lab.rows(table) if row["day"] < 100]
    assert found == [values] * arrived
    if not arrived:  # given up, and loaded again with the columns of now
        lab.load("in/*.csv", table, try_number=2, **how)
        assert [[row["v"], row["w"]] for row in lab.rows(table) if row["day"] < 100] == [["of v", "of w"]] * 3


@pytest.mark.usefixtures("impatient")
def test_a_condition_over_a_column_that_is_gone_blocks_no_load(lab: Lab) -> None:
    """Others drop the column while the commit is interrupted: it is broken off, and says so."""
    lab.connect_one_node()
    table = lab.create("t", "k UInt32, v String, day UInt8, c UInt8 DEFAULT 1", BY_DAY)
    lab.query(f"INSERT INTO {table} SELECT number, 'old', intDiv(number, 10), 1 FROM numbers(10, 30)")
    put(lab, "in/a.csv", *((10 * day + 1, "new", day) for day in range(1, 4)))
    how: dict[str, Any] = {"mode": ReplaceWhere("k % 10 = 1 AND c < 9")}
    with killed_before(lab, "replace_partitions", 2):
        lab.load("in/*.csv", table, **CSV, **how)
    lab.query(INSERT.format(t=table, day=2))
    lab.query(f"ALTER TABLE {table} DROP COLUMN c")
    put(lab, "other/z.csv", (1000, "other", 100))
    lab.load("other/*.csv", table, task_id="other", **CSV)
    assert held(lab, table)[100] == ["0 other"]
    assert "9 mine" in held(lab, table)[2]


@pytest.mark.parametrize("name", ["read_blocks", thorough("write_event_committing")])
@pytest.mark.usefixtures("impatient")
def test_a_row_written_right_before_the_replace_stays(lab: Lab, pause: Freeze, name: str) -> None:
    """After all rows were collected, and before the first REPLACE."""
    lab.connect_one_node()
    table = lab.create("t", COLUMNS, BY_DAY)
    lab.query(f"INSERT INTO {table} (k, v, day) VALUES (11, 'old', 1), (12, 'old', 1)")
    put(lab, "in/a.csv", (11, "new", 1))
    gate = pause(Gate(name), run_mode, lab, "merge", table, "")
    lab.query(INSERT.format(t=table, day=1))
    assert gate.wake() is None
    assert held(lab, table) == {1: ["1 new", "2 old", "9 mine"]}
    assert lab.left_overs() == []


UNWRITTEN = {
    "update": ("ALTER TABLE {t} UPDATE v = 'mine' WHERE k = 12 SETTINGS mutations_sync = 0", ["1 new", "2 mine"]),
    "delete": ("ALTER TABLE {t} DELETE WHERE k = 12 SETTINGS mutations_sync = 0", ["1 new"]),
    "patch": ("UPDATE {t} SET v = 'mine' WHERE k = 12", ["1 new", "2 mine"]),
}


@pytest.mark.parametrize("act", ["update", thorough("delete"), thorough("patch")])
@pytest.mark.usefixtures("impatient")
def test_a_change_that_is_not_written_yet_stays(lab: Lab, pause: Freeze, act: str) -> None:
    """A REPLACE takes the changes away that are still to be written into the parts it removes."""
    lab.connect_one_node()
    table = lab.create("t", COLUMNS, WITH_PATCHES)
    lab.query(f"INSERT INTO {table} (k, v, day) VALUES (11, 'old', 1), (12, 'old', 1)")
    put(lab, "in/a.csv", (11, "new", 1))
    gate = pause(Gate("write_event_committing"), run_mode, lab, "merge", table, "")
    lab.query(f"SYSTEM STOP MERGES {table}")
    sql, rows = UNWRITTEN[act]
    lab.query(sql.format(t=table), settings=PATCHING if act == "patch" else {})
    error = gate.wake()
    assert isinstance(error, LoadError)
    lab.query(f"SYSTEM START MERGES {table}")
    if act == "patch":
        lab.query(f"ALTER TABLE {table} APPLY PATCHES SETTINGS mutations_sync = 2")
    left = f"SELECT 1 FROM system.mutations WHERE database = '{lab.database}' AND table = 't' AND NOT is_done"
    wait_until(lambda: not lab.query(left), "the mutation")
    run_mode(lab, "merge", table, "", try_number=2)
    assert held(lab, table) == {1: rows}
    assert lab.left_overs() == []


@pytest.mark.parametrize("mode", ["merge", thorough("replace_where"), thorough("changed")])
@pytest.mark.usefixtures("impatient")
def test_a_row_written_right_before_a_finished_replace_stays(lab: Lab, pause: Freeze, mode: str) -> None:
    """The load that finishes an interrupted commit has compared the table with the plan already."""
    lab.connect_one_node()
    table = lab.create("t", COLUMNS, BY_DAY)
    put(lab, "in/a.csv", (11, "old", 1), (21, "old", 2))
    lab.load("in/*.csv", table, task_id="first", **CSV, **ORIGIN)
    put(lab, "in/a.csv", (11, "new", 1), (21, "new", 2))
    with killed_before(lab, "replace_partitions", 2):
        run_mode(lab, mode, table, "")
    put(lab, "other/z.csv", (1000, "other", 100))
    given: dict[str, Any] = {"task_id": "other", **CSV, **ORIGIN}
    gate = pause(Gate("write_event_committing"), lab.load, "other/*.csv", table, **given)
    for day in (1, 2):
        lab.query(INSERT.format(t=table, day=day))
    if gate.wake() is not None:
        lab.load("other/*.csv", table, try_number=2, **given)
    assert held(lab, table) == {1: ["1 new", "9 mine"], 2: ["1 new", "9 mine"], 100: ["0 other"]}
    assert lab.left_overs() == []


@pytest.mark.parametrize("mode", ["replace_partitions", thorough("merge")])
@pytest.mark.usefixtures("impatient")
def test_rows_inserted_again_after_the_replace_stop_nobody(lab: Lab, mode: str) -> None:
    """Their part has the same hash as the part from before."""
    lab.connect_one_node()
    table = lab.create("t", COLUMNS, BY_DAY)
    lab.query(f"INSERT INTO {table} (k, v, day) VALUES (12, 'app', 1)")
    put(lab, "in/a.csv", (11, "new", 1), (12, "new", 1))
    with killed_before(lab, "write_event_committed"):
        lab.load("in/*.csv", table, **CSV, **ORIGIN, **MODES[mode])
    lab.query(f"INSERT INTO {table} (k, v, day) VALUES (12, 'app', 1)")
    put(lab, "other/z.csv", (1000, "other", 100))
    lab.load("other/*.csv", table, task_id="other", **CSV, **ORIGIN)
    assert held(lab, table) == {1: ["1 new", "2 app", "2 new"], 100: ["0 other"]}
    assert lab.left_overs() == []


@pytest.mark.thorough
@pytest.mark.parametrize("replicated_sandbox", ["database", "old-database"], indirect=True)
@pytest.mark.usefixtures("impatient")
def test_a_shard_without_rows_of_a_partition_stops_nobody(replicated_lab: Lab) -> None:
    """A partition whose rows are all on one shard looks the same on the other one before and after a REPLACE."""
    lab, mode = replicated_lab, MODES["replace_partitions"]
    table = lab.create("t", COLUMNS, BY_DAY)
    for node in (0, 2):
        lab.query(
            f"INSERT INTO {table} (k, v, day) SELECT 10 * number + 2, 'old', number FROM numbers(1, 4)", node=node
        )
    lab.sync(table)
    for version in ("new", "newer"):
        for day in range(1, 5):
            put(lab, f"in/{day}.csv", (10 * day + 1, version, day))
        if version == "new":
            lab.load("in/*.csv", table, **CSV, **ORIGIN, **mode)
    with killed_before(lab, "replace_partitions"):
        lab.load("in/*.csv", table, task_id="second", **CSV, **ORIGIN, **mode)
    put(lab, "other/z.csv", (1000, "other", 100))
    lab.load("other/*.csv", table, task_id="other", **CSV, **ORIGIN)
    assert held(lab, table) == {**{day: ["1 newer"] for day in range(1, 5)}, 100: ["0 other"]}
    assert lab.left_overs() == []


def drop_a_part_in_the_middle(
    lab: Lab, pause: Freeze, mode: str, verb: str, statements: int = 1, *, has_deleted: bool = False
) -> None:
    """Drop a part of the target after the part was copied.

    :param statements: how many statements delete rows on all nodes; the rows of a condition are first deleted from
        the staged rows.
    :param has_deleted: whether a lightweight DELETE has marked a row of another part before.
    """
    table = lab.create("t", COLUMNS, BY_DAY)
    put(lab, "in/a.csv", (11, "old", 1))
    first = lab.load("in/*.csv", table, task_id="first", **CSV, **ORIGIN)["query_id"]
    change_file(lab, mode, (11, "new", 1))
    for k in (12, 13):
        marked = f", ({k + 2}, 'deleted', 1)" if has_deleted else ""
        lab.query(f"INSERT INTO {table} (k, v, day) VALUES ({k}, 'old', 1){marked}")
    lab.sync(table)
    if has_deleted:
        lab.query(f"DELETE FROM {table} WHERE v = 'deleted'")
        lab.sync(table)
    gate = pause(Gate("await_deletion", 1 if mode == "merge" else 1 + statements), run_mode, lab, mode, table, first)
    part = f"SELECT _part AS name FROM {table} WHERE k = 12"
    lab.query(f"ALTER TABLE {table} {verb} PART '{lab.query(part)[0]['name']}'")
    if verb == "DROP":  # the merged part has the blocks of the dropped one, too
        lab.query(f"OPTIMIZE TABLE {table} PARTITION 1 FINAL")
    assert gate.wake() is None
    lab.sync(table)
    kept = ["3 old"] if mode in TAKE_BACK else ["1 new", "3 old"]
    assert held(lab, table) == {1: kept, **added_by(mode)}
    assert lab.left_overs() == []


GONE = [
    ("merge", "DETACH"),
    *(thorough(mode, "DROP") for mode in ("merge", "replace_where", "changed", "undo")),
    thorough("missing", "DETACH"),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("mode", "verb"), GONE)
def test_a_part_that_goes_while_rows_are_set_aside_stays_away(lab: Lab, pause: Freeze, mode: str, verb: str) -> None:
    lab.connect_one_node()
    drop_a_part_in_the_middle(lab, pause, mode, verb)


@pytest.mark.parametrize("mode", ["merge", *(thorough(mode) for mode in ("replace_where", "changed", "undo"))])
def test_a_part_that_goes_beside_deleted_rows_stays_away(lab: Lab, pause: Freeze, mode: str) -> None:
    """The number of rows of the parts falls with merges, too, as long as parts have rows deleted before."""
    lab.connect_one_node()
    drop_a_part_in_the_middle(lab, pause, mode, "DROP", has_deleted=True)


@pytest.mark.thorough
@pytest.mark.parametrize("has_deleted", [False, True])
@pytest.mark.parametrize(
    ("replicated_sandbox", "statements"),
    [pytest.param("old", 2), pytest.param("on-cluster", 2), pytest.param("database", 1)],
    indirect=["replicated_sandbox"],
)
@pytest.mark.parametrize(("mode", "verb"), GONE)
def test_a_part_that_goes_on_replicas_stays_away(
    replicated_lab: Lab, pause: Freeze, mode: str, verb: str, statements: int, has_deleted: bool
) -> None:
    drop_a_part_in_the_middle(replicated_lab, pause, mode, verb, statements, has_deleted=has_deleted)


@contextmanager
def queue_stopped_before(lab: Lab, name: str, table: str, *, node: int) -> Iterator[None]:
    """Stop the replication queue of a table on one node right before a statement with a name."""
    real = ClickHouseS3Hook._run

    def run(hook: ClickHouseS3Hook, statement: Statement, *given: Any, **named: Any) -> Any:
        if statement.name == name:
            lab.query(f"SYSTEM STOP REPLICATION QUEUES {table}", node=node)
        return real(hook, statement, *given, **named)

    with lab.monkeypatch.context() as patch:
        patch.setattr(ClickHouseS3Hook, "_run", run)
        yield


@pytest.mark.parametrize(
    ("replicated_sandbox", "mode"),
    [
        thorough("old", "merge"),
        thorough("old", "changed"),
        thorough("old", "undo"),
        thorough("on-cluster", "replace_where"),
        thorough("on-cluster", "missing"),
        thorough("database", "merge"),
        thorough("database", "undo"),
        thorough("database", "replace_partitions"),
    ],
    indirect=["replicated_sandbox"],
)
def test_a_commit_that_has_arrived_on_a_slow_replica_is_not_repeated(replicated_lab: Lab, mode: str) -> None:
    """One replica lags until the load has failed; then it catches up, and people work with the table."""
    lab = replicated_lab
    lab.timing = replace(lab.timing, stall_seconds=2.0)
    table = lab.create("t", COLUMNS, BY_DAY)
    given = {**CSV, **ORIGIN}
    put(lab, "in/a.csv", (11, "old", 1), (21, "old", 2))
    first = lab.load("in/*.csv", table, task_id="first", **given)["query_id"]
    change_file(lab, mode, (11, "new", 1), (21, "new", 2))
    lab.query(f"INSERT INTO {table} (k, v, day) VALUES (12, 'old', 1), (13, 'old', 1), (22, 'old', 2)")
    with (
        queue_stopped_before(lab, "replace_partitions", table, node=1),
        pytest.raises(LoadError, match=coded("replica-behind", "replicas of", "is unfinished: ")),
    ):
        run_mode(lab, mode, table, first)
    put(lab, "other/z.csv", (1000, "other", 100))
    for again in (
        partial(run_mode, lab, mode, table, first, **({} if mode == "undo" else {"try_number": 2})),
        partial(lab.load, "other/*.csv", table, task_id="other", **given),
    ):
        with pytest.raises(LoadError, match=coded("replica-behind", "replicas of", "is unfinished: ")):
            again()
    lab.query(f"SYSTEM START REPLICATION QUEUES {table}", node=1)
    lab.sync(table)
    lab.query(f"INSERT INTO {table} (k, v, day) VALUES (19, 'mine', 1)")
    lab.query(f"ALTER TABLE {table} DELETE WHERE k IN (11, 12) SETTINGS mutations_sync = 2")
    lab.query(f"ALTER TABLE {table} DELETE WHERE k IN (11, 12) SETTINGS mutations_sync = 2", node=2)
    lab.sync(table)
    lab.load("other/*.csv", table, task_id="other", **given)
    kept = {1: ["3 old", "9 mine"], 2: ["2 old"] if mode in TAKE_BACK else ["1 new", "2 old"]}
    replaced = {1: ["9 mine"], 2: ["1 new"]}
    assert held(lab, table) == {
        **(replaced if mode == "replace_partitions" else kept),
        **added_by(mode),
        100: ["0 other"],
    }
    assert lab.left_overs() == []


def add_delete_and_merge(lab: Lab, table: str, node: int = 0) -> None:
    """Write a row, delete two old ones, and merge all parts: neither parts nor row counts tell what was moved."""
    lab.query(INSERT.format(t=table, day=1), node=node)
    delete = f"ALTER TABLE {table} DELETE IN PARTITION 1 WHERE k IN (11, 12) SETTINGS mutations_sync = 2"
    lab.query(delete, node=node)
    lab.query(f"OPTIMIZE TABLE {table} PARTITION 1 FINAL", node=node)


def staged_in(lab: Lab) -> str:
    """The staging table of the only load."""
    (name,) = {name for name in lab.left_overs() if "stage" in name}
    return f"{lab.database}.{name}"


def break_off(lab: Lab, engine: str = BY_DAY) -> tuple[str, dict[str, Any]]:
    """Let an append into a table with rows die before its first MOVE; returns the table, and how to load."""
    table, given = lab.create("t", COLUMNS, engine), {**CSV, **ORIGIN}
    put(lab, "in/a.csv", (11, "old", 1), (12, "old", 1), (13, "old", 1))
    lab.load("in/a.csv", table, task_id="first", **given)
    put(lab, "in/b.csv", (14, "new", 1), (15, "new", 1))
    with killed_before(lab, "move_partitions"):
        lab.load("in/b.csv", table, **given)
    return table, given


def arrive(lab: Lab, table: str) -> None:
    """Leave the staged rows in both tables, as a node does that dies within MOVE."""
    lab.query(f"ALTER TABLE {table} ATTACH PARTITION ID '1' FROM {staged_in(lab)}")


@pytest.mark.parametrize("is_late", [False, thorough(True)])
@pytest.mark.usefixtures("impatient")
def test_an_append_whose_keys_are_nowhere_has_not_begun(lab: Lab, is_late: bool) -> None:
    lab.connect_one_node()
    table, given = break_off(lab)
    add_delete_and_merge(lab, table)
    if is_late:
        hide_inactive_parts(lab)
    lab.load("in/b.csv", table, task_id="second", **given)
    assert held(lab, table) == {1: ["3 old", "4 new", "5 new", "9 mine"]}
    assert is_clean(lab)


@pytest.mark.thorough
@pytest.mark.parametrize("replicated_sandbox", ["old", "on-cluster", "database"], indirect=True)
@pytest.mark.usefixtures("impatient")
def test_an_append_whose_keys_are_on_no_replica_has_not_begun(replicated_lab: Lab) -> None:
    lab = replicated_lab
    table, given = break_off(lab)
    for node in (0, 2):
        add_delete_and_merge(lab, table, node)
    lab.load("in/b.csv", table, task_id="second", **given)
    assert held(lab, table) == {1: ["3 old", "4 new", "5 new", "9 mine", "9 mine"]}
    assert is_clean(lab)


@pytest.mark.thorough
@pytest.mark.usefixtures("impatient")
def test_rows_that_have_arrived_and_were_patched_stay_single(lab: Lab) -> None:
    """A node died within MOVE, merges hide the parts, and a lightweight UPDATE leaves the versions of the parts."""
    lab.connect_one_node()
    table, given = break_off(lab, WITH_PATCHES)
    arrive(lab, table)
    lab.query(f"OPTIMIZE TABLE {table} PARTITION 1 FINAL")
    lab.query(f"SYSTEM STOP MERGES {table}")
    lab.query(f"UPDATE {table} SET v = 'mine' WHERE v = 'new'", settings=PATCHING)
    hide_inactive_parts(lab)
    before = held(lab, table)
    with pytest.raises(UnknownStateError, match=coded("partition-state-unknown", "can no longer be determined")):
        lab.load("in/b.csv", table, task_id="second", **given)
    assert held(lab, table) == before


@pytest.mark.usefixtures("impatient")
def test_of_equal_parts_each_has_to_arrive(lab: Lab) -> None:
    """A node died within MOVE; a mutation of others copied the part that had arrived, with the same hash."""
    lab.connect_one_node()
    table = lab.create("t", "k UInt32, v String, day UInt8", BY_DAY)
    lab.query(f"INSERT INTO {table} VALUES (11, 'old', 1), (12, 'old', 1)")
    for key in ("in/a.csv", "in/b.csv"):
        put(lab, key, (13, "new", 1), (14, "new", 1))
    one_by_one = {"max_threads": 1, "max_insert_threads": 1, "max_block_size": 2, "min_insert_block_size_rows": 2}
    how: dict[str, Any] = {**CSV, "mode": Append(on_unknown_rows="keep")}
    with killed_before(lab, "move_partitions"):
        lab.load("in/*.csv", table, **how, settings={**one_by_one, "min_insert_block_size_bytes": 1})
    arrive(lab, table)
    arrived = lab.query(f"SELECT DISTINCT _part AS name FROM {table} WHERE v = 'new' ORDER BY name")
    assert len(arrived) == 2
    lab.query(f"ALTER TABLE {table} DETACH PART '{arrived[1]['name']}'")
    lab.query(f"ALTER TABLE {table} DELETE WHERE k = 11 SETTINGS mutations_sync = 2")
    before = held(lab, table)
    with pytest.raises(UnknownStateError, match=coded("partition-state-unknown", "can no longer be determined")):
        lab.load("in/*.csv", table, task_id="second", **how)
    assert held(lab, table) == before
    assert len(lab.rows(staged_in(lab))) == 4


@pytest.mark.thorough
@pytest.mark.parametrize("is_changed", [False, True])
@pytest.mark.parametrize(
    "mode",
    [
        pytest.param(ReplacePartitions(on_partial="replace"), id="partitions"),
        pytest.param(Merge(key=["k"]), id="merge"),
    ],
)
@pytest.mark.usefixtures("impatient")
def test_what_was_replaced_long_ago_is_told_by_its_rows(lab: Lab, mode: Any, is_changed: bool) -> None:
    """A load ended before its commit was recorded, merges hide the clones, and the log of parts is gone."""
    lab.connect_one_node()
    table = lab.create("t", "k UInt32, v Nullable(String), day UInt8", BY_DAY)
    lab.query(f"INSERT INTO {table} VALUES (1, 'old', 1), (2, 'old', 1)")
    for k in (1, 2):
        put(lab, f"in/{k}.csv", (k, "new", 1))
    one_by_one = {"max_threads": 1, "max_insert_threads": 1, "min_insert_block_size_rows": 1}
    how: dict[str, Any] = {**CSV, "mode": mode, "settings": {**one_by_one, "min_insert_block_size_bytes": 1}}
    with killed_before(lab, "write_event_committed"):
        lab.load("in/*.csv", table, **how)
    if is_changed:
        lab.query(f"ALTER TABLE {table} UPDATE v = 'mine' WHERE k = 2 SETTINGS mutations_sync = 2")
    lab.query(f"OPTIMIZE TABLE {table} FINAL")
    hide_inactive_parts(lab)
    lab.query("SYSTEM FLUSH LOGS")
    lab.query("TRUNCATE TABLE system.part_log")
    before = held(lab, table)
    refused = pytest.raises(UnknownStateError, match=coded("partition-state-unknown"))
    with refused if is_changed else nullcontext():
        lab.load("in/*.csv", table, task_id="second", **how)
    assert held(lab, table) == before == {1: ["1 new", "2 mine" if is_changed else "2 new"]}


@pytest.mark.thorough
def test_times_in_the_hour_that_comes_twice_are_no_equal_rows(lab: Lab) -> None:
    lab.connect_one_node()
    table = lab.create("t", "k UInt8, at DateTime('Europe/Berlin'), day UInt8", BY_DAY)
    lab.query(f"INSERT INTO {table} VALUES (1, 1729989000, 1), (1, 1729992600, 2)")
    node = lab.query(f"SELECT {NODE_NAME} AS node")[0]["node"]
    render = partial(render_sum_rows, parse_table(table, ""), None, node=node, compared=Sql("at"))
    first, second = (lab.query(render(partition=str(day)).text)[0] for day in (1, 2))
    assert (first["ch_s3_rows"], second["ch_s3_rows"]) == (1, 1)
    assert first["ch_s3_sum"] != second["ch_s3_sum"]


@pytest.mark.thorough
@pytest.mark.usefixtures("impatient")
def test_each_node_compares_the_keys_of_its_own_rows(lab: Lab) -> None:
    """On each node people write the keys that are staged on the others."""
    table, given = lab.create("t", COLUMNS, BY_DAY), {**CSV, **ORIGIN}
    for n in range(12):
        put(lab, f"in/{n}.csv", (100 + n, "new", 1))
    with killed_before(lab, "move_partitions"):
        lab.load("in/*.csv", table, **given)
    keys = [{row["k"] for row in lab.rows(staged_in(lab), node=node)} for node in lab.nodes()]
    assert all(keys)
    theirs = sorted(set().union(*keys))
    for node in lab.nodes():
        for k in (set(theirs) - keys[node]) | {1, 2}:
            lab.query(f"INSERT INTO {table} (k, v, day) VALUES ({k}, 'mine', 1)", node=node)
        lab.query(f"ALTER TABLE {table} DELETE WHERE k = 1 SETTINGS mutations_sync = 2", node=node)
        lab.query(f"OPTIMIZE TABLE {table} FINAL", node=node)
    lab.load("in/*.csv", table, task_id="second", **given)
    for node in lab.nodes():
        found = lab.rows(table, columns="k, v", node=node)
        assert sorted(row["k"] for row in found) == [2, *theirs]
        assert {row["k"] for row in found if row["v"] == "new"} == keys[node]
    assert is_clean(lab)


@pytest.mark.thorough
@pytest.mark.usefixtures("impatient")
def test_rows_without_a_key_are_the_same(lab: Lab) -> None:
    """A node died within MOVE, others have written a row, and merges hide all parts; the hash of a NULL is NULL."""
    lab.connect_one_node()
    columns = "k Nullable(UInt32), v Nullable(String), day UInt8, load String, path String"
    table = lab.create("t", columns, f"{BY_DAY} SETTINGS allow_nullable_key = 1")
    lab.put("in/b.csv", b",,1\n,,1\n")
    given = {**ORIGIN, "data_format": Format("CSV", structure=columns.partition(", load")[0])}
    with killed_before(lab, "move_partitions"):
        lab.load("in/b.csv", table, **given)
    arrive(lab, table)
    lab.query(INSERT.format(t=table, day=1))
    lab.query(f"OPTIMIZE TABLE {table} PARTITION 1 FINAL")
    hide_inactive_parts(lab)
    with pytest.raises(UnknownStateError, match=coded("partition-state-unknown", "can no longer be determined")):
        lab.load("in/b.csv", table, task_id="second", **given)
    assert len(lab.rows(table)) == 3


@pytest.mark.thorough
@pytest.mark.parametrize("acts", [["DETACH", "ATTACH"], ["DROP"]])
@pytest.mark.usefixtures("impatient")
def test_a_partition_that_has_arrived_is_attached_again(lab: Lab, acts: list[str]) -> None:
    """A node died within MOVE, and people detached the partition: it is as fresh as an insert, or gone."""
    lab.connect_one_node()
    table, given = break_off(lab)
    arrive(lab, table)
    lab.query(f"OPTIMIZE TABLE {table} PARTITION 1 FINAL")
    for act in acts:
        lab.query(f"ALTER TABLE {table} {act} PARTITION 1")
    lab.load("in/b.csv", table, task_id="second", **given)
    # Dropped before the load has ended, the rows are those of a load that ends after the drop.
    kept = [] if acts == ["DROP"] else ["1 old", "2 old", "3 old"]
    assert held(lab, table) == {1: [*kept, "4 new", "5 new"]}
    assert is_clean(lab)


UPDATE = "ALTER TABLE {t} UPDATE v = 'theirs' IN PARTITION 1 WHERE v = 'new' SETTINGS mutations_sync = 2"


@pytest.mark.thorough
@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.usefixtures("impatient")
def test_rows_deleted_after_they_have_arrived_stay_away(lab: Lab, is_late: bool) -> None:
    """A node died within MOVE; people have written 1 row and deleted 3, so the target has as many rows as before."""
    lab.connect_one_node()
    table, given = break_off(lab)
    arrive(lab, table)
    lab.query(f"DELETE FROM {table} WHERE k = 14")
    add_delete_and_merge(lab, table)
    if is_late:
        hide_inactive_parts(lab)
        with pytest.raises(UnknownStateError, match=coded("partition-state-unknown", "can no longer be determined")):
            lab.load("in/b.csv", table, task_id="second", **given)
    else:
        lab.load("in/b.csv", table, task_id="second", **given)
        assert is_clean(lab)
    assert held(lab, table) == {1: ["3 old", "5 new", "9 mine"]}


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("engine", "has_arrived", "acts"),
    [
        pytest.param("MergeTree PARTITION BY day ORDER BY day", False, [], id="the-key-does-not-tell"),
        pytest.param("MergeTree PARTITION BY day ORDER BY tuple()", False, [], id="no-key"),
        pytest.param(BY_DAY, True, [], id="arrived-long-ago"),
        pytest.param(BY_DAY, True, [UPDATE], id="arrived-long-ago-and-updated"),
    ],
)
@pytest.mark.usefixtures("impatient")
def test_rows_that_nobody_can_tell_are_moved_by_hand(
    lab: Lab, engine: str, has_arrived: bool, acts: list[str]
) -> None:
    """:param has_arrived: a node died within MOVE, and has the rows in both tables."""
    lab.connect_one_node()
    table, given = break_off(lab, engine)
    if has_arrived:
        arrive(lab, table)
    for act in acts:
        lab.query(act.format(t=table))
    add_delete_and_merge(lab, table)
    if has_arrived:
        hide_inactive_parts(lab)
    before = held(lab, table)
    with pytest.raises(
        UnknownStateError, match=coded("partition-state-unknown", "move the rest to the target")
    ) as told:
        lab.load("in/b.csv", table, task_id="second", **given)
    assert held(lab, table) == before
    (staged,) = re.findall(r"was moved from (\S+) to", told.value.sentence)
    if has_arrived:
        lab.query(f"ALTER TABLE {staged} DROP PARTITION ID '1'")
    else:
        lab.query(f"ALTER TABLE {staged} MOVE PARTITION ID '1' TO TABLE {table}")
        before = {1: ["3 old", "4 new", "5 new", "9 mine"]}
    lab.load("in/b.csv", table, task_id="second", **given)
    assert held(lab, table) == before
    assert is_clean(lab)
