"""A user without any right, whose administrator runs what ``ch-s3 doctor --grants`` prints once.

The servers also ask for a grant for each table engine. ``test_permissions.py`` tests that none of the rights is too
many.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from airflow_provider_ch_s3.arguments import Columns
from airflow_provider_ch_s3.cli import main
from airflow_provider_ch_s3.errors import ChS3Error, ConfigError
from airflow_provider_ch_s3.modes import Append
from airflow_provider_ch_s3.operators.held import ClickHouseDropHeldOperator
from airflow_provider_ch_s3.sensors.parts_settled import ClickHousePartsSettledSensor
from ch_s3_lab.sandbox import SandboxConfig
from ch_s3_lab.sandbox.config import SERVERS
from ch_s3_lab.sandbox.launch import running_sandbox
from tests.failures import coded
from tests.marks import thorough
from tests.sandbox.conftest import Lab, lab_in
from tests.sandbox.few import is_clean
from tests.sandbox.node_settings import write_settings
from tests.sandbox.test_provenance import BY_TENS, COLUMNS, FILES, put

pytestmark = [pytest.mark.sandbox, pytest.mark.every_case, pytest.mark.push]

MODES: dict[str, Any] = {
    "append": "append",
    "replace_partitions": {"replace_partitions": {"on_partial": "replace"}},
    "replace_where": {"replace_where": "n < 1000"},
    "replace_table": "replace_table",
    "merge": {"merge": {"key": ["n"]}},
    "direct": "direct",
}
REQUIRE_ENGINES = """
<clickhouse>
  <query_log>
    <flush_interval_milliseconds>200</flush_interval_milliseconds>
  </query_log>
  <access_control_improvements>
    <table_engines_require_grant>true</table_engines_require_grant>
  </access_control_improvements>
</clickhouse>
"""
CLUSTERS = [(version, replicas) for replicas in (2, 1) for version in SERVERS]


@pytest.fixture(params=[*CLUSTERS[:2], *map(thorough, CLUSTERS[2:])])
def strict_lab(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Lab]:
    """A shard whose servers ask for a grant for each table engine."""
    directory, (version, replicas) = tmp_path_factory.mktemp("strict"), request.param
    config = SandboxConfig(shards=1, replicas=replicas, engine=version, directory=directory)
    write_settings(config, "strict.xml", REQUIRE_ENGINES)
    with running_sandbox(config) as sandbox:
        lab = lab_in(sandbox, monkeypatch)
        put(lab, "in/a.csv", 1, 2, 11)
        yield lab


def become(lab: Lab, user: str) -> None:
    """Connect as a new user without any right."""
    lab.everywhere(f"CREATE USER {user} IDENTIFIED BY 'secret of {user}'")
    lab.connect_clickhouse(login=user, password=f"secret of {user}")


def run_block(lab: Lab, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Have an administrator run on every node what the command prints, as printed; returns the block."""
    capsys.readouterr()
    assert main(["doctor", "--conn-id", "ch", "--grants", *arguments]) == 0
    block = capsys.readouterr().out
    _, _, optional = block.partition("-- optional:\n")
    assert all(line.startswith("-- ") for line in optional.splitlines())
    lab.everywhere(block)
    return block


@pytest.mark.timeout(1800)
def test_one_block_is_enough_for_all_modes(strict_lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    lab = strict_lab
    table, new = lab.create("t", COLUMNS, BY_TENS), f"{lab.database}.new"
    become(lab, "all_modes")
    run_block(lab, capsys)
    for name, mode in MODES.items():
        report = lab.load("in/*.csv", table, task_id=name, mode=mode, **FILES)
        assert report["rows_written"] == 3
    put(lab, "in/b.csv", 21)
    report = lab.load("in/b.csv", table, task_id="undone", **FILES)
    assert lab.loads("undo", "--yes", report["query_id"]) == 0
    sensor = ClickHousePartsSettledSensor(task_id="s", table=table, clickhouse_conn_id="ch", stable_seconds=0)
    sensor.poke({})
    assert lab.loads("prune", "--older-than-days", "0") == 0
    assert lab.load("in/*.csv", new, create_table="auto", data_format=FILES["data_format"])["rows_written"] == 4
    lab.put("wider.csv", b"n,more\n41,2\n")
    report = lab.load("wider.csv", new, columns=Columns(on_new="add"), task_id="wider", data_format="CSVWithNames")
    assert list(report["columns_added"]) == ["more"]
    assert is_clean(lab)


@pytest.mark.thorough
@pytest.mark.timeout(1800)
def test_the_block_of_each_mode_is_enough_for_the_mode(strict_lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    lab = strict_lab
    lab.connect_clickhouse()
    for name, mode in MODES.items():
        lab.connect_clickhouse()
        table = lab.create(name, COLUMNS, f"Replacing{BY_TENS}")
        arguments = lab.arguments(table, "--mode", mode if isinstance(mode, str) else json.dumps(mode))
        become(lab, f"only_{name}")
        needed, _, _ = run_block(lab, capsys, *arguments).partition("-- optional:")
        assert (f"ALTER DELETE ON {table} " in needed) == (name not in ("append", "direct"))
        assert lab.load("in/*.csv", table, mode=mode, **FILES)["rows_written"] == 3


@pytest.mark.thorough
def test_the_block_of_a_load_that_holds_its_rows(strict_lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    lab = strict_lab
    table = lab.create("t", COLUMNS, BY_TENS)
    become(lab, "holding")
    run_block(lab, capsys, *lab.arguments(table, commit="held"))
    report = lab.load("in/*.csv", table, commit="held", **FILES)
    drop = ClickHouseDropHeldOperator(task_id="d", load=report["query_id"], table=table, clickhouse_conn_id="ch")
    drop.execute({})
    assert is_clean(lab)


@pytest.mark.parametrize("is_seen", [False, thorough(True)])
def test_the_block_of_a_load_that_feeds_views(
    strict_lab: Lab, capsys: pytest.CaptureFixture[str], is_seen: bool
) -> None:
    """A user who sees the table and the view gets the rights on the table of the view only."""
    lab = strict_lab
    table, fed = lab.create("t", COLUMNS, BY_TENS), lab.create("fed", COLUMNS, BY_TENS)
    view = f"{lab.database}.v"
    lab.everywhere(f"CREATE MATERIALIZED VIEW {view} TO {fed} AS SELECT * FROM {table}")
    arguments = lab.arguments(table, "--mode", json.dumps({"append": {"views": "replay"}}))
    become(lab, f"feeding_{is_seen}")
    if is_seen:
        lab.everywhere(f"GRANT SHOW TABLES ON {table}, SHOW TABLES ON {view} TO feeding_{is_seen}")
    needed, _, _ = run_block(lab, capsys, *arguments).partition("-- optional:")
    assert f"INSERT ON {fed if is_seen else f'{lab.database}.*'}" in needed
    assert lab.load("in/*.csv", table, mode=Append(views="replay"), **FILES)["rows_written"] == 6
    assert len(lab.rows(fed)) == 3
    if lab.query("SELECT version() < '25' AS is_old")[0]["is_old"]:
        return
    lab.everywhere(f"REVOKE INSERT ON {fed if is_seen else f'{lab.database}.*'} FROM feeding_{is_seen}")
    capsys.readouterr()
    main(["doctor", *arguments, "--json"])
    said = {one["check"]: one for one in json.loads(capsys.readouterr().out)}["rights"]
    assert said["state"] == "failed"
    assert f"INSERT ON {fed}" in said["text"]


@pytest.mark.thorough
def test_an_undo_asks_for_no_right_that_would_not_help(strict_lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    lab = strict_lab
    table = lab.create("t", COLUMNS, BY_TENS)
    become(lab, "undoing")
    run_block(lab, capsys, *lab.arguments(table))
    silent = {name: value for name, value in FILES.items() if name != "provenance"}
    silent["columns"] = Columns(on_missing="default")
    unknown = lab.load("in/a.csv", table, task_id="silent", **silent)["query_id"]
    with pytest.raises(ChS3Error, match=coded("provenance-needed")):
        lab.undo(unknown)
    put(lab, "in/b.csv", 21)
    known = lab.load("in/b.csv", table, **FILES)["query_id"]
    is_old = lab.query("SELECT version() < '25' AS is_old")[0]["is_old"]  # such a server cannot tell
    if not is_old:
        with pytest.raises(ChS3Error, match=coded("grant-missing", "ALTER DELETE")):
            lab.undo(known)


def test_a_distributed_table_whose_cluster_the_connection_does_not_name(
    strict_lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = strict_lab
    table = lab.distribute(lab.create("t", COLUMNS, BY_TENS))
    become(lab, "unnamed")
    login = {"login": "unnamed", "password": "secret of unnamed"}
    lab.connect_clickhouse({"cluster": None, "ddl_mode": None, "http_endpoints": None}, **login)
    run_block(lab, capsys)
    cluster = lab.sandbox.cluster
    said = coded("cluster-not-named", f"set the connection's field cluster to '{cluster}'", "run GRANT", "REMOTE")
    with pytest.raises(ConfigError, match=said):
        lab.load("in/*.csv", table, **FILES)
    assert main(["doctor", *lab.arguments(table)]) == 1
    assert f"field cluster to '{cluster}'" in capsys.readouterr().out
    lab.connect_clickhouse(**login)
    run_block(lab, capsys)
    assert lab.load("in/*.csv", table, **FILES)["rows_written"] == 3


def test_a_right_that_an_expression_needs_is_named(strict_lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    lab = strict_lab
    if lab.query("SELECT version() < '25' AS is_old")[0]["is_old"]:
        pytest.skip("the server cannot tell the rights that are missing")
    table, names = lab.create("t", "n UInt32"), f"{lab.database}.names"
    lab.everywhere(
        f"CREATE DICTIONARY {names} (k UInt64, v UInt32) PRIMARY KEY k SOURCE(NULL()) LAYOUT(FLAT()) LIFETIME(0)"
    )
    arguments = lab.arguments(table, select={"n": f"dictGet('{names}', 'v', toUInt64(n))"})
    become(lab, "looking_up")
    run_block(lab, capsys, *arguments)
    assert main(["doctor", *arguments]) == 1
    told = capsys.readouterr().out
    assert f"user 'looking_up' lacks the right dictGet ON {names}" in told
    assert "the statement below" not in told


@pytest.mark.thorough
@pytest.mark.timeout(1800)
def test_all_that_is_missing_is_said_at_once(strict_lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    lab = strict_lab
    table = lab.create("t", "n UInt32", "MergeTree ORDER BY n")
    become(lab, "lacking")
    arguments = lab.arguments(table)
    run_block(lab, capsys, *arguments)
    engine = "ReplicatedMergeTree" if lab.sandbox.replicas > 1 else "MergeTree"
    missing = [
        "SELECT ON system.query_log",
        "SELECT ON system.parts",
        f"INSERT ON {table}",
        "TABLE ENGINE ON Memory",
        f"TABLE ENGINE ON {engine}",
        *(["CLUSTER ON *.*"] if lab.sandbox.replicas > 1 else []),
    ]
    lab.everywhere(f"REVOKE {', '.join(missing)} FROM lacking")
    is_old = lab.query("SELECT version() < '25' AS is_old")[0]["is_old"]
    capsys.readouterr()
    assert main(["doctor", *arguments]) == 1
    lines, _, block = capsys.readouterr().out.partition("\n-- mode=append")
    assert "ACCESS_DENIED" not in lines
    assert "the user lacks rights; have an administrator run the statement below [grant-missing]" in lines
    assert [one for one in missing if one.partition(" ON ")[0] not in block] == []
    assert ("S3 ON *.*" in block) == is_old  # the user has this right, and an old server cannot tell
    main(["doctor", *arguments, "--json"])
    said = {one["check"]: (one["state"], one["text"]) for one in json.loads(capsys.readouterr().out)}["rights"]
    if is_old:
        assert said[0] == "skipped"
        return
    for one in missing:
        assert one in said[1]
    assert said[1].count(" ON ") == len(missing)
    assert said[0] == "failed"
    lab.everywhere(f"GRANT {', '.join(missing)} TO lacking")
    main(["doctor", *arguments, "--json"])
    assert {one["state"] for one in json.loads(capsys.readouterr().out)} <= {"ok", "skipped"}
