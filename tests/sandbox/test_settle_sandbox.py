"""The sensor with real parts and merges."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import PokeReturnValue, TaskDeferred

from airflow_provider_ch_s3.errors import ClusterError, ServerUnreachableError, SettleError, TargetError
from airflow_provider_ch_s3.modes import Append
from airflow_provider_ch_s3.sensors.parts_settled import ClickHousePartsSettledSensor
from tests.failures import coded
from tests.sandbox.conftest import Lab, wait_until
from tests.sandbox.processes import all_answer, kept_down

pytestmark = pytest.mark.sandbox

PARTS = 30


def poke(table: str, **arguments: Any) -> PokeReturnValue:
    """Poke once, with a new sensor: as in the mode reschedule, where each poke is a separate process."""
    given = {"task_id": "settled", "clickhouse_conn_id": "ch", "stable_seconds": 0, "mode": "reschedule"}
    return ClickHousePartsSettledSensor(table=table, **{**given, **arguments}).poke({})


@pytest.fixture
def local(lab: Lab) -> str:
    """A table with 30 parts on each node, in two partitions, and without merges."""
    name = lab.create("t", "n UInt32", "MergeTree PARTITION BY n % 2 ORDER BY n")
    lab.ddl(f"SYSTEM STOP MERGES {name}")
    one_part_a_row = "max_block_size = 1, min_insert_block_size_rows = 1, max_insert_threads = 1"
    lab.ddl(f"INSERT INTO {name} SELECT number FROM numbers({PARTS}) SETTINGS {one_part_a_row}")
    return name


@pytest.fixture(params=["local", "distributed"])
def table(request: pytest.FixtureRequest, lab: Lab, local: str) -> str:
    return local if request.param == "local" else lab.distribute(local)


def test_it_waits_until_merges_have_made_few_parts(lab: Lab, local: str, table: str) -> None:
    assert not poke(table, max_parts=PARTS - 1).is_done
    lab.ddl(f"SYSTEM START MERGES {local}")
    lab.ddl(f"OPTIMIZE TABLE {local} FINAL")
    wait_until(lambda: poke(table, max_parts=2).is_done, "the merges")
    found = poke(table, max_parts=2).xcom_value
    assert (found["parts"], found["rows"]) == (6, 3 * PARTS)
    ports = [node["node"].rpartition(":")[2] for node in found["nodes"]]
    assert ports == [str(port) for port in lab.sandbox.tcp_ports]
    assert [(node["active_parts"], node["max_partition_parts"]) for node in found["nodes"]] == [(2, 1)] * 3


@pytest.mark.thorough
def test_the_result_tells_how_the_parts_became_few(lab: Lab, local: str) -> None:
    lab.query("SELECT sleep(1.1)")  # points are a second apart
    lab.ddl(f"SYSTEM START MERGES {local}")
    lab.ddl(f"OPTIMIZE TABLE {local} FINAL")
    for partitions, most, least in ((None, PARTS, 2), (["1"], PARTS // 2, 1)):
        found = poke(local, partitions=partitions).xcom_value
        assert list(found["history"]) == [node["node"] for node in found["nodes"]]
        for points in found["history"].values():
            assert (max(parts for _, parts, _ in points), points[-1][1]) == (most, least)
            assert points == sorted(points, key=lambda point: (point[0], point[2]))
            assert points[-1][2] >= least


def test_one_node_with_too_many_parts_is_enough(lab: Lab, local: str, caplog: pytest.LogCaptureFixture) -> None:
    for node in (0, 2):
        lab.query(f"TRUNCATE TABLE {local}", node=node)
    assert not poke(local, max_parts=PARTS - 1).is_done
    assert f":{lab.sandbox.tcp_ports[1]}: 30 parts, 29 allowed" in caplog.text


def test_parts_at_the_limits_have_settled(local: str) -> None:
    found = poke(local, max_parts=PARTS, max_parts_per_partition=PARTS // 2)
    assert found.is_done
    assert (found.xcom_value["parts"], found.xcom_value["rows"]) == (90, 90)


def test_it_waits_for_each_partition(local: str, caplog: pytest.LogCaptureFixture) -> None:
    assert not poke(local, max_parts_per_partition=PARTS // 2 - 1).is_done
    assert "15 parts in one partition, 14 allowed" in caplog.text


class TestPartitions:
    @pytest.mark.thorough
    def test_a_run_waits_for_its_own_rows(self, lab: Lab, local: str, table: str) -> None:
        lab.ddl(f"ALTER TABLE {local} DROP PARTITION ID '0'")
        lab.put("in/a.csv", b"4\n4\n")
        report = lab.load("in/a.csv", table, mode=Append(on_unknown_rows="keep"))
        assert report["partitions"] == {"0": 2}
        limit = PARTS // 2 - 1
        assert not poke(table, max_parts=limit).is_done
        assert not poke(table, max_parts=limit, partitions=["0", "1"]).is_done
        for own in (report["partitions"], str(report["partitions"]), ["0"]):
            found = poke(table, max_parts=limit, partitions=own)
            assert found.is_done
            assert (found.xcom_value["parts"], found.xcom_value["rows"]) == (1, 2)

    @pytest.mark.thorough
    def test_merges_of_other_partitions_are_not_waited_for(self, lab: Lab, local: str, table: str) -> None:
        wait = {"stable_seconds": 3600}
        assert not poke(table, **wait).is_done
        assert not poke(table, partitions={"1": 45}, **wait).is_done
        # Partition ids that are nowhere are named, and nothing is waited for.
        assert poke(table, partitions=["2013-01-01"], **wait).is_done

    @pytest.mark.thorough
    def test_values_are_as_good_as_ids(self, lab: Lab) -> None:
        days = lab.create("days", "d Date, n UInt8", "MergeTree PARTITION BY (d, n) ORDER BY n")
        for node in lab.nodes():
            lab.query(f"INSERT INTO {days} VALUES ('2024-01-31', 1), ('2024-02-01', 2)", node=node)
        for own in (["('2024-01-31',1)"], ["20240131-1"]):
            assert not poke(days, partitions=own, stable_seconds=3600).is_done
            found = poke(days, partitions=own, stable_seconds=0)
            assert (found.is_done, found.xcom_value["rows"]) == (True, len(lab.nodes()))

    @pytest.mark.thorough
    def test_a_deferred_sensor_waits_for_its_partitions(self, lab: Lab, local: str, table: str) -> None:
        given = {"task_id": "settled", "clickhouse_conn_id": "ch", "stable_seconds": 0, "deferrable": True}
        sensor = ClickHousePartsSettledSensor(table=table, max_parts=PARTS // 2 - 1, partitions={"1": 45}, **given)
        with pytest.raises(TaskDeferred) as deferred:
            sensor.poke({})
        trigger = deferred.value.trigger
        assert trigger.partitions == ["1"]

        async def first_event() -> Any:
            return (await anext(type(trigger)(**trigger.serialize()[1]).run())).payload

        lab.ddl(f"ALTER TABLE {local} DROP PARTITION ID '1'")
        lab.query(f"INSERT INTO {local} VALUES (1)")
        event = asyncio.run(first_event())
        assert (event["status"], event["result"]["parts"], event["result"]["rows"]) == ("settled", 1, 1)


def test_the_number_of_parts_alone_decides_if_no_merge_is_awaited(local: str) -> None:
    assert not poke(local, stable_seconds=3600, max_parts=PARTS).is_done
    assert poke(local, stable_seconds=3600, max_parts=PARTS, wait_for_merges=False).is_done
    assert not poke(local, max_parts=PARTS - 1, wait_for_merges=False).is_done


def test_it_waits_while_parts_come(local: str, caplog: pytest.LogCaptureFixture) -> None:
    assert not poke(local, stable_seconds=3600).is_done
    assert "parts changed" in caplog.text


@pytest.mark.thorough
def test_the_time_of_the_last_change_stays_the_same_between_two_looks(local: str) -> None:
    first, second = (poke(local).xcom_value["last_change"] for _ in range(2))
    assert second == pytest.approx(first, abs=2)


def test_an_empty_table_has_settled(lab: Lab) -> None:
    found = poke(lab.create("t", "n UInt8"))
    assert found.is_done
    assert (found.xcom_value["parts"], found.xcom_value["last_change"]) == (0, None)


def test_one_node_without_a_cluster(lab: Lab) -> None:
    lab.connect_one_node()
    table = lab.create("t", "n UInt8")
    lab.ddl(f"INSERT INTO {table} VALUES (1)")
    assert poke(table).xcom_value["parts"] == 1


def test_stopped_merges_are_an_error(lab: Lab, table: str) -> None:
    with pytest.raises(SettleError) as caught:
        poke(table, max_parts=PARTS - 1, stalled_seconds=0)
    message = caught.value.sentence
    assert f":{lab.sandbox.tcp_ports[0]} has 30 parts, 29 allowed, and no merge has run for" in message
    assert "SYSTEM START MERGES" in message


def test_a_failing_mutation_is_an_error(lab: Lab) -> None:
    table = lab.create("t", "n UInt32, s String")
    for number in range(3):
        lab.query(f"INSERT INTO {table} VALUES ({number}, 'x')", node=1)
    lab.query(
        f"ALTER TABLE {table} UPDATE n = throwIf(1, 'stuck on purpose') WHERE 1 SETTINGS mutations_sync = 0", node=1
    )
    failed = f"SELECT 1 FROM system.mutations WHERE database = '{lab.database}' AND latest_fail_reason != ''"
    wait_until(lambda: lab.query(failed, node=1), "the mutation to fail")
    lab.ddl(f"SYSTEM STOP MERGES {table}")
    wait_until(lambda: not lab.everywhere(f"SELECT 1 FROM system.merges WHERE database = '{lab.database}'"), "merges")
    with pytest.raises(SettleError, match=coded("parts-not-merged", "stuck on purpose", "KILL MUTATION")):
        poke(table, max_parts=1)


def test_a_table_that_is_nowhere(lab: Lab) -> None:
    with pytest.raises(TargetError, match=coded("table-missing", f"{lab.database}.nope")):
        poke(f"{lab.database}.nope")


def test_a_table_that_one_node_lacks(lab: Lab, local: str, table: str) -> None:
    lab.query(f"DROP TABLE {local} SYNC", node=2)
    with pytest.raises(TargetError, match=coded("table-missing", local, f":{lab.sandbox.tcp_ports[2]}")):
        poke(table)


def test_a_server_that_does_not_answer(lab: Lab, local: str) -> None:
    lab.connect_clickhouse(port=1)
    with pytest.raises(ServerUnreachableError, match=coded("server-unreachable", "127.0.0.1:1")):
        poke(local)


def test_a_node_that_is_down(fragile_lab: Lab) -> None:
    lab = fragile_lab
    table = lab.create("t", "n UInt32")
    with kept_down(lab.sandbox, 1):
        port = lab.sandbox.tcp_ports[1]
        with pytest.raises(ClusterError, match=coded("node-down", f"127.0.0.1:{port}", "'sandbox'")):
            poke(table)
    wait_until(lambda: all_answer(lab.sandbox), "the node")
    assert poke(table).is_done
