"""Loads and the sensor tell Airflow's assets which partitions they have changed, or seen settled."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.execution_time.context import OutletEventAccessors

from airflow_provider_ch_s3.assets.clickhouse import clickhouse_asset
from airflow_provider_ch_s3.sensors.parts_settled import ClickHousePartsSettledSensor
from tests.sandbox.conftest import Lab

pytestmark = pytest.mark.sandbox


@pytest.mark.thorough
@pytest.mark.push
def test_load_and_sensor_tell_the_same_partitions(lab: Lab) -> None:
    table = lab.distribute(
        lab.create("t", "day Date, region String", "MergeTree PARTITION BY (day, region) ORDER BY day")
    )
    lab.put("in/1.csv", b"day,region\n2026-11-26,eu\n2026-11-27,it's\n")
    asset = clickhouse_asset("ch", lab.database, "t_all", partition_keys=True)
    operator = lab.operator("in/*.csv", table, outlets=[asset])
    context: Any = lab.context(operator) | {"outlet_events": OutletEventAccessors()}
    report = operator.execute(context)
    assert report is not None
    loaded = context["outlet_events"][asset]
    assert loaded.partition_keys == {"2026-11-26|eu", "2026-11-27|it's"}
    assert (loaded.extra["rows"], "partitions" in loaded.extra) == (2, False)

    both = loaded.partition_keys
    for partitions, keys in (
        (report["partitions"], both),
        (["('2026-11-26','eu')"], {"2026-11-26|eu"}),
        (None, set()),
    ):
        events = OutletEventAccessors()
        sensor = ClickHousePartsSettledSensor(
            task_id="settled",
            table=table,
            partitions=partitions,
            clickhouse_conn_id="ch",
            stable_seconds=0,
            outlets=[asset],
        )
        sensor.execute({"outlet_events": events})  # type: ignore[typeddict-item]
        assert events[asset].partition_keys == keys
        assert events[asset].extra["rows"] >= len(keys)


def test_a_table_without_partitions_has_no_keys(lab: Lab) -> None:
    table = lab.create("t", "n UInt8")
    lab.put("in/1.csv", b"n\n1\n")
    asset = clickhouse_asset("ch", lab.database, "t", partition_keys=True)
    operator = lab.operator("in/*.csv", table, outlets=[asset])
    context: Any = lab.context(operator) | {"outlet_events": OutletEventAccessors()}
    operator.execute(context)
    event = context["outlet_events"][asset]
    assert (event.partition_keys, event.extra["partitions"]) == (set(), ["all"])
