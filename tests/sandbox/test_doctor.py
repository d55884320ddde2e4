"""``ch-s3 doctor`` on a real cluster: each thing that a load needs, there and missing.

``tests/unit/load/test_doctor.py`` tests clocks that differ, and ``test_small_disk.py`` a full disk.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from airflow import settings

from airflow_provider_ch_s3.cli import main
from airflow_provider_ch_s3.files.regions import Region
from airflow_provider_ch_s3.load import doctor, planning
from tests.sandbox.conftest import Lab
from tests.sandbox.few import EVEN_AND_ODD, FEW, put_numbers
from tests.sandbox.topologies import only_on

pytestmark = pytest.mark.sandbox

CONNECTION = ["connection", "nodes", "clocks", "ddl", "addresses", "ledger"]
LOAD = ["connection", "arguments", "rights", *CONNECTION[1:], "files", "table", "rows", "plan", "reading", "disk"]


@pytest.fixture
def table(lab: Lab) -> str:
    put_numbers(lab, "in/a.csv", FEW)
    return lab.create("t", "n UInt32", EVEN_AND_ODD)


def examine(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, tuple[str, str]]:
    """Run the command; returns check → state and text."""
    code = main(["doctor", *arguments, "--json"])
    found = {one["check"]: (one["state"], one["text"]) for one in json.loads(capsys.readouterr().out)}
    assert code == int(any(state == "failed" for state, _ in found.values()))
    return found


def test_all_is_there(lab: Lab, table: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", *lab.arguments(table)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == [f"✔ {check}" for check in LOAD]
    said = "\n".join(lines)
    for words in (
        "user 'loader', database ",
        "3 nodes with",
        "DDL mode per_host",
        f"{lab.database}.ch_s3_ledger, which the first load creates; each other database has a ledger of its own",
        " are free on ",
        "1 file, 80 B, listed by this machine",
        f"{table} (MergeTree) on 3 nodes",
        " of memory per node",
        "3 nodes can read 'in/a.csv' with the keys of the connection",
    ):
        assert words in said
    assert lab.everywhere(f"SELECT name FROM system.tables WHERE database = '{lab.database}'") == [{"name": "t"}] * 3


def test_a_task_of_a_dag(lab: Lab, table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The load is the task's, with the templates of a run rendered."""
    (tmp_path / "nightly.py").write_text(
        "from airflow.sdk import DAG\n"
        "from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator\n"
        "with DAG('nightly', schedule=None):\n"
        f"    S3ToClickHouseOperator(task_id='load', source='{lab.uri('in/{{ ds }}/*')}', table={table!r},"
        " clickhouse_conn_id='ch', aws_conn_id='aws', mode='replace_table')\n"
    )
    lab.monkeypatch.setattr(settings, "DAGS_FOLDER", str(tmp_path))
    lab.monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", str(tmp_path))
    task = ["--dag", "nightly", "--task", "load", "--date", "2013-01-02"]
    put_numbers(lab, "in/2013-01-02/a.csv", FEW[:3])
    found = examine(capsys, *task)
    assert list(found) == LOAD
    assert {state for state, _ in found.values()} <= {"ok", "skipped"}
    assert found["files"][1].startswith("1 file, ")
    assert main(["doctor", *task, "--grants"]) == 0
    assert f"-- mode=replace_table into {table}, on ClickHouse" in capsys.readouterr().out
    assert examine(capsys, *task[:-1], "2013-01-03")["files"][0] == "failed"


@pytest.mark.thorough
def test_many_files_are_not_counted_and_a_watcher_would_list_them_all(
    lab: Lab, table: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    put_numbers(lab, "in/b.csv", FEW)
    monkeypatch.setattr(doctor, "MAX_LISTED", 2)
    _, said = examine(capsys, *lab.arguments(table))["files"]
    assert said == f"2 files or more, 160 B, listed by this machine; {doctor.COST_OF_POLLS}"


def test_a_server_that_is_away_ends_what_rests_on_it(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    lab.connect_clickhouse(port=1)
    found = examine(capsys, "--conn-id", "ch")
    assert list(found) == [*CONNECTION, "load"]
    assert "--source" in found["load"][1]
    assert found["connection"][0] == "failed"
    assert "no answer from ClickHouse at 127.0.0.1:1" in found["connection"][1]
    assert {found[check] for check in ("nodes", "clocks", "ledger")} == {
        ("skipped", "not checked without connection"),
        ("skipped", "not checked without nodes"),
    }


def test_a_cluster_that_does_not_exist_leaves_the_grants(
    lab: Lab, table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lab.connect_clickhouse({"cluster": "misspelt", "ddl_mode": None, "http_endpoints": None})
    assert main(["doctor", *lab.arguments(table), "--grants"]) == 0
    assert "GRANT " in capsys.readouterr().out
    found = examine(capsys, *lab.arguments(table))
    assert [check for check, (_, said) in found.items() if "misspelt" in said] == ["nodes"]


@pytest.mark.thorough
def test_a_store_that_refuses_and_a_table_that_one_node_lacks(
    lab: Lab, table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lab.connect_aws(password="wrong")
    found = examine(capsys, *lab.arguments(table))
    assert (found["files"][0], found["table"][0], found["plan"][0]) == ("failed", "ok", "skipped")
    assert "SignatureDoesNotMatch" in found["files"][1]
    lab.connect_aws()
    lab.sandbox.query(f"DROP TABLE {table} SYNC", node=2)
    found = examine(capsys, *lab.arguments(table))
    assert {check for check, (state, _) in found.items() if state == "failed"} == {"table"}
    assert f"{table} " in found["table"][1]


@pytest.mark.parametrize(
    ("named", "said"),
    [
        pytest.param(
            "t",
            "{database}.t is not a ledger of this package; rename it, or name another table in the connection's field"
            " ledger_table [ledger-wrong-table]",
            id="another-table",
        ),
        pytest.param(
            "nowhere.ledger",
            "cannot create the ledger nowhere.ledger: there is no database 'nowhere'; create it, or correct the"
            " connection's field ledger_table [ledger-missing]",
            id="no-database",
        ),
    ],
)
@pytest.mark.every_case
def test_what_cannot_be_the_ledger(
    lab: Lab, table: str, named: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lab.connect_clickhouse({"ledger_table": named})
    found = examine(capsys, "--conn-id", "ch")
    assert found.pop("ledger") == ("failed", said.format(database=lab.database))
    assert found.pop("load")[0] == "skipped"
    assert {state for state, _ in found.values()} == {"ok"}


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ["Memory", "MergeTree ORDER BY n"])
def test_a_load_that_stages_nothing(lab: Lab, engine: str, capsys: pytest.CaptureFixture[str]) -> None:
    table = lab.create("direct", "n UInt32", engine)
    lab.put("in/a.csv", b"n\n1\n")
    found = examine(capsys, *lab.arguments(table, "--mode", "direct"))
    assert found["ledger"] == ("skipped", "mode='direct' uses none")
    assert found["rows"] == ("skipped", "mode='direct' adds to them, also rows that the table has already")
    assert found["table"] == ("ok", f"{table} ({engine.split()[0]}) on 3 nodes")
    if engine == "Memory":
        assert found["disk"] == ("skipped", "a Memory table has no storage policy")
    assert {state for state, _ in found.values()} == {"ok", "skipped"}


@pytest.mark.thorough
def test_a_view_is_no_table(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    lab.put("in/a.csv", b"n\n1\n")
    lab.everywhere(f"CREATE VIEW {lab.database}.v AS SELECT 1 AS n")
    found = examine(capsys, *lab.arguments(f"{lab.database}.v"))
    assert found["rights"][0] == "ok"
    assert found["table"][1].startswith(f"{lab.database}.v is a View table on ")


@pytest.mark.thorough
def test_a_plan_that_is_not_possible(lab: Lab, table: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = examine(capsys, *lab.arguments(table, select={"n": "fare"}))
    assert {check: found[check] for check in ("reading", "disk")} == dict.fromkeys(
        ("reading", "disk"), ("skipped", "not checked without plan")
    )
    assert found["plan"][0] == "failed"
    assert "select['n']='fare' names fare, which is not a column of the files" in found["plan"][1]


def test_files_in_another_region(lab: Lab, table: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The regions are made up: nothing here is in one."""
    regions = Region(cloud="AWS", name="eu-central-1"), Region(cloud="AWS", name="us-east-1")
    lab.monkeypatch.setattr(planning, "find_apart", lambda *_: regions)
    found = examine(capsys, *lab.arguments(table))
    assert found["reading"] == (
        "ok",
        "3 nodes can read 'in/a.csv' with the keys of the connection; the cluster is in AWS eu-central-1, and the"
        " files are in AWS us-east-1",
    )


@pytest.mark.thorough
@only_on("on-cluster")
def test_a_missing_right_is_shown_as_its_grant(replicated_lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    lab = replicated_lab
    table = lab.create("t", "n UInt32", EVEN_AND_ODD)
    put_numbers(lab, "in/a.csv", FEW)
    user = f"lacks_{lab.database}"
    for statement in (
        f"CREATE USER {user} IDENTIFIED BY 'secret of {user}'",
        f"GRANT CURRENT GRANTS ON *.* TO {user}",
        f"REVOKE ALTER SETTINGS, INSERT ON {lab.database}.* FROM {user}",
    ):
        lab.everywhere(statement)
    lab.connect_clickhouse(login=user, password=f"secret of {user}")
    found = examine(capsys, *lab.arguments(table))
    # the engine of the other tests has no such metrics
    assert re.search(
        r"; memory: [\d.]+ GiB of [\d.]+ GiB are free on \S+, and no less on any other", found["nodes"][1]
    )
    rights = f"INSERT ON {table}, INSERT, ALTER SETTINGS ON {lab.database}.ch_s3_*"
    assert found["rights"] == (
        "failed",
        f"user '{user}' lacks rights, and nothing was changed; have an administrator run GRANT {rights} TO {user} on"
        " every node (`ch-s3 doctor --grants` prints all rights that a load needs) [grant-missing]",
    )
    assert {state for check, (state, _) in found.items() if check != "rights"} == {"ok"}
