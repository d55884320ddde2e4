"""What OpenLineage is told of a load: files with their versions, folders, columns."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.providers.common.compat.sdk import TaskDeferred
from airflow.providers.openlineage import conf

from airflow_provider_ch_s3.load import lineage
from airflow_provider_ch_s3.operators.held import ClickHouseCommitHeldOperator
from tests.sandbox.conftest import Lab

pytestmark = pytest.mark.sandbox


@pytest.fixture(autouse=True)
def _listening(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conf, "is_disabled", lambda: False)


def load_deferred(lab: Lab, table: str, **arguments: Any) -> Any:
    """Load in two processes, and return what the second of them tells."""
    first, second = (lab.operator("in/**/*.csv", table, deferrable=True, **arguments) for _ in range(2))
    with pytest.raises(TaskDeferred) as deferred:
        first.execute(lab.context(first))
    event = {"status": "over", "query_id": deferred.value.trigger.query_id, "deadline": None}
    second.execute_complete(lab.context(second), event)
    return second.get_openlineage_facets_on_complete(None)


@pytest.mark.thorough
@pytest.mark.push
def test_files_and_columns_of_a_deferred_load(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lab.create("t", "day Date, n UInt32, twice UInt32, origin String")
    keys = [f"in/day=2026-11-0{day}/a.csv" for day in (1, 2)]
    for key in keys:
        lab.put(key, b"n\n1\n")
    given: dict[str, Any] = {"select": {"twice": "n + n"}, "provenance": {"origin": "path"}}
    told = load_deferred(lab, table, **given)
    folder, *files = told.inputs
    assert (folder.namespace, folder.name) == (f"s3://{lab.bucket}", "in")
    etags = {key: lab.s3.head_object(Bucket=lab.bucket, Key=key)["ETag"].strip('"') for key in keys}
    assert {one.name: one.facets["version"].datasetVersion for one in files} == etags
    columns = told.outputs[0].facets["columnLineage"].fields
    found = {name: [(one.name, one.field) for one in column.inputFields] for name, column in columns.items()}
    assert found == {"day": [("in", "day")], "n": [("in", "n")], "twice": [("in", "n")]}

    monkeypatch.setattr(lineage, "MAX_FILES", 2)
    for number in range(3):
        lab.put(f"in/day=2026-11-0{1 + number % 2}/{number}.csv", b"n\n2\n")
    told = load_deferred(lab, table, **given, task_id="next")
    counts = {one.name: one.inputFacets["inputStatistics"].fileCount for one in told.inputs[1:]}
    assert counts == {"in/day=2026-11-01": 2, "in/day=2026-11-02": 1}


def test_files_of_a_load_without_a_ledger(lab: Lab) -> None:
    table = lab.create("t", "n UInt32")
    lab.put("in/a.csv", b"n\n1\n")
    operator = lab.operator("in/*.csv", table, mode="direct")
    operator.execute(lab.context(operator))
    told = operator.get_openlineage_facets_on_complete(None)
    assert [one.name for one in told.inputs] == ["in", "in/a.csv"]
    assert list(told.outputs[0].facets["columnLineage"].fields) == ["n"]


def test_held_rows_are_written_first_and_read_by_the_commit(lab: Lab) -> None:
    table = lab.create("t", "n UInt32")
    lab.put("in/a.csv", b"n\n1\n2\n")
    load = lab.operator("in/*.csv", table, commit="held")
    report = load.execute(lab.context(load))
    told = load.get_openlineage_facets_on_complete(None)
    held, server = f"{lab.database}.t__held", told.outputs[0].namespace
    assert [one.name for one in told.inputs] == ["in", "in/a.csv"]
    assert (told.outputs[0].name, told.outputs[0].outputFacets["outputStatistics"].rowCount) == (held, 2)

    commit = ClickHouseCommitHeldOperator(
        task_id="commit", load=report["query_id"], table=table, clickhouse_conn_id="ch"
    )
    assert commit.get_openlineage_facets_on_complete(None) is None
    commit.execute(lab.context(commit))
    told = commit.get_openlineage_facets_on_complete(None)
    assert [(one.namespace, one.name) for one in told.inputs] == [(server, held)]
    assert (told.outputs[0].name, told.outputs[0].outputFacets["outputStatistics"].rowCount) == (
        f"{lab.database}.t",
        2,
    )
    column = told.outputs[0].facets["columnLineage"].fields["n"].inputFields
    assert [(one.name, one.field) for one in column] == [(held, "n")]
