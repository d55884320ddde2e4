"""A watcher of new files in a real triggerer, which is killed."""

from __future__ import annotations

from pathlib import Path

import pytest
from botocore.client import BaseClient

from airflow_provider_ch_s3.triggers.new_files import NewFilesTrigger
from ch_s3_lab.demo.local_airflow import LocalAirflow
from tests.airflow.conftest import wait_for
from tests.airflow.triggerer import kill_group, make_deferral

pytestmark = [pytest.mark.sandbox, pytest.mark.airflow_run]


@pytest.mark.thorough  # each push has a deferred load that does so, and a watcher under a scheduler
def test_a_watcher_outlives_its_triggerer_and_tells_of_the_files(
    examples: LocalAirflow, tmp_path: Path, ch_s3_client: BaseClient, ch_s3_bucket: str
) -> None:
    deferral = make_deferral(examples, tmp_path)
    watcher = NewFilesTrigger(source=f"s3://{ch_s3_bucket}/in/*", table="watched_orders", poll_interval=1)
    deferral.defer([watcher])
    with deferral.triggerer() as first:
        wait_for(lambda: deferral.is_started(0), "the watcher")
        kill_group(first)
    ch_s3_client.put_object(Bucket=ch_s3_bucket, Key="in/1.csv", Body=b"id\n1\n")
    assert deferral.resumed() == []
    with deferral.triggerer():
        wait_for(deferral.resumed, "the event")
    (task,) = deferral.resumed()
    assert f"s3://{ch_s3_bucket}/in/1.csv" in task.kwargs
