"""``mode=Merge(…)``: the newest row of each key stays, wherever its older rows are."""

from __future__ import annotations

import re
import signal
from typing import Any

import pytest

from airflow_provider_ch_s3.arguments import Checks, Columns, Format
from airflow_provider_ch_s3.errors import CheckFailedError, ConfigError, LoadError, TargetError
from airflow_provider_ch_s3.exactly_once.modes import merge
from airflow_provider_ch_s3.load import measure
from airflow_provider_ch_s3.modes import Merge
from tests.failures import coded
from tests.marks import thorough
from tests.sandbox.conftest import WAIT_SECONDS, Lab, bag, start_worker
from tests.sandbox.few import die_before, is_clean
from tests.sandbox.topologies import topologies

pytestmark = pytest.mark.sandbox

COLUMNS = "id UInt32, day Date, at UInt32, v String"
BY_DAY = "MergeTree PARTITION BY day ORDER BY id"
FILES: dict[str, Any] = {"mode": Merge(key=["id"]), "data_format": Format("CSV", structure=f"{COLUMNS}, op String")}
BY_VERSION: dict[str, Any] = {"key": ["id"], "version": "at", "deleted": "op = 'D'"}
VERSIONED = {**FILES, "mode": Merge(**BY_VERSION)}


def row(key: int, at: int = 1, v: str = "a", *, day: int = 1, op: str = "") -> dict[str, Any]:
    return {"id": key, "day": f"2013-01-{day:02}", "at": at, "v": v, "op": op}


def put(lab: Lab, *rows: dict[str, Any], key: str = "in/a.csv") -> None:
    lab.put(key, "".join(f"{','.join(map(str, one.values()))}\n" for one in rows).encode())


def held(lab: Lab, table: str) -> Any:
    return bag(lab.rows(table, columns="id, toString(day) AS day, at, v"))


def these(*rows: dict[str, Any]) -> Any:
    return bag({name: value for name, value in one.items() if name != "op"} for one in rows)


def counts(report: dict[str, Any]) -> tuple[int, ...]:
    return tuple(report["merge"][name] for name in ("inserted", "updated", "deleted", "unchanged", "late"))


def test_on_one_node(lab: Lab) -> None:
    lab.connect_one_node()
    table = lab.create("t", COLUMNS, BY_DAY)
    arguments = {**FILES, "data_format": Format("CSV", structure=COLUMNS)}
    old = "(1, '2013-01-01', 1, 'old'), (2, '2013-01-01', 1, 'kept'), (4, '2013-01-05', 1, 'moved')"
    lab.query(f"INSERT INTO {table} VALUES {old}")
    lab.put("in/a.csv", b"1,2013-01-01,1,new\n3,2013-01-02,1,new\n4,2013-01-02,1,new\n")
    report = lab.load("in/*.csv", table, **arguments)
    new = (row(1, v="new"), row(3, v="new", day=2), row(4, v="new", day=2))
    assert held(lab, table) == these(*new, row(2, v="kept"))
    assert counts(report) == (1, 2, 0, 0, 0)
    assert report["partitions"] == {"20130101": 1, "20130102": 2, "20130105": 0}
    assert lab.left_overs() == []


def scatter(lab: Lab, table: str, *rows: dict[str, Any]) -> None:
    """Put each row on one of the nodes, wherever a sharding key would have it."""
    for number, one in enumerate(rows):
        values = f"({one['id']}, '{one['day']}', {one['at']}, '{one['v']}')"
        lab.query(f"INSERT INTO {table} VALUES {values}", node=number % len(lab.nodes()))


@pytest.mark.thorough
@pytest.mark.parametrize("sharding_key", ["rand()", "cityHash64(id, v)", "1"])
def test_on_three_shards(lab: Lab, sharding_key: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "airflow_provider_ch_s3")
    table = lab.create("t", COLUMNS, BY_DAY)
    distributed = lab.distribute(table, sharding_key)
    scatter(lab, table, *(row(n, at=5, day=1 + n % 3) for n in range(12)), row(50, at=5, day=9))
    new = [
        row(0, at=6, v="newer", day=1),
        row(1, at=6, v="moved", day=7),
        row(2, at=4, v="late", day=3),
        row(3, at=5),  # the same row
        row(4, at=9, op="D", day=2),
        row(5, at=1, op="D", day=3),  # late
        row(6, at=5, v="tie"),
        row(7, at=7, v="seven", day=2),
        row(7, at=8, v="eight", day=2),
        row(8, at=7, v="back", day=3),
        row(8, at=8, op="D", day=3),
        row(20, v="new", day=4),
        row(21, op="D"),  # nobody has it
    ]
    for number, one in enumerate(new):
        put(lab, one, key=f"in/{number}.csv")
    put(lab, row(7, at=8, v="eight", day=2), key="in/again.csv")
    report = lab.load("in/*.csv", distributed, **VERSIONED)
    planned = " ".join(caplog.text.split())
    assert re.search(
        r"of these keys, about 3 partitions with 12 rows, .* at most 4 partitions with 13 rows,", planned
    )
    after = [
        *(row(n, at=5, day=1 + n % 3) for n in (2, 3, 5, 9, 10, 11)),
        row(50, at=5, day=9),
        row(0, at=6, v="newer", day=1),
        row(1, at=6, v="moved", day=7),
        row(6, at=5, v="tie"),
        row(7, at=8, v="eight", day=2),
        row(20, v="new", day=4),
    ]
    assert held(lab, table) == these(*after)
    assert counts(report) == (1, 4, 2, 2, 5)
    assert sum(counts(report)) == report["rows_written"] == 14
    assert lab.left_overs() == []
    again = lab.load("in/*.csv", distributed, task_id="again", **VERSIONED)
    assert held(lab, table) == these(*after)
    assert counts(again)[:3] == (0, 0, 0)
    assert again["merge"]["rewritten_bytes"] == 0


@pytest.mark.thorough
def test_of_two_rows_that_the_table_holds(lab: Lab) -> None:
    table = lab.create("t", COLUMNS, BY_DAY)
    doubled = [
        *(row(1, at=at, v="late", day=day) for at, day in ((5, 1), (7, 2), (7, 3))),
        *(row(2, at=at, v="updated", day=at) for at in (1, 2, 2)),
        *(row(3, v="deleted", day=day) for day in (1, 1)),
    ]
    scatter(lab, table, *doubled, row(4, v="twice, and in no file"), row(4, v="twice, and in no file"))
    put(lab, row(1, at=6), row(2, at=3, v="new", day=4), row(3, at=2, op="D"))
    with pytest.raises(LoadError, match=coded("merge-keys-doubled", "3 keys", "(id=", "ch_s3_rows=")):
        lab.load("in/*.csv", table, **VERSIONED)
    assert len(lab.rows(table)) == 10
    assert lab.left_overs() == []
    report = lab.load(
        "in/*.csv", table, try_number=2, **{**FILES, "mode": Merge(**BY_VERSION, duplicates="collapse")}
    )
    assert counts(report) == (0, 1, 1, 0, 1)
    found = lab.rows(table)
    assert sorted(one["id"] for one in found) == [1, 2, 4, 4]
    assert {(one["at"], one["v"]) for one in found if one["id"] < 3} == {(7, "late"), (3, "new")}


KEYS = {
    "Nullable(UInt8)": ("1", "2", "NULL"),
    "LowCardinality(String)": ("'a'", "''", "'ü'"),
    "LowCardinality(Nullable(String))": ("'a'", "''", "NULL"),
    "String": ("'it\\'s'", "'b\\nb'", "'c'"),
    "UUID": ("'61f0c404-5cb3-11e7-907b-a6006ad3dba0'", "'00000000-0000-0000-0000-000000000000'", "generateUUIDv4()"),
    "Decimal(38, 9)": ("'1.000000001'", "'-99999999999999999999.5'", "0"),
    "DateTime64(6, 'UTC')": ("'2024-01-01 00:00:00.000001'", "'1969-12-31 23:59:59.5'", "0"),
    "Tuple(a UInt8, b String)": ("(1, 'a')", "(1, '')", "(2, 'a')"),
    "Array(String)": ("['a', '']", "[]", "['b']"),
    "Int256": ("-1", "57896044618658097711785492504343953926634992332820282019728792003956564819967", "0"),
}


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KEYS)
def test_a_key_of_any_type(lab: Lab, kind: str) -> None:
    """Values come from a table of the same type, and each statement compares a part of the keys."""
    lab.monkeypatch.setattr(merge, "COMPARED_ROWS", 1)
    changed, absent, kept = KEYS[kind]
    columns = f"k {kind}, p UInt8, v String"
    table = lab.create("t", columns, "MergeTree PARTITION BY p ORDER BY p")
    source = lab.create("source", columns)
    lab.query(f"INSERT INTO {source} VALUES ({changed}, 2, 'new'), ({absent}, 1, 'new')")
    for node, value in enumerate((changed, kept)):
        lab.query(f"INSERT INTO {table} VALUES ({value}, 1, 'old')", node=node)
    file = f"s3('{lab.sandbox.s3_endpoint}/{lab.bucket}/in/a.native', '{{key}}', '{{secret}}', 'Native')"
    keys = lab.sandbox.s3_access_key, lab.sandbox.s3_secret_key
    lab.query(f"INSERT INTO FUNCTION {file.format(key=keys[0], secret=keys[1])} SELECT * FROM {source}")
    report = lab.load("in/*.native", table, mode=Merge(key=["k"]), data_format="Native")
    assert counts(report) == (1, 1, 0, 0, 0)
    assert sorted((one["p"], one["v"]) for one in lab.rows(table, columns="p, v")) == [
        (1, "new"),
        (1, "old"),
        (2, "new"),
    ]


VERSIONS = {
    "DateTime64(6, 'UTC')": (
        "1969-12-31 23:59:59.999999",
        "2024-01-01 00:00:00.000001",
        "2024-01-01 00:00:00.000002",
    ),
    "LowCardinality(String)": ("", "10", "9"),
    "Decimal(38, 9)": ("-10.000000001", "9.000000001", "10"),
    "Float64": ("-inf", "-1e-9", "1e300"),
    "Nullable(DateTime('UTC'))": ("1970-01-01 00:00:00", "2024-01-01 00:00:00", "2024-01-01 00:00:01"),
}


@pytest.mark.thorough
@pytest.mark.parametrize("kind", VERSIONS)
def test_a_version_of_any_type(lab: Lab, kind: str) -> None:
    low, middle, high = VERSIONS[kind]
    nothing = r"\N" if "Nullable" in kind else low
    columns = f"id UInt8, at {kind}, v String"
    table = lab.create("t", columns, "MergeTree PARTITION BY id % 2 ORDER BY id")
    held = [(1, low), (2, high), (3, middle), (4, nothing), (5, nothing), (5, high), (6, nothing), (6, middle)]
    for number, (key, version) in enumerate(held):
        value = "NULL" if version == r"\N" else f"'{version}'"
        lab.query(f"INSERT INTO {table} VALUES ({key}, {value}, '{version}')", node=number % 3)
    files = [(1, middle), (1, high), (2, middle), (3, middle), (4, low), (5, middle), (6, high), (7, low)]
    for number, (key, version) in enumerate(files):
        lab.put(f"in/{number}.csv", f"{key},{version},new\n".encode())
    mode = Merge(key=["id"], version="at", duplicates="collapse")
    report = lab.load("in/*.csv", table, mode=mode, data_format=Format("CSV", structure=columns))
    assert counts(report) == (1, 4, 0, 0, 3)
    after = {row["id"]: row["v"] for row in lab.rows(table)}
    assert after == {1: "new", 2: high, 3: "new", 4: "new", 5: high, 6: "new", 7: "new"}
    assert len(lab.rows(table)) == 7
    assert lab.left_overs() == []


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        pytest.param({"key": []}, ConfigError, "names no column", id="no-key"),
        pytest.param({"key": ["idd"]}, ConfigError, "names 'idd', .* did you mean 'id'", id="key"),
        pytest.param({"version": "att"}, ConfigError, "names 'att', .*mean 'at'", id="version"),
        pytest.param({"key": ["id", "id"]}, ConfigError, "names a column twice", id="twice"),
        pytest.param({"deleted": "opp = 'D'"}, ConfigError, "mode.deleted=.*opp.*did you mean op", id="column"),
        pytest.param({"deleted": "op"}, ConfigError, "mode.deleted='op' is a value of type String", id="text"),
        pytest.param({"deleted": "op = 'D'; --"}, ConfigError, "mode.deleted: ", id="hostile"),
        pytest.param({"columns": ["day", "v"]}, ConfigError, "does not fill this column", id="not-filled"),
        pytest.param(
            {"max_rewritten_bytes": 10}, LoadError, "would rewrite 1 partition with 1 row, .* of ", id="bytes"
        ),
        pytest.param(
            {"where": "v != 'a'"}, CheckFailedError, r"contain a key more than once, .*\(id=2, ch_s3", id="key-twice"
        ),
        pytest.param(
            {"where": "v != 'a'", "version": "at"},
            CheckFailedError,
            r"in the same version with different values, for example \(id=2, at=1, ch_s3_rows=2\)",
            id="version-twice",
        ),
    ],
)
def test_what_is_refused(lab: Lab, arguments: dict[str, Any], error: type[Exception], says: str) -> None:
    table = lab.create("t", COLUMNS, BY_DAY)
    scatter(lab, table, row(1, v="old"))
    put(lab, row(1), row(2, v="b"), row(2, v="c")) if "where" in arguments else put(lab, row(1))
    others = {name: value for name, value in arguments.items() if name in ("columns", "where")}
    rule = {name: value for name, value in arguments.items() if name not in others}
    mode = Merge(**{"key": ["id"], "deleted": "op = 'D'", **rule})
    with pytest.raises(error, match=says):
        lab.load("in/*.csv", table, **{**FILES, "mode": mode, **others})
    assert held(lab, table) == these(row(1, v="old"))
    assert lab.left_overs() == []


@pytest.mark.thorough
@pytest.mark.parametrize(("kind", "value"), [("Nullable(UInt32)", r"\N"), ("Float64", "nan")])
@pytest.mark.parametrize("place", ["key", thorough("version")])
def test_a_key_or_version_without_a_value_is_refused(lab: Lab, kind: str, value: str, place: str) -> None:
    columns = f"id {kind}, v String"
    table = lab.create("t", columns)
    lab.put("in/a.csv", f"1,a\n{value},b\n".encode())
    mode = Merge(key=["id"]) if place == "key" else Merge(key=["v"], version="id")
    arguments = {"data_format": Format(structure=columns), "mode": mode}
    says = r"1 of 2 rows from the files have no value \(NULL or NaN\) in .*, for example \(.*id=(None|nan)\)"
    with pytest.raises(CheckFailedError, match=says):
        lab.load("in/*.csv", table, **arguments)
    assert lab.rows(table) == []


@pytest.mark.thorough
@pytest.mark.parametrize("place", ["files", "table"])
def test_a_key_that_is_negative_zero_is_refused(lab: Lab, place: str) -> None:
    columns = "id Float64, v String"
    table = lab.create("t", columns)
    held, new = ("-0.0", "0.0") if place == "table" else ("0.0", "-0.0")
    lab.query(f"INSERT INTO {table} VALUES ({held}, 'old'), (1, 'old')")
    lab.put("in/a.csv", f"1,new\n{new},new\n".encode())
    arguments = {"mode": Merge(key=["id"]), "data_format": Format(structure=columns)}
    with pytest.raises(CheckFailedError, match=coded("merge-keys-zero", "-0.0")):
        lab.load("in/*.csv", table, **arguments)
    assert {row["v"] for row in lab.rows(table)} == {"old"}
    select = {"id": "id + 0", "v": "v"}
    if place == "files":
        lab.load("in/*.csv", table, task_id="again", **arguments, select=select)
        assert sorted(row["v"] for row in lab.rows(table)) == ["new", "new"]


@pytest.mark.parametrize("engine", ["SummingMergeTree", "AggregatingMergeTree", "CollapsingMergeTree(s)"])
def test_a_table_that_folds_rows_is_refused(lab: Lab, engine: str) -> None:
    table = lab.create("t", f"{COLUMNS}, s Int8 DEFAULT 1", f"{engine} ORDER BY id")
    put(lab, row(1))
    with pytest.raises(
        TargetError, match=coded("engine-not-mergeable", f"{engine.partition('(')[0]} table, whose merges")
    ):
        lab.load("in/*.csv", table, **VERSIONED)


@pytest.mark.thorough
def test_a_row_that_violates_a_constraint(lab: Lab) -> None:
    """Only rows that stay are checked: a deletion may have nothing but its key."""
    table = lab.create("t", "id UInt32, n Int32, CONSTRAINT positive CHECK n > 0", "MergeTree ORDER BY id")
    given: dict[str, Any] = {"data_format": Format("CSV", structure="id UInt32, n Int32")}
    lab.put("in/a.csv", b"1,1\n2,0\n")
    lab.load("in/*.csv", table, mode=Merge(key=["id"], deleted="n = 0"), **given)
    lab.put("in/b.csv", b"3,0\n")
    said = r"^a row violates a constraint of the table: .*`positive` for the table"
    with pytest.raises(LoadError, match=said) as raised:
        lab.load("in/b.csv", table, mode=Merge(key=["id"]), task_id="second", **given)
    assert raised.value.is_final
    assert lab.rows(table) == [{"id": 1, "n": 1}]
    assert is_clean(lab)


@pytest.mark.thorough
def test_into_a_table_that_replaces_by_itself(lab: Lab) -> None:
    table = lab.create("t", COLUMNS, "ReplacingMergeTree(at) PARTITION BY day ORDER BY id")
    scatter(lab, table, row(1, at=3, v="old"), row(2, at=3, v="old"))
    put(lab, row(1, at=4, v="new"), row(1, at=5, v="newest"), row(2, at=2, v="late"), row(3, v="new"))
    report = lab.load("in/*.csv", table, **VERSIONED)
    assert held(lab, table) == these(row(1, at=5, v="newest"), row(2, at=3, v="old"), row(3, v="new"))
    assert counts(report) == (1, 1, 0, 0, 2)


@pytest.mark.thorough
def test_a_deletion_with_a_date_that_has_expired_deletes(lab: Lab) -> None:
    table = lab.create("t", COLUMNS, f"{BY_DAY} TTL day + INTERVAL 1 DAY SETTINGS merge_with_ttl_timeout = 0")
    lab.query(f"INSERT INTO {table} VALUES (1, '2099-01-01', 1, 'old'), (2, '2099-01-01', 1, 'kept')")
    put(lab, row(1, at=2, op="D"))
    report = lab.load("in/*.csv", table, **VERSIONED, commit="settled")
    assert counts(report) == (0, 0, 1, 0, 0)
    assert [one["v"] for one in lab.rows(table)] == ["kept"]


@pytest.mark.thorough
def test_computed_columns_and_rows_that_no_file_names_stay(lab: Lab) -> None:
    columns = f"{COLUMNS}, made DateTime64(9) MATERIALIZED now64(9), twice UInt32 ALIAS id * 2, d String DEFAULT 'd'"
    table = lab.create("t", columns, BY_DAY)
    for node in lab.nodes():
        old = f"SELECT {node} * 100 + number, '2013-01-01', 1, 'old' FROM numbers(50)"
        lab.query(f"INSERT INTO {table} (id, day, at, v) {old}", node=node)
    before = bag(lab.rows(table, columns="id, made, d"))
    put(lab, *(row(n, v="new") for n in range(0, 300, 2)))
    lab.load("in/*.csv", table, **FILES, columns=Columns(on_new="ignore"))
    kept = [one for one in lab.rows(table, columns="id, made, d") if one["id"] % 2]
    assert bag(kept) <= before
    assert len(kept) == 75


@pytest.mark.thorough
def test_a_default_that_is_another_in_each_load_changes_no_row(lab: Lab) -> None:
    """Nor do two files with the same row contradict each other."""
    table = lab.create(
        "t", f"{COLUMNS}, loaded DateTime64(9) DEFAULT now64(9), made UUID DEFAULT generateUUIDv4()", BY_DAY
    )
    for key in ("in/a.csv", "in/b.csv"):
        put(lab, row(1), row(2, op="D"), key=key)
    lab.load("in/*.csv", table, **VERSIONED)
    before = lab.rows(table)
    again = lab.load("in/*.csv", table, task_id="again", **VERSIONED)
    assert counts(again)[:3] == (0, 0, 0)
    assert lab.rows(table) == before
    put(lab, row(1, v="tie"), key="in/a.csv")
    put(lab, row(1, v="tie"), key="in/b.csv")
    assert counts(lab.load("in/*.csv", table, task_id="tie", **VERSIONED)) == (0, 1, 0, 0, 1)
    assert lab.rows(table)[0]["made"] != before[0]["made"]


@pytest.mark.thorough
def test_checks_and_validation(lab: Lab) -> None:
    table = lab.create("t", COLUMNS, BY_DAY)
    scatter(lab, table, row(1, v="old"), row(7, day=2))
    put(lab, row(1, at=2, v="new"), row(2, at=9, v="gone", op="D"))
    with pytest.raises(CheckFailedError, match=coded("check-failed", "max(at) < 2", "2 < 2")):
        lab.load("in/*.csv", table, **VERSIONED, checks={"few": "max(at) < 2"})
    with pytest.raises(CheckFailedError) as failed:
        lab.load("in/*.csv", table, try_number=2, **VERSIONED, checks={"rows that stay": "countIf(at > 1) = 0"})
    assert "(1 = 0), for example (at=2, id=1, " in failed.value.sentence
    assert "gone" not in failed.value.sentence
    report = lab.load("in/*.csv", table, try_number=3, **VERSIONED, checks=Checks(validate_only=True))
    assert report["is_validated_only"]
    assert (counts(report), report["merge"]["rewritten_rows"]) == ((0, 1, 0, 1, 0), 1)
    mode = Merge(**BY_VERSION, max_rewritten_bytes=1)
    with pytest.raises(LoadError, match=coded("merge-too-large", "1 partition")):
        lab.load("in/*.csv", table, task_id="large", **{**FILES, "mode": mode}, checks=Checks(validate_only=True))
    assert (held(lab, table), is_clean(lab)) == (these(row(1, v="old"), row(7, day=2)), True)
    # old. are the rows of the partitions that staged rows belong to
    lab.load("in/*.csv", table, try_number=4, **VERSIONED, checks={"as many": "count() = old.count()"})
    assert held(lab, table) == these(row(1, at=2, v="new"), row(7, day=2))
    scatter(lab, table, row(1, v="again"))
    with pytest.raises(LoadError, match=coded("merge-keys-doubled", "1 key")):
        lab.load("in/*.csv", table, task_id="doubled", **VERSIONED, checks=Checks(validate_only=True))


@pytest.mark.parametrize("is_moved", [True, thorough(False)])
def test_others_write_a_key_into_another_partition(lab: Lab, is_moved: bool) -> None:
    """Between the comparison and the copy: the merge begins again, and replaces this row, too."""
    lab.connect_one_node()
    table = lab.create("t", COLUMNS, BY_DAY)
    for one in (row(1, v="old"), row(2, v="old", day=2)):
        scatter(lab, table, one)
    put(lab, row(1, at=5, v="new"), row(2, at=5, v="new", day=2))
    fill, rounds = merge.SurvivorsOfMerge._fill, []

    def others(survivors: merge.SurvivorsOfMerge, touched: Any) -> None:
        rounds.append(touched)
        if len(rounds) == 1:
            if is_moved:
                lab.query(f"ALTER TABLE {table} DELETE WHERE id = 1 SETTINGS mutations_sync = 2")
            scatter(lab, table, row(1, at=2, v="other", day=2))
        fill(survivors, touched)

    lab.monkeypatch.setattr(merge.SurvivorsOfMerge, "_fill", others)
    rule = Merge(**BY_VERSION, duplicates="refuse" if is_moved else "collapse")
    lab.load("in/*.csv", table, **{**FILES, "mode": rule})
    assert (len(rounds), held(lab, table)) == (2, these(row(1, at=5, v="new"), row(2, at=5, v="new", day=2)))
    assert is_clean(lab)


@pytest.mark.thorough
@topologies("on-cluster")
@pytest.mark.parametrize("sharding_key", ["rand()", "1"])
def test_on_replicas(replicated_lab: Lab, sharding_key: str) -> None:
    """With a constant, all new rows are on the second shard, and their partition on no other one."""
    lab = replicated_lab
    table = lab.create("t", COLUMNS, BY_DAY)
    distributed = lab.distribute(table, sharding_key)
    for node, first in ((0, 0), (2, 50)):
        lab.query(
            f"INSERT INTO {table} SELECT {first} + number, '2013-01-01', 5, 'old' FROM numbers(50)",
            node=node,
        )
    new = [*(row(n, at=6, v="new", day=2) for n in range(0, 100, 3)), *(row(n, at=4) for n in range(1, 100, 3))]
    new += [row(n, at=7, op="D") for n in range(2, 100, 9)]
    for number in range(6):
        put(lab, *new[number::6], key=f"in/{number}.csv")
    report = lab.load("in/*.csv", distributed, **VERSIONED)
    deleted = set(range(2, 100, 9))
    after = [
        row(n, at=6, v="new", day=2) if n % 3 == 0 else row(n, at=5, v="old") for n in range(100) if n not in deleted
    ]
    assert held(lab, table) == these(*after)
    assert counts(report) == (0, 34, 11, 0, 33)
    assert lab.left_overs() == []


@pytest.mark.thorough
@pytest.mark.every_case
@pytest.mark.parametrize(
    ("name", "nth"),
    [
        thorough("find_changes", 1, id="comparing"),
        thorough("copy_changes", 2, id="telling-the-shards"),
        thorough("await_deletion", 2, id="deleting"),
        thorough("insert_winners", 1, id="adding"),
        pytest.param("replace_partitions", 2, id="second-node"),
        thorough("replace_partitions", 3, id="third-node"),
    ],
)
@pytest.mark.parametrize("finisher", ["retry", thorough("other")])
def test_one_that_broke_off_is_finished(lab: Lab, name: str, nth: int, finisher: str) -> None:
    """Keys move to other partitions and shards, so that some are half there."""
    table = lab.create("t", COLUMNS, BY_DAY)
    scatter(lab, table, *(row(n, v="old", day=1 + n % 2) for n in range(12)))
    put(lab, *(row(n, at=2, v="new", day=1 + (n + 1) % 2) for n in range(4)), row(4, at=2, op="D"))
    put(lab, row(20, at=2, v="new"), key="in/b.csv")
    with start_worker(lab, table, before=die_before(name, nth, signal.SIGKILL), **VERSIONED) as worker:
        assert worker.wait(WAIT_SECONDS) == -signal.SIGKILL
    if finisher == "other":
        put(lab, row(30, v="other"), key="other/a.csv")
        lab.load("other/*.csv", table, task_id="other", **VERSIONED)
    lab.load("in/*.csv", table, try_number=2, **VERSIONED)
    assert held(lab, table) == these(
        *(row(n, at=2, v="new", day=1 + (n + 1) % 2) for n in range(4)),
        *(row(n, v="old", day=1 + n % 2) for n in range(5, 12)),
        row(20, at=2, v="new"),
        *([row(30, v="other")] if finisher == "other" else []),
    )
    assert lab.left_overs() == []


@pytest.mark.thorough
def test_a_retry_with_another_key_stages_again(lab: Lab) -> None:
    table = lab.create("t", COLUMNS, BY_DAY)
    scatter(lab, table, row(1, v="a"), row(2, v="b"))
    put(lab, row(3, v="a", day=2))
    with start_worker(
        lab, table, before=die_before("write_event_committing", 1, signal.SIGKILL), **VERSIONED
    ) as worker:
        assert worker.wait(WAIT_SECONDS) == -signal.SIGKILL
    by_value = {**FILES, "mode": Merge(**{**BY_VERSION, "key": ["v"]})}
    lab.load("in/*.csv", table, try_number=2, **by_value)
    assert held(lab, table) == these(row(3, v="a", day=2), row(2, v="b"))
    assert len([one for one in lab.inserts() if one.endswith("-insert")]) == 2


@pytest.mark.thorough
def test_a_partition_that_lost_rows_holds_fewer_of_earlier_loads(lab: Lab) -> None:
    table = lab.create("t", COLUMNS, BY_DAY)
    put(lab, *(row(n) for n in range(4)), key="day1/a.csv")
    append = {"columns": Columns(on_new="ignore"), "data_format": Format("CSV", structure=f"{COLUMNS}, op String")}
    lab.load("day1/*.csv", table, **append)
    put(lab, *(row(n, day=2) for n in range(3)))
    lab.load("in/*.csv", table, task_id="moved", **{**FILES, "columns": Columns(on_new="ignore")})
    lab.query(f"INSERT INTO {table} VALUES (9, '2013-01-01', 1, 'by hand')")
    with pytest.raises(LoadError, match=coded("partition-holds-others", "partition 20130101", "2 rows", "no load")):
        lab.load("day1/*.csv", table, task_id="again", **append, mode="replace_partitions")
    assert len(lab.rows(table)) == 5


@pytest.mark.thorough
def test_files_that_were_merged_are_merged_again_and_appended_no_more(lab: Lab) -> None:
    table = lab.create("t", COLUMNS, BY_DAY)
    put(lab, row(1), row(2))
    arguments = {**FILES, "columns": Columns(on_new="ignore")}
    lab.load("in/*.csv", table, **arguments)
    again = lab.load("in/*.csv", table, task_id="again", **arguments)
    assert counts(again) == (0, 0, 0, 2, 0)
    append = {name: value for name, value in arguments.items() if name != "mode"}
    assert lab.load("in/*.csv", table, task_id="append", **append)["files_skipped"] == 1
    put(lab, row(1, v="corrected"), row(2))
    changed = lab.load("in/*.csv", table, task_id="changed", **arguments)
    assert counts(changed) == (0, 1, 0, 1, 0)
    assert held(lab, table) == these(row(1, v="corrected"), row(2))


@pytest.mark.thorough
def test_a_table_that_is_too_large_to_look_for_the_keys(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "airflow_provider_ch_s3")
    lab.monkeypatch.setattr(measure, "TOUCHED_SECONDS", 0.001)
    table = lab.create("t", COLUMNS, "MergeTree PARTITION BY day ORDER BY v")
    old = "SELECT number, toDate('2013-01-01') + number % 2, 1, 'old' FROM numbers(1000000)"
    lab.query(f"INSERT INTO {table} {old}")
    put(lab, row(1, v="new", day=2))
    report = lab.load("in/*.csv", table, **FILES, columns=Columns(on_new="ignore"))
    assert (counts(report), report["merge"]["rewritten_partitions"]) == ((0, 1, 0, 0, 0), 1)
    assert "cannot estimate what the merge writes again: " in caplog.text
    assert "merge: by id; rewrites the partitions that hold rows of these keys, at most 2 partitions" in caplog.text


@pytest.mark.thorough
def test_five_rows_or_keys_are_shown_at_most(lab: Lab) -> None:
    table = lab.create("t", COLUMNS.replace("id UInt32", "id Nullable(UInt32)"), BY_DAY.replace("id", "v"))
    scatter(lab, table, *(row(n) for n in range(6)), *(row(n) for n in range(6)))
    cases = {
        "(NULL or NaN) in id": [row(r"\N", v=str(n)) for n in range(6)],  # type: ignore[arg-type]
        "contain a key more than once": [row(n, v=v) for n in range(6) for v in "ab"],
        "holds 6 keys of these files more than once": [row(n) for n in range(6)],
    }
    structure = f"{COLUMNS}, op String".replace("UInt32", "Nullable(UInt32)")
    files = {**FILES, "data_format": Format("CSV", structure=structure)}
    for number, (says, rows) in enumerate(cases.items()):
        put(lab, *rows)
        with pytest.raises(LoadError, match=re.escape(says)) as failed:
            lab.load("in/*.csv", table, task_id=f"case{number}", **files, columns=Columns(on_new="ignore"))
        assert failed.value.sentence.count("(id=") == 5
    assert len(lab.rows(table)) == 12
