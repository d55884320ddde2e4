"""The factors of a load and their levels: the operator's arguments, files, tables, clusters, and what people do.

A factor with the name of an argument has values of this argument as levels. ``test_declared.py`` compares these with
what the code declares: an argument, a field of a value and a word of a choice that no level has fail the test.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from airflow_provider_ch_s3.arguments import (
    Arrivals,
    Check,
    Checks,
    Chunks,
    Columns,
    CreateTable,
    Csv,
    Delete,
    Expect,
    Format,
    Held,
    Move,
    Reject,
    Tag,
)
from airflow_provider_ch_s3.modes import Append, Direct, Merge, ReplacePartitions, ReplaceTable, ReplaceWhere

PARQUET, ORC, ARROW, AVRO, NATIVE, JSON, TSV = "parquet", "orc", "arrow", "avro", "native", "json", "tsv"
PACKED = (PARQUET, ORC, ARROW, AVRO)
"""Formats that compress inside of a file."""
TYPED = (*PACKED, NATIVE)
CSV, BARE, STRUCTURED, DIALECT, ESCAPED = "csv", "csv bare", "csv structure", "csv dialect", "csv escape"
CSVS = (CSV, BARE, STRUCTURED, DIALECT, ESCAPED)
COLUMN_TYPES = {
    "id": "UInt32",
    "day": "Date",
    "kind": "String",
    "amount": "Nullable(Int64)",
    "v": "UInt32",
    "sign": "Int8",
    "note": "String",
    "extra": "Nullable(Int64)",
    "op": "String",
}
"""The columns of all files and tables, in the order of the table."""
PROVENANCE_TYPES = {"path": "String", "row": "UInt64", "time": "DateTime", "load": "String"}
SOURCE_COLUMNS = {"path": "src", "row": "src_row", "time": "loaded_at", "load": "load_id"}
"""What a load knows of a row → the column of the table."""
LAKES = ("iceberg", "delta")
"""Stores that are a lake table."""
MERGES = ("merge", "merge changes", "merge versions")
NAMES_OP = ("expression", "bare deletions")
"""Files with a column that the table lacks; rows to be deleted may carry only their key."""
FOLDER = "loaded/"
MARKER = "_SUCCESS"
ONLY = ("id", "day", "kind", "amount", "v", "sign")


@dataclass(frozen=True)
class Case:
    """A level of each factor."""

    levels: Mapping[str, str]

    def __getitem__(self, factor: str) -> str:
        return self.levels[factor]

    def is_in(self, **levels: str | tuple[str, ...]) -> bool:
        """Whether each factor has one of these levels."""
        return all(self[name] in ((one,) if isinstance(one, str) else one) for name, one in levels.items())

    @property
    def in_files(self) -> list[str]:
        """The columns of the files, in order."""
        left_out = {
            "same": ("extra", "op"),
            "fewer": ("note", "extra", "op"),
            "more": ("op",),
            "expression": ("extra",),
            "bare deletions": ("extra",),
            "folder": ("day", "extra", "op"),
        }[self["files"]]
        return [name for name in COLUMN_TYPES if name not in left_out]

    @property
    def provenance(self) -> Mapping[str, str]:
        """Column of the table → what a load writes there."""
        return FACTORS["provenance"][self["provenance"]] or {}

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the operator that the levels stand for, without those that are not given."""
        found = {}
        for factor in ARGUMENTS:
            level = FACTORS[factor][self[factor]]
            value = level(self) if callable(level) else level
            if value is not None:
                found[factor] = value
        return found

    def __str__(self) -> str:
        return ", ".join(f"{name}={level}" for name, level in self.levels.items() if level != usual(name))


Level = Any
"""The value of an argument, or a function of the case that returns the value; None: not given."""


def _deleted(case: Case) -> str:
    return "op = 'D'" if case.is_in(files=NAMES_OP) else "amount = -1"


def _structure(case: Case) -> str:
    return ", ".join(f"{name} {COLUMN_TYPES[name]}" for name in case.in_files)


def _amount(case: Case) -> str:
    """Return an expression for the number; of lines with escapes, each field is a text."""
    return "toInt64OrNull(amount)" if case["format"] == ESCAPED else "amount"


def _number(case: Case) -> str:
    """Return an expression for the key; of lines with escapes, each field is a text."""
    return "toUInt32(id)" if case["format"] == ESCAPED else "id"


def _structure_of_expressions(case: Case) -> str | None:
    """Return the types of the columns, if an expression needs them: in this dialect a number is taken for a text."""
    return None if case["select"] == "none" else _structure(case)


def _compression(case: Case) -> str | None:
    return "gzip" if case["compression"] == "unnamed gz" else None


def _format(case: Case) -> Any:
    compression = _compression(case)
    match case["format"]:
        case "csv bare":
            return Csv(header=False, compression=compression)
        case "csv structure":
            return Csv(header=False, structure=_structure(case), compression=compression)
        case "csv dialect":
            return Csv(
                delimiter=";",
                quote="'",
                header=True,
                skip_lines=1,
                encoding="latin-1",
                null_words=["NA"],
                trim=True,
                compression=compression,
                structure=_structure_of_expressions(case),
            )
        case "csv escape":
            return Csv(escape="\\", header=True, compression=compression)
        case "parquet" if case["compression"] == "unnamed gz":
            return Format("Parquet")
        case "parquet" | "orc" | "arrow" | "avro" | "native" | "csv":
            return Format(compression=compression) if compression else None
        case "json":
            return Format("JSONEachRow", compression=compression)
        case "tsv":
            return Format("TSVWithNames", structure=_structure(case), compression=compression)
        case other:
            raise ValueError(other)


def _create(case: Case) -> Any:
    match case["kind"]:
        case "new":
            if case["cluster"] == "sharded by id":
                return CreateTable(sharding_key="id")
            return CreateTable(distributed=False) if case["cluster"] == "local tables" else "auto"
        case "new as told":
            return CreateTable(
                order_by=["id"],
                partition_by="day",
                engine="MergeTree",
                settings={"index_granularity": 1024},
                types={"kind": "LowCardinality(String)"},
                distributed=False if case["cluster"] == "local tables" else None,
                sharding_key="id" if case["cluster"] == "sharded by id" else "rand()",
            )
        case _:
            return None


def _provenance(*words: str) -> dict[str, str]:
    return {SOURCE_COLUMNS[word]: word for word in words}


# No load has written what the table holds before the first night.
_append = partial(Append, on_unknown_rows="keep")
# The first level of each factor is the usual one.
FACTORS: Mapping[str, Mapping[str, Level]] = {
    "mode": {
        "append": _append(),
        "append, nothing unknown": Append(),
        "append all": _append(on_loaded="load", on_changed="load"),
        "append, skip changed": _append(on_changed="skip"),
        "append, replace changed": _append(on_changed="replace"),
        "append, delete missing": _append(on_changed="replace", on_missing="delete"),
        "append, replay views": _append(views="replay"),
        "append, list later keys": _append(list_after_loaded=True),
        "replace partitions": ReplacePartitions(),
        "replace partial partitions": ReplacePartitions(on_partial="replace"),
        "replace where": ReplaceWhere("kind = 'loaded'"),
        "replace table": ReplaceTable(),
        "merge": Merge(key=["id"], max_rewritten_bytes=10**9),
        "merge changes": Merge(key=["id"], on_removed="delete", max_rewritten_bytes=10**9),
        "merge versions": lambda case: Merge(key=["id"], version="v", deleted=_deleted(case), duplicates="collapse"),
        "direct": Direct(),
    },
    "store": {"s3": None, "azure": None, "web": None, **dict.fromkeys(LAKES)},
    "format": {
        PARQUET: None,
        ORC: None,
        ARROW: None,
        AVRO: None,
        NATIVE: None,
        JSON: None,
        TSV: None,
        CSV: None,
        BARE: None,
        STRUCTURED: None,
        DIALECT: None,
        ESCAPED: None,
    },
    "compression": {"none": None, "gz": None, "zst": None, "unnamed gz": None},
    "kind": {
        "by day": None,
        "by expression": None,
        "unpartitioned": None,
        "replacing": None,
        "summing": None,
        "collapsing": None,
        "new": None,
        "new as told": None,
    },
    "feature": {
        "none": None,
        "default": None,
        "materialized": None,
        "alias": None,
        "check": None,
        "ttl": None,
        "projection": None,
        "lightweight delete": None,
        "view": None,
        "s3 disk": None,
    },
    "cluster": {"one node": None, "local tables": None, "distributed": None, "sharded by id": None},
    "held": {"elsewhere": None, "nothing": None, "same partitions and keys": None},
    "files": {"same": None, "fewer": None, "more": None, "expression": None, "folder": None, "bare deletions": None},
    "objects": {"files alone": None, "markers": None, "empty file": None, "file without rows": None},
    "night": {"new": None, "changed": None, "gone": None, "all gone": None, "same": None},
    "afterwards": {"nothing": None, "undo": None, "export": None},
    "retry": {"none": None, "killed while staging": None, "killed in the commit": None},
    "columns": {
        "all": None,
        "only": list(ONLY),
        "ignore": Columns(on_new="ignore"),
        "add": Columns(on_new="add"),
        "default": Columns(on_missing="default"),
    },
    "select": {
        "none": None,
        "own": lambda case: {"amount": f"{_amount(case)} * 2"},
        "op": lambda case: {"amount": f"if(op = 'U', {_amount(case)}, NULL)"},
    },
    "where": {"none": None, "own": lambda case: f"{_number(case)} % 10 != 4", "op": "op != 'S'"},
    "provenance": {
        "none": None,
        "path and load": _provenance("path", "load"),
        "time": _provenance("time"),
        "row": _provenance("row"),
    },
    "bad_rows": {"fail": None, "reject": "reject", "reject some": Reject(max_rows=1000, max_ratio=0.9)},
    "checks": {
        "none": None,
        "conditions": {
            "positive": "min(id) > 0",
            "many": Check("count() > 1000000", on_failure="warn"),
            "usual": Expect(
                "count()", within=100, of="median of the last 3 loads", is_absolute=True, on_failure="warn"
            ),
        },
        "min_rows": Checks(min_rows=2),
        "failed": Checks({"none": "count() = 0"}, keep_staged=3600),
        "validate_only": Checks(validate_only=True),
    },
    "chunks": {"usual": None, "files": Chunks(max_files=1), "bytes": Chunks(max_bytes=1), "off": "off"},
    "commit": {"at once": None, "settled": "settled", "held": Held(hold_seconds=3600)},
    "after_load": {"keep": None, "tag": Tag(), "move": Move(FOLDER), "delete": Delete()},
    "arrivals": {
        "usual": None,
        "min_age": Arrivals(min_age=1),
        "expected": Arrivals(expected=MARKER, min_files=2),
        "skip": Arrivals(on_none="skip", skip_if_nothing_new=True),
        "succeed": Arrivals(on_none="succeed"),
    },
    "settings": {"none": None, "small blocks": {"max_insert_threads": 1, "min_insert_block_size_rows": 2}},
    "deferrable": {"no": None, "yes": True},
    "credentials": {"connection": None, "collection": {"named_collection": "sandbox_s3"}},
    "data_format": {"as the files are": _format},
    "create_table": {"as the table is": _create},
}
ARGUMENTS = (
    "mode",
    "columns",
    "select",
    "where",
    "provenance",
    "bad_rows",
    "checks",
    "chunks",
    "commit",
    "after_load",
    "arrivals",
    "settings",
    "deferrable",
    "credentials",
    "data_format",
    "create_table",
)
"""The factors that are arguments of the operator."""


def usual(factor: str) -> str:
    """Return the first level of a factor."""
    return next(iter(FACTORS[factor]))


def case_of(**levels: str) -> Case:
    """Build a case with usual levels but for these."""
    wrong = {name: level for name, level in levels.items() if level not in FACTORS[name]}
    assert not wrong, wrong
    return Case({name: levels.get(name, usual(name)) for name in FACTORS})
