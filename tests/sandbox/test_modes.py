"""What each load mode leaves in the table, on three nodes."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ch_s3.arguments import Format
from airflow_provider_ch_s3.errors import LoadError, SourceError, TargetError
from airflow_provider_ch_s3.modes import Append, ReplacePartitions, ReplaceWhere
from tests.failures import coded
from tests.sandbox.conftest import Lab, bag

pytestmark = pytest.mark.sandbox

DAYS = "day Date, n UInt32"
BY_DAY = "MergeTree PARTITION BY day ORDER BY n"


def put_day(lab: Lab, day: str, *numbers: int, name: str = "a") -> list[dict[str, Any]]:
    lab.put(f"in/{day}/{name}.csv", "".join(f"{day},{n}\n" for n in numbers).encode())
    return [{"day": day, "n": n} for n in numbers]


def rows(lab: Lab, table: str) -> Any:
    return bag(lab.rows(table, columns="toString(day) AS day, n"))


def left_overs(lab: Lab) -> list[Any]:
    return lab.everywhere(
        f"SELECT name FROM system.tables WHERE database = '{lab.database}' AND startsWith(name, 'ch_s3_') "
        "AND NOT startsWith(name, 'ch_s3_ledger')"
    )


@pytest.fixture
def table(lab: Lab) -> str:
    return lab.distribute(lab.create("t", DAYS, BY_DAY))


STRUCTURE: dict[str, Any] = {"data_format": Format("CSV", structure="day Date, n UInt32")}


def test_append(lab: Lab, table: str) -> None:
    first = put_day(lab, "2013-01-01", 1, 2, 3)
    second = put_day(lab, "2013-01-02", 4, 5)
    report = lab.load("in/**", table, **STRUCTURE)
    assert rows(lab, table[:-4]) == bag(first + second)
    assert report["partitions"] == {"20130101": 3, "20130102": 2}
    assert left_overs(lab) == []
    third = put_day(lab, "2013-01-02", 6, name="b")
    again = lab.load("in/**", table, task_id="other", **STRUCTURE)
    assert rows(lab, table[:-4]) == bag(first + second + third)
    assert (again["files_skipped"], again["files_read"]) == (2, 1)
    nothing = lab.load("in/**", table, task_id="third", **STRUCTURE)
    assert (nothing["files_skipped"], nothing["query_id"]) == (3, "")
    assert rows(lab, table[:-4]) == bag(first + second + third)


@pytest.mark.thorough
def test_more_partitions_in_a_block_than_a_server_takes_by_default(lab: Lab) -> None:
    table = lab.distribute(lab.create("many", "p UInt32, n UInt32", "MergeTree PARTITION BY p ORDER BY n"))
    lab.put("in/a.csv", "".join(f"{p},1\n" for p in range(101)).encode())
    report = lab.load("in/*.csv", table, data_format=Format("CSV", structure="p UInt32, n UInt32"))
    assert (report["rows_written"], len(report["partitions"])) == (101, 101)


def test_replace_partitions(lab: Lab, table: str) -> None:
    # old rows of the same partition on every shard, and a partition that is not touched
    lab.everywhere(f"INSERT INTO {table[:-4]} VALUES ('2013-01-01', 100), ('2013-01-03', 300)")
    first = put_day(lab, "2013-01-01", 1)
    with pytest.raises(LoadError, match=coded("partition-holds-others", "partition 20130101", "no load")):
        lab.load("in/**", table, mode="replace_partitions", **STRUCTURE)
    assert len(lab.rows(table[:-4])) == 2 * len(lab.nodes())
    assert left_overs(lab) == []
    lab.load("in/**", table, mode=ReplacePartitions(on_partial="replace"), try_number=2, **STRUCTURE)
    assert rows(lab, table[:-4]) == bag(first + [{"day": "2013-01-03", "n": 300}] * len(lab.nodes()))
    again = put_day(lab, "2013-01-01", 7, 8)
    lab.load("in/**", table, mode="replace_partitions", max_tries=1, try_number=3, **STRUCTURE)
    assert rows(lab, table[:-4]) == bag(again + [{"day": "2013-01-03", "n": 300}] * len(lab.nodes()))


@pytest.mark.thorough
def test_replace_where(lab: Lab, table: str) -> None:
    lab.everywhere(f"INSERT INTO {table[:-4]} VALUES ('2013-01-01', 100), ('2013-01-01', 5), ('2013-01-03', 300)")
    first = put_day(lab, "2013-01-01", 1)
    lab.load("in/**", table, mode=ReplaceWhere("n < 100"), **STRUCTURE)
    kept = [{"day": "2013-01-01", "n": 100}, {"day": "2013-01-03", "n": 300}] * len(lab.nodes())
    assert rows(lab, table[:-4]) == bag(first + kept)
    with pytest.raises(LoadError, match=coded("condition-not-fulfilled", "'n > 1'", "1 of 1 row")):
        lab.load("in/**", table, mode=ReplaceWhere("n > 1"), task_id="other", **STRUCTURE)
    assert rows(lab, table[:-4]) == bag(first + kept)
    assert left_overs(lab) == []


def test_replace_table(lab: Lab, table: str) -> None:
    lab.everywhere(f"INSERT INTO {table[:-4]} VALUES ('2013-01-01', 100), ('2013-01-03', 300)")
    first = put_day(lab, "2013-01-01", 1)
    lab.load("in/**", table, mode="replace_table", **STRUCTURE)
    assert rows(lab, table[:-4]) == bag(first)
    assert left_overs(lab) == []


@pytest.mark.thorough
def test_changed_files(lab: Lab, table: str) -> None:
    first = put_day(lab, "2013-01-01", 1)
    lab.load("in/**", table, **STRUCTURE)
    second = put_day(lab, "2013-01-01", 2)
    with pytest.raises(SourceError, match=coded("file-changed", "'in/2013-01-01/a.csv'")):
        lab.load("in/**", table, task_id="two", **STRUCTURE)
    report = lab.load("in/**", table, task_id="three", mode=Append(on_changed="skip"), **STRUCTURE)
    assert report["files_skipped"] == 1
    assert rows(lab, table[:-4]) == bag(first)
    lab.load("in/**", table, task_id="four", mode=Append(on_changed="load"), **STRUCTURE)
    assert rows(lab, table[:-4]) == bag(first + second)
    lab.load("in/**", table, task_id="five", mode=Append(on_loaded="load", on_changed="load"), **STRUCTURE)
    assert rows(lab, table[:-4]) == bag(first + second + second)


@pytest.mark.thorough
def test_no_partition_key(lab: Lab) -> None:
    put_day(lab, "2013-01-01", 1)
    table = lab.create("t", DAYS)
    with pytest.raises(TargetError, match=coded("partition-key-missing")):
        lab.load("in/**", table, mode="replace_partitions", **STRUCTURE)
