"""The partitions that a sensor waits for: as they are given, and as they are read."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.providers.common.compat.sdk import PokeReturnValue

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.introspection.parts import read_watched
from airflow_provider_ch_s3.sensors.parts_settled import (
    PARTITIONS_REMEDY,
    ClickHousePartsSettledSensor,
    parse_partitions,
)
from airflow_provider_ch_s3.table.settle import NodeParts, SettleRule, judge_parts
from airflow_provider_ch_s3.table.target import TableName, TablePartitions


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(None, None, id="whole-table"),
        pytest.param("None", None, id="rendered-report-of-a-load-without-staging"),
        pytest.param({"201302": 3, "201301": 5}, ("201301", "201302"), id="report"),
        pytest.param("{'201301': 5, 'all': 1}", ("201301", "all"), id="rendered-report"),
        pytest.param(' {"2013-1": 5} ', ("2013-1",), id="json"),
        pytest.param(["201301", "201301"], ("201301",), id="list"),
        pytest.param("['201301']", ("201301",), id="rendered-list"),
        pytest.param(["2013-01-31", "('a b',1)"], ("('a b',1)", "2013-01-31"), id="values"),
        pytest.param([{"201301": 5}, {}, {"201301": 1, "201302": 1}], ("201301", "201302"), id="mapped-loads"),
        pytest.param("[{'201301': 5}, {'201302': 5}]", ("201301", "201302"), id="rendered-mapped-loads"),
        pytest.param([{"201301": 5}, None], None, id="one-of-them-without-staging"),
        pytest.param({}, (), id="nothing-new"),
        pytest.param("{}", (), id="rendered-nothing-new"),
        pytest.param([{}, {}], (), id="nothing-new-in-mapped-loads"),
    ],
)
def test_what_is_understood(value: object, expected: tuple[str, ...] | None) -> None:
    assert parse_partitions(value) == expected


@pytest.mark.parametrize(
    ("value", "message"),
    [
        pytest.param("", "partitions='' is neither a list nor a mapping", id="empty-text"),
        pytest.param("2013-01", "partitions='2013-01' is neither a list nor a mapping", id="bare-text"),
        pytest.param("201301", "partitions='201301' is of type str", id="bare-number"),
        pytest.param(201301, "partitions=201301 is of type int", id="number"),
        pytest.param([201301], "partitions=[201301] contains 201301, which is not a text", id="number-in-list"),
        pytest.param([""], "partitions=[''] contains '', which is not a text", id="empty-id"),
        pytest.param({1: 5}, "partitions={1: 5} contains 1, which is not a text", id="number-in-mapping"),
        pytest.param(
            {"query_id": "q", "rows_read": 5},
            "partitions={'query_id': 'q', 'rows_read': 5} does not map partition ids to numbers of rows",
            id="whole-report",
        ),
    ],
)
def test_what_is_refused(value: object, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_partitions(value)
    assert caught.value.sentence == f"{message}; {PARTITIONS_REMEDY}"


@pytest.mark.parametrize("deferrable", [False, True])
def test_after_a_load_that_had_nothing_new_no_server_is_asked(
    deferrable: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    sensor = ClickHousePartsSettledSensor(
        task_id="settled", table="flights", clickhouse_conn_id="missing", partitions="{}", deferrable=deferrable
    )
    found = sensor.poke({})
    assert isinstance(found, PokeReturnValue)
    assert found.is_done
    assert found.xcom_value == {"parts": 0, "rows": 0, "last_change": None, "nodes": []}
    assert "flights: settled: no partition to wait for, since the load added no rows" in caplog.text


TABLE = TableName(database="d", table="t")
OTHER = TableName(database="d", table="u")


class Client:
    """A cluster with two tables on two nodes; it returns rows of all partitions, as for many sensors at once."""

    def __init__(self, **rows: list[dict[str, Any]]) -> None:
        self.rows = rows
        self.sent: list[Statement] = []

    def query(self, statement: Statement) -> list[dict[str, Any]]:
        self.sent.append(statement)
        if statement.name == "table_nodes":
            return [
                {"node": node, "database": "d", "table": table.table} for node in "ab" for table in (TABLE, OTHER)
            ]
        return [{"database": "d", "table": "t", "node": "a", **row} for row in self.rows.get(statement.name, [])]


def part(partition: str, parts: int = 1, **values: Any) -> dict[str, Any]:
    return {
        "partition_id": partition,
        "active_parts": parts,
        "max_partition_parts": parts,
        "rows": 10,
        "newest_seconds": 100.0,
        "now_seconds": 130.0,
        **values,
    }


def read(client: Client, *partitions: str) -> dict[str, NodeParts]:
    watched = TablePartitions(table=TABLE, partitions=partitions)
    whole = TablePartitions(table=TABLE, partitions=("1", "2", "3"))
    return read_watched(client, [watched, whole], "c")[watched]  # type: ignore[arg-type]


class TestRead:
    CLIENT: Any = staticmethod(
        lambda: Client(
            watched_parts=[
                part("1", active_parts=2, max_partition_parts=2),
                part("2", active_parts=7, max_partition_parts=7, newest_seconds=125.0),
                part("3"),
            ],
            watched_merges=[
                {"partition_id": "2", "running_merges": 2, "left_seconds": 9.0},
                {"partition_id": "3", "running_merges": 1, "left_seconds": None},
            ],
            table_replicas=[{"is_readonly": 0, "read_only_seconds": None}],
            queued_changes=[
                {
                    "partition_id": "2",
                    "queued_changes": 3,
                    "queued_merges": 2,
                    "failing_seconds": 70,
                    "failure": "no disk",
                },
                {"partition_id": "", "queued_changes": 1, "queued_merges": 0, "failing_seconds": 0, "failure": ""},
            ],
        )
    )

    def test_the_own_partitions_alone(self) -> None:
        assert read(self.CLIENT(), "1") == {
            "a": NodeParts(
                node="a",
                active_parts=2,
                max_partition_parts=2,
                rows=10,
                unchanged_seconds=30.0,
                queued_changes=1,
            ),
            "b": NodeParts(node="b", absent_partitions=("1",)),
        }

    def test_several(self) -> None:
        found = read(self.CLIENT(), "1", "2")["a"]
        assert (found.active_parts, found.max_partition_parts, found.rows) == (9, 7, 20)
        assert (found.unchanged_seconds, found.running_merges, found.merge_left_seconds) == (5.0, 2, 9.0)
        assert (found.queued_changes, found.queued_merges) == (4, 2)
        assert (found.failing_seconds, found.failed_change) == (70, "no disk")

    def test_a_whole_table_beside_partitions(self) -> None:
        client = Client(
            table_replicas=[{"is_readonly": 1, "read_only_seconds": 5}],
            watched_parts=[part("", 9, rows=20)],
            queued_changes=[
                {"partition_id": "", "queued_changes": 4, "queued_merges": 2, "failing_seconds": 0, "failure": ""}
            ],
        )
        whole, some = (TablePartitions(table=TABLE, partitions=partitions) for partitions in (None, ("1",)))
        found = read_watched(client, [some, whole], "c")  # type: ignore[arg-type]
        assert found[whole]["a"] == NodeParts(
            node="a",
            active_parts=9,
            max_partition_parts=9,
            rows=20,
            unchanged_seconds=30.0,
            queued_changes=4,
            queued_merges=2,
            is_read_only=True,
            read_only_seconds=5,
        )
        assert found[whole]["b"] == NodeParts(node="b")
        assert found[some]["b"] == NodeParts(node="b", absent_partitions=("1",))

    def test_a_merge_that_has_just_begun_leaves_the_time_unknown(self) -> None:
        found = read(self.CLIENT(), "2", "3")["a"]
        assert (found.running_merges, found.merge_left_seconds) == (3, None)

    def test_without_replicas_their_queue_is_not_read(self) -> None:
        client = Client(watched_parts=[part("1")])
        read(client, "1")
        assert "queued_changes" not in [statement.name for statement in client.sent]

    def test_many_partitions_and_sensors_take_few_statements_of_a_size_that_servers_parse(self) -> None:
        client = Client()
        many = [f"{n:032x}" for n in range(10_000)]
        watched = [TablePartitions(table=TABLE, partitions=(partition,)) for partition in many]
        read_watched(client, [*watched, TablePartitions(table=OTHER, partitions=tuple(many[:9]))], "c")
        sent = [statement.text for statement in client.sent if statement.name == "watched_parts"]
        assert len(sent) == 3
        assert max(map(len, sent)) < 256 * 1024
        assert all(sum(f"'{partition}'" in text for text in sent) >= 1 for partition in many)


def test_a_partition_that_is_nowhere_is_named() -> None:
    nodes = [NodeParts(node=node, absent_partitions=absent) for node, absent in (("a", ("x", "y")), ("b", ("x",)))]
    assert judge_parts(SettleRule(), nodes).reason == (
        "settled: 0 parts on 2 nodes, 0 merges running, no parts in x (dropped, expired, or not a partition of"
        " system.parts)"
    )
