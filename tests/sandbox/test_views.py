"""Materialized views of the target: refused, or fed from the staged rows."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ch_s3.arguments import Format
from airflow_provider_ch_s3.errors import ChS3Error, LoadError, TargetError
from airflow_provider_ch_s3.modes import Append, Merge
from tests.failures import coded
from tests.marks import thorough
from tests.sandbox.conftest import Freeze, Lab, bag
from tests.sandbox.gates import Gate

pytestmark = pytest.mark.sandbox

CSV: dict[str, Any] = {"data_format": Format("CSV", structure="day Date, n UInt32")}


@pytest.fixture
def table(lab: Lab) -> str:
    lab.put("in/a.csv", b"2013-01-01,1\n2013-01-01,2\n2013-01-02,3\n")
    lab.put("in/b.csv", b"2013-01-02,4\n")
    local = lab.create("t", "day Date, n UInt32", "MergeTree PARTITION BY day ORDER BY n")
    return lab.distribute(local)


def add_view(lab: Lab, select: str, columns: str = "day Date, total UInt64") -> str:
    counts = lab.create("totals", columns, "SummingMergeTree PARTITION BY day ORDER BY day")
    lab.ddl(f"CREATE MATERIALIZED VIEW {lab.database}.view TO {counts} AS {select}")
    return counts


def totals(lab: Lab, table: str) -> dict[str, int]:
    rows = lab.query(
        f"SELECT toString(day) AS d, toUInt32(sum(total)) AS n FROM cluster('{lab.sandbox.cluster}', {table})"
        " GROUP BY d ORDER BY d"
    )
    return {row["d"]: row["n"] for row in rows}


def staging_tables(lab: Lab) -> list[Any]:
    return lab.everywhere(
        f"SELECT name FROM system.tables WHERE database = '{lab.database}' AND startsWith(name, 'ch_s3_stage')"
    )


def test_views_are_refused_by_default(lab: Lab, table: str) -> None:
    add_view(lab, f"SELECT day, sum(n) AS total FROM {lab.database}.t GROUP BY day")
    with pytest.raises(TargetError, match=coded("view-not-fed", ".view", "Append(views='replay')")):
        lab.load("in/*.csv", table, **CSV)
    assert lab.rows(f"{lab.database}.t") == []


@pytest.mark.thorough
def test_replayed_views_hold_what_the_rows_would_have_brought(lab: Lab, table: str) -> None:
    counts = add_view(lab, f"SELECT day, sum(n) AS total FROM {lab.database}.t GROUP BY day")
    lab.query(f"INSERT INTO {lab.database}.t VALUES ('2013-01-01', 100)")
    lab.load("in/*.csv", table, mode=Append(views="replay", on_unknown_rows="keep"), **CSV)
    assert totals(lab, counts) == {"2013-01-01": 103, "2013-01-02": 7}
    assert (
        lab.load("in/*.csv", table, task_id="again", mode=Append(views="replay", on_unknown_rows="keep"), **CSV)[
            "files_skipped"
        ]
        == 2
    )
    assert totals(lab, counts) == {"2013-01-01": 103, "2013-01-02": 7}
    assert staging_tables(lab) == []
    # the view itself continues to process other INSERTs
    lab.query(f"INSERT INTO {lab.database}.t VALUES ('2013-01-01', 1000)")
    assert totals(lab, counts) == {"2013-01-01": 1103, "2013-01-02": 7}


@pytest.mark.thorough
def test_a_view_that_is_created_while_a_load_runs_gets_its_rows(lab: Lab, table: str, freeze: Freeze) -> None:
    """The rows are staged without the view, so they are not committed: the load is refused, or begins again."""
    gate = freeze(Gate("read_partitions"), "in/*.csv", table, **CSV)
    counts = add_view(lab, f"SELECT day, sum(n) AS total FROM {lab.database}.t GROUP BY day")
    assert isinstance(gate.wake(), ChS3Error)
    assert lab.rows(f"{lab.database}.t") == []
    with pytest.raises(TargetError, match=coded("view-not-fed", "Append(views='replay')")):
        lab.load("in/*.csv", table, try_number=2, **CSV)
    lab.load("in/*.csv", table, task_id="again", mode=Append(views="replay"), **CSV)
    assert totals(lab, counts) == {"2013-01-01": 3, "2013-01-02": 7}
    assert staging_tables(lab) == []


@pytest.mark.thorough
def test_a_failed_load_leaves_no_rows_of_views(lab: Lab, table: str) -> None:
    counts = add_view(lab, f"SELECT day, sum(n) AS total FROM {lab.database}.t GROUP BY day")
    with pytest.raises(LoadError, match=coded("query-failed", "n is 4")):
        lab.load("in/*.csv", table, mode=Append(views="replay"), where="throwIf(n = 4, 'n is 4') = 0", **CSV)
    assert totals(lab, counts) == {}
    assert lab.rows(f"{lab.database}.t") == []
    assert staging_tables(lab) == []
    lab.load("in/*.csv", table, mode=Append(views="replay"), try_number=2, where="n != 4", **CSV)
    assert totals(lab, counts) == {"2013-01-01": 3, "2013-01-02": 3}


@pytest.mark.thorough
@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param({"mode": "replace_table"}, id="replace"),
        thorough({"mode": Merge(key=["n"])}, id="merge"),
    ],
)
def test_what_cannot_be_replayed_is_refused(lab: Lab, table: str, arguments: dict[str, Any]) -> None:
    add_view(lab, f"SELECT day, sum(n) AS total FROM {lab.database}.t GROUP BY day")
    with pytest.raises(TargetError, match=coded("view-not-fed", "old rows")):
        lab.load("in/*.csv", table, **arguments, **CSV)
    assert bag(lab.rows(f"{lab.database}.t")) == bag([])


def test_a_view_with_rows_of_its_own_is_refused(lab: Lab, table: str) -> None:
    lab.ddl(
        f"CREATE MATERIALIZED VIEW {lab.database}.view ENGINE = MergeTree ORDER BY day AS"
        f" SELECT day FROM {lab.database}.t"
    )
    with pytest.raises(TargetError, match=coded("view-not-fed", "inner table")):
        lab.load("in/*.csv", table, mode=Append(views="replay"), **CSV)
