"""``ch-s3 plan`` on a real cluster: what it prints is what a load would send, and nothing is written."""

from __future__ import annotations

import gzip

import pytest

from airflow_provider_ch_s3.cli import main
from tests.sandbox.conftest import Lab

pytestmark = pytest.mark.sandbox


def test_plan_prints_what_the_arguments_ask_for(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    lab.put("in/a.csv.data", gzip.compress(b"id,name\n1,x\n"))
    table = lab.create("t", "id UInt32, name String, kind String DEFAULT 'k'")
    given = [
        *("--conn-id", "ch", "--aws-conn-id", "aws", "--source", lab.uri("in/*"), "--table", table),
        *("--data-format", "CSV", "--compression", "gz", "--columns", "id, name", "--select", "name=upper(name)"),
        *("--where", "id > 0", "--setting", "max_threads=3", "--setting", "max_memory_usage = 1000000000"),
    ]
    assert main(["plan", *given]) == 0
    shown = capsys.readouterr().out
    plan, _, sql = shown.partition("INSERT INTO")
    assert "max_threads = 3 " in plan
    assert "[operator]" in plan
    for words in (
        "(`id`, `name`)",
        "upper(name)",
        "'gz'",
        "id > 0",
        "max_threads = 3",
        "max_memory_usage = 1000000000",
        'log_comment = \'{"dag": "DAG", "task": "TASK", "run": "RUN", "try": 1',
    ):
        assert words in sql
    assert lab.sandbox.s3_secret_key not in shown
    assert lab.rows(table) == []


def test_an_unknown_aws_connection_is_one_line(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    table = lab.create("t", "id UInt32")
    given = ["--conn-id", "ch", "--aws-conn-id", "no_such", "--source", lab.uri("in/*"), "--table", table]
    assert main(["plan", *given]) == 1
    error = capsys.readouterr().err
    assert error.startswith("ch-s3: Airflow has no connection 'no_such' to S3; create it")
    assert error.count("\n") == 1
