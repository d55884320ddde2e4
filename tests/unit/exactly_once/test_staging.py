"""Staging tables are made like the target."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from airflow_provider_ch_s3.errors import TargetError
from airflow_provider_ch_s3.exactly_once.history import AttemptId
from airflow_provider_ch_s3.exactly_once.staging import Staging, StagingTable
from airflow_provider_ch_s3.table.target import TableName
from tests.failures import coded

TARGET = TableName(database="d", table="t")


def test_no_replica_is_made_on_a_disk_whose_keys_are_hidden() -> None:
    client = Mock()
    disk = "disk = disk(type = 's3', endpoint = '[HIDDEN]')"
    client.query.return_value = [{"engine_full": f"ReplicatedMergeTree('/t', 'r') ORDER BY n SETTINGS {disk}"}]
    staging = Staging(client=client, cluster="c", target=TARGET, replicas=Mock(exist=True))
    attempt = AttemptId(load_id="ch-s3-1", generation=1, number=1)
    with pytest.raises(TargetError, match=coded("disk-keys-hidden", "d.t defines a disk of its own")):
        staging.create(StagingTable(attempt=attempt, epoch=1), TARGET)
    client.execute_everywhere.assert_not_called()
