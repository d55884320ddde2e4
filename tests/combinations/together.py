"""What cannot go together: the only table, from which docs/limits.md is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from tests.combinations.factors import FACTORS, LAKES, MERGES, NAMES_OP, PACKED, TYPED, Case

Levels = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class Apart:
    """Levels that are refused together.

    :param what: the two things, in the words of docs/limits.md, and ``reason``.
    :param levels: factor → levels.
    :param code: of the error that refuses them.
    """

    what: tuple[str, str]
    levels: Levels
    reason: str
    code: str

    def holds(self, case: Case) -> bool:
        return case.is_in(**self.levels)


@dataclass(frozen=True, kw_only=True)
class Meaningless:
    """Levels that mean nothing together, so that no run has them."""

    levels: Levels
    reason: str


def but(factor: str, *levels: str) -> tuple[str, ...]:
    """Return all levels of a factor but these."""
    assert set(levels) <= set(FACTORS[factor]), levels
    return tuple(level for level in FACTORS[factor] if level not in levels)


NEW = ("new", "new as told")
FOLDING = ("replacing", "summing", "collapsing")
APPENDS = tuple(level for level in FACTORS["mode"] if level.startswith("append"))
REPLACING_FILES = ("append, replace changed", "append, delete missing")
ABOUT_FILES = tuple(
    mode for mode in APPENDS if mode not in ("append", "append, nothing unknown", "append, replay views")
)
REJECTS = but("bad_rows", "fail")
CHUNKED = but("chunks", "usual")
DISPOSING = but("after_load", "keep")
CHECKED = ("conditions", "failed")
TAKES_NEW = ("only", "ignore", "add")
NAMELESS = ("csv bare", "csv structure")

HELD = ("held",)

APART: tuple[Apart, ...] = (
    Apart(
        what=("lake tables", "`bad_rows=Reject(…)`"),
        levels={"store": LAKES, "bad_rows": REJECTS},
        reason="only CSV and JSONEachRow are read line by line",
        code="argument-without-effect",
    ),
    Apart(
        what=("lake tables", "`after_load`"),
        levels={"store": LAKES, "after_load": DISPOSING},
        reason="the files belong to the lake table",
        code="argument-without-effect",
    ),
    Apart(
        what=("lake tables", "`Direct()`, and choices of `Append(…)` but `views` and `on_unknown_rows`"),
        levels={"store": LAKES, "mode": (*ABOUT_FILES, "direct")},
        reason="snapshots say which files are new",
        code="argument-without-effect",
    ),
    Apart(
        what=("lake tables", "`Arrivals(min_age=…)`, `Arrivals(expected=…)`"),
        levels={"store": LAKES, "arrivals": ("min_age", "expected")},
        reason="a snapshot is complete",
        code="argument-without-effect",
    ),
    Apart(
        what=('`mode="direct"`', "conditions in `checks`"),
        levels={"mode": ("direct",), "checks": CHECKED},
        reason="the rows are in the table before anything can check them",
        code="arguments-contradict",
    ),
    Apart(
        what=('`mode="direct"`', "`Checks(validate_only=True)`"),
        levels={"mode": ("direct",), "checks": ("validate_only",)},
        reason="the rows are in the table at once",
        code="arguments-contradict",
    ),
    Apart(
        what=('`mode="direct"`', '`Columns(on_new="add")`'),
        levels={"mode": ("direct",), "columns": ("add",)},
        reason="other loads have to wait while the table is altered",
        code="arguments-contradict",
    ),
    Apart(
        what=('`mode="direct"`', "`after_load`"),
        levels={"mode": ("direct",), "after_load": DISPOSING},
        reason="no ledger says which files are loaded",
        code="arguments-contradict",
    ),
    Apart(
        what=('`mode="direct"`', "`bad_rows=Reject(…)`"),
        levels={"mode": ("direct",), "bad_rows": REJECTS},
        reason="bad rows are committed together with the others",
        code="arguments-contradict",
    ),
    Apart(
        what=("any mode but `Append(…)`", "`chunks`"),
        levels={"mode": but("mode", *APPENDS), "chunks": CHUNKED},
        reason="all modes but append load all files with one query",
        code="argument-without-effect",
    ),
    Apart(
        what=('`Append(on_changed="replace")`', "`provenance` without `path` and `load`"),
        levels={"mode": REPLACING_FILES, "provenance": but("provenance", "path and load")},
        reason="columns with path and load tell which rows are those of a file",
        code="provenance-needed",
    ),
    Apart(
        what=("files of a web server", "`after_load`"),
        levels={"store": ("web",), "after_load": DISPOSING},
        reason="a load cannot change the files",
        code="arguments-contradict",
    ),
    Apart(
        what=("lake tables", '`commit="held"`'),
        levels={"store": LAKES, "commit": HELD},
        reason="the next load would load the held rows, too",
        code="arguments-contradict",
    ),
    Apart(
        what=('`Append(on_missing="delete")`', '`after_load=Move(…)` or `"delete"`'),
        levels={"mode": ("append, delete missing",), "after_load": ("move", "delete")},
        reason="the rows of all files that are moved or deleted would be removed",
        code="arguments-contradict",
    ),
    Apart(
        what=('`Append(on_changed="replace")`', "files of a web server"),
        levels={"mode": REPLACING_FILES, "store": ("web",)},
        reason="servers of different versions do not agree on the name of such a file",
        code="arguments-contradict",
    ),
    Apart(
        what=("`Append(list_after_loaded=True)`", "several addresses in `source`"),
        levels={"mode": ("append, list later keys",), "store": ("web",)},
        reason="the last loaded key is one of a single address",
        code="arguments-contradict",
    ),
    Apart(
        what=('`Append(on_missing="delete")`', "wildcards in the folders of `source`"),
        levels={"mode": ("append, delete missing",), "files": ("folder",)},
        reason="a folder that is not there yet would count as deleted",
        code="arguments-contradict",
    ),
    Apart(
        what=('`mode="direct"`', '`commit="settled"`, `commit="held"`'),
        levels={"mode": ("direct",), "commit": ("settled", *HELD)},
        reason="the rows are in the table at once",
        code="arguments-contradict",
    ),
    Apart(
        what=('`commit="held"`', "`Chunks(…)`"),
        levels={"commit": HELD, "chunks": ("files", "bytes")},
        reason="all files are held, and committed, at once",
        code="arguments-contradict",
    ),
    Apart(
        what=('`commit="held"`', "`Checks(validate_only=True)`"),
        levels={"commit": HELD, "checks": ("validate_only",)},
        reason="a validation drops the rows",
        code="arguments-contradict",
    ),
    Apart(
        what=('`commit="held"`', "`after_load`"),
        levels={"commit": HELD, "after_load": DISPOSING},
        reason="the task that commits the rows knows nothing of the store",
        code="arguments-contradict",
    ),
    Apart(
        what=('`commit="held"`', '`Append(on_changed="replace")`'),
        levels={"commit": HELD, "mode": REPLACING_FILES},
        reason="which rows are of older files is known only at the commit",
        code="arguments-contradict",
    ),
    Apart(
        what=("`bad_rows=Reject(…)`", "any mode but `Append(…)`"),
        levels={"bad_rows": REJECTS, "mode": but("mode", *APPENDS, "direct")},
        reason="bad rows are added to another table, where nothing replaces them",
        code="arguments-contradict",
    ),
    Apart(
        what=("`bad_rows=Reject(…)`", '`Append(views="replay")`'),
        levels={"bad_rows": REJECTS, "mode": ("append, replay views",)},
        reason="views are fed from rows of one form",
        code="arguments-contradict",
    ),
    Apart(
        what=("`bad_rows=Reject(…)`", "`select`"),
        levels={"bad_rows": REJECTS, "select": but("select", "none")},
        reason="lines are taken apart by SQL of their own",
        code="arguments-contradict",
    ),
    Apart(
        what=("`bad_rows=Reject(…)`", "`where`"),
        levels={"bad_rows": REJECTS, "where": but("where", "none")},
        reason="lines are taken apart by SQL of their own",
        code="arguments-contradict",
    ),
    Apart(
        what=("`bad_rows=Reject(…)`", "`provenance`"),
        levels={"bad_rows": REJECTS, "provenance": but("provenance", "none")},
        reason="a bad row has its file and line anyway",
        code="arguments-contradict",
    ),
    Apart(
        what=(
            "`bad_rows=Reject(…)`",
            "TSV, `structure`, and `Csv(…)` with more than delimiter, header and compression",
        ),
        levels={"bad_rows": REJECTS, "format": ("tsv", "csv structure", "csv dialect", "csv escape")},
        reason="lines are taken apart by SQL of their own",
        code="arguments-contradict",
    ),
    Apart(
        what=("`bad_rows=Reject(…)`", '`Columns(on_new="add")`'),
        levels={"bad_rows": REJECTS, "columns": ("add",)},
        reason="the lines are taken apart for the columns of the table",
        code="arguments-contradict",
    ),
    Apart(
        what=("`Checks(validate_only=True)`", '`Columns(on_new="add")`'),
        levels={"checks": ("validate_only",), "columns": ("add",)},
        reason="a validation changes nothing",
        code="arguments-contradict",
    ),
    Apart(
        what=("`Checks(validate_only=True)`", "a table that does not exist"),
        levels={"checks": ("validate_only",), "kind": NEW},
        reason="a validation changes nothing",
        code="table-missing",
    ),
    Apart(
        what=("`Checks(validate_only=True)`", "`bad_rows=Reject(…)`, if `<table>_rejected` does not exist"),
        levels={"checks": ("validate_only",), "bad_rows": REJECTS},
        reason="a validation makes no table for bad rows",
        code="table-missing",
    ),
    Apart(
        what=("`Expect(…)` in `checks`", "files in several chunks"),
        levels={"checks": ("conditions",), "chunks": ("files", "bytes")},
        reason="a usual value is one of all rows of a load",
        code="check-needs-all-rows",
    ),
    Apart(
        what=("`bad_rows=Reject(…)`", "files that are no text, such as Parquet"),
        levels={"bad_rows": REJECTS, "format": TYPED},
        reason="only CSV and JSONEachRow are read line by line",
        code="arguments-contradict",
    ),
    Apart(
        what=('`mode="replace_partitions"`', "a table without PARTITION BY"),
        levels={"mode": ("replace partitions", "replace partial partitions"), "kind": ("unpartitioned",)},
        reason="the table has no partitions",
        code="partition-key-missing",
    ),
    Apart(
        what=('`mode="replace_partitions"`', '`create_table="auto"` and files without folders'),
        levels={
            "mode": ("replace partitions", "replace partial partitions"),
            "kind": ("new",),
            "files": but("files", "folder"),
        },
        reason="a table without folders is made without partitions",
        code="partition-key-missing",
    ),
    Apart(
        what=('any mode but `Append(views="replay")` and `Direct()`', "a table that feeds a view"),
        levels={"mode": but("mode", "append, replay views", "direct"), "feature": ("view",)},
        reason="a commit triggers no views",
        code="view-not-fed",
    ),
    Apart(
        what=('`Append()` without `on_unknown_rows="keep"`', "a table with rows that no load has written"),
        levels={"mode": ("append, nothing unknown",), "held": but("held", "nothing")},
        reason="the rows may be those of the files",
        code="rows-unknown",
    ),
    Apart(
        what=('`Append()` without `on_unknown_rows="keep"`', "a table whose rows a lightweight DELETE has removed"),
        levels={"mode": ("append, nothing unknown",), "feature": ("lightweight delete",)},
        reason="such rows count until a merge removes them",
        code="rows-unknown",
    ),
    Apart(
        what=('`mode="replace_partitions"`', "a partition whose rows, of no load, a lightweight DELETE has removed"),
        levels={"mode": ("replace partitions",), "feature": ("lightweight delete",), "held": ("nothing",)},
        reason="such rows count until a merge removes them",
        code="partition-holds-others",
    ),
    Apart(
        what=('`Append(on_changed="replace")`', "Replacing, Summing, Aggregating and Collapsing tables"),
        levels={"mode": REPLACING_FILES, "kind": FOLDING},
        reason="merges fold rows",
        code="engine-folds-rows",
    ),
    Apart(
        what=('`Append(on_changed="replace")`', "a table with a TTL"),
        levels={"mode": REPLACING_FILES, "feature": ("ttl",)},
        reason="a TTL removes rows",
        code="engine-folds-rows",
    ),
    Apart(
        what=("`bad_rows=Reject(…)`", "Replacing, Summing, Aggregating and Collapsing tables"),
        levels={"bad_rows": REJECTS, "kind": FOLDING},
        reason="merges fold rows, and rows are counted",
        code="engine-folds-rows",
    ),
    Apart(
        what=("`bad_rows=Reject(…)`", "a table with a TTL"),
        levels={"bad_rows": REJECTS, "feature": ("ttl",)},
        reason="a TTL removes rows, and rows are counted",
        code="engine-folds-rows",
    ),
    Apart(
        what=("`bad_rows=Reject(…)`", "a Distributed table with a sharding key other than `rand()`"),
        levels={"bad_rows": REJECTS, "cluster": ("sharded by id",)},
        reason="each row stays on the node that reads it",
        code="bad-rows-unsupported",
    ),
    Apart(
        what=('`Merge(on_removed="delete")`', "sources other than lake tables"),
        levels={"mode": ("merge changes",), "store": but("store", *LAKES)},
        reason="only snapshots tell removed rows",
        code="argument-without-effect",
    ),
    Apart(
        what=('`Merge(on_removed="delete")`', "path and number of a row in `provenance`"),
        levels={"mode": ("merge changes",), "provenance": ("path and load", "row")},
        reason="change data name no file",
        code="arguments-contradict",
    ),
    Apart(
        what=("`mode=Merge(…)`", "Summing, Aggregating and Collapsing tables"),
        levels={"mode": MERGES, "kind": ("summing", "collapsing")},
        reason="merges of the table make other rows",
        code="engine-not-mergeable",
    ),
    Apart(
        what=("the number of a row in `provenance`", "files other than Parquet"),
        levels={"provenance": ("row",), "format": but("format", "parquet")},
        reason="servers number the rows of Parquet files only",
        code="provenance-not-possible",
    ),
    Apart(
        what=("CSV without a header", "`create_table`, without `structure`"),
        levels={"format": ("csv bare",), "kind": NEW},
        reason="nothing names the columns",
        code="structure-needed",
    ),
    Apart(
        what=("`Csv(escape=…)`", "`create_table`"),
        levels={"format": ("csv escape",), "kind": NEW},
        reason="lines are taken apart by the columns of a table",
        code="structure-needed",
    ),
    Apart(
        what=("`Csv(escape=…)`", '`Columns(on_new="add")`, if the files have a new column'),
        levels={"format": ("csv escape",), "columns": ("add",), "files": ("more",)},
        reason="lines are taken apart by the columns of a table",
        code="structure-needed",
    ),
    Apart(
        what=("`bad_rows=Reject(…)`", "`create_table`, if a bad row is among the first rows"),
        levels={"bad_rows": REJECTS, "kind": NEW, "format": ("csv", "json")},
        reason="the columns of a new table come from the first rows",
        code="table-missing",
    ),
    Apart(
        what=("CSV without a header or `structure`", "files with fewer or more columns than the table"),
        levels={"format": ("csv bare",), "files": ("fewer", "more", *NAMES_OP)},
        reason="nothing names the columns",
        code="structure-needed",
    ),
    Apart(
        what=("CSV without a header or `structure`", "a table with a DEFAULT that the files leave out"),
        levels={"format": ("csv bare",), "feature": ("default",)},
        reason="nothing names the columns",
        code="structure-needed",
    ),
    Apart(
        what=("files without a column of the table", '`columns` without a list or `on_missing="default"`'),
        levels={"files": ("fewer",), "columns": ("all", "ignore", "add"), "kind": but("kind", *NEW)},
        reason="files lack a column of the table",
        code="columns-missing",
    ),
    Apart(
        what=(
            "files with a column that the table lacks",
            "`columns` without a list or `on_new`, and no `select`",
        ),
        levels={"files": ("more",), "columns": ("all", "default"), "select": ("none",), "kind": but("kind", *NEW)},
        reason="the table lacks a column of the files",
        code="new-columns",
    ),
    Apart(
        what=(
            "files with a column that the table lacks",
            "`columns` without a list or `on_new`, if no expression names the column",
        ),
        levels={
            "files": ("expression",),
            "columns": ("all", "default"),
            "select": ("none",),
            "where": ("none", "own"),
            "mode": but("mode", "merge versions"),
            "kind": but("kind", *NEW),
        },
        reason="the table lacks a column of the files",
        code="new-columns",
    ),
)
"""What is refused, in the order in which a load looks for it."""
MEANINGLESS: tuple[Meaningless, ...] = (
    Meaningless(levels={"store": but("store", "s3"), "credentials": ("collection",)}, reason="a collection of S3"),
    Meaningless(
        levels={"store": LAKES, "format": but("format", "parquet")}, reason="the library of the lake writes Parquet"
    ),
    Meaningless(
        levels={"store": LAKES, "compression": but("compression", "none")}, reason="Parquet compresses inside"
    ),
    Meaningless(levels={"store": LAKES, "objects": but("objects", "files alone")}, reason="files have rows"),
    Meaningless(levels={"store": LAKES, "files": ("folder",)}, reason="all columns are in the files"),
    Meaningless(levels={"select": ("op",), "files": but("files", *NAMES_OP)}, reason="no such column"),
    Meaningless(levels={"where": ("op",), "files": but("files", *NAMES_OP)}, reason="no such column"),
    Meaningless(
        levels={"files": ("bare deletions",), "mode": but("mode", "merge versions")}, reason="no row would be deleted"
    ),
    Meaningless(
        levels={"objects": ("file without rows",), "format": (*NAMELESS, "json", "native")},
        reason="the file would be empty",
    ),
    Meaningless(levels={"commit": HELD, "retry": ("killed in the commit",)}, reason="the load commits nothing"),
    Meaningless(levels={"mode": ("direct",), "afterwards": ("undo",)}, reason="no ledger knows the load"),
    Meaningless(levels={"compression": ("unnamed gz",), "format": PACKED}, reason="compressed inside"),
    Meaningless(levels={"feature": but("feature", "none"), "kind": NEW}, reason="the load makes the table"),
    Meaningless(levels={"held": but("held", "nothing"), "kind": NEW}, reason="the load makes the table"),
    Meaningless(
        levels={"mode": ("direct",), "retry": but("retry", "none")}, reason="at least once: rows of a failed try stay"
    ),
)


def apart_of(case: Case) -> Apart | None:
    """Return why the levels of a case are refused; None if they are not."""
    return next((one for one in APART if one.holds(case)), None)


FOLLOWING: tuple[tuple[Levels, str], ...] = (
    *(
        ({"mode": ("merge changes",), name: levels}, "a lake table tells the changes, and its files are Parquet")
        for name, levels in {
            "format": but("format", "parquet"),
            "compression": but("compression", "none"),
            "files": ("folder",),
            "objects": but("objects", "files alone"),
            "after_load": DISPOSING,
            "arrivals": ("min_age", "expected"),
            "commit": HELD,
            "credentials": ("collection",),
        }.items()
    ),
    (
        {"files": ("bare deletions",), "chunks": CHUNKED},
        "only a merge by versions reads deletions, and only Append(…) has chunks",
    ),
    (
        {"files": ("bare deletions",), "bad_rows": REJECTS},
        "only merges read deletions, only Append(…) has bad rows",
    ),
    ({"files": ("bare deletions",), "feature": ("view",)}, "only merges read deletions, and no merge feeds a view"),
    (
        {"files": ("bare deletions",), "kind": ("summing", "collapsing")},
        "only merges read deletions, and fold nothing",
    ),
    (
        {"bad_rows": REJECTS, "feature": ("view",)},
        "views need Append(views='replay') or Direct()",
    ),
    ({"bad_rows": REJECTS, "kind": NEW}, "the bad row of each text format is among the first rows"),
    ({"bad_rows": REJECTS, "mode": REPLACING_FILES}, "files that changed need provenance, which bad rows lack"),
    ({"compression": ("unnamed gz",), "provenance": ("row",)}, "only rows of Parquet files have numbers"),
    ({"format": ("csv bare",), "select": ("op",)}, "columns without names are the table's, which has no op"),
    ({"format": ("csv bare",), "where": ("op",)}, "columns without names are the table's, which has no op"),
)
"""Pairs that no run can have, because of a further factor: the levels, and how this follows from the table."""


def holds_of(levels: Levels, some: Mapping[str, str]) -> bool:
    """Whether levels of some factors contain these."""
    return all(name in some and some[name] in of for name, of in levels.items())


def is_meant(some: Mapping[str, str]) -> bool:
    """Whether levels of some factors mean something together."""
    return not any(holds_of(one.levels, some) for one in MEANINGLESS)


def goes_together(some: Mapping[str, str]) -> bool:
    """Whether levels of some factors can be loaded together."""
    return is_meant(some) and not any(holds_of(one.levels, some) for one in APART)


def refused_cases() -> list[Case]:
    """List cases with levels that are refused: each of a pair's combinations once, else each level once.

    All other factors have a level for which nothing else is refused.
    """
    found: list[Case] = []
    for one in APART:
        names = list(one.levels)
        if len(names) == 2:
            drawn = [dict(zip(names, levels, strict=True)) for levels in product(*one.levels.values())]
        else:
            most = max(map(len, one.levels.values()))
            drawn = [{name: one.levels[name][n % len(one.levels[name])] for name in names} for n in range(most)]
        found += [case for levels in drawn if is_meant(levels) and (case := _completed(one, levels))]
    return found


def _completed(apart: Apart, levels: Mapping[str, str]) -> Case | None:
    """Complete levels so that nothing else is refused, or nothing that a load looks for before."""
    others = [one for one in APART if one is not apart]
    return _complete(levels, others) or _complete(levels, APART[: APART.index(apart)])


def _complete(levels: Mapping[str, str], others: Sequence[Apart]) -> Case | None:
    """Choose the first level of each other factor with which none of these refusals holds."""
    some = dict(levels)

    def is_alone() -> bool:
        return is_meant(some) and not any(holds_of(one.levels, some) for one in others)

    for name in FACTORS:
        if name in some:
            continue
        for level in FACTORS[name]:
            some[name] = level
            if is_alone():
                break
        else:
            return None
    return Case({name: some[name] for name in FACTORS}) if is_alone() else None
