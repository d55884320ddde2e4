"""What ``ch-s3 tune --save`` writes is in the connection of a real Airflow database, beside what was there."""

from __future__ import annotations

import ast
import json
import subprocess
import sys

import pytest

from airflow_provider_ch_s3.sandbox.local_airflow import LocalAirflow

pytestmark = [pytest.mark.sandbox, pytest.mark.airflow_run]

SAVE = """
from airflow_provider_ch_s3.cli.connections import find_stored_connection, store_extra

find_stored_connection("stored")
store_extra("stored", {"tuned": {"readers_per_core": 3.0}})
"""


def test_a_stored_connection_keeps_the_rest_of_its_extra(examples: LocalAirflow) -> None:
    connection = {"conn_type": "clickhouse_s3", "host": "ch", "extra": {"cluster": "c", "tuned": {"old": 1}}}
    examples.run("connections", "add", "stored", "--conn-json", json.dumps(connection))
    subprocess.run([sys.executable, "-c", SAVE], env=dict(examples.environment), check=True)
    shown = examples.run("connections", "get", "stored", "-o", "json")
    (stored,) = json.loads(shown[shown.index("[") :])
    extra = ast.literal_eval(stored["extra_dejson"])
    assert extra == {"cluster": "c", "tuned": {"readers_per_core": 3.0}}
