"""The table that a load writes to, and names of tables."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from airflow_provider_ch_s3.clickhouse.expressions import split_expressions
from airflow_provider_ch_s3.clickhouse.tokens import Token, TokenKind, split_at_commas, tokenize
from airflow_provider_ch_s3.common.arguments import parse_name
from airflow_provider_ch_s3.common.declared import Form, Kind
from airflow_provider_ch_s3.common.text import count_of, format_bytes, show_name
from airflow_provider_ch_s3.errors import ConfigError, TargetError

_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "0": "\0"}


@dataclass(frozen=True, kw_only=True)
class TableName:
    """A table and the table's database."""

    database: str
    table: str

    def __str__(self) -> str:
        """The name for messages, also valid as an argument: names with a dot in them are in back-quotes."""
        return ".".join(f"`{name}`" if "." in name else name for name in map(show_name, (self.database, self.table)))


@dataclass(frozen=True, kw_only=True)
class TablePartitions:
    """Some partitions of a local table, by their ids; None for the whole table."""

    table: TableName
    partitions: tuple[str, ...] | None


@dataclass(frozen=True, kw_only=True)
class TableSize:
    """What a table, or some partitions of a table, hold: each row once, as stored."""

    partitions: int
    rows: int
    bytes: int

    @classmethod
    def total(cls, parts: Collection[TableSize]) -> TableSize:
        """Add up the sizes of parts of a table."""
        return cls(
            partitions=sum(one.partitions for one in parts),
            rows=sum(one.rows for one in parts),
            bytes=sum(one.bytes for one in parts),
        )

    def __str__(self) -> str:
        return (
            f"{count_of(self.partitions, 'partition')} with {count_of(self.rows, 'row')}, {format_bytes(self.bytes)}"
        )


@dataclass(frozen=True, kw_only=True)
class TableColumn:
    """A column of the target.

    :param default_kind: '', DEFAULT, MATERIALIZED, ALIAS or EPHEMERAL.
    :param default_expression: the SQL expression of the default.
    """

    name: str
    type: str
    default_kind: str = ""
    default_expression: str = ""

    def __str__(self) -> str:
        return " ".join(filter(None, (self.name, self.type, self.default_kind, self.default_expression)))

    @property
    def is_insertable(self) -> bool:
        return self.default_kind in ("", "DEFAULT")

    @property
    def is_required(self) -> bool:
        return self.default_kind == ""


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """The engine arguments of a Distributed table; ``sharding_key`` is empty without a sharding key."""

    cluster: str
    local: TableName
    sharding_key: str = ""

    @property
    def is_random(self) -> bool:
        """Whether any row may be on any shard, so that each node may keep the rows that the node reads."""
        return not self.sharding_key or re.fullmatch(r"rand(64|32)?\(\)", self.sharding_key) is not None


@dataclass(frozen=True, kw_only=True)
class TargetSpec:
    """The table that a load writes to, the same on all nodes.

    :param name: the table named by the user, local or Distributed.
    :param local: the table with the parts on each node.
    :param engine: engine of ``local``, e.g. ``ReplacingMergeTree``.
    :param sorting_key: of ``local``.
    :param engine_arguments: of ``local``, without path and replica name.
    :param distribution: None if ``name`` is ``local``.
    :param sharding_key: SQL, for a table across the cluster whose rows belong on particular shards.
    :param spans_cluster: ``name`` is a local table on each node of the cluster.
    :param uuids: UUIDs of ``local`` on the nodes; a table that is dropped and re-created gets new UUIDs.
    :param views: materialized views fed by inserts into the table.
    :param has_ttl: the table's rows may expire.
    :param has_projections: an INSERT reads the rows again for the table's projections.
    :param has_unique_key: the table refuses to take or give partitions (26.9).
    :param has_own_disk: the table defines the disk of its parts.
    :param storage_policies: of ``local`` on the nodes.
    :param definition: a fingerprint of the definition of ``local`` on all nodes.
    """

    name: TableName
    local: TableName
    engine: str
    columns: tuple[TableColumn, ...]
    partition_key: str
    sorting_key: str = ""
    engine_arguments: tuple[str, ...] = ()
    distribution: Distribution | None = None
    spans_cluster: bool = False
    sharding_key: str = ""
    uuids: tuple[str, ...] = ()
    views: tuple[TableName, ...] = ()
    has_ttl: bool = False
    has_projections: bool = False
    has_unique_key: bool = False
    has_own_disk: bool = False
    storage_policies: frozenset[str] = frozenset()
    definition: str = ""

    @property
    def readable_columns(self) -> list[str]:
        """Names of the columns that a query may read: the table does not store EPHEMERAL columns."""
        return [column.name for column in self.columns if column.default_kind != "EPHEMERAL"]

    @property
    def column_types(self) -> dict[str, str]:
        """Types of the columns by name."""
        return {column.name: column.type for column in self.columns}

    @property
    def is_replicated(self) -> bool:
        """Whether further nodes hold the same rows, after some delay."""
        return has_replicas(self.engine)

    @property
    def is_shared(self) -> bool:
        """Whether all nodes use the same parts on object storage, as in ClickHouse Cloud."""
        return is_shared(self.engine)

    @property
    def keeps_all_rows(self) -> bool:
        """Whether merges keep every row as it is."""
        return self.engine.removeprefix("Replicated").removeprefix("Shared") == "MergeTree" and not self.has_ttl

    def replaces_by_itself(self, key: Sequence[str], version: str) -> bool:
        """Whether merges of the table leave the newest row of each key, if all are in one partition of one shard."""
        return (
            self.engine.endswith("ReplacingMergeTree")
            and set(split_expressions(self.sorting_key)) == set(key)
            and self.engine_arguments[:1] == ((version,) if version else ())
        )

    def staged_in(self, staging: TableName) -> TargetSpec:
        """The staging table to insert into: rows go to the same shards as in the target."""
        return replace(
            self,
            name=staging,
            local=staging,
            distribution=None,
            spans_cluster=self.spans_cluster or self.distribution is not None,
            sharding_key=""
            if self.distribution is None or self.distribution.is_random
            else self.distribution.sharding_key,
        )


def parse_table(text: str, default_database: str) -> TableName:
    """Parse ``table`` or ``database.table``; a name with a dot in it has to be in back-quotes.

    :raises ConfigError: if the text is neither.
    """
    quoted = r"`(?:[^`\\]|\\.)+`"
    plain = r"[^`.\s]+"
    match = re.fullmatch(rf"(?:(?P<database>{quoted}|{plain})\.)?(?P<table>{quoted}|{plain})", text.strip())
    if match is None:
        raise ConfigError(
            "name-invalid",
            f"table {text!r} is not a table name; write it as 'table' or 'database.table', with any"
            " name that contains a dot or a space in back-quotes, as in '`my.database`.table'",
        )
    database, table = match["database"], match["table"]
    return TableName(database=unquoted(database) if database else default_database, table=unquoted(table))


def _parse_table_name(name: str, value: object) -> str:
    text = parse_name(name, value)
    parse_table(text, "")
    return text


TABLE = Kind(_parse_table_name, Form.TEXT)


def parse_distribution(engine_full: str) -> Distribution:
    """Parse ``system.tables.engine_full`` of a Distributed table.

    :raises TargetError: if the text is not the engine of a Distributed table.
    """
    match = re.match(r"Distributed\((?P<arguments>.*)\)", engine_full, re.DOTALL)
    arguments = split_expressions(match["arguments"]) if match else []
    if len(arguments) < 3:
        raise TargetError("engine-not-loadable", f"cannot read the engine of a Distributed table in {engine_full!r}")
    cluster, database, table = (unquoted(argument) for argument in arguments[:3])
    return Distribution(
        cluster=cluster,
        local=TableName(database=database, table=table),
        sharding_key=arguments[3] if len(arguments) > 3 else "",
    )


_ENGINE = re.compile(r"(?P<name>\w+)(?:\((?P<arguments>(?:'(?:[^'\\]|\\.)*'|\((?:[^()']|'[^']*')*\)|[^()'])*)\))?")


def engine_of(engine_full: str) -> str:
    """Return an engine with arguments, e.g. ``ReplacingMergeTree(version)``, without path and replica name."""
    match = _ENGINE.match(engine_full)
    arguments = engine_arguments(engine_full)
    name = match["name"] if match else engine_full
    return f"{name}({', '.join(arguments)})" if arguments else name


def engine_arguments(engine_full: str) -> tuple[str, ...]:
    """Return the arguments of an engine, without path and replica name."""
    match = _ENGINE.match(engine_full)
    given = split_expressions(match["arguments"]) if match and match["arguments"] else []
    return tuple(argument for argument in given if not argument.startswith("'"))


def is_merge_tree(engine: str) -> bool:
    """Whether an engine, with or without arguments, is of the MergeTree family."""
    return engine.partition("(")[0].endswith("MergeTree")


def has_replicas(engine: str) -> bool:
    """Whether tables of an engine have replicas: further nodes with the same rows."""
    return engine.startswith(("Replicated", "Shared"))


def is_shared(engine: str) -> bool:
    """Whether all nodes with a table of an engine use the same parts, on object storage."""
    return engine.startswith("Shared")


def unplaced_engine(engine_full: str) -> str:
    """Return the whole engine clause for another table: with keys and settings, without path and replica name.

    :param engine_full: from ``system.tables``.
    """
    match = _ENGINE.match(engine_full)
    return engine_of(engine_full) + (engine_full[match.end() :] if match else "")


def plain_engine(engine_full: str, *, with_keys: bool) -> str:
    """Return the engine clause of another table whose merges keep every row unchanged.

    :param engine_full: from ``system.tables``.
    :param with_keys: keep the keys and settings, but for a disk with hidden keys.
    """
    match = _ENGINE.match(engine_full)
    placed = re.match("Replicated|Shared|", engine_full)
    kept = _without_own_disk(_without_ttl(engine_full[match.end() :])) if match and with_keys else ""
    return f"{placed[0] if placed else ''}MergeTree{kept}"


def _without_ttl(clauses: str) -> str:
    """Remove the TTL from the clauses that follow an engine."""
    if " TTL " not in clauses:
        return clauses
    tokens = [token for token in tokenize(clauses) if not token.depth]
    start = next(
        (
            token.start
            for before, token in pairwise(tokens)
            if clauses.startswith("TTL ", token.start)
            and before.text != "by"
            and before.kind is not TokenKind.OPERATOR
        ),
        len(clauses),
    )
    settings = _find_settings([token for token in tokens if token.start > start])
    return f"{clauses[:start]}{clauses[settings[0].start :] if settings else ''}".rstrip()


def _find_settings(tokens: Sequence[Token]) -> Sequence[Token]:
    """Find the tokens from the keyword SETTINGS on; empty without settings."""
    starts = (
        number
        for number, (token, name, sign) in enumerate(zip(tokens, tokens[1:], tokens[2:], strict=False))
        if token.text == "settings" and name.kind is TokenKind.WORD and sign.text == "="
    )
    return tokens[next(starts, len(tokens)) :]


_OWN_DISK = "disk = disk("


def defines_disk(engine_full: str) -> bool:
    """Whether a table defines the disk of its parts, instead of naming a disk of the servers."""
    return _OWN_DISK in engine_full


def hides_keys(engine_full: str) -> bool:
    """Whether a table defines a disk of its own, with keys that the server does not show."""
    return "[HIDDEN]" in engine_full


def _without_own_disk(clauses: str) -> str:
    """Remove a disk with hidden keys from the settings; the other table is then on the server's default disk."""
    if not hides_keys(clauses):
        return clauses
    keyword, *tokens = _find_settings(tokenize(clauses))
    starts = [one[0].start for one in split_at_commas(tokens)]
    settings = [clauses[start:end].rstrip(", ") for start, end in pairwise([*starts, len(clauses)])]
    kept = ", ".join(one for one in settings if not one.startswith(_OWN_DISK))
    return f"{clauses[: keyword.start]}{f'SETTINGS {kept}' if kept else ''}".rstrip()


def unquoted(text: str) -> str:
    """Return a quoted name or literal without quotes and escapes; any other text unchanged."""
    if text[:1] in "'`" and text[:1] == text[-1:]:
        return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), text[1:-1], flags=re.DOTALL)
    return text


def short_hash(table: TableName) -> str:
    """Hash a table name, for the names of tables that belong to the table."""
    return hashlib.sha256(str(table).encode()).hexdigest()[:12]
