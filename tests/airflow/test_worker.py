"""A real scheduler, and workers that die in the middle of a load."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Page

from ch_s3_lab.sandbox.info import Sandbox
from tests.airflow.conftest import AirflowApi, Look, wait_for

pytestmark = [pytest.mark.sandbox, pytest.mark.airflow_run]

DAG, TASK = "slow_load", "load"


@pytest.fixture
def table(flights_sandbox: Sandbox, ch_s3_database: str) -> str:
    for node in range(flights_sandbox.nodes):
        local = f"{ch_s3_database}.slow_local"
        flights_sandbox.query(f"CREATE TABLE {local} (dt Date, flight Int64) ENGINE MergeTree ORDER BY dt", node=node)
        distributed = f"Distributed(sandbox, {ch_s3_database}, slow_local)"
        flights_sandbox.query(f"CREATE TABLE {ch_s3_database}.slow AS {local} ENGINE {distributed}", node=node)
    return f"{ch_s3_database}.slow"


def running(sandbox: Sandbox) -> set[str]:
    """Query ids of loads that are running on any node."""
    rows = sandbox.query(
        "SELECT DISTINCT initial_query_id AS id FROM clusterAllReplicas(sandbox, system.processes)"
        " WHERE startsWith(initial_query_id, 'ch-s3-')"
    )
    return {row["id"] for row in rows}


def find_worker(sandbox: Sandbox, query_id: str) -> int:
    """Find the process that holds the HTTP connection of a query."""
    port = sandbox.query(f"SELECT port FROM system.processes WHERE query_id = '{query_id}'")[0]["port"]
    # Connections to several servers may have the same local port.
    servers = tuple(f":{one:04X}" for one in sandbox.http_ports)
    inodes = {
        inode
        for _, local, remote, _, _, _, _, _, _, inode, *_ in map(
            str.split, Path("/proc/net/tcp").read_text().splitlines()[1:]
        )
        if local.endswith(f":{port:04X}") and remote.endswith(servers)
    }
    for entry in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            target = os.readlink(entry)
        except OSError:
            continue
        if target.startswith("socket:[") and target[8:-1] in inodes:
            return int(entry.parts[2])
    raise AssertionError(f"no process holds port {port}")


def test_retry_after_a_killed_worker_takes_the_running_query_over(
    airflow_api: AirflowApi, flights_sandbox: Sandbox, table: str
) -> None:
    run = airflow_api.trigger(DAG, {"table": table})
    query_id = wait_for(lambda: running(flights_sandbox), "the load").pop()
    os.kill(find_worker(flights_sandbox, query_id), signal.SIGKILL)
    ended = wait_for(
        lambda: (t := airflow_api.task(DAG, run, TASK))["state"] in ("success", "failed") and t, "the retry"
    )
    assert (ended["state"], ended["try_number"]) == ("success", 2)
    report = airflow_api.result(DAG, run, TASK)
    assert report["attached"] is True
    assert report["query_id"] == query_id
    assert report["rows_written"] == 842 + 943 + 914
    assert int(flights_sandbox.query(f"SELECT count() AS n FROM {table}")[0]["n"]) == 842 + 943 + 914


@pytest.mark.thorough
def test_in_the_ui_mark_failed_ends_the_query_on_all_nodes_and_clear_starts_another(
    page: Page, look: Look, airflow_api: AirflowApi, flights_sandbox: Sandbox, table: str
) -> None:
    run = airflow_api.trigger(DAG, {"table": table, "pause": 1})
    query_id = wait_for(lambda: running(flights_sandbox), "the load").pop()
    page.goto(f"{airflow_api.address}/dags/{DAG}/runs/{quote(run)}/tasks/{TASK}")
    page.get_by_role("button", name="Mark Task Instance as").click()
    page.get_by_role("menuitem", name="Failed").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("Affected Tasks: 1").wait_for()
    look("mark-failed")
    dialog.get_by_role("button", name="Confirm").click()
    wait_for(lambda: not running(flights_sandbox), "the end of the query")
    assert airflow_api.task(DAG, run, TASK)["state"] == "failed"
    page.get_by_text("Failed", exact=True).first.wait_for()
    look("marked-failed")

    page.get_by_role("button", name="to clear").click()
    dialog.get_by_text("Affected Tasks: 1").wait_for()
    look("clear")
    dialog.get_by_role("button", name="Confirm").click()
    assert wait_for(lambda: running(flights_sandbox), "the load of the cleared task").pop() != query_id
    page.get_by_text("submitting").first.wait_for()
    look("cleared")
    airflow_api.call("PATCH", f"dags/{DAG}/dagRuns/{run}/taskInstances/{TASK}", {"new_state": "failed"})
    wait_for(lambda: not running(flights_sandbox), "the end of the query")
    assert int(flights_sandbox.query(f"SELECT count() AS n FROM {table}")[0]["n"]) == 0
