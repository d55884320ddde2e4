"""The other tools write the same rows; otherwise the benchmark would compare nothing."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.files.access import S3Access
from ch_s3_lab.bench.pushes import PUSHES, PushJob
from ch_s3_lab.sandbox import Sandbox, SandboxConfig
from ch_s3_lab.sandbox.launch import running_sandbox
from tests.failures import coded

pytestmark = pytest.mark.sandbox

BUCKET = "pushes"
KEYS = ("dt=1/0.parquet", "dt=1/1.parquet")
ROWS_PER_FILE = 10_000
COLUMNS = "event_id UInt64, ts DateTime, user UInt32, url String, country LowCardinality(String), value Float64"
# The largest values of each type, non-ASCII and empty strings, and fractions that binary numbers cannot represent.
WRITE_FILE = """
INSERT INTO FUNCTION s3({{url:String}}, {{key:String}}, {{secret:String}})
SELECT
    if(number = 0, 18446744073709551615, cityHash64(number)) AS event_id,
    if(number = 0, toDateTime(4294967295, 'UTC'), toDateTime(number * 3600, 'UTC')) AS ts,
    toUInt32(4294967295 - number) AS user,
    if(number = 1, '', concat('https://shop.example/ä€😀?q=', toString(number))) AS url,
    toLowCardinality(['DE', 'FR', ''][1 + number % 3]) AS country,
    number / 7 AS value
FROM numbers({first}, {count})
"""


@pytest.fixture(scope="module")
def push_node() -> Iterator[Sandbox]:
    """One node, and two files that ClickHouse has written."""
    with running_sandbox(SandboxConfig(shards=1)) as sandbox:
        sandbox.s3_client().create_bucket(Bucket=BUCKET)
        for number, key in enumerate(KEYS):
            sandbox.query(
                WRITE_FILE.format(first=number * ROWS_PER_FILE, count=ROWS_PER_FILE),
                settings={
                    "param_url": f"{sandbox.s3_endpoint}/{BUCKET}/{key}",
                    "param_key": sandbox.s3_access_key,
                    "param_secret": sandbox.s3_secret_key,
                },
            )
        yield sandbox


@pytest.fixture
def job(push_node: Sandbox) -> Iterator[PushJob]:
    """Both files, and a new table with a name that a tool may be tempted to normalize."""
    push_node.query(f"CREATE TABLE Bench__W1 ({COLUMNS}) ENGINE = MergeTree ORDER BY (user, ts)")
    yield PushJob(
        sandbox=push_node,
        access=S3Access(
            endpoint_url=push_node.s3_endpoint, access_key=push_node.s3_access_key, secret_key=push_node.s3_secret_key
        ),
        table="Bench__W1",
        bucket=BUCKET,
        keys=KEYS,
    )
    push_node.query("DROP TABLE Bench__W1 SYNC")


def count_and_checksum(push_node: Sandbox, source: str, **parameters: str) -> dict[str, Any]:
    query = f"SELECT count() AS rows, toString(sum(cityHash64(*))) AS checksum FROM {source}"
    return push_node.query(query, settings=parameters)[0]


def written(push_node: Sandbox) -> dict[str, Any]:
    return count_and_checksum(
        push_node,
        "s3({url:String}, {key:String}, {secret:String}, 'Parquet', {columns:String})",
        param_url=f"{push_node.s3_endpoint}/{BUCKET}/dt=1/*.parquet",
        param_key=push_node.s3_access_key,
        param_secret=push_node.s3_secret_key,
        param_columns=COLUMNS,
    )


@pytest.mark.parametrize("name", PUSHES)
def test_every_row_arrives_as_it_was(push_node: Sandbox, job: PushJob, name: str) -> None:
    variables = set(os.environ)
    PUSHES[name](job)
    source = written(push_node)
    assert source["rows"] == 20_000
    assert count_and_checksum(push_node, job.table) == source
    assert push_node.query("SHOW TABLES") == [{"name": "Bench__W1"}]
    assert set(os.environ) == variables


@pytest.mark.thorough
def test_what_dlt_had_in_the_database_stays(push_node: Sandbox, job: PushJob) -> None:
    push_node.query("CREATE TABLE dlt_sentinel_table (_dlt_id String) ENGINE = MergeTree PRIMARY KEY _dlt_id")
    PUSHES["dlt"](job)
    assert push_node.query("SHOW TABLES") == [{"name": "Bench__W1"}, {"name": "dlt_sentinel_table"}]
    push_node.query("DROP TABLE dlt_sentinel_table SYNC")


@pytest.mark.parametrize(
    ("name", "module"),
    [
        pytest.param("clickhouse-connect insert_arrow", "pyarrow.parquet", id="pyarrow"),
        pytest.param("airflow-clickhouse-plugin", "airflow_clickhouse_plugin.hooks.clickhouse", id="plugin"),
        pytest.param("dlt", "dlt", id="dlt"),
        pytest.param("dlt", "clickhouse_driver", id="driver-of-dlt"),
    ],
)
def test_a_missing_library_names_the_extra(
    job: PushJob, monkeypatch: pytest.MonkeyPatch, name: str, module: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=coded("library-missing", "'./lab[bench]'")):
        PUSHES[name](job)


def test_secrets_stay_out_of_the_repr(job: PushJob) -> None:
    assert job.sandbox.password not in repr(job)
    assert job.access.secret_key not in repr(job)
