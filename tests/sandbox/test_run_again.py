"""The same run again: the ledger has a load with its names, but the run has something new to load."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from airflow_provider_ch_s3.errors import SourceError
from tests.failures import coded
from tests.sandbox.conftest import Freeze, Lab, bag
from tests.sandbox.few import EVEN_AND_ODD, FEW, OTHER, make_table, put_numbers
from tests.sandbox.gates import Gate

pytestmark = pytest.mark.sandbox

LONG_AGO = timedelta(hours=2)


@pytest.fixture
def table(lab: Lab) -> str:
    return make_table(lab)


def load_long_ago(lab: Lab, table: str, **how: Any) -> dict[str, Any]:
    """Load as a run that started and committed two hours ago."""
    lab.started -= LONG_AGO
    report = lab.load("in/*.csv", table, **how)
    age(lab)
    return report


def age(lab: Lab) -> None:
    """Make all records of the ledger two hours older."""
    lab.everywhere(
        f"ALTER TABLE {lab.database}.ch_s3_ledger UPDATE time = time - {LONG_AGO.seconds} WHERE 1"
        " SETTINGS mutations_sync = 2"
    )


def delete_and_trigger_again(lab: Lab) -> None:
    """Simulate a DAG run with the same ids as the previous one, which starts now."""
    lab.started = datetime.now(UTC)


def make_again(lab: Lab, table: str) -> None:
    lab.ddl(f"DROP TABLE {table} SYNC")
    lab.create("t", "n UInt32", EVEN_AND_ODD)


class TestTriggeredAgain:
    @pytest.mark.parametrize("mode", ["append", "replace_partitions", "replace_table"])
    @pytest.mark.thorough
    def test_the_table_was_made_again(self, lab: Lab, table: str, mode: str) -> None:
        load_long_ago(lab, table, mode=mode)
        make_again(lab, table)
        delete_and_trigger_again(lab)
        assert lab.load("in/*.csv", table, mode=mode)["rows_written"] == 30
        assert bag(lab.rows(table)) == bag(FEW)

    @pytest.mark.thorough
    def test_new_files_came(self, lab: Lab, table: str) -> None:
        load_long_ago(lab, table)
        put_numbers(lab, "in/new.csv", OTHER)
        delete_and_trigger_again(lab)
        report = lab.load("in/*.csv", table)
        assert (report["files_skipped"], report["files_read"]) == (3, 1)
        assert bag(lab.rows(table)) == bag(FEW + OTHER)

    @pytest.mark.thorough
    def test_nothing_new_came(self, lab: Lab, table: str) -> None:
        load_long_ago(lab, table)
        delete_and_trigger_again(lab)
        assert lab.load("in/*.csv", table)["files_skipped"] == 3
        assert bag(lab.rows(table)) == bag(FEW)

    def test_a_file_changed(self, lab: Lab, table: str) -> None:
        load_long_ago(lab, table)
        put_numbers(lab, "in/0.csv", OTHER)
        delete_and_trigger_again(lab)
        with pytest.raises(SourceError, match=coded("file-changed")):
            lab.load("in/*.csv", table)
        assert bag(lab.rows(table)) == bag(FEW)

    @pytest.mark.parametrize("mode", ["replace_partitions", "replace_table"])
    @pytest.mark.thorough
    def test_a_file_changed_that_is_to_replace(self, lab: Lab, table: str, mode: str) -> None:
        load_long_ago(lab, table, mode=mode)
        put_numbers(lab, "in/0.csv", OTHER)
        delete_and_trigger_again(lab)
        lab.load("in/*.csv", table, mode=mode)
        assert bag(lab.rows(table)) == bag(FEW[1::3] + FEW[2::3] + OTHER)

    @pytest.mark.thorough
    def test_the_old_one_commits_when_the_new_one_has_begun(self, lab: Lab, table: str, freeze: Freeze) -> None:
        old = freeze(Gate("move_partitions", 3), "in/*.csv", table)
        age(lab)
        put_numbers(lab, "in/new.csv", OTHER)
        delete_and_trigger_again(lab)
        assert old.wake() is None
        lab.load("in/*.csv", table)
        assert bag(lab.rows(table)) == bag(FEW + OTHER)


class TestRetried:
    @pytest.mark.thorough
    def test_a_retry_takes_what_its_own_run_committed(self, lab: Lab, table: str) -> None:
        first = load_long_ago(lab, table)
        put_numbers(lab, "in/new.csv", OTHER)
        again = lab.load("in/*.csv", table, try_number=2)
        assert (again["query_id"], again["rows_written"]) == (first["query_id"], 30)
        assert bag(lab.rows(table)) == bag(FEW)

    @pytest.mark.thorough
    def test_a_retry_loads_into_a_table_that_was_made_again(self, lab: Lab, table: str) -> None:
        lab.load("in/*.csv", table)
        make_again(lab, table)
        assert lab.load("in/*.csv", table, try_number=2)["rows_written"] == 30
        assert bag(lab.rows(table)) == bag(FEW)


class TestClearedWithFewerRetries:
    """``max_tries``, which distinguishes a clear from a retry, is then the same as before, or even lower."""

    @pytest.mark.thorough
    @pytest.mark.parametrize("retries_before", [2, 4], ids=["as-many-tries-as-before", "fewer"])
    def test_a_clear_loads_what_is_new(self, lab: Lab, table: str, retries_before: int) -> None:
        lab.load("in/*.csv", table, try_number=1, max_tries=retries_before, retries=retries_before)
        put_numbers(lab, "in/new.csv", OTHER)
        # after the clear: one try has been made, and one retry is allowed now
        again = lab.load("in/*.csv", table, try_number=2, max_tries=2, retries=1)
        assert (again["files_skipped"], again["files_read"]) == (3, 1)
        assert bag(lab.rows(table)) == bag(FEW + OTHER)
