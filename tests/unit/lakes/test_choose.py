"""Where a load begins, by the snapshots that the ClickHouse table holds."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pytest

from airflow_provider_ch_s3.errors import ConfigError, SnapshotError
from airflow_provider_ch_s3.files.snapshots import HeldSnapshots, Layout, Snapshot, SnapshotRange
from airflow_provider_ch_s3.files.source import SourceFile
from airflow_provider_ch_s3.lakes.choose import choose_range
from airflow_provider_ch_s3.lakes.table import parse_wanted
from tests.failures import coded

LAYOUT = Layout()


@dataclass(frozen=True)
class Table:
    """Snapshots 1 <- 2 <- 3 <- 4, and 5 of a branch at 2."""

    uuid: str = "u"
    layout: Layout = LAYOUT
    repeats_rows: bool = True

    def find(self, wanted: str | int | datetime.datetime) -> Snapshot:
        return Snapshot(id=str(wanted))

    def line(self, snapshot: str) -> Iterable[str]:
        return {"5": "521", "9": ""}.get(snapshot, "4321"[4 - int(snapshot) :] if snapshot < "5" else "")

    def files_of(self, snapshot: str) -> Sequence[SourceFile]:
        return ()

    def files_after(self, after: str, snapshot: str, *, takes_changes: bool = False) -> Sequence[SourceFile]:
        return ()


def choose(held: Sequence[str], wanted: str = "4", *, is_latest: bool = False) -> tuple[str, str]:
    found = choose_range(Table(), Snapshot(id=wanted), held, record_key="k", is_latest=is_latest)
    return found.after, found.id


@pytest.mark.parametrize(
    ("held", "wanted", "expected"),
    [
        pytest.param([], "4", ("", "4"), id="nothing-yet"),
        pytest.param(["u/2"], "4", ("2", "4"), id="what-came-since"),
        pytest.param(["u/1", "u/2", "u/3"], "4", ("3", "4"), id="since-the-newest"),
        pytest.param(["u/4"], "4", ("4", "4"), id="all-of-it"),
        pytest.param(["u/4"], "2", ("2", "2"), id="an-older-one"),
        pytest.param(["u/2/part"], "4", ("", "2"), id="complete-a-first-load"),
        pytest.param(["u/4/part"], "2", ("", "4"), id="complete-a-first-load-before-an-older-one"),
        pytest.param(["u/2/part", "u/2"], "4", ("2", "4"), id="completed"),
        pytest.param(["u/1", "u/3/part"], "4", ("1", "4"), id="a-later-load-in-part"),
        pytest.param(["other/1", "u/3"], "4", ("3", "4"), id="another-table-replaced-before"),
        pytest.param(["u/1", "u/3"], "2", ("2", "2"), id="between-two"),
        pytest.param(["u/9", "u/1/part", "u/9/part", "u/2"], "4", ("2", "4"), id="early-ones-have-expired"),
        pytest.param(["u/2", "u/4/part"], "3", ("2", "3"), id="a-newer-one-in-part"),
    ],
)
def test_a_range(held: Sequence[str], wanted: str, expected: tuple[str, str]) -> None:
    assert choose(held, wanted) == expected


UNRELATED = ("snapshot-unrelated", "holds the rows")
REPLACED = ("snapshot-unrelated", "snapshot 3", "have replaced", "replace_where")


@pytest.mark.parametrize(
    ("held", "said"),
    [
        pytest.param(["u/5"], (*UNRELATED, "snapshot 5", "snapshot 4"), id="branch"),
        pytest.param(["u/9"], (*UNRELATED, "snapshot 9"), id="expired"),
        pytest.param(["u/9/part"], (*UNRELATED, "snapshot 9"), id="expired-in-part"),
        pytest.param(["u/1/part", "u/9"], (*UNRELATED, "snapshot 9"), id="expired-with-a-part-since"),
        pytest.param(["u/2", "u/5"], (*UNRELATED, "snapshot 5"), id="branch-or-rolled-back-after-loads"),
        pytest.param(["u/2", "u/5/part"], (*UNRELATED, "snapshot 5"), id="and-loaded-in-part"),
        pytest.param(["u/2", "u/9"], (*UNRELATED, "snapshot 9"), id="rolled-back-and-expired"),
        pytest.param(["other/1"], ("lake-table-replaced", "table u", "other"), id="another-table"),
        pytest.param(["u/2", "u/3/mixed"], REPLACED, id="replaced-in-part"),
        pytest.param(["u/2", "u/3/later"], REPLACED, id="recorded-by-a-later-release"),
    ],
)
def test_a_refusal(held: Sequence[str], said: tuple[str, ...]) -> None:
    with pytest.raises(SnapshotError, match=coded(*said)):
        choose(held)


@pytest.mark.parametrize("held", [["u/4"], ["u/2", "u/4"], ["u/4/part"], ["u/2", "u/4/part"]])
def test_the_latest_snapshot_is_older_than_what_is_loaded(held: Sequence[str]) -> None:
    with pytest.raises(SnapshotError, match=coded("snapshot-unrelated", "snapshot 4")):
        choose(held, "2", is_latest=True)


@pytest.mark.parametrize(
    ("held", "repeats_rows", "expected"),
    [
        pytest.param([], True, False, id="first"),
        pytest.param(["u/2"], True, False, id="added"),
        pytest.param(["u/2", "u/4/part"], True, True, id="ended-between-chunks"),
        pytest.param(["u/2/part"], True, True, id="a-first-load-that-ended-between-chunks"),
        pytest.param(["u/2/part", "u/2"], True, False, id="completed"),
        pytest.param(["u/1", "u/4/part", "u/2"], True, True, id="an-older-one-was-loaded-meanwhile"),
        pytest.param(["u/2"], False, True, id="delta"),
    ],
)
def test_files_that_are_held_are_nothing_new(held: Sequence[str], repeats_rows: bool, expected: bool) -> None:
    table = Table(repeats_rows=repeats_rows)
    found = choose_range(table, Snapshot(id="4"), held, record_key="k", is_latest=True)
    assert found.skips_held is expected


def test_records_are_read_as_they_are_written() -> None:
    whole = SnapshotRange(record_key="k", table_uuid="u", id="7")
    mixed = dataclasses.replace(whole, id="8", is_mixed=True)
    records = [whole.record(is_whole=True), whole.record(is_whole=False), mixed.record(is_whole=True)]
    ids, other = frozenset({"7"}), frozenset({"8"})
    etags = [one.etag for one in records]
    assert HeldSnapshots.parse(etags, "u") == HeldSnapshots(
        whole=ids, partly=ids, mixed=other, in_order=("7", "7", "8")
    )
    assert HeldSnapshots.parse(etags, "v") == HeldSnapshots(others=frozenset({"u"}))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("latest", "latest"),
        ("8027658604211071520", 8027658604211071520),
        ("2026-11-25 00:00:00+00:00", datetime.datetime(2026, 11, 25, tzinfo=datetime.UTC)),
        ("2026-11-25T01:00:00+01:00", datetime.datetime(2026, 11, 25, tzinfo=datetime.UTC)),
    ],
)
def test_a_snapshot_is_parsed(text: str, expected: object) -> None:
    assert parse_wanted(text) == expected


@pytest.mark.parametrize("text", ["main", "2026-11-25", "", "-1"])
def test_no_snapshot(text: str) -> None:
    with pytest.raises(ConfigError, match=coded("argument-invalid", "snapshot=")):
        parse_wanted(text)
