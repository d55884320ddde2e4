"""A user whose profile cuts answers: every statement is sent with the settings that keep them whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_ch_s3.arguments import Chunks, Format
from airflow_provider_ch_s3.errors import ChS3Error, ConfigError, PlanError, SourceError
from airflow_provider_ch_s3.modes import Append, Merge, ReplaceWhere
from airflow_provider_ch_s3.transfers.clickhouse_to_s3 import ClickHouseToS3Operator
from ch_s3_lab.errors import SandboxError
from ch_s3_lab.sandbox import Sandbox, SandboxConfig
from ch_s3_lab.sandbox.config import EMBEDDED
from ch_s3_lab.sandbox.engine import package_of
from ch_s3_lab.sandbox.launch import running_sandbox
from ch_s3_lab.sandbox.zookeeper import find_classpath
from tests.failures import coded
from tests.marks import thorough
from tests.sandbox.conftest import Lab, bag, lab_in
from tests.sandbox.hostile_profiles import CUTTING, HOSTILE, SERVER_ROLE, write_profiles

pytestmark = pytest.mark.sandbox

ONE_NODE: dict[str, Any] = {"cluster": None, "ddl_mode": None, "http_endpoints": None}


HOW = {"data_format": Format("CSV", structure="p UInt8, n UInt32")}
ROWS = [{"p": p, "n": n} for p in range(5) for n in range(30)]


@pytest.fixture(
    scope="module",
    params=[
        SandboxConfig(shards=1, engine=EMBEDDED),
        thorough(SandboxConfig(shards=3, engine=EMBEDDED)),
        thorough(SandboxConfig(shards=1, engine="24.8")),
    ],
    ids=["one-node", "three-nodes", "24.8"],
)
def hostile_sandbox(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    directory = tmp_path_factory.mktemp("hostile")
    config = replace(request.param, directory=directory, memory_bytes_per_node=2 * 1024**3)
    if config.has_keeper:
        try:
            package_of(config.engine)
            find_classpath(config.zookeeper)
        except SandboxError as error:
            pytest.skip(str(error))
    write_profiles(config)
    with running_sandbox(config) as sandbox:
        yield sandbox


@pytest.fixture
def lab(hostile_sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """A table, and five files with thirty rows each, which the user that the sandbox has may read and write."""
    lab = lab_in(hostile_sandbox, monkeypatch)
    for p in range(5):
        lab.put(f"in/{p}.csv", "".join(f"{p},{n}\n" for n in range(30)).encode())
    lab.create("t", "p UInt8, n UInt32", "MergeTree PARTITION BY p ORDER BY n")
    return lab


def log_in(lab: Lab, user: str) -> None:
    lab.connect_clickhouse(ONE_NODE if lab.sandbox.nodes == 1 else None, login=user, password=user)


def test_loads_hold_each_row_once(lab: Lab) -> None:
    log_in(lab, HOSTILE)
    table = f"{lab.database}.t"
    for number, mode in enumerate(
        (
            {},
            {},
            {"mode": "replace_partitions"},
            {"mode": "replace_table"},
            {"mode": ReplaceWhere("n < 100")},
            {"mode": Merge(key=["p", "n"])},
            {"mode": Append(on_loaded="load"), "chunks": Chunks(max_files=2)},
        )
    ):
        lab.load("in/*.csv", table, task_id=f"load{number}", **HOW, **mode)
        again = 2 if "chunks" in mode else 1
        assert bag(lab.rows(table)) == bag(again * ROWS)
    assert lab.left_overs() == []


@pytest.mark.thorough
def test_a_table_is_made_as_for_others(lab: Lab) -> None:
    for user in ("sandbox", "hostile"):
        if user == "hostile":
            log_in(lab, user)
        lab.load("in/*.csv", f"{lab.database}.{user}", create_table="auto", **HOW)
    columns, other = (
        lab.query(f"SELECT name, type FROM system.columns WHERE database = '{lab.database}' AND table LIKE '{user}%'")
        for user in ("sandbox", "hostile")
    )
    assert columns == other


@pytest.mark.thorough
def test_a_carriage_return_of_raw_tsv_is_found(lab: Lab) -> None:
    log_in(lab, HOSTILE)
    lab.put("raw/a.tsv", b"1\t2\r\n")
    table = lab.create("raw", "p UInt8, s String")
    with pytest.raises(SourceError, match=coded("value-does-not-fit", "carriage return")):
        lab.load("raw/*", table, data_format=Format("TSVRaw", structure="p UInt8, s String"))


@pytest.mark.thorough
def test_an_export_reads_with_the_final_of_its_user(lab: Lab) -> None:
    table = lab.create("r", "n UInt32, v UInt32", "ReplacingMergeTree(v) ORDER BY n")
    lab.query(f"SYSTEM STOP MERGES {table}")
    for v in (1, 2):
        lab.query(f"INSERT INTO {table} VALUES (7, {v})")
    for user, rows in (("sandbox", 2), (HOSTILE, 1)):
        if user == HOSTILE:
            log_in(lab, user)
        operator = ClickHouseToS3Operator(
            task_id=f"export_{user}",
            clickhouse_conn_id="ch",
            aws_conn_id="aws",
            table=table,
            destination=lab.uri(f"out-{user}/"),
        )
        report = operator.execute(lab.context(operator))
        assert report is not None
        assert report["rows"] == rows


@pytest.mark.thorough
def test_a_limit_fails_and_cuts_nothing(lab: Lab) -> None:
    log_in(lab, "limited")
    table = f"{lab.database}.t"
    for task in ("first", "second"):
        with pytest.raises(ChS3Error) as limited:  # whichever statement meets its limit first
            lab.load("in/*.csv", table, task_id=task, **HOW)
        assert "limit" in limited.value.sentence.lower()
    assert lab.rows(table) == []
    lab.connect_clickhouse(ONE_NODE if lab.sandbox.nodes == 1 else None)
    lab.load("in/*.csv", table, task_id="first", try_number=2, **HOW)
    assert bag(lab.rows(table)) == bag(ROWS)


@pytest.mark.thorough
@pytest.mark.parametrize("user", CUTTING)
def test_a_profile_that_cuts_answers_fails_a_load_or_does_no_harm(lab: Lab, user: str) -> None:
    table = f"{lab.database}.t"
    for task in ("first", "second"):
        log_in(lab, user)
        try:
            lab.load("in/*.csv", table, task_id=task, **HOW)
        except ChS3Error:
            assert bag(lab.rows(table)) <= bag(ROWS)  # a commit may have begun
        else:
            assert bag(lab.rows(table)) == bag(ROWS)
    lab.connect_clickhouse(ONE_NODE if lab.sandbox.nodes == 1 else None)
    lab.load("in/*.csv", table, task_id="first", try_number=2, **HOW)
    assert bag(lab.rows(table)) == bag(ROWS)
    assert lab.left_overs() == []


@pytest.mark.thorough
def test_a_profile_that_fixes_another_value_is_refused(lab: Lab) -> None:
    log_in(lab, "fixed")
    with pytest.raises(ConfigError, match=coded("profile-fixes-setting", "'final'", "'1'", "0")):
        lab.load("in/*.csv", f"{lab.database}.t", **HOW)


@pytest.mark.thorough
def test_the_role_of_the_servers_is_refused_before_anything_is_written(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = f"{lab.database}.t"
    if lab.query(f"SELECT 1 FROM system.settings WHERE name = '{SERVER_ROLE}'") == []:
        return  # this server uses its own role without being asked
    log_in(lab, "keyed")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", lab.sandbox.s3_access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", lab.sandbox.s3_secret_key)
    monkeypatch.setenv("AWS_ENDPOINT_URL", lab.sandbox.s3_endpoint)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with pytest.raises(
        PlanError, match=coded("profile-fixes-setting", f"'{SERVER_ROLE}'", "'0'", f"{SERVER_ROLE} = 1")
    ):
        lab.load("in/*.csv", table, aws_conn_id=None, **HOW)
    assert lab.left_overs() == []
    lab.load("in/*.csv", table, **HOW)
    assert bag(lab.rows(table)) == bag(ROWS)
