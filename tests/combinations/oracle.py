"""What a table has to hold after each night, in plain Python: this module shares no code with the package.

A night is a load of all files that are there. Rows are dicts; a value is what ClickHouse prints as JSON.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.combinations.factors import (
    COLUMN_TYPES,
    CSV,
    CSVS,
    JSON,
    LAKES,
    MARKER,
    MERGES,
    NAMES_OP,
    ONLY,
    PACKED,
    SOURCE_COLUMNS,
    Case,
)

Row = dict[str, Any]

FOLDING = ("replacing", "summing", "collapsing")
"""Tables whose merges fold rows."""
DAYS = ("2026-01-01", "2026-01-02", "2026-01-03")
ELSEWHERE = "2025-12-31"
STRICT = ("append", "append, nothing unknown", "append, replay views", "append, list later keys")
"""Modes for which a file that has changed is an error."""
FILES = 4
"""Of both nights."""
COMMITS_OF_CHANGES = {"changed": 3, "gone": 2, "all gone": 3}
"""Night → commits of the lake table: one for each file that comes or goes."""
DELETED = 900
"""Id of a row that a lightweight DELETE has removed."""


@dataclass(frozen=True, kw_only=True)
class File:
    """A file of one version."""

    version: int
    rows: Sequence[Row]
    bad: bool = False
    """Whether one more line is no row."""


@dataclass(kw_only=True)
class World:
    """The store and the table.

    :param files: key → the file that is there; ``markers``: keys of the objects without bytes.
    :param rows: of the table, on all shards.
    :param fed: rows that a view has seen.
    :param loaded: key → versions that the ledger says the table holds.
    :param rejected: key, version and number of each bad line.
    :param commits: number of loads that have changed the table; ``can_undo``: the last of these can be undone.
    """

    files: dict[str, File] = field(default_factory=dict)
    markers: set[str] = field(default_factory=set)
    rows: list[Row] = field(default_factory=list)
    fed: list[Row] = field(default_factory=list)
    loaded: dict[str, set[int]] = field(default_factory=dict)
    rejected: list[tuple[str, int, int]] = field(default_factory=list)
    added: tuple[str, ...] = ()
    commits: int = 0
    can_undo: bool = False


@dataclass(frozen=True, kw_only=True)
class Expected:
    """How a load has to end.

    :param error: its code; '' if it succeeds.
    :param skips: whether the task is skipped.
    :param files: number of files that it loads, ``rows``: number of rows that it stages.
    :param skipped: number of files that the table holds, ``young``: number of files that are too young.
    :param replaced: number of rows that the commit removes for those of the files.
    :param rows_now: rows of the table after the commit; None if the load does not say this.
    """

    error: str = ""
    skips: bool = False
    files: int = 0
    rows: int = 0
    rejected: int = 0
    skipped: int = 0
    young: int = 0
    replaced: int = 0
    rows_now: int | None = None


def _row(number: int, day: str, *, v: int = 1, kind: str = "loaded", deletes: bool = False) -> Row:
    amount = None if number % 5 == 0 else number * 3 + v
    return {
        "id": number,
        "day": day,
        "kind": kind,
        "amount": -1 if deletes else amount,
        "v": v,
        "sign": -1 if number % 10 == 2 else 1,
        "note": f"nö {number}, \"a\"; 'b'",
        "extra": number * 7,
        "op": "D" if deletes else "IIUSI"[number % 5],
    }


def key_of(case: Case, number: int) -> str:
    """Return the key of a file; files with a folder for each day say the day there alone."""
    ending = case["format"].split()[0]
    compression = {"gz": ".gz", "zst": ".zst"}.get(case["compression"], "")
    if case["format"] in PACKED:
        compression = ""
    folder = (
        f"day={DAYS[0 if number == 2 else number % 3 if number < 3 else 2]}/" if case["files"] == "folder" else ""
    )
    return f"in/{folder}f{number}.{ending}{compression}"


def first_key(case: Case) -> str:
    """Return the key of a file without rows, which is listed before all others."""
    return key_of(case, 0).replace("f0.", "e.")


def young_key(case: Case) -> str:
    """Return the key of a file that has always just changed; '' without the file.

    Only a web server tells when a file has changed as a test wants, and only some modes load the others.
    """
    skips_loaded = case["mode"].startswith("append") and case["mode"] != "append all"
    return (
        key_of(case, 0).replace("f0.", "young.")
        if case.is_in(store="web", arrivals="min_age") and skips_loaded
        else ""
    )


def held_rows(case: Case, shards: int) -> list[list[Row]]:
    """Generate what the table holds before the first night, by shard, without rows that are deleted lightly."""
    found: list[list[Row]] = [[] for _ in range(shards)]
    if case["held"] == "nothing" or case.is_in(kind=("new", "new as told")):
        return found
    made = [_row(101 + n, ELSEWHERE, kind="loaded" if n % 2 else "kept") for n in range(6)]
    if case["held"] == "same partitions and keys":
        made += [
            _row(3, DAYS[0], v=0),
            _row(13, DAYS[2], v=9),
            _row(15, DAYS[1], kind="kept"),
            _row(50, DAYS[0], kind="kept"),
        ]
        if case["mode"] == "merge versions":
            made += [_row(11, DAYS[0], v=0), _row(11, DAYS[1], v=0)]
    for row in made:
        row["op"], row["extra"] = None, None
        found[row["id"] % shards].append(row)
    return found


def files_of(case: Case, night: int, before: Mapping[str, File]) -> dict[str, File]:
    """Generate the files of a night: all that are new or changed.

    :param before: what is left of the night before.
    """
    has_bad = case["bad_rows"] != "fail" and case["format"] in (*CSVS, JSON)
    numbers = {0: (1, DAYS[0]), 1: (11, DAYS[1]), 2: (21, DAYS[0])}
    if night == 1:
        found = {
            key_of(case, number): File(
                version=1, rows=[_row(first + n, day) for n in range(5)], bad=has_bad and number == 0
            )
            for number, (first, day) in numbers.items()
        }
        if case["objects"] == "file without rows":
            found[first_key(case)] = File(version=1, rows=[])
        return found
    if case.is_in(night=("same", "all gone")):
        return {}
    rows = [_row(31 + n, DAYS[2]) for n in range(3)]
    if case["mode"] not in ("merge", "merge changes"):
        deletion = _row(4, DAYS[2], v=2, deletes=True)
        if case["files"] == "bare deletions":
            deletion = {name: value if name in ("id", "v", "op") else None for name, value in deletion.items()}
        rows += [_row(1, DAYS[2], v=2), _row(2, DAYS[2], v=0), deletion]
    found = {key_of(case, 3): File(version=1, rows=rows, bad=has_bad)}
    if case["night"] == "changed":
        changed = [_row(12 + n, DAYS[1], v=2) for n in range(5)]
        if case["files"] != "folder":
            changed[0]["day"] = DAYS[2]
        found[key_of(case, 1)] = File(version=2, rows=changed)
    return found


def partition_of(case: Case, row: Mapping[str, Any]) -> str:
    """Return the partition of a row."""
    match case["kind"]:
        case "by expression":
            return str(row["id"] // 10)
        case "unpartitioned":
            return ""
        case "new":
            is_by_folder = case["files"] == "folder" and case["mode"].startswith("replace part")
            return str(row["day"]) if is_by_folder else str(row["day"])[:7] if case["files"] == "folder" else ""
        case _:
            return str(row["day"])


def table_columns(case: Case) -> list[str]:
    """List the columns with values of the files that the table has before the first night."""
    columns = [name for name in COLUMN_TYPES if name not in ("extra", "op")]
    if case.is_in(kind=("new", "new as told")):
        left_out = {"op"} if uses_op(case) else set()
        columns = [name for name in COLUMN_TYPES if name in {*case.in_files, "day"} - left_out]
        if case["columns"] == "only":
            columns = [name for name in columns if name in ONLY]
    return columns


def uses_op(case: Case) -> bool:
    """Whether an expression names the column ``op``."""
    return case.is_in(files=NAMES_OP) and (
        case["where"] == "op" or case["select"] == "op" or case["mode"] == "merge versions"
    )


def added_columns(case: Case) -> tuple[str, ...]:
    """List the columns that a load adds to the table."""
    if case["columns"] != "add" or case.is_in(kind=("new", "new as told")):
        return ()
    if case["files"] == "more":
        return ("extra",)
    return ("op",) if case.is_in(files=NAMES_OP) and not uses_op(case) else ()


def loaded_rows(case: Case, key: str, file: File, columns: Sequence[str]) -> list[Row]:
    """Return the rows that a load makes of a file, with what the table computes, and deletions of a merge."""
    found = []
    for number, read in enumerate(file.rows, 1):
        row = dict(read)
        if case["where"] == "own" and row["id"] % 10 == 4:
            continue
        if case["where"] == "op" and row["op"] == "S":
            continue
        deletes = row["op"] == "D" if case.is_in(files=NAMES_OP) else row["amount"] == -1
        if case["select"] == "own" and row["amount"] is not None:
            row["amount"] *= 2
        if case["select"] == "op" and row["op"] != "U":
            row["amount"] = None
        if "note" not in case.in_files or case["columns"] == "only":
            row["note"] = ""
        found.append(
            {name: row[name] for name in columns}
            | {"_file": key, "_row": number, "_version": file.version}
            | ({"_deletes": True} if deletes and case["mode"] == "merge versions" else {})
        )
    return found


def run_night(case: Case, world: World, *, reads_changes: bool) -> Expected:
    """Compute how a load ends, and change the world accordingly; the night's files are already there.

    :param reads_changes: the servers are new enough for the change data of a Delta table.
    """
    listed = dict(sorted(world.files.items()))
    after = max(world.loaded, default="")
    if case["mode"] == "append, list later keys":
        listed = {key: file for key, file in listed.items() if key > after}
    lost = _lost_rows(case, world, listed)
    young = int(bool(young_key(case)))
    if case.is_in(store=LAKES) and (error := _find_lake_error(case, world, listed, reads_changes=reads_changes)):
        return Expected(error=error)
    if not listed and not lost:
        has_files = bool(after) and case["mode"] == "append, list later keys"
        return replace(_nothing(case, has_files=has_files), young=young)
    if case["arrivals"] == "expected" and len(listed) < 2:
        return Expected(error="files-too-few")
    chosen = _choose(case, world, listed)
    if chosen is None:
        return Expected(error="file-changed")
    columns = [*table_columns(case), *added_columns(case)]
    new = [row for key, file in chosen.items() for row in loaded_rows(case, key, file, columns)]
    files = len(chosen)
    if case["mode"] == "merge changes" and (gone := _count_lost(world, listed)):
        files = COMMITS_OF_CHANGES[case["night"]] if case["store"] == "delta" else len(chosen) + gone
    rejected = [(key, file.version, _number_of_bad(case, file)) for key, file in chosen.items() if file.bad]
    skipped = 0 if case.is_in(store=LAKES) else len(listed) - len(chosen)  # the metadata of a lake tell the new files
    deleted = {row["id"] for row in lost} - {row["id"] for row in new}
    found = Expected(files=files, rows=len(new) + len(deleted), rejected=len(rejected), skipped=skipped, young=young)
    if found.files:
        world.added = world.added or added_columns(case)
        if error := _find_error(case, world, new):
            return Expected(error=error)
    if case["checks"] != "validate_only":
        world.rows = [row for row in world.rows if row not in lost]
        world.commits += bool(lost and not chosen)
        found = _commit(case, world, listed, chosen, new, found)
        world.rejected += rejected
    return found if found.files else replace(_nothing(case, has_files=True), skipped=skipped, young=young)


def _number_of_bad(case: Case, file: File) -> int:
    """Return the number of the bad line, which is the last one."""
    return len(file.rows) + 1 + (case["format"] == CSV)


def _find_lake_error(case: Case, world: World, listed: Mapping[str, File], *, reads_changes: bool) -> str:
    """Return why a snapshot without rows that the table holds is not loaded, '' if it is."""
    is_unread = case.is_in(mode=("merge changes",), store=("delta",)) and not reads_changes
    if (case["mode"].startswith("append") or is_unread) and _count_lost(world, listed):
        return "lake-rows-removed"
    return "no-file-matches" if case["mode"] == "replace table" and world.rows and not listed else ""


def _count_lost(world: World, listed: Mapping[str, File]) -> int:
    """Count the files that the table holds, and that are gone, or have changed."""
    return sum(key not in listed or listed[key].version not in versions for key, versions in world.loaded.items())


def _lost_rows(case: Case, world: World, listed: Mapping[str, File]) -> list[Row]:
    """Return the rows of the table whose keys a lake table has deleted, if the load deletes them."""
    if case["mode"] != "merge changes":
        return []
    versions = {key: file.version for key, file in listed.items()}
    return [row for row in world.rows if "_file" in row and versions.get(row["_file"]) != row["_version"]]


def _choose(case: Case, world: World, listed: Mapping[str, File]) -> dict[str, File] | None:
    """Return the files that a load takes; None if it fails because of a file that has changed."""
    if not _skips_loaded(case, world, listed):
        return dict(listed)
    old = {key for key, file in listed.items() if file.version in world.loaded.get(key, ())}
    changed = {key for key in listed if key in world.loaded and key not in old}
    if changed and case.is_in(mode=STRICT):
        return None
    if case["mode"] == "append, skip changed":
        old |= changed
    return {key: file for key, file in listed.items() if key not in old}


def _skips_loaded(case: Case, world: World, listed: Mapping[str, File]) -> bool:
    """Whether a load leaves out files that the table holds; a merge leaves out those of a lake table, if it can."""
    if case.is_in(store=LAKES, mode=MERGES):
        return case["mode"] == "merge changes" or not _count_lost(world, listed)
    return case["mode"].startswith("append") and case["mode"] != "append all"


def _find_error(case: Case, world: World, new: Sequence[Row]) -> str:
    """Return why staged rows are not committed, '' if they are."""
    if case["checks"] == "failed" or (case["checks"] == "conditions" and not new):  # of no rows, min is 0
        return "check-failed"
    touched = {partition_of(case, row) for row in new}
    foreign = {partition_of(case, row) for row in world.rows if "_file" not in row}
    is_strict = case["mode"] == "replace partitions"
    return "partition-holds-others" if is_strict and touched & foreign else ""


def _nothing(case: Case, *, has_files: bool) -> Expected:
    """Return how a load without anything to load ends."""
    if case["arrivals"] == "skip":
        return Expected(skips=True)
    if not has_files and case["arrivals"] != "succeed":
        return Expected(error="no-file-matches")
    return Expected()


def _commit(
    case: Case, world: World, listed: Mapping[str, File], chosen: Mapping[str, File], new: list[Row], found: Expected
) -> Expected:
    """Change the table, what the ledger says of it, and the store; returns how the load ends."""
    is_replacing = case.is_in(mode=("append, replace changed", "append, delete missing"))
    is_missing = case["mode"] == "append, delete missing" and bool(world.loaded.keys() - listed.keys())
    if chosen or is_missing:
        world.commits += 1
        has_replaced = is_replacing and bool(world.loaded.keys() & chosen.keys())
        world.can_undo = bool(chosen) and not has_replaced and _is_undoable(case)
    before = len(world.rows)
    world.rows = _change(case, world.rows, [{**row, "_load": world.commits} for row in new], set(chosen))
    if case["mode"] not in (*MERGES, "direct"):
        found = replace(found, replaced=before + len(new) - len(world.rows))
    if case["mode"] != "direct" and case["kind"] not in FOLDING and case["feature"] != "ttl":
        found = replace(found, rows_now=len(world.rows))
    world.fed += new
    if case["mode"] == "replace table":
        world.loaded = {}
    for key, file in chosen.items():
        if case["mode"] != "direct":
            earlier = set() if is_replacing else world.loaded.get(key, set())
            world.loaded[key] = {*earlier, file.version}
    if case["mode"] == "append, delete missing":
        world.rows = [row for row in world.rows if row.get("_file") not in world.loaded.keys() - listed.keys()]
        world.loaded = {key: versions for key, versions in world.loaded.items() if key in listed}
    if case.is_in(after_load=("move", "delete")):
        is_done = {key: file.version in world.loaded.get(key, ()) for key, file in listed.items()}
        world.files = {key: file for key, file in world.files.items() if not is_done.get(key)}
        if case["arrivals"] == "expected" and any(is_done.values()) and not world.files:
            world.markers = world.markers - {f"in/{MARKER}"}  # the folder's next files are not complete
    return found


def _is_undoable(case: Case) -> bool:
    is_kept = case["kind"] not in FOLDING and case["feature"] not in ("ttl", "view")
    return is_kept and case["mode"].startswith("append") and case["provenance"] == "path and load"


def undo(world: World) -> None:
    """Take back the last load, if that is possible."""
    if world.can_undo:
        world.rows = [row for row in world.rows if row.get("_load") != world.commits]


def _change(case: Case, old: list[Row], new: list[Row], paths: set[str]) -> list[Row]:
    match case["mode"]:
        case "append, replace changed" | "append, delete missing":
            return [row for row in old if row.get("_file") not in paths] + new
        case "replace partitions" | "replace partial partitions":
            touched = {partition_of(case, row) for row in new}
            return [row for row in old if partition_of(case, row) not in touched] + new
        case "replace where":
            return [row for row in old if row["kind"] != "loaded"] + new
        case "replace table":
            return new
        case mode if mode in MERGES:
            return _merge(case, old, new)
        case _:
            return old + new


def _merge(case: Case, old: list[Row], new: list[Row]) -> list[Row]:
    has_version = case["mode"] == "merge versions"
    newest: dict[int, Row] = {}
    for row in new:
        known = newest.get(row["id"])
        if known is None or row["v"] > known["v"]:
            newest[row["id"]] = row
    kept: list[Row] = []
    of_key: dict[int, list[Row]] = {}
    for row in old:
        if row["id"] in newest:
            of_key.setdefault(row["id"], []).append(row)
        else:
            kept.append(row)
    for number, row in newest.items():
        held = max(of_key.get(number, []), key=lambda one: one["v"], default=None)
        if held is not None and has_version and held["v"] > row["v"]:
            kept.append(held)
        elif row.get("_deletes"):
            continue
        elif held is not None and _plain(held) == _plain(row):
            kept.append(held)
        else:
            kept.append(row)
    return kept


def _plain(row: Row) -> Row:
    return {name: value for name, value in row.items() if not name.startswith("_")}


def shown(
    case: Case, row: Row, *, path: Callable[[str, int], str], columns: Iterable[str]
) -> tuple[tuple[str, Any], ...]:
    """Return a row as the table shows it, with computed columns and where the row came from."""
    found = {name: row.get(name) for name in columns}
    if case["feature"] == "default":
        found["made"] = f"made {row['kind']}"
    if case["feature"] == "materialized":
        found["twice"] = row["id"] * 2
    if case["feature"] == "alias":
        found["half"] = row["id"] // 2
    if case["provenance"] == "path and load":
        found[SOURCE_COLUMNS["path"]] = path(row["_file"], row["_version"]) if "_file" in row else ""
        found[SOURCE_COLUMNS["load"]] = int("_file" in row)
    if case["provenance"] == "time":
        found[SOURCE_COLUMNS["time"]] = int("_file" in row)
    if case["provenance"] == "row":
        found[SOURCE_COLUMNS["row"]] = row.get("_row", 0)
    return tuple(sorted(found.items()))


def compare(case: Case, expected: Counter[Any], found: Counter[Any]) -> list[str]:
    """Return what is wrong with the rows of a table; merges may have folded rows of some kinds of tables."""
    if case["kind"] not in FOLDING:
        missing, unwanted = expected - found, found - expected
        return [
            *(f"{count} x missing: {dict(row)}" for row, count in list(missing.items())[:5]),
            *(f"{count} x unwanted: {dict(row)}" for row, count in list(unwanted.items())[:5]),
        ]
    if _folded(case, expected) != _folded(case, found):
        return [f"folded rows differ: {_folded(case, expected)} expected, {_folded(case, found)} found"]
    return []


def _folded(case: Case, rows: Counter[Any]) -> dict[Any, Any]:
    """Compute what merges do not change."""
    found: dict[Any, Any] = {}
    for row, count in rows.items():
        one = dict(row)
        key = (one["id"], one["day"])
        if case["kind"] == "replacing":
            found[key] = max(found.get(key, 0), one["v"])
        elif case["kind"] == "summing":
            found[key] = found.get(key, 0) + count * (one["amount"] or 0)
        else:
            found[(*key, one["v"])] = found.get((*key, one["v"]), 0) + count * one["sign"]
    return {key: value for key, value in found.items() if value or case["kind"] == "replacing"}


def markers_of(case: Case) -> list[str]:
    """List the keys of objects without bytes: a marker of complete files, a folder, a file of an unfinished job."""
    keys = [key_of(case, number) for number in range(FILES)]
    # a web server lists no folder, so each folder that the source names is complete by itself
    folders = {key.rpartition("/")[0] for key in keys} if case["store"] == "web" else {"in"}
    is_marked = case["arrivals"] == "expected" or case["objects"] == "markers"
    found = [f"{folder}/{MARKER}" for folder in sorted(folders)] if is_marked else []
    if case["objects"] == "markers":
        found += ["in/", key_of(case, 0).replace("in/", "in/_temporary/0/")]
    if case["objects"] == "empty file":
        found.append(first_key(case))
    return found
