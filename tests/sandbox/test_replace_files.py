"""``Append(on_changed="replace")``: a file that changed replaces the rows of its older versions, and no others."""

from __future__ import annotations

import dataclasses
import json
import signal
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from airflow_provider_ch_s3.arguments import Arrivals, Checks, Chunks, Columns
from airflow_provider_ch_s3.errors import ConfigError, LoadError, SourceError, TargetError
from airflow_provider_ch_s3.exactly_once.modes import replace_files
from airflow_provider_ch_s3.exactly_once.site import Site
from airflow_provider_ch_s3.files.addresses import Source
from airflow_provider_ch_s3.files.source import SourceFile
from airflow_provider_ch_s3.files.stores import ObjectStore
from airflow_provider_ch_s3.load import staged
from airflow_provider_ch_s3.load.removal import remove_gone
from airflow_provider_ch_s3.modes import Append, Merge, ReplacePartitions
from airflow_provider_ch_s3.request import LoadRequest
from tests.failures import coded
from tests.sandbox.conftest import WAIT_SECONDS, Lab, start_worker
from tests.sandbox.few import die_before, is_clean
from tests.sandbox.test_provenance import BY_TENS, COLUMNS, FILES, origins, put
from tests.sandbox.topologies import topologies

pytestmark = pytest.mark.sandbox

REPLACING: dict[str, Any] = {**FILES, "mode": Append(on_changed="replace")}


def files(lab: Lab, table: str) -> dict[int, str]:
    return {number: name for number, (name, _) in origins(lab, table).items()}


def delete(lab: Lab, key: str) -> None:
    lab.s3.delete_object(Bucket=lab.bucket, Key=key)


def loaded(lab: Lab, **arguments: Any) -> str:
    """A table with the rows of two files, and one that no load has written."""
    table = lab.create("t", COLUMNS, BY_TENS)
    put(lab, "in/a.csv", 1, 2, 11)
    put(lab, "in/b.csv", 3, 12, 31)
    lab.load("in/*.csv", table, task_id="first", **{**REPLACING, **arguments})
    lab.query(f"INSERT INTO {table} (n) VALUES (19)")
    lab.sync(table)
    assert files(lab, table) == {1: "a.csv", 2: "a.csv", 11: "a.csv", 3: "b.csv", 12: "b.csv", 31: "b.csv", 19: ""}
    return table


def test_a_changed_file_replaces_its_rows(lab: Lab) -> None:
    table = loaded(lab)
    put(lab, "in/a.csv", 2, 22)
    put(lab, "in/c.csv", 4)
    report = lab.load("in/*.csv", table, task_id="second", **REPLACING)
    after = {2: "a.csv", 22: "a.csv", 3: "b.csv", 12: "b.csv", 31: "b.csv", 4: "c.csv", 19: ""}
    assert files(lab, table) == after
    assert (report["files_listed"], report["files_skipped"]) == (2, 1)
    assert (report["partitions"], report["replaced"]) == ({"0": 2, "1": 0, "2": 1}, {"0": 2, "1": 1})
    assert is_clean(lab)
    again = lab.load("in/*.csv", table, task_id="third", **REPLACING)
    assert (again["files_listed"], again["files_skipped"]) == (0, 3)
    assert files(lab, table) == after
    put(lab, "in/a.csv", 1, 2, 11)  # the first version is back
    lab.load("in/*.csv", table, task_id="fourth", **REPLACING)
    assert files(lab, table) == {
        **{1: "a.csv", 2: "a.csv", 11: "a.csv", 3: "b.csv", 12: "b.csv", 31: "b.csv", 4: "c.csv", 19: ""}
    }


@pytest.mark.thorough
def test_chunk_by_chunk(lab: Lab) -> None:
    table = loaded(lab, chunks=Chunks(max_files=1))
    put(lab, "in/a.csv", 5)
    put(lab, "in/b.csv", 6, 7)
    lab.load("in/*.csv", table, task_id="second", chunks=Chunks(max_files=1), **REPLACING)
    assert files(lab, table) == {5: "a.csv", 6: "b.csv", 7: "b.csv", 19: ""}


@pytest.mark.thorough
@pytest.mark.parametrize("sharding_key", ["rand()", "n"])
def test_in_a_distributed_table(lab: Lab, sharding_key: str) -> None:
    local = lab.create("t", COLUMNS, BY_TENS)
    table = lab.distribute(local, sharding_key)
    put(lab, "in/a.csv", *range(40))
    put(lab, "in/b.csv", *range(100, 120))
    lab.load("in/*.csv", table, task_id="first", **REPLACING)
    put(lab, "in/a.csv", *range(20, 60))
    lab.load("in/*.csv", table, task_id="second", **REPLACING)
    assert files(lab, local) == dict.fromkeys(range(20, 60), "a.csv") | dict.fromkeys(range(100, 120), "b.csv")
    assert is_clean(lab)


@pytest.mark.thorough
def test_equal_names_in_two_buckets(lab: Lab) -> None:
    table = lab.create("t", COLUMNS, BY_TENS)
    put(lab, "in/a.csv", 1, 11)
    other = f"{lab.bucket}-2"
    lab.s3.create_bucket(Bucket=other)
    lab.s3.put_object(Bucket=other, Key="in/a.csv", Body=b"2\n12\n")
    lab.s3.put_object(Bucket=other, Key="in/b.csv", Body=b"3\n")
    lab.load("in/*.csv", table, task_id="first", **REPLACING)
    with lab.monkeypatch.context() as patch:
        patch.setattr(lab, "bucket", other)
        lab.load("in/*.csv", table, task_id="other", **REPLACING)
    put(lab, "in/a.csv", 13)
    lab.load("in/*.csv", table, task_id="second", **REMOVING)
    rows = lab.rows(table, columns="n, source_file")
    assert {row["n"]: row["source_file"] for row in rows} == {
        **{13: f"{lab.bucket}/in/a.csv", 2: f"{other}/in/a.csv", 12: f"{other}/in/a.csv", 3: f"{other}/in/b.csv"}
    }


@pytest.mark.thorough
def test_odd_names_and_rows_that_are_gone_already(lab: Lab) -> None:
    """Names that SQL, URLs and globs take for something else; one file's rows were deleted, in all its partitions."""
    table = lab.create("t", COLUMNS, BY_TENS)
    names = ["it's.csv", "a%20b ü.csv", "{1,2}#?.csv", "a\\b.csv"]
    for number, name in enumerate(names):
        put(lab, f"in/{name}", number, 10 + number)
    lab.load("in/*.csv", table, task_id="first", **REPLACING)
    lab.everywhere(f"ALTER TABLE {table} DELETE WHERE n % 10 = 0 SETTINGS mutations_sync = 2")
    for number, name in enumerate(names):
        put(lab, f"in/{name}", 20 + number)
    report = lab.load("in/*.csv", table, task_id="second", **REPLACING)
    assert files(lab, table) == {20 + number: name for number, name in enumerate(names)}
    assert report["replaced"] == {"0": 3, "1": 3}


@pytest.mark.thorough
def test_what_a_replaced_file_removed_does_not_come_back(lab: Lab) -> None:
    table = loaded(lab)
    put(lab, "in/a.csv", 41)
    lab.load("in/*.csv", table, task_id="second", **REPLACING)
    put(lab, "other/c.csv", 42)
    whole = {**FILES, "mode": ReplacePartitions(on_partial="replace")}
    lab.load("other/*.csv", table, task_id="other", **whole)
    put(lab, "in/a.csv", 1, 2, 11)  # the first version, whose rows the second one has removed
    report = lab.load("in/*.csv", table, task_id="third", **REPLACING)
    assert (report["files_listed"], report["files_skipped"]) == (1, 1)
    after = {1: "a.csv", 2: "a.csv", 11: "a.csv", 3: "b.csv", 12: "b.csv", 31: "b.csv", 19: ""}
    assert {number: name for number, name in files(lab, table).items() if number != 42} == after


@pytest.mark.thorough
def test_a_load_that_only_validates_replaces_nothing(lab: Lab) -> None:
    table = loaded(lab)
    before = files(lab, table)
    put(lab, "in/a.csv", 5)
    lab.load("in/*.csv", table, task_id="second", checks=Checks(validate_only=True), **REPLACING)
    assert files(lab, table) == before
    assert is_clean(lab)


@pytest.mark.thorough
def test_disposal_after_files_were_replaced(lab: Lab) -> None:
    table = loaded(lab)
    put(lab, "in/a.csv", 5)
    lab.load("in/*.csv", table, task_id="second", after_load="delete", **REPLACING)
    left = lab.s3.list_objects_v2(Bucket=lab.bucket, Prefix="in/")["Contents"]
    assert [item["Key"] for item in left] == ["in/b.csv"]  # of another task
    assert files(lab, table) == {5: "a.csv", 3: "b.csv", 12: "b.csv", 31: "b.csv", 19: ""}


REMOVING: dict[str, Any] = {**FILES, "mode": Append(on_changed="replace", on_missing="delete")}


@pytest.mark.thorough
def test_files_that_are_gone_lose_their_rows(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    table = loaded(lab)
    put(lab, "other/x.csv", 39)
    lab.load("other/*.csv", table, task_id="other", **REPLACING)
    delete(lab, "in/b.csv")
    lab.load("in/*.csv", table, task_id="second", **REPLACING)
    whole = {1: "a.csv", 2: "a.csv", 11: "a.csv", 19: ""}
    kept = {3: "b.csv", 12: "b.csv", 31: "b.csv"}
    others = {number: name for number, (name, _) in origins(lab, table).items() if number == 39}
    assert files(lab, table) == {**whole, **kept, **others}  # without on_missing
    put(lab, "in/a.csv", 1)
    lab.load("in/*.csv", table, task_id="third", **REMOVING)
    assert files(lab, table) == {1: "a.csv", 19: "", **others}
    assert is_clean(lab)
    put(lab, "in/b.csv", 3, 12, 31)  # and comes back as it was
    report = lab.load("in/*.csv", table, task_id="fourth", **REMOVING)
    assert (report["files_listed"], report["files_skipped"]) == (1, 1)
    assert files(lab, table) == {1: "a.csv", 19: "", **kept, **others}
    delete(lab, "in/a.csv")
    delete(lab, "in/b.csv")
    lab.load("in/*.csv", table, task_id="fifth", arrivals=Arrivals(on_none="succeed"), **REMOVING)
    assert files(lab, table) == {1: "a.csv", 19: "", **kept, **others}  # a source without any file is a mistake
    capsys.readouterr()
    lab.loads("--json")
    (removal,) = [
        one for one in json.loads(capsys.readouterr().out)["loads"] if one["task"].endswith(".missing_files")
    ]
    assert (removal["load_mode"], removal["files"], removal["state"]) == ("replace_files", 1, "committed")
    lab.loads("show", removal["load_id"], "--json")
    (file,) = json.loads(capsys.readouterr().out)["files"]
    assert (file["path"], file["state"]) == (f"{lab.bucket}/in/b.csv", "removed")


@pytest.mark.thorough
def test_only_files_count_as_files(lab: Lab) -> None:
    """What no load takes for a file, and an address that has none, remove nothing; an empty file loses its rows."""
    table = loaded(lab)
    put(lab, "other/in/x.csv", 39)
    put(lab, "other/in/y.csv", 38)
    both = ["in/*.csv", "other/in/*.csv"]
    wanted = {**REMOVING, "arrivals": Arrivals(expected=["done.csv"], on_none="succeed")}
    put(lab, "in/done.csv", 1)
    put(lab, "other/in/done.csv", 1)
    lab.load(both, table, task_id="other", **wanted)
    whole = files(lab, table)
    assert (whole[1], whole[39]) == ("a.csv", "x.csv")
    delete(lab, "in/a.csv")
    delete(lab, "in/b.csv")
    for extra in ("in/", "in/_SUCCESS", "in/sub/"):
        lab.put(extra, b"")
    for sources in (["in/*"], both):
        lab.load(sources, table, task_id=f"only-markers-{len(sources)}", **wanted)
        assert files(lab, table) == whole
    delete(lab, "other/in/x.csv")
    lab.put("other/in/y.csv", b"")
    lab.load(both, table, task_id="empty", **{**wanted, "mode": Append(on_changed="replace")})
    assert files(lab, table) == {n: name for n, name in whole.items() if n != 38}
    put(lab, "other/in/y.csv", 37)
    put(lab, "in/b.csv", 3)
    lab.load(both, table, task_id="again", **wanted)
    assert files(lab, table) == {3: "b.csv", 37: "y.csv", 19: ""}
    assert is_clean(lab)


@pytest.mark.thorough
def test_young_files_are_neither_there_nor_missing(lab: Lab) -> None:
    """A producer that writes its folder anew: what a load does not take yet removes no rows, and loses none."""
    table = loaded(lab)
    put(lab, "other/in/x.csv", 39)
    both = ["in/*.csv", "other/in/*.csv"]
    lab.load(both, table, task_id="other", **REMOVING)
    whole = files(lab, table)
    young = {**REMOVING, "arrivals": Arrivals(min_age=3600, on_none="succeed")}
    delete(lab, "in/a.csv")
    put(lab, "in/b.csv", 5)
    put(lab, "in/c.csv", 6)
    lab.put("other/in/x.csv", b"")
    lab.load(both, table, task_id="young", **young)
    assert files(lab, table) == whole
    lab.load(both, table, task_id="later", **REMOVING)
    assert files(lab, table) == {5: "b.csv", 6: "c.csv", 19: ""}


@pytest.mark.thorough
def test_more_changed_files_than_a_commit_can_name(lab: Lab) -> None:
    table = lab.create("t", COLUMNS, "MergeTree ORDER BY n")
    keys = [f"in/{'x' * 220}{n:04}.csv" for n in range(600)]
    for version in (0, 1000):
        for n, key in enumerate(keys):
            put(lab, key, version + n)
        report = lab.load("in/*.csv", table, task_id=f"load{version}", **REPLACING)
    assert sorted(lab.rows(table, columns="n"), key=lambda row: row["n"]) == [{"n": 1000 + n} for n in range(600)]
    assert report["chunks"] > 1


@pytest.mark.thorough
def test_rows_that_a_merge_relied_on_stay(lab: Lab) -> None:
    table = loaded(lab)
    before = files(lab, table)
    put(lab, "more/in/m.csv", 1, 5)
    merging = {"mode": Merge(key=["n"], duplicates="collapse"), **FILES}
    lab.load("more/in/*.csv", table, task_id="merge", **merging)
    merged = before | {5: "m.csv"}
    assert files(lab, table) == merged
    put(lab, "in/a.csv", 2)
    with pytest.raises(LoadError, match=coded("later-load-depends", "left out rows")):
        lab.load("in/*.csv", table, task_id="changed", **REPLACING)
    put(lab, "in/a.csv", 1, 2, 11)
    delete(lab, "in/b.csv")
    with pytest.raises(LoadError, match=coded("later-load-depends", "left out rows")):
        lab.load("in/*.csv", table, task_id="gone", **REMOVING)
    put(lab, "more/in/m.csv", 5)
    with pytest.raises(LoadError, match=coded("later-load-depends", "would be missing")):
        lab.load("more/in/*.csv", table, task_id="merged", **REPLACING)
    assert files(lab, table) == merged
    assert is_clean(lab)


@pytest.mark.thorough
def test_a_file_changes_after_the_table_was_renamed(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    table = loaded(lab)
    renamed = f"{lab.database}.renamed"
    lab.ddl(f"RENAME TABLE {table} TO {renamed} {{on_cluster}}")
    put(lab, "in/a.csv", 2, 22)
    put(lab, "in/c.csv", 4)
    report = lab.load("in/*.csv", renamed, task_id="second", **REPLACING)
    after = {2: "a.csv", 22: "a.csv", 3: "b.csv", 12: "b.csv", 31: "b.csv", 4: "c.csv", 19: ""}
    assert files(lab, renamed) == after
    delete(lab, "in/b.csv")
    lab.load("in/*.csv", renamed, task_id="third", **REMOVING)
    after = {2: "a.csv", 22: "a.csv", 4: "c.csv", 19: ""}
    assert files(lab, renamed) == after
    lab.ddl(f"RENAME TABLE {renamed} TO {table} {{on_cluster}}")
    lab.load("in/*.csv", table, task_id="fourth", **REMOVING)
    assert files(lab, table) == after
    capsys.readouterr()
    for undone, says in (
        (report["query_id"], f"was loaded into {renamed}, which is not there"),
        ("", "give the id of"),
    ):
        assert lab.loads("undo", "--yes", undone) == 1
        assert says in capsys.readouterr().err


@pytest.mark.thorough
def test_what_is_loaded_after_the_listing_stays(lab: Lab) -> None:
    """The source is listed once, and another load adds a file before the rows of missing ones are removed."""
    table = loaded(lab)
    delete(lab, "in/b.csv")
    listings, real = [], replace_files._list_now

    def list_now(request: LoadRequest, store: ObjectStore, *, epoch: int) -> replace_files.Listing:
        found = real(request, store, epoch=epoch)
        if replace_files._removes_missing(request):
            listings.append(sorted(path.rpartition("/")[2] for path in found.filled))
            put(lab, "in/c.csv", 4)
            lab.load("in/c.csv", table, task_id="other", **REPLACING)
        return found

    lab.monkeypatch.setattr(replace_files, "_list_now", list_now)
    lab.load("in/*.csv", table, task_id="second", **REMOVING)
    assert listings == [["a.csv"]]
    assert files(lab, table) == {1: "a.csv", 2: "a.csv", 11: "a.csv", 4: "c.csv", 19: ""}
    assert is_clean(lab)


@pytest.mark.thorough
def test_a_list_that_breaks_off_removes_nothing(lab: Lab) -> None:
    table = loaded(lab)
    before = files(lab, table)

    class Unreliable:
        def __init__(self, store: ObjectStore) -> None:
            self.store, self.access = store, store.access

        def list_files(self, source: Source, *, after: str = "") -> Iterator[SourceFile]:
            yield from islice(self.store.list_files(source, after=after), 1)
            raise SourceError("a-code", "the store is gone")

    def remove(site: Site, find_target: Any) -> None:
        remove_gone(dataclasses.replace(site, store=Unreliable(site.store)), find_target)  # type: ignore[arg-type]

    lab.monkeypatch.setattr(staged, "remove_gone", remove)
    with pytest.raises(SourceError, match=coded("a-code", "the store is gone")):
        lab.load("in/*.csv", table, task_id="second", **REMOVING)
    assert files(lab, table) == before
    assert is_clean(lab)


@pytest.mark.thorough
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("when", ["before-the-commit", "in-the-middle", "before-the-ledger-knows"])
def test_a_removal_that_is_killed_is_finished_by_a_retry(lab: Lab, when: str) -> None:
    table = loaded(lab)
    delete(lab, "in/b.csv")
    dies = die_before(*STATEMENTS[when], signal.SIGKILL)
    with start_worker(lab, table, max_tries=1, task_id="second", before=dies, **REMOVING) as worker:
        assert worker.wait(WAIT_SECONDS) == -signal.SIGKILL
    lab.load("in/*.csv", table, task_id="second", try_number=2, max_tries=1, **REMOVING)
    assert files(lab, table) == {1: "a.csv", 2: "a.csv", 11: "a.csv", 19: ""}
    assert is_clean(lab)


@pytest.mark.thorough
def test_what_cannot_be_replaced(lab: Lab) -> None:
    table = lab.create("t", COLUMNS, BY_TENS)
    put(lab, "in/a.csv", 1)
    with pytest.raises(
        ConfigError, match=coded("provenance-needed", "provenance={'source_file': 'path', 'load_id': 'load'}")
    ):
        lab.load("in/*.csv", table, **{**REPLACING, "provenance": {"source_file": "path"}})
    with pytest.raises(ConfigError, match=coded("argument-missing", "on_changed='replace'")):
        lab.load("in/*.csv", table, mode=Append(on_missing="delete"), **FILES)
    silent = {**FILES, "provenance": None, "columns": Columns(on_missing="default")}
    lab.load("in/*.csv", table, task_id="silent", **silent)
    put(lab, "in/a.csv", 2)
    for is_only_validated in (True, False):
        with pytest.raises(LoadError, match=coded("file-rows-unknown", "source_file and load_id")):
            lab.load("in/*.csv", table, checks=Checks(validate_only=is_only_validated), **REPLACING)
    assert files(lab, table) == {1: ""}
    lab.everywhere(f"ALTER TABLE {table} DROP COLUMN load_id")
    with pytest.raises(
        TargetError, match=coded("provenance-columns-missing", "ALTER TABLE", "load_id", "every node")
    ):
        lab.load("in/*.csv", table, task_id="lacking", **REPLACING)
    assert is_clean(lab)


STATEMENTS = {
    "before-the-commit": ("write_event_committing", 1),
    "in-the-middle": ("replace_partitions", 2),
    "before-the-ledger-knows": ("write_event_committed", 1),
}


@pytest.mark.thorough
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("when", ["before-the-commit", "in-the-middle", "before-the-ledger-knows"])
def test_a_commit_that_is_killed_is_finished_by_a_retry(lab: Lab, when: str) -> None:
    table = loaded(lab)
    put(lab, "in/a.csv", 2, 22)
    dies = die_before(*STATEMENTS[when], signal.SIGKILL)
    with start_worker(lab, table, max_tries=1, task_id="second", before=dies, **REPLACING) as worker:
        assert worker.wait(WAIT_SECONDS) == -signal.SIGKILL
    lab.load("in/*.csv", table, task_id="second", try_number=2, max_tries=1, **REPLACING)
    assert files(lab, table) == {2: "a.csv", 22: "a.csv", 3: "b.csv", 12: "b.csv", 31: "b.csv", 19: ""}
    assert is_clean(lab)


@pytest.mark.thorough
@topologies("on-cluster", "old-database")
def test_on_replicas(replicated_lab: Lab) -> None:
    lab = replicated_lab
    table = loaded(lab)
    put(lab, "in/a.csv", 2, 22)
    lab.load("in/*.csv", table, task_id="second", **REPLACING)
    assert files(lab, table) == {2: "a.csv", 22: "a.csv", 3: "b.csv", 12: "b.csv", 31: "b.csv", 19: ""}
    assert lab.left_overs() == []
    renamed = f"{lab.database}.renamed"
    lab.ddl(f"RENAME TABLE {table} TO {renamed} {{on_cluster}}")
    lab.put("in/a.csv", b"")
    put(lab, "in/b.csv", 12)
    lab.load("in/*.csv", renamed, task_id="third", **REPLACING)
    assert files(lab, renamed) == {12: "b.csv", 19: ""}
    put(lab, "more/in/m.csv", 5)
    lab.load("more/in/*.csv", renamed, task_id="merge", mode=Merge(key=["n"]), **FILES)
    put(lab, "in/b.csv", 13)
    with pytest.raises(LoadError, match=coded("later-load-depends", "left out rows")):
        lab.load("in/*.csv", renamed, task_id="fourth", **REPLACING)
    assert files(lab, renamed) == {12: "b.csv", 5: "m.csv", 19: ""}
