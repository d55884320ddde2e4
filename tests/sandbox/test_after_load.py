"""Files that stayed when their rows went into the table: a later load of the same task disposes of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from airflow_provider_ch_s3.arguments import Arrivals, Checks, Chunks, Move
from airflow_provider_ch_s3.errors import SourceError
from airflow_provider_ch_s3.modes import Append, ReplaceWhere
from tests.failures import coded
from tests.marks import thorough
from tests.sandbox.conftest import Lab, bag
from tests.sandbox.few import EVEN_AND_ODD, FEW, OTHER, make_table, put_numbers

pytestmark = [pytest.mark.sandbox, pytest.mark.every_case]

BROKEN = b"x\n"
UNSIGNED = {"config_kwargs": {"signature_version": "unsigned"}}
NO_KEYS: dict[str, Any] = {"login": None, "password": None}


@pytest.fixture
def table(lab: Lab) -> str:
    return make_table(lab)


def keys(lab: Lab, prefix: str = "") -> list[str]:
    listed = lab.s3.list_objects_v2(Bucket=lab.bucket, Prefix=prefix)
    return [one["Key"] for one in listed.get("Contents", ())]


def load_in_run(lab: Lab, run: str, glob: str, table: str, **arguments: Any) -> dict[str, Any]:
    """Load in another run of the same task."""
    operator = lab.operator(glob, table, **arguments)
    context = lab.context(operator)
    context["ti"].run_id = f"{context['ti'].run_id}_{run}"
    report = operator.execute(context)
    assert report is not None
    return report


@pytest.fixture
def public(lab: Lab) -> Iterator[str]:
    """A folder that anybody may read, but not change."""
    private, folder = lab.bucket, f"after_{lab.database}"
    lab.bucket = "public"
    yield folder
    for key in keys(lab, folder):
        lab.s3.delete_object(Bucket="public", Key=key)
    lab.bucket = private


def test_what_could_not_be_deleted_is_deleted_once_that_is_allowed(lab: Lab, public: str) -> None:
    table = lab.create("t", "n UInt32", EVEN_AND_ODD)
    put_numbers(lab, f"{public}/1.csv", FEW)
    how: dict[str, Any] = {"arrivals": Arrivals(on_none="succeed"), "after_load": "delete"}
    lab.connect_aws(UNSIGNED, **NO_KEYS)
    for try_number in (1, 2):
        with pytest.raises(SourceError, match=coded("after-load-failed")):
            lab.load(f"{public}/*", table, try_number=try_number, max_tries=1, retries=1, **how)
    lab.connect_aws()
    cleared = lab.load(f"{public}/*", table, try_number=3, max_tries=2, retries=1, **how)
    assert (cleared["files_skipped"], keys(lab, public)) == (1, [])
    assert bag(lab.rows(table)) == bag(FEW)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("how", "left"),
    [
        pytest.param({"after_load": "delete"}, ["in/2.csv"], id="delete"),
        pytest.param(
            {"arrivals": Arrivals(min_files=2), "after_load": "delete"},
            ["in/0.csv", "in/1.csv", "in/2.csv"],
            id="min-files",
        ),
    ],
)
def test_the_chunks_before_one_that_fails_for_good(
    lab: Lab, table: str, how: dict[str, Any], left: list[str]
) -> None:
    lab.put("in/2.csv", BROKEN)
    how = {**how, "chunks": Chunks(max_files=1), "retries": 1}
    with pytest.raises(SourceError, match=coded("value-does-not-fit")):
        lab.load("in/*.csv", table, max_tries=1, **how)
    assert keys(lab, "in/") == left
    put_numbers(lab, "in/2.csv", FEW[2::3])
    lab.load("in/*.csv", table, try_number=2, max_tries=2, **how)
    assert keys(lab, "in/") == []
    assert bag(lab.rows(table)) == bag(FEW)


@pytest.mark.thorough
def test_a_disposal_that_fails_does_not_hide_why_the_chunk_did(
    lab: Lab, public: str, caplog: pytest.LogCaptureFixture
) -> None:
    table = lab.create("t", "n UInt32", EVEN_AND_ODD)
    put_numbers(lab, f"{public}/1.csv", FEW)
    lab.put(f"{public}/2.csv", BROKEN)
    lab.connect_aws(UNSIGNED, **NO_KEYS)
    with pytest.raises(SourceError, match=coded("value-does-not-fit")):
        lab.load(f"{public}/*", table, chunks=Chunks(max_files=1), after_load="delete")
    assert "the files of the chunks before stay, too: " in caplog.text
    assert bag(lab.rows(table)) == bag(FEW)


@pytest.mark.thorough
@pytest.mark.parametrize("wanted", ["delete", thorough(Move("done"))], ids=["delete", "move"])
def test_a_file_that_is_delivered_again(lab: Lab, table: str, wanted: str | Move) -> None:
    how: dict[str, Any] = {"after_load": wanted, "arrivals": Arrivals(on_none="succeed", expected="_SUCCESS")}
    lab.put("in/_SUCCESS", b"")
    first = lab.load("in/*.csv", table, **how)
    put_numbers(lab, "in/0.csv", FEW[0::3])
    put_numbers(lab, "in/1.csv", OTHER)
    lab.put("in/_SUCCESS", b"")
    second = load_in_run(lab, "second", "in/*.csv", table, mode=Append(on_changed="load"), **how)
    assert (second["files_skipped"], second["files_read"]) == (1, 1)
    assert keys(lab, "in/") == []
    assert bag(lab.rows(table)) == bag(FEW + OTHER)
    if isinstance(wanted, Move):
        ids = [first["query_id"]] * 3 + [second["query_id"]]
        names = ["0", "1", "2", "1"]
        moved = {f"done/{one}/in/{name}.csv" for one, name in zip(ids, names, strict=True)}
        assert moved <= set(keys(lab, "done/"))


@pytest.mark.thorough
def test_what_another_task_loaded_stays(lab: Lab, table: str) -> None:
    lab.load("in/*.csv", table, task_id="other")
    put_numbers(lab, "in/new.csv", OTHER)
    report = lab.load("in/*.csv", table, after_load="delete")
    assert (report["files_skipped"], keys(lab, "in/")) == (3, ["in/0.csv", "in/1.csv", "in/2.csv"])


@pytest.mark.thorough
def test_a_changed_file_stays(lab: Lab, table: str) -> None:
    lab.load("in/*.csv", table)
    put_numbers(lab, "in/0.csv", OTHER)
    load_in_run(lab, "second", "in/*.csv", table, mode=Append(on_changed="skip"), after_load="delete")
    assert keys(lab, "in/") == ["in/0.csv"]
    assert bag(lab.rows(table)) == bag(FEW)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "how",
    [
        thorough({"mode": "replace_table"}, id="all"),
        pytest.param({"mode": ReplaceWhere("n >= 0")}, id="by-a-condition"),
    ],
)
def test_files_whose_rows_were_replaced_stay(lab: Lab, table: str, how: dict[str, Any]) -> None:
    lab.load("in/*.csv", table)
    put_numbers(lab, "other/1.csv", OTHER)
    lab.load("other/*.csv", table, task_id="other", **how)
    assert bag(lab.rows(table)) == bag(OTHER)
    put_numbers(lab, "in/9.csv", OTHER)
    # the others count as loaded where nobody knows which rows a condition has replaced
    load_in_run(lab, "second", "in/9.csv", table, after_load="delete")
    load_in_run(lab, "third", "in/*.csv", table, arrivals=Arrivals(on_none="succeed"), after_load="delete")
    held = {row["n"] for row in lab.rows(table)}
    removed = {row["n"] for n in range(3) if f"in/{n}.csv" not in keys(lab, "in/") for row in FEW[n::3]}
    assert removed <= held
    assert (keys(lab, "in/") == []) == (how["mode"] == "replace_table")


@pytest.mark.thorough
@pytest.mark.parametrize(
    "removal",
    [
        pytest.param("ALTER TABLE {} DROP PARTITION '0'", id="partition"),
        # the rows of other files are more than those of the one that is gone
        pytest.param("ALTER TABLE {} DELETE WHERE n IN ({}) SETTINGS mutations_sync = 2", id="mutation"),
        pytest.param("DELETE FROM {} WHERE n IN ({}) SETTINGS lightweight_deletes_sync = 2", id="mask"),
    ],
)
def test_files_stay_whose_rows_somebody_has_removed(lab: Lab, table: str, removal: str) -> None:
    """The ledger does not know of it."""
    for number in range(3):
        load_in_run(lab, str(number), f"in/{number}.csv", table)
    lab.everywhere(removal.format(table, ", ".join(str(row["n"]) for row in FEW[0::3])))
    load_in_run(lab, "last", "in/*.csv", table, arrivals=Arrivals(on_none="succeed"), after_load="delete")
    held = {row["n"] for row in lab.rows(table)}
    assert not held.issuperset(row["n"] for row in FEW[0::3])
    assert "in/0.csv" in keys(lab, "in/")


@pytest.mark.thorough
def test_files_stay_if_a_part_of_their_partitions_was_replaced(lab: Lab, table: str) -> None:
    """Nobody knows then how many rows there have to be."""
    load_in_run(lab, "first", "in/0.csv", table)
    put_numbers(lab, "other/1.csv", OTHER)
    lab.load("other/*.csv", table, task_id="other", mode=ReplaceWhere("n >= 100"))
    load_in_run(lab, "second", "in/1.csv", table)
    lab.everywhere(f"ALTER TABLE {table} DELETE WHERE n < 100 AND n % 3 = 1 SETTINGS mutations_sync = 2")
    load_in_run(lab, "last", "in/1.csv", table, arrivals=Arrivals(on_none="succeed"), after_load="delete")
    assert "in/1.csv" in keys(lab, "in/")


@pytest.mark.thorough
def test_a_load_that_only_validates_leaves_all_files(lab: Lab, table: str) -> None:
    lab.load("in/*.csv", table)
    for new in ([], OTHER):
        if new:
            put_numbers(lab, "in/new.csv", new)
        load_in_run(lab, f"of{len(new)}", "in/*.csv", table, after_load="delete", checks=Checks(validate_only=True))
    assert len(keys(lab, "in/")) == 4
    assert bag(lab.rows(table)) == bag(FEW)


@pytest.mark.thorough
def test_tags_of_other_runs_are_not_written_again(lab: Lab, table: str) -> None:
    first = lab.load("in/*.csv", table)
    tag = {"Key": "ch-s3-load", "Value": first["query_id"]}
    load_in_run(lab, "second", "in/*.csv", table, after_load="tag")
    assert lab.s3.get_object_tagging(Bucket=lab.bucket, Key="in/0.csv")["TagSet"] == []
    lab.load("in/*.csv", table, try_number=2, max_tries=1, after_load="tag")
    assert lab.s3.get_object_tagging(Bucket=lab.bucket, Key="in/0.csv")["TagSet"] == [tag]
