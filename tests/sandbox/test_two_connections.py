"""Connections that describe one cluster differently, and load into the same table."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from airflow_provider_ch_s3.errors import ConfigError, LoadError, TargetError
from airflow_provider_ch_s3.modes import Append
from tests.failures import coded
from tests.sandbox.conftest import WAIT_SECONDS, Background, Freeze, Lab, bag, start_worker
from tests.sandbox.few import EVEN_AND_ODD, FEW, OTHER, SLOW_FEW, die_before, is_clean, make_table, put_numbers
from tests.sandbox.gates import Gate

pytestmark = pytest.mark.sandbox

Race = Callable[..., tuple[Gate, Gate]]

MOMENT_SECONDS = 3
OTHER_WAY: dict[str, Any] = {"task_id": "other", "clickhouse_conn_id": "other"}


@pytest.fixture
def table(lab: Lab) -> str:
    put_numbers(lab, "other/a.csv", OTHER)
    return make_table(lab)


def connect_other(lab: Lab, *, node: int = 0, **extra: Any) -> None:
    """Create the connection ``other``: that of the sandbox, with these differences."""
    fields = {"schema": lab.database, "port": lab.sandbox.http_ports[node]}
    lab._connect("OTHER", lab.sandbox.airflow_conn_clickhouse, extra, fields)


class TestOtherNamesOfTheNodes:
    """In the order of their names, the first node comes first for one connection, and the last node for the other."""

    @pytest.fixture(autouse=True)
    def names(self, lab: Lab, table: str) -> None:
        first, second, third = lab.sandbox.http_ports
        names = [f"127.0.0.1:{first}", f"localhost:{second}", f"localhost:{third}"]
        lab.connect_clickhouse({"http_endpoints": names})
        # the host as well, for statements that only the connected node runs
        other = [f"127.0.0.1:{third}", f"localhost:{second}", f"localhost:{first}"]
        connect_other(lab, node=2, http_endpoints=other)
        # creates the ledger: loads that create it at the same time are another topic
        put_numbers(lab, "first/a.csv", [{"n": 1000}])
        lab.load("first/*.csv", table, task_id="first")
        lab.everywhere(f"TRUNCATE TABLE {table}")

    @pytest.fixture
    def race(self, lab: Lab, table: str, freeze: Freeze) -> Race:
        """Start two loads that have both seen no lock; the second acquires it when the first just has.

        The first continues a moment later, whatever the second has done by then.
        """

        def start(source: str, **how: Any) -> tuple[Gate, Gate]:
            two = freeze(Gate("create_lock"), source, table, **OTHER_WAY, **how)
            one = freeze(Gate("write_event_locked"), "in/*.csv", table)
            two.opened.set()
            with suppress(TimeoutError):
                two.task.exception(MOMENT_SECONDS)
            one.opened.set()
            return one, two

        return start

    def test_only_one_of_two_gets_the_lock(self, lab: Lab, table: str, race: Race) -> None:
        one, two = race("other/*.csv")
        assert (one.wake(), two.wake()) == (None, None)
        taken = lab.everywhere(f"SELECT epoch FROM {lab.database}.ch_s3_ledger WHERE event = 'locked'")
        assert max(bag(taken).values()) == 1
        assert bag(lab.rows(table)) == bag(FEW + OTHER)
        assert is_clean(lab)

    @pytest.mark.thorough
    def test_files_of_a_load_that_failed_are_not_taken_for_loaded(self, lab: Lab, table: str, race: Race) -> None:
        broken = {"where": "throwIf(n = 103, 'n is 103') = 0", "settings": {"max_insert_threads": 1}}
        one, two = race("other/*.csv", **broken)
        assert one.wake() is None
        assert isinstance(two.wake(), LoadError)
        assert bag(lab.rows(table)) == bag(FEW)
        again = lab.load("other/*.csv", table, **{**OTHER_WAY, "task_id": "again"})
        assert (again["files_skipped"], again["rows_written"]) == (0, 4)
        assert bag(lab.rows(table)) == bag(FEW + OTHER)

    @pytest.mark.thorough
    def test_the_same_files_at_the_same_time(self, lab: Lab, table: str, race: Race) -> None:
        one, two = race("in/*.csv")
        assert (one.wake(), two.wake()) == (None, None)
        assert bag(lab.rows(table)) == bag(FEW)
        assert is_clean(lab)

    @pytest.mark.usefixtures("impatient")
    @pytest.mark.thorough
    def test_the_lock_of_one_that_died_is_dropped_by_the_other(self, lab: Lab, table: str) -> None:
        with start_worker(lab, table, before=die_before("write_event_planned", 1, signal.SIGKILL)) as worker:
            assert worker.wait(WAIT_SECONDS) == -signal.SIGKILL
        lab.load("other/*.csv", table, **OTHER_WAY)
        assert is_clean(lab)
        assert bag(lab.rows(table)) == bag(OTHER)


class TestNoCluster:
    """A connection to one node, beside a connection to the whole cluster."""

    @pytest.fixture(autouse=True)
    def connections(self, lab: Lab) -> None:
        # what loads on the cluster write is on a node that the other connection does not query
        lab.connect_clickhouse(port=lab.sandbox.http_ports[2])
        connect_other(lab, cluster=None, ddl_mode=None, http_endpoints=None)

    @pytest.mark.usefixtures("impatient")
    @pytest.mark.parametrize(
        ("name", "nth"),
        [
            pytest.param("submit", 1, id="before-the-insert"),
            pytest.param("create_lock", 2, id="before-the-commit"),
            pytest.param("move_partitions", 3, id="in-the-commit"),
        ],
    )
    @pytest.mark.thorough
    def test_a_table_of_the_cluster_is_not_loaded_on_one_node(
        self, lab: Lab, table: str, freeze: Freeze, name: str, nth: int
    ) -> None:
        load = freeze(Gate(name, nth), "in/*.csv", table)
        with pytest.raises((ConfigError, TargetError), match=coded("nodes-not-covered", "no cluster", "'sandbox'")):
            lab.load("other/*.csv", table, **OTHER_WAY)
        assert load.wake() is None
        assert bag(lab.rows(table)) == bag(FEW)
        lab.load("other/*.csv", table, task_id="later")
        assert bag(lab.rows(table)) == bag(FEW + OTHER)
        assert is_clean(lab)

    def test_a_table_of_one_node_is_loaded(self, lab: Lab) -> None:
        put_numbers(lab, "other/a.csv", OTHER)
        lab.query(f"CREATE TABLE {lab.database}.alone (n UInt32) ENGINE = {EVEN_AND_ODD}")
        lab.load("other/*.csv", f"{lab.database}.alone", **OTHER_WAY)
        assert bag(lab.rows(f"{lab.database}.alone", node=0)) == bag(OTHER)


class TestDistributedTable:
    """The table names the cluster, so the connection need not."""

    @pytest.mark.thorough
    def test_a_connection_without_a_cluster(self, lab: Lab, table: str) -> None:
        everything = lab.distribute(table)
        connect_other(lab, cluster=None, ddl_mode=None, http_endpoints=None)
        # the cluster is then known, but not the addresses of its other nodes, which a commit has to reach
        with pytest.raises(ConfigError, match=coded("node-address-unknown", "http_endpoints")):
            lab.load("other/*.csv", everything, **OTHER_WAY)
        tables = lab.everywhere(f"SELECT name FROM system.tables WHERE database = '{lab.database}' ORDER BY name")
        assert tables == [{"name": "t"}, {"name": "t_all"}] * 3
        lab.load("in/*.csv", everything)
        assert bag(lab.rows(table)) == bag(FEW)
        assert is_clean(lab)

    @pytest.mark.thorough
    def test_a_connection_with_endpoints_alone(self, lab: Lab, table: str) -> None:
        everything = lab.distribute(table)
        connect_other(lab, cluster=None)
        lab.load("other/*.csv", everything, **OTHER_WAY)
        assert bag(lab.rows(table)) == bag(OTHER)
        lab.load("in/*.csv", everything)
        assert bag(lab.rows(table)) == bag(OTHER + FEW)
        assert is_clean(lab)


class TestTwoLedgers:
    @pytest.fixture(autouse=True)
    def connections(self, lab: Lab) -> None:
        connect_other(lab, ledger_table="other_ledger")

    @pytest.mark.parametrize(
        ("name", "nth"),
        [
            pytest.param("submit", 1, id="before-the-insert"),
            pytest.param("create_lock", 2, id="before-the-commit"),
        ],
    )
    @pytest.mark.thorough
    def test_what_one_stages_is_left_alone(self, lab: Lab, table: str, freeze: Freeze, name: str, nth: int) -> None:
        load = freeze(Gate(name, nth), "in/*.csv", table)
        others = load_or_refuse(lab, table, "other")
        assert load.wake() is None
        assert bag(lab.rows(table)) == bag(FEW + others)

    @pytest.mark.thorough
    @pytest.mark.usefixtures("impatient")
    @pytest.mark.parametrize(
        ("name", "nth"),
        [
            pytest.param("write_event_committing", 1, id="committing"),
            pytest.param("move_partitions", 3, id="in-the-commit"),
            pytest.param("write_event_committed", 1, id="committed"),
        ],
    )
    def test_a_commit_is_finished_despite_the_other(
        self, lab: Lab, table: str, freeze: Freeze, name: str, nth: int
    ) -> None:
        load = freeze(Gate(name, nth), "in/*.csv", table)
        others = load_or_refuse(lab, table, "other")
        load.wake()
        lab.load("in/*.csv", table, try_number=2)
        assert bag(lab.rows(table)) == bag(FEW + others)
        lab.load("other/*.csv", table, task_id="later", mode=Append(on_loaded="load"))
        assert bag(lab.rows(table)) == bag(FEW + others + OTHER)

    @pytest.mark.thorough
    def test_both_at_the_same_time(self, lab: Lab, table: str, background: Background) -> None:
        others = load_or_refuse(lab, table, "first")
        slow = background(lab.load, "in/*.csv", table, **SLOW_FEW)
        for number in range(100):
            if slow.done():
                break
            load_or_refuse(lab, table, f"other{number}")
        assert slow.exception() is None
        assert bag(lab.rows(table)) == bag(FEW + others)


def load_or_refuse(lab: Lab, table: str, task_id: str) -> list[dict[str, int]]:
    """Load through the other connection; returns the rows that arrived, none if the other ledger is refused."""
    refusal = ""
    try:
        lab.load("other/*.csv", table, **{**OTHER_WAY, "task_id": task_id})
    except (ConfigError, LoadError) as error:
        refusal = str(error)
    assert not refusal or "ledger" in refusal
    return [] if refusal else OTHER
