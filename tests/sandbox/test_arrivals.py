"""Loads whose files have not all arrived: none, too young ones, and those without their marker."""

from __future__ import annotations

import logging
import time
from typing import Any, ClassVar

import pytest
from airflow.providers.common.compat.sdk import AirflowSkipException, TaskDeferred

from airflow_provider_ch_s3.arguments import Arrivals, Chunks
from airflow_provider_ch_s3.cli import main
from airflow_provider_ch_s3.errors import ChS3Error, ConfigError, SourceError
from airflow_provider_ch_s3.files import source
from airflow_provider_ch_s3.modes import Append, ReplacePartitions, ReplaceWhere
from airflow_provider_ch_s3.stores.s3 import S3FileStore
from tests.failures import coded
from tests.sandbox.conftest import Lab

pytestmark = pytest.mark.sandbox


@pytest.fixture
def table(lab: Lab) -> str:
    lab.connect_one_node()
    return lab.create("t", "n UInt32", "MergeTree PARTITION BY n ORDER BY n")


def put(lab: Lab, *numbers: int) -> None:
    for number in numbers:
        lab.put(f"in/{number}.csv", f"{number}\n".encode())


def numbers(lab: Lab, table: str) -> list[int]:
    return sorted(row["n"] for row in lab.rows(table))


def skip(lab: Lab, table: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
    """Run a task that is skipped; returns what it says, and what it leaves in XCom."""
    operator = lab.operator("in/*.csv", table, **arguments)
    context = lab.context(operator)
    pushed: dict[str, Any] = {}
    context["ti"].xcom_push = lambda key, value: pushed.update({key: value})
    with pytest.raises(AirflowSkipException) as caught:
        operator.execute(context)
    return str(caught.value), pushed


class TestNoFiles:
    @pytest.mark.parametrize(("mode", "deferrable"), [("append", True), ("direct", False)])
    def test_succeed_and_skip(self, lab: Lab, table: str, mode: str, deferrable: bool) -> None:
        how = {"mode": mode, "deferrable": deferrable}
        with pytest.raises(SourceError, match=coded("no-file-matches")):
            lab.load("in/*.csv", table, arrivals=Arrivals(min_files=0), **how)
        report = lab.load("in/*.csv", table, arrivals=Arrivals(on_none="succeed"), **how)
        assert (report["query_id"], report["partitions"], report["files_skipped"]) == ("", {}, 0)
        assert report["checks"] == ["no file matches the source"]
        said, pushed = skip(lab, table, arrivals=Arrivals(on_none="skip"), **how)
        assert said == f"nothing new for {table}: no file matches the source"
        assert pushed["return_value"]["partitions"] == {}
        assert skip(lab, table, arrivals=Arrivals(on_none="succeed", skip_if_nothing_new=True), **how)[0] == said

    @pytest.mark.parametrize("mode", ["replace_partitions", ReplaceWhere("n = 7"), "replace_table"], ids=str)
    def test_nothing_is_replaced_by_nothing(self, lab: Lab, table: str, mode: str | ReplaceWhere) -> None:
        lab.query(f"INSERT INTO {table} VALUES (7)")
        lab.load("in/*.csv", table, mode=mode, arrivals=Arrivals(on_none="succeed"))
        assert numbers(lab, table) == [7]

    def test_nothing_new_is_a_success_or_a_skip(self, lab: Lab, table: str, caplog: pytest.LogCaptureFixture) -> None:
        put(lab, 1)
        lab.load("in/*.csv", table, task_id="first", arrivals=Arrivals(skip_if_nothing_new=True))
        # Files that the table holds are files: on_none is not about them.
        with caplog.at_level(logging.INFO):
            assert lab.load("in/*.csv", table, arrivals=Arrivals(on_none="skip"))["files_skipped"] == 1
        logged = [text for record in caplog.records if "nothing new" in (text := record.getMessage())]
        assert logged == [
            f"nothing new for {table}: the table already holds 1 listed file, in this version or another"
        ]
        said, _ = skip(lab, table, arrivals=Arrivals(skip_if_nothing_new=True))
        assert said.endswith("the table already holds 1 listed file, in this version or another")
        assert numbers(lab, table) == [1]

    @pytest.mark.thorough
    def test_a_load_that_was_deferred_is_skipped_when_others_loaded_its_files(self, lab: Lab, table: str) -> None:
        put(lab, 1)
        operator = lab.operator("in/*.csv", table, deferrable=True, arrivals=Arrivals(skip_if_nothing_new=True))
        context = lab.context(operator)
        context["ti"].xcom_push = lambda key, value: None
        with pytest.raises(TaskDeferred) as deferred:
            operator.execute(context)
        lab.load("in/*.csv", table, task_id="other")
        event = {"status": "ended", "query_id": deferred.value.trigger.query_id, "deadline": None}
        resumed = lab.operator("in/*.csv", table, deferrable=True, arrivals=Arrivals(skip_if_nothing_new=True))
        with pytest.raises(AirflowSkipException, match="the table already holds 1 listed file"):
            resumed.execute_complete(context, event)
        assert numbers(lab, table) == [1]


class TestYoungFiles:
    @pytest.mark.thorough
    def test_append_leaves_them_to_the_next_load(
        self, lab: Lab, table: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        caplog.set_level(logging.INFO)
        put(lab, 1)
        time.sleep(2)  # the store dates files by whole seconds
        put(lab, 2, 3)
        last = lab.s3.head_object(Bucket=lab.bucket, Key="in/3.csv")["LastModified"]
        with monkeypatch.context() as frozen:  # however busy this machine is
            frozen.setattr(S3FileStore, "_answered_at", lambda *_: last)
            report = lab.load("in/*.csv", table, arrivals=Arrivals(min_age=1.5))
        assert (report["files_listed"], report["files_too_young"], report["rows_written"]) == (1, 2, 1)
        assert "leaving out 'in/2.csv' and 1 more, younger than min_age" in caplog.text
        nothing = lab.load("in/*.csv", table, task_id="again", arrivals=Arrivals(min_age=3600, on_none="succeed"))
        assert (nothing["query_id"], nothing["files_too_young"]) == ("", 3)
        time.sleep(2)
        report = lab.load("in/*.csv", table, task_id="next", arrivals=Arrivals(min_age=1.5))
        assert (report["files_listed"], report["files_too_young"], report["files_skipped"]) == (2, 0, 1)
        assert numbers(lab, table) == [1, 2, 3]

    @pytest.mark.thorough
    @pytest.mark.parametrize(
        "how",
        [
            {"mode": ReplacePartitions(on_partial="replace")},
            {"mode": "replace_table"},
            {"mode": ReplaceWhere("n < 9")},
            {"mode": Append(on_loaded="load", on_unknown_rows="keep")},
            {"mode": "direct"},
        ],
        ids=lambda how: "-".join(map(str, how.values())),
    )
    def test_where_they_cannot_be_left_out_nothing_changes(self, lab: Lab, table: str, how: dict[str, Any]) -> None:
        put(lab, 1, 2)
        lab.query(f"INSERT INTO {table} VALUES (1)")
        with pytest.raises(SourceError, match=coded("files-too-young", "min_age (1 h 00 min)")):
            lab.load("in/*.csv", table, arrivals=Arrivals(min_age=3600), **how)
        assert numbers(lab, table) == [1]
        time.sleep(2)
        lab.load("in/*.csv", table, arrivals=Arrivals(min_age=1), task_id="later", **how)

    def test_the_plan_is_that_of_the_files_that_are_old_enough(
        self, lab: Lab, table: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        put(lab, 1)
        assert main(["plan", *lab.arguments(table, arrivals={"min_age": 3600})]) == 1
        assert "is old enough: 'in/1.csv' changed less than min_age" in capsys.readouterr().err


class TestExpectedFiles:
    @pytest.mark.thorough
    @pytest.mark.parametrize("mode", ["append", "direct"])
    def test_the_load_waits_for_the_marker(self, lab: Lab, table: str, mode: str) -> None:
        put(lab, 1)
        how: dict[str, Any] = {"arrivals": Arrivals(expected="_SUCCESS"), "mode": mode}
        with pytest.raises(SourceError, match=coded("expected-file-missing", "'_SUCCESS'", f"s3://{lab.bucket}/in/")):
            lab.load("in/*", table, **how)
        assert numbers(lab, table) == []
        lab.put("in/_SUCCESS", b'{"name": "a marker with a content"}')
        assert lab.load("in/*", table, task_id="next", **how)["files_listed"] == 1
        assert numbers(lab, table) == [1]

    @pytest.mark.thorough
    def test_the_marker_of_all_folders_lies_beside_the_listing(self, lab: Lab, table: str) -> None:
        for day in (1, 2):
            lab.put(f"out/dt=2013-{day}/a.csv", f"{day}\n".encode())
        with pytest.raises(
            SourceError, match=coded("expected-file-missing", "out/dt=2013-1/ and 1 more of 2 folders", "above")
        ):
            lab.load("out/dt=2013-*/*.csv", table, arrivals=Arrivals(expected=["_SUCCESS"]))
        lab.put("out/_SUCCESS", b"")
        lab.load("out/dt=2013-*/*.csv", table, arrivals=Arrivals(expected=["_SUCCESS"]))
        assert numbers(lab, table) == [1, 2]

    @pytest.mark.thorough
    def test_a_plan_needs_it_too(self, lab: Lab, table: str, capsys: pytest.CaptureFixture[str]) -> None:
        put(lab, 1)
        wanted = lab.arguments(table, arrivals={"expected": "_SUCCESS"})
        assert main(["plan", *wanted]) == 1
        assert "expected file '_SUCCESS' is missing" in capsys.readouterr().err
        lab.put("in/_SUCCESS", b"")
        assert main(["plan", *wanted]) == 0


class TestListAfterLoaded:
    HOW: ClassVar[dict[str, Any]] = {"mode": Append(list_after_loaded=True)}

    @pytest.mark.thorough
    def test_only_later_keys_are_listed(self, lab: Lab, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
        put(lab, 1, 2)
        assert lab.load("in/*.csv", table, **self.HOW)["files_listed"] == 2
        lab.put("in/1a.csv", b"11\n")
        lab.put("in/2.txt", b"")
        report = lab.load("in/*.csv", table, task_id="nothing", **self.HOW)
        assert (report["query_id"], report["files_skipped"]) == ("", 0)
        assert report["checks"] == ["the table holds all files up to 'in/2.csv', and none is after it"]
        put(lab, 3, 4)
        asked = []
        real = S3FileStore._pages
        monkeypatch.setattr(S3FileStore, "_pages", lambda *given: asked.append(given[-1]) or real(*given))
        report = lab.load("in/*.csv", table, task_id="next", chunks=Chunks(max_files=1), **self.HOW)
        assert (report["chunks"], report["files_listed"]) == (2, 2)
        assert set(asked) == {"in/2.csv", "in/3.csv"}
        assert numbers(lab, table) == [1, 2, 3, 4]

    @pytest.mark.thorough
    def test_what_was_replaced_or_abandoned_does_not_count(self, lab: Lab, table: str) -> None:
        put(lab, 1, 2)
        lab.load("in/*.csv", table, **self.HOW)
        lab.load("in/1.csv", table, task_id="replaced", mode="replace_table")
        lab.put("in/3.csv", b"not a number\n")
        with pytest.raises(ChS3Error):
            lab.load("in/*.csv", table, task_id="failed", **self.HOW)
        put(lab, 3)
        assert lab.load("in/*.csv", table, task_id="next", **self.HOW)["files_listed"] == 2
        assert numbers(lab, table) == [1, 2, 3]

    @pytest.mark.thorough
    def test_a_marker_before_the_last_key_is_there(self, lab: Lab, table: str) -> None:
        lab.put("in/_SUCCESS", b"")
        lab.put("in/a1.csv", b"1\n")
        lab.load("in/*.csv", table, arrivals=Arrivals(expected="_SUCCESS"), **self.HOW)
        lab.put("in/a2.csv", b"2\n")
        lab.load("in/*.csv", table, task_id="next", arrivals=Arrivals(expected="_SUCCESS"), **self.HOW)
        assert numbers(lab, table) == [1, 2]

    def test_where_it_cannot_be_told_what_is_before(self, lab: Lab, table: str) -> None:
        put(lab, 1)
        for glob, how in (
            ("in/*.csv", {"mode": Append(list_after_loaded=True, on_loaded="load")}),
            (["in/*.csv", "more/*.csv"], self.HOW),
        ):
            with pytest.raises(ConfigError, match=coded("arguments-contradict", "list_after_loaded=True")):
                lab.load(glob, table, **how)
        assert numbers(lab, table) == []

    @pytest.mark.thorough
    def test_too_many_files_to_be_named_in_one_query(
        self, lab: Lab, table: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        put(lab, 1)
        lab.load("in/*.csv", table, **self.HOW)
        put(lab, 2, 3, 4)
        monkeypatch.setattr(source, "MAX_LISTED_FILES", 2)
        with pytest.raises(ConfigError, match=coded("files-too-many", "3 files", "chunks='off'")):
            lab.load("in/*.csv", table, task_id="next", chunks="off", **self.HOW)
        assert numbers(lab, table) == [1]
