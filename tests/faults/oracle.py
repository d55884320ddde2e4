"""The rows of every run, computed without ClickHouse, and what a table has to hold before and after.

Rows are lines of text, as ClickHouse prints them in TSV; ClickHouse is never asked for the expected rows.
"""

from __future__ import annotations

import io
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from airflow_provider_ch_s3.errors import ServerError
from ch_s3_lab.sandbox.info import Sandbox

COLUMNS = "id UInt64, p UInt8, kind String, amount Nullable(Int32), at DateTime64(3, 'UTC'), note String"
PROVENANCE = "source_file LowCardinality(String), load_id String"
FILES = 6
EMPTY = -1
"""The version of a file without a byte."""
ROWS_PER_FILE = 60
LOADED_PARTITIONS = (1, 2, 3)
NAMES = ("id", "p", "kind", "amount", "at", "note")
REPLICATION_SECONDS = 60.0
PART_LOOKS = 5
CHUNKS = "append_chunks"
FILES_PER_CHUNK = 2
DELETE, REJECT, NEW_COLUMNS, NEW_TABLE = "append_delete", "append_reject", "append_new_columns", "append_new_table"
FAILED_CHECK, MERGE = "append_failed_check", "merge"
REPLACED, MISSING, UNDO = "append_replaced", "append_missing", "undo"
EXPORT = "export"
MODES = (
    "append",
    CHUNKS,
    "replace_partitions",
    "replace_where",
    "replace_table",
    MERGE,
    DELETE,
    REJECT,
    NEW_COLUMNS,
    NEW_TABLE,
    FAILED_CHECK,
    REPLACED,
    MISSING,
    UNDO,
    EXPORT,
)
"""Load modes, undos and exports. ``append`` with chunks of two files; with files that are deleted after the load;
with bad rows; with a column that the table lacks; into a table that does not exist; with a check that fails; with
files that changed since an earlier load; with such files, and one that is gone."""
AFTER_A_LOAD = (REPLACED, MISSING, UNDO)
"""Modes whose runs begin with a load that nothing disturbs, into columns that say where a row came from."""
ADDING = ("append", CHUNKS, DELETE, REJECT)
"""Modes whose commits only add rows."""
OWN_FILES = (DELETE, REPLACED, MISSING)
"""Modes whose runs change files of their own."""
GONE_FILE = FILES + 1
"""Of ``MISSING``: loaded before, and no longer there."""
MANY = range(100, 2100)
"""Numbers of files of one row each."""
REPLACE_WHERE = "kind = 'loaded'"
MERGE_DELETED = "id % 10 = 3"

ADDED_COLUMN, ADDED_DEFAULT = "added", 7
EXTRA_COLUMN = "extra"
REJECTED_MARK = "rejected: "

EDITED_WHERE = "id % 2 = 1"
"""What an edited load loads."""

Bag = Counter[str]


@dataclass(frozen=True, kw_only=True)
class Row:
    id: int
    p: int
    kind: str
    version: int = 0

    @property
    def amount(self) -> int | None:
        return None if self.id % 7 == 0 else self.id * 3 - 500 + self.version

    @property
    def at(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=self.version, milliseconds=self.id * 61)

    @property
    def note(self) -> str:
        return f"v{self.version} of {self.id}" * (self.id % 4)

    @property
    def extra(self) -> int:
        """Value of the column that only files have."""
        return self.id * 7

    @property
    def text(self) -> str:
        return "\t".join(
            (str(self.id), str(self.p), self.kind, _text_or_null(self.amount), _time(self.at), self.note)
        )


def file_rows(number: int, version: int = 0) -> list[Row]:
    """Generate the rows of one file: all of one partition, of which a shard may thus get none."""
    partition = LOADED_PARTITIONS[number % len(LOADED_PARTITIONS)]
    first = number * ROWS_PER_FILE
    rows = 1 if number in MANY else ROWS_PER_FILE
    return (
        []
        if version == EMPTY
        else [Row(id=first + n, p=partition, kind="loaded", version=version) for n in range(rows)]
    )


def file_ending(mode: str) -> str:
    """Return how the names of the files of a mode end; modes with the same ending have the same files."""
    return {REJECT: "csv", NEW_COLUMNS: "wide.parquet"}.get(mode, "parquet")


ENDINGS = sorted({file_ending(mode) for mode in MODES})


def write_file(number: int, version: int, ending: str) -> bytes:
    """Write one file; always the same bytes for the same number and version."""
    if version == EMPTY:
        return b""
    rows = file_rows(number, version)
    if ending == "csv":
        lines = [",".join(NAMES), *(row.text.replace("\t", ",") for row in rows)]
        for place, line in enumerate(bad_lines(number, version)):
            lines.insert(3 + 5 * place, line)
        return "\n".join([*lines, ""]).encode()
    types = {
        "id": pa.uint64(),
        "p": pa.uint8(),
        "kind": pa.string(),
        "amount": pa.int32(),
        "at": pa.timestamp("ms", tz="UTC"),
        "note": pa.string(),
        **({EXTRA_COLUMN: pa.int64()} if ending.startswith("wide") else {}),
    }
    columns: dict[str, list[Any]] = {name: [getattr(row, name) for row in rows] for name in types}
    buffer = io.BytesIO()
    pa.parquet.write_table(pa.table(columns, schema=pa.schema(types)), buffer)
    return buffer.getvalue()


def bad_lines(number: int, version: int = 0) -> list[str]:
    """Generate lines that are no rows: too few fields, no number, a number that does not fit."""
    if version == EMPTY:
        return []
    name = f"{number} v{version}"
    return [f"1,{name}", f"x{name},1,loaded,1,2026-01-01 00:00:00,", f"1,300,loaded {name},1,2026-01-01 00:00:00,"]


def read_parquet(body: bytes) -> list[str]:
    """Read the rows of a Parquet file, as lines of TSV."""
    return [
        "\t".join(
            (str(row["id"]), str(row["p"]), row["kind"], _text_or_null(row["amount"]), _time(row["at"]), row["note"])
        )
        for row in pa.parquet.read_table(io.BytesIO(body)).to_pylist()
    ]


def _text_or_null(value: object) -> str:
    return r"\N" if value is None else str(value)


def _time(at: datetime) -> str:
    return at.isoformat(" ", "milliseconds").removesuffix("+00:00")


def old_rows(mode: str, shards: int) -> list[list[Row]]:
    """Generate what the table holds before, by shard: partition 3 only on the last shard.

    Partition 4 is never touched. For a merge, there are older rows of some keys, in other partitions, and newer ones.
    """
    old = [
        [
            *(Row(id=100_000 + 100 * shard + n, p=1, kind="loaded") for n in range(30)),
            *(Row(id=110_000 + 100 * shard + n, p=2, kind="kept") for n in range(20)),
        ]
        for shard in range(shards)
    ]
    old[-1] += [Row(id=120_000 + n, p=3, kind="loaded" if n % 2 else "kept") for n in range(50)]
    old[0] += [Row(id=130_000 + n, p=4, kind="kept") for n in range(25)]
    if mode == MERGE:
        for number in range(FILES):
            rows = file_rows(number)
            old[number % shards] += [replace(row, p=row.p % 3 + 1, kind="old", version=-1) for row in rows[:20]]
            old[number % shards] += [replace(row, kind="newer", version=9) for row in rows[20:30]]
    return old


def earlier_versions(mode: str) -> dict[int, int]:
    """List the files of the load with which the runs of a mode begin, with their versions."""
    if mode in (REPLACED, MISSING):
        changed = {number: 1 - number % 2 for number in range(FILES)}
        return {**changed, GONE_FILE: 0} if mode == MISSING else changed
    return dict.fromkeys(range(FILES), 0) if mode == UNDO else {}


def rows_of(versions: Mapping[int, int]) -> list[Row]:
    """List the rows of some files.

    :param versions: number of a file → its version.
    """
    return [row for number, version in versions.items() for row in file_rows(number, version)]


def rows_before(mode: str, shards: int) -> list[Row]:
    """List all rows that the table holds before."""
    return _made_rows(mode, shards) + rows_of(earlier_versions(mode))


def _made_rows(mode: str, shards: int) -> list[Row]:
    """List the rows with which the table is made."""
    return [] if mode == NEW_TABLE else [row for rows in old_rows(mode, shards) for row in rows]


def before(mode: str, shards: int) -> Bag:
    """Compute what the table holds before."""
    extra = "\t\\N" if mode == NEW_COLUMNS else ""
    return Counter(f"{row.text}{extra}" for row in rows_before(mode, shards))


def expected(
    mode: str, shards: int, versions: Mapping[int, int], *, is_edited: bool = False, without: Bag | None = None
) -> Bag:
    """Compute what the table, and that of the rejected lines, have to hold after a load of these files.

    :param versions: number of a file → its version.
    :param is_edited: whether the load has ``EDITED_WHERE``.
    :param without: rows of the table that others have removed before.
    """
    # what is gone from the source, or undone, is gone from the table
    earlier = {} if mode in (UNDO, MISSING) else earlier_versions(mode)
    loaded = rows_of({} if mode == UNDO else {**earlier, **versions})
    if is_edited:
        loaded = [row for row in loaded if row.id % 2]
    old = [row for row in _made_rows(mode, shards) if row.text not in (without or ())]
    match mode:
        case "append_failed_check":
            return before(mode, shards)
        case "append_new_columns":
            return before(mode, shards) + Counter(f"{row.text}\t{row.extra}" for row in loaded)
        case "append_reject":
            bad = [line for number, version in versions.items() for line in bad_lines(number, version)]
            return bag(old + loaded) + Counter(f"{REJECTED_MARK}{line}" for line in bad)
        case _ if mode == UNDO or mode.startswith("append"):
            kept = old
        case "replace_partitions":
            kept = [row for row in old if row.p not in LOADED_PARTITIONS]
        case "replace_where":
            kept = [row for row in old if row.kind != "loaded"]
        case "replace_table":
            kept = []
        case "merge":
            newer = {row.id: row for row in loaded}
            kept = [row for row in old if row.id not in newer or row.at > newer[row.id].at]
            stays = {row.id for row in kept}
            loaded = [row for row in loaded if row.id not in stays and row.id % 10 != 3]
        case _:
            raise ValueError(mode)
    return bag(kept + loaded)


def bag(rows: list[Row]) -> Bag:
    return Counter(row.text for row in rows)


@dataclass(frozen=True, kw_only=True)
class People:
    """What others do to the table in the middle of a load, on one node.

    :param taking: a statement that they send first, with a placeholder for the table; ``takes``: a condition of the
        rows that it takes away, which are read before, because nobody knows which rows have arrived by then.
    :param becomes: the kind of the taken rows afterwards, if they stay.
    :param is_ddl: whether a Replicated database carries that statement to all shards.
    :param takes_partitions: whether it takes whole partitions away.
    :param statements: with a placeholder for the table.
    :param part_of: id of a row whose part they take away afterwards.
    :param how: they take away the part by ``DROP`` or ``DETACH``.
    :param added: the rows that they insert or update, which no load changes; ``removed``: those that they remove.
    :param beaten: rows of the load that a merge leaves out if it finds the added rows.
    """

    taking: str = ""
    takes: str = ""
    becomes: str = ""
    is_ddl: bool = False
    takes_partitions: bool = False
    statements: Sequence[str] = ()
    part_of: int | None = None
    how: str = "DROP"
    added: Bag = field(default_factory=Counter)
    removed: Bag = field(default_factory=Counter)
    beaten: Bag = field(default_factory=Counter)

    def change(self, rows: Bag) -> Bag:
        """Compute what the table holds with what they have done."""
        return rows + self.added - self.removed

    def with_rows_again(self, rows: Bag) -> People:
        """The same, if rows of the load that were taken away with their partitions come once more."""
        return replace(self, removed=self.removed - rows)


ACTS_OF_PEOPLE = 20


def act_of_people(mode: str, number: int, shard: int = 0, *, has_updates: bool = False) -> People:
    """Choose one of the things that people do on a node of a shard.

    In ``replace_partitions`` they keep to partition 4 of the first shard, as the rows of the others are replaced by
    right.

    :param has_updates: whether the table can have lightweight UPDATEs.
    """
    partition, kept = (4, 130_000) if mode == "replace_partitions" else (2, 110_000 + 100 * shard)
    old = [Row(id=kept + n, p=partition, kind="kept") for n in range(20)]
    mine = [Row(id=900_000 + n, p=partition, kind="people") for n in range(10)]
    added, some = bag(mine), bag(old[:7])
    updated = bag([replace(row, kind="people") for row in old[:7]])
    insert = _insert(mine)
    optimize = f"OPTIMIZE TABLE {{table}} PARTITION {partition} FINAL"
    some_ids = f"id < {kept + 7} AND id >= {kept}"
    where = f"IN PARTITION {partition} WHERE {some_ids} SETTINGS mutations_sync = 2"
    delete = f"ALTER TABLE {{table}} DELETE {where}"
    update = f"ALTER TABLE {{table}} UPDATE kind = 'people' {where}"
    patch = f"UPDATE {{table}} SET kind = 'people' WHERE {some_ids}"
    lightweight = f"DELETE FROM {{table}} WHERE id = {kept}"  # 24.8 has no IN PARTITION there
    drop, detach, attach = (f"ALTER TABLE {{table}} {verb} PARTITION {partition}" for verb in _VERBS)
    acts = (
        People(statements=(insert,), added=added),
        People(statements=(insert, optimize), added=added),
        People(statements=(optimize,)),
        People(statements=(delete,), removed=some),
        People(statements=(lightweight,), removed=bag(old[:1])),
        People(statements=(insert, delete, optimize), added=added, removed=some),
        People(taking="ALTER TABLE {table} DROP PARTITION 4", takes="p = 4", takes_partitions=True),
        People(taking=detach, takes=f"p = {partition}", takes_partitions=True),
        People(taking=drop, takes=f"p = {partition}", takes_partitions=True, statements=(insert,), added=added),
        People(statements=(detach, attach)),
        People(statements=(insert, detach, attach), added=added),
        People(statements=(update,), removed=some, added=updated),
        People(part_of=old[0].id),
        People(part_of=old[0].id, how="DETACH"),
        People(statements=(insert,), part_of=mine[0].id),
        People(statements=(patch if has_updates else update, optimize), removed=some, added=updated),
        _of_own_rows(partition, updates=False),
        # an undo takes updated rows back, too, and a merge that is cleared replaces them
        _of_own_rows(partition, updates=mode not in (UNDO, MERGE)),
        # which newer rows a merge has found before, only its own plan tells
        People(taking=drop, takes=f"p = {partition}", takes_partitions=True)
        if mode == MERGE
        else People(taking="TRUNCATE TABLE {table}", takes="1", is_ddl=True, takes_partitions=True),
        _with_keys_of_files() if mode == MERGE else People(statements=(insert, insert), added=added + added),
    )
    return acts[number % len(acts)]


_VERBS = ("DROP", "DETACH", "ATTACH")


def _insert(rows: Sequence[Row]) -> str:
    lines = "\n".join(row.text for row in rows)
    return f"INSERT INTO {{table}} ({', '.join(NAMES)}) FORMAT TSV\n{lines}\n"


def _of_own_rows(partition: int, *, updates: bool) -> People:
    """Delete or update a third of the rows of the load that have arrived in a partition."""
    first_version = "at < toDateTime64('2026-01-02 00:00:00', 3, 'UTC')"
    own = f"p = {partition} AND kind = 'loaded' AND id < {FILES * ROWS_PER_FILE} AND id % 3 = 0 AND {first_version}"
    what = "UPDATE kind = 'people'" if updates else "DELETE"
    return People(
        taking=f"ALTER TABLE {{table}} {what} IN PARTITION {partition} WHERE {own} SETTINGS mutations_sync = 2",
        takes=own,
        becomes="people" if updates else "",
        is_ddl=True,
    )


def _with_keys_of_files() -> People:
    """Insert newer rows with keys of a file: a merge that has not replaced the partition yet leaves its rows out."""
    staged = [row for row in file_rows(1)[30:40] if row.id % 10 != 3]
    newer = [replace(row, kind="people", version=5) for row in staged]
    return People(statements=(_insert(newer),), added=bag(newer), beaten=bag(staged))


LINE = f"formatRowNoNewline('TSV', {', '.join(NAMES)}) AS line"


def take_rows_away(sandbox: Sandbox, table: str, people: People, node: int) -> People:
    """Send the first statement; returns what people have done with the rows that were there.

    A Replicated database carries mutations and TRUNCATE to all shards, and runs DROP, DETACH and ATTACH of partitions
    on one (24.8, 25.8).
    """
    is_everywhere = people.is_ddl and sandbox.database_engine == "Replicated"
    lines: Bag = Counter()
    for one in first_replicas(sandbox) if is_everywhere else [node]:
        if sandbox.replicas > 1:
            sandbox.query(f"SYSTEM SYNC REPLICA {table}", node=one)
        found = sandbox.query(f"SELECT {LINE} FROM {table} WHERE {people.takes}", node=one)
        lines += Counter(row["line"] for row in found)
    sandbox.query(people.taking.format(table=table), node=node)
    added = people.added
    if people.becomes:
        added += Counter({_with_kind(line, people.becomes): count for line, count in lines.items()})
    return replace(people, removed=people.removed + lines, added=added)


def _with_kind(line: str, kind: str) -> str:
    return "\t".join(kind if name == "kind" else text for name, text in zip(NAMES, line.split("\t"), strict=True))


def take_part_away(sandbox: Sandbox, table: str, people: People, node: int) -> People:
    """Drop or detach the part of a row; returns what people have done with the rows of the part.

    The rows of the part are read from it: which ones a part has depends on merges.
    """
    for _ in range(PART_LOOKS):
        found = sandbox.query(f"SELECT _part AS name FROM {table} WHERE id = {people.part_of}", node=node)
        if not found:
            return people
        name = found[0]["name"]
        rows = sandbox.query(f"SELECT {LINE} FROM {table} WHERE _part = '{name}'", node=node)
        try:
            sandbox.query(f"ALTER TABLE {table} {people.how} PART '{name}'", node=node)
        except ServerError:  # merged in the meantime
            continue
        return replace(people, removed=people.removed + Counter(row["line"] for row in rows))
    return people


def first_replicas(sandbox: Sandbox) -> range:
    """List the number of the first node of each shard."""
    return range(0, sandbox.nodes, sandbox.replicas)


def has_updates(sandbox: Sandbox) -> bool:
    """Whether the tables can have lightweight UPDATEs: not on the older servers, which have replicas."""
    return sandbox.replicas == 1


def make_tables(sandbox: Sandbox, database: str, mode: str, *, has_slow_fetches: bool = False) -> str:
    """Create a Distributed table ``events`` over local ones that hold the old rows; returns its name.

    :param mode: one of ``MODES``; for a load that creates its table, only the database is created.
    :param has_slow_fetches: whether a part takes seconds to reach the other replicas.
    """
    local = f"{database}.events_local"
    engine = "MergeTree PARTITION BY p ORDER BY id"
    if has_updates(sandbox):
        engine += " SETTINGS enable_block_number_column = 1, enable_block_offset_column = 1"
    else:
        # by default a replica that died within a MOVE waits for an administrator if most of its parts are new
        slow = ", max_replicated_fetches_network_bandwidth = 2000" if has_slow_fetches else ""
        engine = f"Replicated{engine} SETTINGS replicated_max_ratio_of_wrong_parts = 1{slow}"
    all_engine = f"Distributed('{sandbox.cluster}', '{database}', 'events_local', rand())"
    for node in range(sandbox.nodes):
        sandbox.create_database(database, node=node)
    if mode == NEW_TABLE:
        return f"{database}.events"
    columns = f"{COLUMNS}, {PROVENANCE}" if mode in AFTER_A_LOAD else COLUMNS
    run_everywhere(
        sandbox,
        f"CREATE TABLE {local} {{}} ({columns}) ENGINE = {engine}",
        f"CREATE TABLE {database}.events {{}} AS {local} ENGINE = {all_engine}",
    )
    for node, rows in zip(first_replicas(sandbox), old_rows(mode, sandbox.shards), strict=True):
        lines = "\n".join(row.text for row in rows)
        sandbox.query(f"INSERT INTO {local} ({', '.join(NAMES)}) FORMAT TSV\n{lines}\n", node=node)
    return f"{database}.events"


def run_everywhere(sandbox: Sandbox, *statements: str) -> None:
    """Run DDL with a placeholder for ``ON CLUSTER``."""
    for statement in statements:
        if sandbox.database_engine == "Replicated":
            sandbox.query(statement.format(""), settings={"distributed_ddl_output_mode": "throw"})
        elif sandbox.has_keeper:
            sandbox.query(statement.format(f"ON CLUSTER {sandbox.cluster}"))
        else:
            for node in range(sandbox.nodes):
                sandbox.query(statement.format(""), node=node)


def drop_table(sandbox: Sandbox, database: str) -> None:
    """Drop the target, and the lines that it rejected, and keep the ledger."""
    _drop(sandbox, database, *("events", "events_local", "events_rejected", "events_local_rejected"))


def drop_ledger(sandbox: Sandbox, database: str) -> None:
    _drop(sandbox, database, "ch_s3_ledger", "ch_s3_ledger_files")


def _drop(sandbox: Sandbox, database: str, *tables: str) -> None:
    run_everywhere(sandbox, *(f"DROP TABLE IF EXISTS {database}.{table} {{}} SYNC" for table in tables))


def make_spare(sandbox: Sandbox, database: str) -> None:
    """Create an empty table like the target, without its Distributed table."""
    engine = "ReplicatedMergeTree" if sandbox.replicas > 1 else "MergeTree"
    run_everywhere(
        sandbox,
        f"CREATE TABLE {database}.spare_local {{}} AS {database}.events_local"
        f" ENGINE = {engine} PARTITION BY p ORDER BY id",
    )


def exchange_with_spare(sandbox: Sandbox, database: str) -> None:
    run_everywhere(sandbox, f"EXCHANGE TABLES {database}.events_local AND {database}.spare_local {{}}")


def rename_table(sandbox: Sandbox, database: str, old: str, new: str) -> None:
    run_everywhere(sandbox, f"RENAME TABLE {database}.{old} TO {database}.{new} {{}}")


def make_view(sandbox: Sandbox, database: str) -> None:
    """Create a materialized view of the target, and the table that it writes to."""
    engine = "ReplicatedMergeTree" if sandbox.replicas > 1 else "MergeTree"
    run_everywhere(
        sandbox,
        f"CREATE TABLE {database}.seen {{}} (id UInt64) ENGINE = {engine} ORDER BY id",
        f"CREATE MATERIALIZED VIEW {database}.seeing {{}} TO {database}.seen"
        f" AS SELECT id FROM {database}.events_local",
    )


def read_view(sandbox: Sandbox, database: str) -> Counter[int]:
    """Read the ids that the view has written."""
    rows = [
        row for node in first_replicas(sandbox) for row in sandbox.query(f"SELECT id FROM {database}.seen", node=node)
    ]
    return Counter(int(row["id"]) for row in rows)


def drop_tables(sandbox: Sandbox, database: str) -> None:
    for node in range(sandbox.nodes):
        sandbox.query(f"DROP DATABASE IF EXISTS {database} SYNC", node=node)


def read_rows(sandbox: Sandbox, database: str, mode: str) -> Bag:
    """Read all rows of the local tables of all shards, without columns that others have added in the meantime.

    :raises AssertionError: if the replicas of a shard do not hold the same rows after some time.
    """
    found: Bag = Counter()
    for first in first_replicas(sandbox):
        deadline = time.monotonic() + REPLICATION_SECONDS
        while True:
            bags = [_read_node(sandbox, database, mode, node) for node in range(first, first + sandbox.replicas)]
            if all(bag == bags[0] for bag in bags):
                break
            assert time.monotonic() < deadline, f"replicas hold {[bag.total() for bag in bags]} rows"
            time.sleep(0.2)
        found += bags[0]
    return found


def _read_node(sandbox: Sandbox, database: str, mode: str, node: int) -> Bag:
    """Read the rows of one node, and the lines that were rejected there."""
    columns = _columns(sandbox, f"{database}.events_local", node)
    if not columns:
        return Counter()
    names = list(NAMES)
    if mode == NEW_COLUMNS:
        names.append(EXTRA_COLUMN if EXTRA_COLUMN in columns else "NULL")
    sql = f"SELECT formatRowNoNewline('TSV', {', '.join(names)}) AS line FROM {database}.events_local"
    if _columns(sandbox, f"{database}.events_local_rejected", node):
        sql += f" UNION ALL SELECT '{REJECTED_MARK}' || line FROM {database}.events_local_rejected"
    return Counter(row["line"] for row in sandbox.query(sql, node=node))


def _columns(sandbox: Sandbox, table: str, node: int) -> list[str]:
    """List the columns of a table on a node; none if it does not exist there."""
    database, _, name = table.partition(".")
    where = f"database = '{database}' AND table = '{name}'"
    return [row["name"] for row in sandbox.query(f"SELECT name FROM system.columns WHERE {where}", node=node)]


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The difference between what a table holds and what it has to hold."""

    lost: int
    extra: int

    @classmethod
    def between(cls, found: Bag, wanted: Bag) -> Difference:
        return cls(lost=(wanted - found).total(), extra=(found - wanted).total())

    def __bool__(self) -> bool:
        return bool(self.lost or self.extra)


def closest(found: Bag, allowed: list[Bag]) -> Difference:
    """Compute the smallest difference from one of several allowed states, never from a mixture of them."""
    return min((Difference.between(found, bag) for bag in allowed), key=lambda one: one.lost + one.extra)


def between(found: Bag, least: Bag, most: Bag) -> Difference:
    """Compute the difference from the nearest state that contains all rows of ``least`` and none beyond ``most``."""
    return Difference(lost=(least - found).total(), extra=(found - most).total())


def find_wrong_defaults(sandbox: Sandbox, database: str) -> int:
    """Count rows without the default of the added column, on the nodes that have it."""
    table = f"{database}.events_local"
    wrong = f"SELECT countIf({ADDED_COLUMN} != {ADDED_DEFAULT}) AS n FROM {table}"
    altered = [node for node in range(sandbox.nodes) if ADDED_COLUMN in _columns(sandbox, table, node)]
    return sum(int(sandbox.query(wrong, node=node)[0]["n"]) for node in altered)


def age_ledger(sandbox: Sandbox, database: str) -> None:
    """Make all records of the ledger an hour older."""
    for node in first_replicas(sandbox):
        sandbox.query(
            f"ALTER TABLE {database}.ch_s3_ledger UPDATE time = time - 3600 WHERE 1 SETTINGS mutations_sync = 2",
            node=node,
        )


def has_open_commit(sandbox: Sandbox, database: str) -> bool:
    """Check whether the ledger has a commit that began and did not end."""
    events = "countIf(event = 'committing') > 0 AND countIf(event IN ('committed', 'abandoned')) = 0"
    return bool(_read_ledger(sandbox, database, "attempt", f"GROUP BY attempt HAVING {events}"))


def read_load_id(sandbox: Sandbox, database: str) -> str:
    """Read the id of the only load."""
    (row,) = _read_ledger(sandbox, database, "DISTINCT load_id", "WHERE event = 'committed'")
    return str(row["load_id"])


def find_shared_epochs(sandbox: Sandbox, database: str) -> list[int]:
    """Find epochs of the lock with more than one owner: there must be none, whatever happens."""
    owners = "uniqExact(JSONExtractString(detail, 'token'))"
    how = f"WHERE event = 'locked' GROUP BY epoch HAVING {owners} > 1 ORDER BY epoch"
    return [int(row["epoch"]) for row in _read_ledger(sandbox, database, "epoch", how)]


def _read_ledger(sandbox: Sandbox, database: str, columns: str, how: str) -> list[dict[str, Any]]:
    """Read rows of the ledger on all nodes; none if it has not been created on all of them yet."""
    exists = f"SELECT 1 AS yes FROM system.tables WHERE database = '{database}' AND name = 'ch_s3_ledger'"
    if not all(sandbox.query(exists, node=node) for node in range(sandbox.nodes)):
        return []
    table = f"clusterAllReplicas({sandbox.cluster}, {database}.ch_s3_ledger)"
    return sandbox.query(f"SELECT {columns} FROM {table} {how}")


def replicated_tables(sandbox: Sandbox, database: str, node: int) -> list[str]:
    """List the tables on a node that have replicas."""
    rows = sandbox.query(f"SELECT table FROM system.replicas WHERE database = '{database}'", node=node)
    return [row["table"] for row in rows]


def find_leftovers(sandbox: Sandbox, database: str) -> list[str]:
    """Find staging tables, locks, and queries of loads that are still running."""
    found = []
    for node in range(sandbox.nodes):
        tables = sandbox.query(
            f"SELECT name FROM system.tables WHERE database = '{database}' "
            "AND match(name, '^ch_s3_(stage|lock|wait)_')",
            node=node,
        )
        queries = sandbox.query(
            "SELECT initial_query_id AS name FROM system.processes "
            # as a whole word: runs 1 and 14 of a series are at work at the same time
            f"WHERE startsWith(initial_query_id, 'ch-s3-') AND match(query, '\\\\b{database}\\\\b')",
            node=node,
        )
        found += [f"{row['name']} on node {node + 1}" for row in (*tables, *queries)]
    return found
