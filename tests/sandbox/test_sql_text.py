"""The SQL that people read: it fits on a screen, and a client that it is copied into loads the same rows."""

from __future__ import annotations

import math
import re
from itertools import islice

import pytest

from airflow_provider_ch_s3.cli import main
from airflow_provider_ch_s3.clickhouse.statement import shorten_lines
from ch_s3_lab.demo.flights import daily_files
from tests.sandbox.conftest import Lab, bag

pytestmark = pytest.mark.sandbox

SCREEN_LINES, SCREEN_COLUMNS = 40, 120
DAYS = 31


def rows_on_screen(text: str) -> int:
    return sum(math.ceil(len(line) / SCREEN_COLUMNS) for line in text.splitlines())


def test_the_sql_of_a_load_fits_on_a_screen_and_loads_the_same_rows_in_a_client(
    lab: Lab, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # By default, Airflow keeps 4,096 characters of a field; the grammar of a Date takes more than half of them.
    monkeypatch.setenv("AIRFLOW__CORE__MAX_TEMPLATED_FIELD_LENGTH", "8192")
    for key, content in islice(daily_files(), DAYS):
        lab.put(f"in/{key}", content)
    table = f"{lab.database}.t"
    operator = lab.operator("in/**.parquet", table, create_table="auto", task_id="flights")
    operator.execute(lab.context(operator))
    loaded = bag(lab.rows(f"{table}_local"))
    assert rows_on_screen(shorten_lines(operator.sql)) <= SCREEN_LINES

    (staging,) = set(re.findall(r"ch_s3_stage_\w+", operator.sql))
    access_key, secret_key = re.findall(r"{(\w+):String}", operator.sql)
    secrets = {f"param_{access_key}": lab.sandbox.s3_access_key, f"param_{secret_key}": lab.sandbox.s3_secret_key}
    lab.ddl(f"TRUNCATE TABLE {table}_local")
    lab.query(operator.sql.replace(staging, "t_local"), settings=secrets)
    assert bag(lab.rows(f"{table}_local")) == loaded

    capsys.readouterr()
    source = ["--conn-id", "ch", "--aws-conn-id", "aws", "--source", lab.uri("in/**.parquet"), "--table", table]
    assert main(["plan", *source, "--sql"]) == 0
    planned = capsys.readouterr().out
    clause = re.compile(r"^SETTINGS\n(?:    .*\n)+?(?=    log_comment)", re.MULTILINE)
    assert clause.findall(planned) == clause.findall(operator.sql)
    assert "limit = " not in planned
