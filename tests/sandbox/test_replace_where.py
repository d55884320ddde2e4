"""``replace_where`` keeps the other rows bit for bit, or is refused before anything is staged."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

from airflow_provider_ch_s3.arguments import Format
from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.errors import ConfigError, LoadError, TargetError
from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
from airflow_provider_ch_s3.modes import Merge, ReplaceWhere
from airflow_provider_ch_s3.sql import staging_queries
from airflow_provider_ch_s3.table.target import parse_table
from ch_s3_lab.sandbox import Sandbox, SandboxConfig
from ch_s3_lab.sandbox.launch import running_sandbox
from tests.failures import coded
from tests.marks import thorough
from tests.sandbox.conftest import WAIT_SECONDS, Lab, bag, start_worker
from tests.sandbox.few import die_before
from tests.sandbox.node_settings import write_settings

pytestmark = pytest.mark.sandbox

BY_DAY = "MergeTree PARTITION BY day ORDER BY n"
DAY = "2013-01-01"


def put_day(lab: Lab, *numbers: int, day: str = DAY, key: str = "in/a.csv") -> list[dict[str, Any]]:
    lab.put(key, "".join(f"{day},{n}\n" for n in numbers).encode())
    return [{"day": day, "n": n} for n in numbers]


def where(condition: str, structure: str = "day Date, n UInt32", **arguments: Any) -> dict[str, Any]:
    return {"data_format": Format("CSV", structure=structure), "mode": ReplaceWhere(condition), **arguments}


def days(lab: Lab, table: str) -> Any:
    return bag(lab.rows(table, columns="toString(day) AS day, n"))


@pytest.fixture
def table(lab: Lab) -> str:
    """Old rows on each node: two days of the numbers 0, 50 and 100."""
    name = lab.create("t", "day Date, n UInt32", BY_DAY)
    lab.everywhere(f"INSERT INTO {name} SELECT toDate('{DAY}') + number % 2, 50 * (number % 3) FROM numbers(6)")
    return name


def kept(*numbers: int) -> list[dict[str, Any]]:
    return [{"day": day, "n": n} for n in numbers for day in (DAY, "2013-01-02")] * 3


class TestKeptRows:
    @pytest.mark.parametrize(
        ("definition", "columns"),
        [
            pytest.param(
                "at DateTime64(9) MATERIALIZED now64(9), r UInt64 MATERIALIZED rand64()", "at, r", id="values"
            ),
            pytest.param("a UInt32 ALIAS n + 1, d UInt64 DEFAULT rand64()", "a, d", id="alias-and-default"),
            pytest.param("e UInt32 EPHEMERAL 7, m UInt32 MATERIALIZED e + n", "m", id="ephemeral"),
        ],
    )
    def test_columns_that_no_insert_takes(self, lab: Lab, definition: str, columns: str) -> None:
        table = lab.create("t", f"day Date, n UInt32, {definition}", BY_DAY)
        lab.everywhere(f"INSERT INTO {table} (day, n) SELECT '{DAY}', 10 * number FROM numbers(20)")
        before = bag(lab.everywhere(f"SELECT n, {columns} FROM {table} WHERE n >= 100"))
        put_day(lab, 1, 2, 3)
        lab.load("in/*.csv", table, **where("n < 100"))
        assert bag(lab.everywhere(f"SELECT n, {columns} FROM {table} WHERE n >= 100")) == before
        assert sorted(row["n"] for row in lab.everywhere(f"SELECT n FROM {table} WHERE n < 100")) == [1, 2, 3]
        assert lab.left_overs() == []

    @pytest.mark.thorough
    def test_a_null_condition_keeps(self, lab: Lab) -> None:
        table = lab.create("t", "day Date, n Nullable(UInt32)", "MergeTree PARTITION BY day ORDER BY day")
        lab.everywhere(f"INSERT INTO {table} VALUES ('{DAY}', NULL), ('{DAY}', 5)")
        new = put_day(lab, 1)
        lab.load("in/*.csv", table, **where("n < 100"))
        assert days(lab, table) == bag([*new, *[{"day": DAY, "n": None}] * 3])

    @pytest.mark.thorough
    def test_more_partitions_than_a_server_takes_in_a_block(self, lab: Lab) -> None:
        table = lab.create("t", "p UInt32, n UInt32", "MergeTree PARTITION BY p ORDER BY n")
        old = "SELECT number, arrayJoin([1, 2]) FROM numbers(130) SETTINGS max_partitions_per_insert_block = 0"
        lab.query(f"INSERT INTO {table} {old}")
        lab.put("in/a.csv", b"7,1\n")
        lab.load("in/*.csv", table, **where("n = 1", structure="p UInt32, n UInt32"))
        assert bag(lab.rows(table)) == bag([{"p": 7, "n": 1}, *({"p": p, "n": 2} for p in range(130))])

    @pytest.mark.thorough
    def test_rows_that_a_lightweight_delete_took_stay_away(self, lab: Lab, table: str) -> None:
        lab.everywhere(f"DELETE FROM {table} WHERE n = 50")
        new = put_day(lab, 1)
        lab.load("in/*.csv", table, **where("n < 50"))
        assert days(lab, table) == bag(new + kept(100))
        lab.everywhere(f"ALTER TABLE {table} APPLY DELETED MASK SETTINGS mutations_sync = 2")
        assert days(lab, table) == bag(new + kept(100))

    @pytest.mark.thorough
    def test_rows_that_merges_would_change_while_they_are_counted(self, lab: Lab) -> None:
        engine = "SummingMergeTree PARTITION BY day ORDER BY day TTL day + INTERVAL 1 DAY WHERE n >= 100"
        table = lab.create("t", "day Date, n UInt32", engine)
        lab.everywhere(f"SYSTEM STOP MERGES {table}")
        for _ in range(3):
            lab.everywhere(f"INSERT INTO {table} VALUES ('{DAY}', 100)")
        put_day(lab, 1)
        slow_down(lab, "delete_rows")
        lab.load("in/*.csv", table, **where("n < 100"))
        # sooner or later the kept rows are merged into one with their sum, and none is lost
        assert len(lab.rows(table)) == 9 + 1

    @pytest.mark.thorough
    def test_columns_with_the_names_that_our_statements_use(self, lab: Lab) -> None:
        table = lab.create("t", "rows UInt32, node UInt32, partition_id UInt32", "MergeTree ORDER BY rows")
        lab.query(f"INSERT INTO {table} VALUES (1, 1, 1), (2, 2, 2)")
        lab.put("in/a.csv", b"1,1,1\n1,1,1\n")
        condition = "rows = 1 AND node = 1 AND partition_id = 1"
        structure = "rows UInt32, node UInt32, partition_id UInt32"
        lab.load("in/*.csv", table, **where(condition, structure=structure))
        assert sorted(row["rows"] for row in lab.rows(table)) == [1, 1, 2]


def slow_down(lab: Lab, name: str) -> None:
    """Wait before each statement with a name, so that merges can run."""
    real = ClickHouseS3Hook._run

    def run(hook: ClickHouseS3Hook, statement: Statement, *given: Any, **named: Any) -> Any:
        if statement.name == name:
            time.sleep(3)
        return real(hook, statement, *given, **named)

    lab.monkeypatch.setattr(ClickHouseS3Hook, "_run", run)


class TestConditions:
    @pytest.mark.parametrize(
        "condition",
        [
            "day < now()",
            "n < 10 AND day <= today() - INTERVAL 1 DAY",
            "rand() % 2 = 0",
            "rowNumberInAllBlocks() < 3",
            "day < CURRENT_DATE",
            "day < `now`",
            "toString(n) = currentUser",
            "arrayJoin([n]) = 1",
            "n = toUInt32(hostName() = 'x')",
        ],
    )
    def test_with_another_result_next_time_is_refused(self, lab: Lab, table: str, condition: str) -> None:
        put_day(lab, 1)
        with pytest.raises(ConfigError, match=coded("expression-not-repeatable", "\"day = '{{ ds }}'\"")):
            lab.load("in/*.csv", table, **where(condition))
        assert lab.inserts() == []
        assert lab.left_overs() == []

    @pytest.mark.parametrize(
        ("condition", "reason"),
        [
            pytest.param("dayy < 100", ["names dayy", "day?"], id="unknown-column"),
            pytest.param(
                "n = 'abc'",
                ["Cannot convert string 'abc' to type UInt32 (TYPE_MISMATCH)"],
                id="wrong-value",
            ),
            pytest.param("day", ["Invalid type for filter"], id="no-condition"),
            pytest.param("sum(n) > 1", ["Aggregate function sum"], id="aggregate"),
            pytest.param(
                "_part = 'all_1_1_0'",
                ["names _part", "day, n"],
                id="virtual-column",
            ),
        ],
    )
    def test_that_is_none_over_the_columns_is_refused(
        self, lab: Lab, table: str, condition: str, reason: list[str]
    ) -> None:
        put_day(lab, 1)
        with pytest.raises(ConfigError, match=coded("expression-invalid", f"mode.condition={condition!r}", *reason)):
            lab.load("in/*.csv", table, **where(condition))
        assert lab.inserts() == []
        assert lab.left_overs() == []

    @pytest.mark.thorough
    def test_on_a_column_that_has_the_name_of_a_function(self, lab: Lab) -> None:
        table = lab.create("t", "now UInt32, user UInt32", "MergeTree ORDER BY now")
        lab.query(f"INSERT INTO {table} VALUES (1, 1), (2, 2)")
        lab.put("in/a.csv", b"1,1\n1,1\n")
        lab.load("in/*.csv", table, **where("now = 1 AND user = 1", structure="now UInt32, user UInt32"))
        assert sorted(row["now"] for row in lab.rows(table)) == [1, 1, 2]

    @pytest.mark.thorough
    def test_that_a_setting_of_the_connection_decides(self, lab: Lab) -> None:
        # midnight in Kiritimati is 14 hours before that of the server
        lab.connect_clickhouse({"session_settings": {"session_timezone": "Pacific/Kiritimati"}})
        table = lab.create("t", "ts DateTime", "MergeTree ORDER BY ts")
        start = "toDateTime('2013-01-01 00:00:00', 'UTC')"
        lab.query(f"INSERT INTO {table} SELECT {start} + 3600 * (number - 20) FROM numbers(30)")
        lab.put("in/a.csv", b"1356912000\n")  # 2012-12-31 00:00:00 UTC
        given = where("ts < '2013-01-01 00:00:00'", "ts UInt32", select={"ts": "toDateTime(ts)"})
        lab.load("in/*.csv", table, **given)
        # of the hours from 04:00 UTC of the previous day on, those before 10:00 are replaced
        assert sorted(
            row["hour"] for row in lab.everywhere(f"SELECT toHour(ts, 'UTC') AS hour FROM {table}")
        ) == sorted([0, *range(10, 24), *range(10)])


@pytest.mark.every_case
class TestBrokenOff:
    @pytest.mark.thorough
    @pytest.mark.parametrize(
        ("name", "nth"),
        [
            thorough("copy_partitions", 4, id="keeping"),
            thorough("attach_partitions", 2, id="adding"),
            thorough("await_deletion", 5, id="deleting"),
            pytest.param("replace_partitions", 2, id="second-node"),
            thorough("replace_partitions", 3, id="third-node"),
        ],
    )
    @pytest.mark.parametrize("finisher", ["retry", thorough("other")])
    def test_and_finished(self, lab: Lab, name: str, nth: int, finisher: str) -> None:
        table = lab.create("t", "day Date, n UInt32, at DateTime64(9) MATERIALIZED now64(9)", BY_DAY)
        lab.everywhere(f"INSERT INTO {table} (day, n) SELECT toDate('{DAY}') + number % 2, number FROM numbers(40)")
        before = bag(lab.everywhere(f"SELECT n, at FROM {table} WHERE n >= 10"))
        put_day(lab, 1, 2, 3)
        put_day(lab, 4, day="2013-01-02", key="in/b.csv")
        with start_worker(lab, table, before=die_before(name, nth, signal.SIGKILL), **where("n < 10")) as worker:
            assert worker.wait(WAIT_SECONDS) == -signal.SIGKILL
        if finisher == "retry":
            lab.load("in/*.csv", table, try_number=2, **where("n < 10"))
        else:
            put_day(lab, 8, key="other/a.csv")
            lab.load("other/*.csv", table, task_id="other", **where("n = 8"))
            lab.load("in/*.csv", table, try_number=2, **where("n < 10 AND n != 8"))
        assert bag(lab.everywhere(f"SELECT n, at FROM {table} WHERE n >= 10")) == before
        new = [1, 2, 3, 4] + ([8] if finisher == "other" else [])
        assert sorted(row["n"] for row in lab.everywhere(f"SELECT n FROM {table} WHERE n < 10")) == new
        assert lab.left_overs() == []


class TestChangesOnTheirWay:
    def test_a_mutation_is_refused(self, lab: Lab, table: str) -> None:
        lab.ddl(f"ALTER TABLE {table} ADD COLUMN v UInt32 DEFAULT 0")
        lab.everywhere(f"SYSTEM STOP MERGES {table}")
        lab.query(f"ALTER TABLE {table} UPDATE v = 200 WHERE n = 100 SETTINGS mutations_sync = 0, alter_sync = 0")
        put_day(lab, 1)
        with pytest.raises(LoadError, match=coded("mutation-unfinished", "mutation_", "UPDATE v = 200")):
            lab.load("in/*.csv", table, **where("n < 50"))
        assert lab.inserts() == []
        assert lab.left_overs() == []

    @pytest.mark.thorough
    def test_a_lightweight_update_is_refused(self, lab: Lab) -> None:
        engine = f"{BY_DAY} SETTINGS enable_block_number_column = 1, enable_block_offset_column = 1"
        table = lab.create("t", "day Date, n UInt32, v UInt32 DEFAULT 0", engine)
        lab.query(f"INSERT INTO {table} (day, n) VALUES ('{DAY}', 100), ('{DAY}', 5)")
        lab.query(f"UPDATE {table} SET v = 7 WHERE n = 100 SETTINGS enable_lightweight_update = 1")
        put_day(lab, 1)
        with pytest.raises(LoadError, match=coded("mutation-unfinished", "(patch-", "APPLY PATCHES")):
            lab.load("in/*.csv", table, **where("n < 100"))
        assert lab.inserts() == []
        lab.query(f"ALTER TABLE {table} APPLY PATCHES SETTINGS mutations_sync = 2")
        lab.load("in/*.csv", table, try_number=2, **where("n < 100"))
        assert bag(lab.rows(table, columns="n, v")) == bag([{"n": 1, "v": 0}, {"n": 100, "v": 7}])


class TestHiddenRows:
    def test_a_filter_of_the_session_is_refused(self, lab: Lab, table: str) -> None:
        hidden = {"additional_table_filters": f"{{'{table}': 'n = 0'}}"}
        lab.connect_clickhouse({"session_settings": hidden})
        put_day(lab, 1)
        with pytest.raises(
            ConfigError, match=coded("setting-not-allowed", "connection", "'additional_table_filters'")
        ):
            lab.load("in/*.csv", table, **where("n < 50"))
        lab.connect_clickhouse({})
        assert days(lab, table) == bag(kept(0, 50, 100))
        assert lab.inserts() == []
        assert lab.left_overs() == []

    @pytest.mark.thorough
    def test_rows_are_counted_without_reading_them(self, lab: Lab, table: str) -> None:
        statement = staging_queries.render_count_visible(
            parse_table(table, ""), lab.sandbox.cluster, counts_deleted=True
        )
        rows = lab.query(statement.text, settings={"log_comment": table})
        assert sum(row["rows"] for row in rows) == 18
        lab.everywhere("SYSTEM FLUSH LOGS")
        log = "ProfileEvents['SelectedParts'] AS parts FROM system.query_log WHERE type = 'QueryFinish'"
        logged = lab.everywhere(f"SELECT {log} AND log_comment = '{table}'")
        assert [row["parts"] for row in logged] == [0, 0, 0]


NARROW = """
<clickhouse><users><narrow>
  <password>narrow</password>
  <networks><ip>127.0.0.1</ip></networks>
  <profile>default</profile>
  <quota>default</quota>
  <databases><sandbox>
    <t><filter>n % 10 = 0</filter></t>
  </sandbox></databases>
</narrow></users></clickhouse>
"""


@pytest.fixture(scope="module")
def policed_sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """One node, with a user who sees every tenth row of ``sandbox.t``."""
    directory = tmp_path_factory.mktemp("policed")
    config = SandboxConfig(shards=1, memory_bytes_per_node=2 * 1024**3, directory=directory)
    write_settings(config, "narrow.xml", NARROW)
    with running_sandbox(config) as sandbox:
        yield sandbox


@pytest.mark.thorough
def test_a_row_policy_on_the_user_is_refused(policed_sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox = policed_sandbox
    s3 = sandbox.s3_client()
    s3.create_bucket(Bucket="policed")
    lab = Lab(sandbox=sandbox, database="sandbox", bucket="policed", s3=s3, monkeypatch=monkeypatch)
    lab.connect_one_node()
    lab.connect_aws()
    table = lab.create("t", "day Date, n UInt32", BY_DAY)
    lab.query(f"INSERT INTO {table} SELECT '{DAY}', number FROM numbers(270)")
    put_day(lab, 10, 20)
    one_node = {"cluster": None, "ddl_mode": None, "http_endpoints": None}
    lab.connect_clickhouse(one_node, login="narrow", password="narrow")
    with pytest.raises(TargetError, match=coded("rows-hidden", "27 of 270 rows", "partition 20130101")):
        lab.load("in/*.csv", table, **where("n IN (10, 20)"))
    merge = where("", mode=Merge(key=["n"]))
    with pytest.raises(TargetError, match=coded("rows-hidden", "27 of 270 rows", "mode='merge'")):
        lab.load("in/*.csv", table, task_id="merge", **merge)
    assert lab.query(f"SELECT count() AS rows FROM {table}") == [{"rows": 270}]
    assert lab.inserts() == []
    lab.connect_one_node()
    lab.load("in/*.csv", table, try_number=2, **where("n IN (10, 20)"))
    assert sorted(row["n"] for row in lab.rows(table)) == list(range(270))
