"""Tables whose parts are on an S3 disk, or move there when they are old: staging has the same storage policy."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from airflow_provider_ch_s3.errors import TargetError
from airflow_provider_ch_s3.modes import Append, Merge, Mode, ReplacePartitions, ReplaceWhere
from tests.failures import coded
from tests.marks import thorough
from tests.sandbox.conftest import Freeze, Lab, bag, start_worker
from tests.sandbox.few import die_before, is_clean
from tests.sandbox.gates import Gate
from tests.sandbox.topologies import topologies

pytestmark = [pytest.mark.sandbox, pytest.mark.every_case]

OLD_DAY, NEW_DAY = "2013-01-01", "2100-01-01"
ROWS = [{"n": n, "day": (OLD_DAY, NEW_DAY)[n % 2]} for n in range(60)]
BEFORE = [{"n": n, "day": OLD_DAY} for n in range(1000, 1010)]
COLUMNS = "toString(day) AS day, n"


def make_table(lab: Lab, settings: str, name: str = "t") -> str:
    """Create a table with a partition for each day, that of the old one with rows; and files that each node reads."""
    for number in range(12):
        lines = [f"{row['n']},{row['day']}\n" for row in ROWS[number::12]]
        lab.put(f"in/{number}.csv", "".join(["n,day\n", *lines]).encode())
    table = lab.create(name, "n UInt32, day Date", f"MergeTree PARTITION BY day ORDER BY n {settings}")
    values = ", ".join(f"({row['n']}, '{row['day']}')" for row in BEFORE)
    lab.query(f"INSERT INTO {table} VALUES {values}")
    return table


def disks(lab: Lab, table: str) -> dict[str, set[str]]:
    """The disks on which the parts of each partition are, on any node; in tables whose names begin like this."""
    database, _, name = table.partition(".")
    rows = lab.everywhere(
        "SELECT partition, groupUniqArray(disk_name) AS disks FROM system.parts"
        f" WHERE active AND rows > 0 AND database = '{database}' AND startsWith(table, '{name}') GROUP BY partition"
    )
    return {
        day: {disk for row in rows if row["partition"] == day for disk in row["disks"]} for day in (OLD_DAY, NEW_DAY)
    }


ON_S3 = {OLD_DAY: {"s3"}, NEW_DAY: {"s3"}}
BY_AGE = {OLD_DAY: {"s3"}, NEW_DAY: {"default"}}
KEEPING = Append(on_unknown_rows="keep")
MODES: dict[str, Mode] = {
    "append": KEEPING,
    "replace_partitions": ReplacePartitions(on_partial="replace"),
    "replace_where": ReplaceWhere(f"day IN ('{OLD_DAY}', '{NEW_DAY}')"),
    "merge": Merge(key=["n"]),
}
S3_DISK = "SETTINGS storage_policy = 's3'"
TIERS = "TTL day + INTERVAL 1 MONTH TO VOLUME 'cold' SETTINGS storage_policy = 'tiered'"


@pytest.mark.parametrize(
    ("settings", "where", "mode"),
    [
        pytest.param(S3_DISK, ON_S3, "append", id="s3-append"),
        thorough(TIERS, BY_AGE, "replace_partitions", id="tiers-replace_partitions"),
        thorough(S3_DISK, ON_S3, "replace_partitions", id="s3-replace_partitions"),
        thorough(S3_DISK, ON_S3, "replace_where", id="s3-replace_where"),
        thorough(S3_DISK, ON_S3, "replace_table", id="s3-replace_table"),
        thorough(S3_DISK, ON_S3, "merge", id="s3-merge"),
        thorough(TIERS, BY_AGE, "append", id="tiers-append"),
        thorough(TIERS, BY_AGE, "replace_where", id="tiers-replace_where"),
    ],
)
def test_a_worker_that_dies_in_the_commit(lab: Lab, settings: str, where: Any, mode: str) -> None:
    """It dies before the second node's statement; the retry completes the commit, on the same disks."""
    table = make_table(lab, settings)
    change = "move_partitions" if mode == "append" else "replace_partitions"
    given: dict[str, Any] = {"mode": MODES.get(mode, mode), "retries": 1}
    died = die_before(change, 2, signal.SIGKILL)
    with start_worker(lab, table, max_tries=1, before=died, **given) as worker:
        assert worker.wait(60) == -signal.SIGKILL, worker.errors()
    assert disks(lab, f"{lab.database}.ch_s3_stage_") != {OLD_DAY: set(), NEW_DAY: set()}
    lab.load("in/*.csv", table, try_number=2, max_tries=1, **given)
    assert bag(lab.rows(table, columns=COLUMNS)) == bag(ROWS + (BEFORE if mode in ("append", "merge") else []))
    assert disks(lab, table) == where
    assert is_clean(lab)


@pytest.mark.thorough
def test_rows_are_staged_where_they_will_stay(lab: Lab, freeze: Freeze) -> None:
    """Within a disk a commit links files; between disks it would copy them."""
    table = make_table(lab, TIERS)
    gate = freeze(Gate("move_partitions"), "in/*.csv", table, mode=KEEPING)
    stage = f"database = '{lab.database}' AND startsWith(name, 'ch_s3_stage_')"
    policies = lab.everywhere(f"SELECT storage_policy AS policy FROM system.tables WHERE {stage}")
    assert {row["policy"] for row in policies} == {"tiered"}
    assert disks(lab, f"{lab.database}.ch_s3_stage_") == BY_AGE
    assert gate.wake() is None
    assert disks(lab, table) == BY_AGE


@pytest.mark.thorough
def test_a_plan_with_little_memory_knows_where_the_parts_are(lab: Lab) -> None:
    lab.connect_clickhouse({"memory_gib_per_node": 0.5, "ingest_memory_ratio": 0.1})
    setting = "max_insert_delayed_streams_for_parallel_write"
    for name, settings, origin in (("on_s3", S3_DISK, "computed"), ("in_tiers", TIERS, "server default")):
        table = make_table(lab, settings, name)
        assert lab.settings(lab.load("in/*.csv", table, mode=KEEPING))[setting]["origin"] == origin


@topologies("on-cluster")
@pytest.mark.thorough
def test_replicas_with_disks_of_their_own(replicated_lab: Lab) -> None:
    lab = replicated_lab
    for number in range(3):
        lab.put(f"in/{number}.csv", "".join(["n\n", *(f"{row['n']}\n" for row in ROWS[number::3])]).encode())
    table = lab.distribute(lab.create("t", "n UInt32", f"MergeTree PARTITION BY n % 2 ORDER BY n {S3_DISK}"))
    lab.load("in/*.csv", table)
    lab.load("in/*.csv", table, task_id="again", mode="replace_partitions")
    assert bag(lab.rows(f"{lab.database}.t")) == bag({"n": row["n"]} for row in ROWS)
    assert is_clean(lab)


def own_disk(lab: Lab) -> str:
    """The setting of a disk that only one table has, and whose keys the servers hide."""
    sandbox, bucket = lab.sandbox, f"{lab.bucket}-disk"
    lab.s3.create_bucket(Bucket=bucket)
    keys = f"access_key_id = '{sandbox.s3_access_key}', secret_access_key = '{sandbox.s3_secret_key}'"
    return f"SETTINGS disk = disk(type = 's3', endpoint = '{sandbox.s3_endpoint}/{bucket}/t/', {keys})"


@pytest.mark.parametrize(
    "mode", ["merge", thorough("append"), thorough("replace_partitions"), thorough("replace_where")]
)
def test_a_table_with_a_disk_of_its_own(lab: Lab, mode: str) -> None:
    table = make_table(lab, own_disk(lab))
    lab.load("in/*.csv", table, mode=MODES[mode])
    assert bag(lab.rows(table, columns=COLUMNS)) == bag(ROWS + (BEFORE if mode in ("append", "merge") else []))
    (used,) = {disk for found in disks(lab, table).values() for disk in found}
    assert used not in ("default", "s3")
    assert is_clean(lab)


@topologies("on-cluster", "old")
@pytest.mark.thorough
def test_replicas_with_a_disk_of_the_table_are_refused(replicated_lab: Lab) -> None:
    lab = replicated_lab
    lab.put("in/1.csv", b"n\n1\n")
    table = lab.create("t", "n UInt32", f"MergeTree ORDER BY n {own_disk(lab)}")
    with pytest.raises(TargetError, match=coded("server-too-old", "defines a disk of its own")):
        lab.load("in/*.csv", table)
    assert is_clean(lab)
    lab.load("in/*.csv", table, mode="direct")
    lab.sync(table)
    assert lab.rows(table) == [{"n": 1}]
