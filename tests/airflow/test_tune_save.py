"""What ``ch-s3 tune --save`` writes is added to the connection in a real Airflow database."""

from __future__ import annotations

import json

import pytest

from ch_s3_lab.demo.local_airflow import LocalAirflow
from tests.airflow.conftest import run_in_one_process

pytestmark = [pytest.mark.sandbox, pytest.mark.airflow_run]

SAVE = """
from airflow_provider_ch_s3.hooks.lookup import check_stored_connection, store_extra

check_stored_connection("stored")
store_extra("stored", {"calibration": {"readers_per_core": 3.0}})
"""
# `airflow connections get` would print numbers as strings
READ = """
from airflow.models import Connection
from airflow.utils.session import create_session
from sqlalchemy import select

with create_session() as session:
    print(session.scalars(select(Connection.extra).where(Connection.conn_id == "stored")).one())
"""


@pytest.mark.thorough
def test_a_stored_connection_keeps_the_rest_of_its_extra(examples: LocalAirflow) -> None:
    connection = {"conn_type": "clickhouse_s3", "host": "ch", "extra": {"cluster": "c", "calibration": {"old": 1}}}
    add = ["connections", "add", "stored", "--conn-json", json.dumps(connection)]
    printed = run_in_one_process(examples.environment, add, then=SAVE + READ)
    assert json.loads(printed.splitlines()[-1]) == {"cluster": "c", "calibration": {"readers_per_core": 3.0}}
