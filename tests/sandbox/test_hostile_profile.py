"""A user whose profile cuts answers: every statement is sent with the settings that keep them whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ch_s3.errors import ConfigError, PlanError
from airflow_provider_ch_s3.sandbox import Sandbox, SandboxConfig
from airflow_provider_ch_s3.sandbox.launch import running_sandbox
from tests.sandbox.conftest import Lab

pytestmark = pytest.mark.sandbox

SERVER_ROLE = "s3_allow_server_credentials_in_user_queries"
USER = "<password>{0}</password><networks><ip>127.0.0.1</ip></networks><profile>{0}</profile><quota>default</quota>"
PROFILES = f"""
<clickhouse>
  <profiles>
    <hostile>
      <limit>2</limit>
      <final>1</final>
      <extremes>1</extremes>
      <max_rows_in_distinct>1000</max_rows_in_distinct>
      <distinct_overflow_mode>break</distinct_overflow_mode>
      <aggregate_functions_null_for_empty>1</aggregate_functions_null_for_empty>
      <empty_result_for_aggregation_by_empty_set>1</empty_result_for_aggregation_by_empty_set>
    </hostile>
    <fixed>
      <final>1</final>
      <constraints><final><const/></final></constraints>
    </fixed>
    <keyed>
      <{SERVER_ROLE}>0</{SERVER_ROLE}>
      <constraints><{SERVER_ROLE}><const/></{SERVER_ROLE}></constraints>
    </keyed>
  </profiles>
  <users>
    <hostile>{USER.format("hostile")}</hostile>
    <fixed>{USER.format("fixed")}</fixed>
    <keyed>{USER.format("keyed")}</keyed>
  </users>
</clickhouse>
"""
ONE_NODE: dict[str, Any] = {"cluster": None, "ddl_mode": None, "http_endpoints": None}


@pytest.fixture(scope="module")
def hostile_sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    directory = tmp_path_factory.mktemp("hostile")
    settings = Path(directory) / "node1" / "config.d"
    settings.mkdir(parents=True)
    (settings / "hostile.xml").write_text(PROFILES)
    with running_sandbox(SandboxConfig(shards=1, memory_bytes_per_node=2 * 1024**3, directory=directory)) as sandbox:
        yield sandbox


def test_loads_hold_each_row_once(hostile_sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    s3 = hostile_sandbox.s3_client()
    s3.create_bucket(Bucket="hostile")
    lab = Lab(sandbox=hostile_sandbox, database="sandbox", bucket="hostile", s3=s3, monkeypatch=monkeypatch)
    lab.connect_one_node()
    lab.connect_aws()
    table = lab.create("t", "p UInt8, n UInt32", "MergeTree PARTITION BY p ORDER BY n")
    for p in range(5):
        lab.put(f"in/{p}.csv", "".join(f"{p},{n}\n" for n in range(30)).encode())
    rows = sorted((p, n) for p in range(5) for n in range(30))
    how = {"structure": "p UInt8, n UInt32", "data_format": "CSV"}
    lab.connect_clickhouse(ONE_NODE, login="fixed", password="fixed")
    with pytest.raises(ConfigError, match="profile fixes 'final' to '1', but every statement needs 0"):
        lab.load("in/*.csv", table, **how)
    lab.connect_clickhouse(ONE_NODE, login="hostile", password="hostile")
    for number, mode in enumerate(
        (
            {},
            {},
            {"load_mode": "replace_partitions"},
            {"load_mode": "replace_table"},
            {"load_mode": "replace_where", "replace_where": "n < 100"},
        )
    ):
        lab.load("in/*.csv", table, task_id=f"load{number}", **how, **mode)
        assert sorted((row["p"], row["n"]) for row in lab.rows(table)) == rows


def test_the_role_of_the_servers_is_refused_before_anything_is_written(
    hostile_sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3 = hostile_sandbox.s3_client()
    s3.create_bucket(Bucket="keyed")
    lab = Lab(sandbox=hostile_sandbox, database="sandbox", bucket="keyed", s3=s3, monkeypatch=monkeypatch)
    lab.connect_one_node()
    lab.connect_aws()
    table = lab.create("keyed", "n UInt8")
    lab.put("in/a.csv", b"1\n")
    how = {"structure": "n UInt8", "data_format": "CSV"}
    lab.connect_clickhouse(ONE_NODE, login="keyed", password="keyed")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", hostile_sandbox.s3_access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", hostile_sandbox.s3_secret_key)
    monkeypatch.setenv("AWS_ENDPOINT_URL", hostile_sandbox.s3_endpoint)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with pytest.raises(PlanError, match=f"fixes '{SERVER_ROLE}' to '0'.*change the profile: {SERVER_ROLE} = 1$"):
        lab.load("in/*.csv", table, aws_conn_id=None, **how)
    assert lab.query("SELECT count() AS n FROM system.tables WHERE name LIKE 'ch_s3_stage_%'") == [{"n": 0}]
    lab.load("in/*.csv", table, **how)
    assert lab.rows(table) == [{"n": 1}]
