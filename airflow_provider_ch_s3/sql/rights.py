"""The rights that the statements of this package need, declared once.

``ch-s3 doctor --grants`` prints the rights, loads and ``ch-s3 doctor`` check the rights, and ``docs/permissions.md``
shows the rights.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from airflow_provider_ch_s3.files.access import TableFunction
from airflow_provider_ch_s3.sql.filters import Sql, short_identifier

READ_AND_WRITE = ("SELECT", "INSERT")
# A MOVE removes rows from the staging table; the setting holds back merges of the staging table.
OWN = (*READ_AND_WRITE, "ALTER DELETE", "CREATE TABLE", "DROP TABLE", "ALTER SETTINGS")
_MERGING = ("Replacing", "Summing", "Aggregating", "Collapsing", "VersionedCollapsing")
_ENGINES = (
    *(f"{placed}{merging}MergeTree" for placed in ("", "Replicated") for merging in ("", *_MERGING)),
    "Distributed",
    "Null",
)
"""Engines that loads may create tables with."""


class Need(Enum):
    """Who needs a right.

    ``LOAD``: the load. ``TOOL``: the sensor, or a command. ``OPTIONAL``: works without, with less comfort.
    """

    LOAD = "load"
    TOOL = "tool"
    OPTIONAL = "optional"


class About(Enum):
    """What a right is about.

    ``READING``: a table of ``system``. ``TABLES``: tables of users and of loads. ``SOURCE``: other machines.
    ``ENGINE``: an engine of new tables; servers check these rights only if configured to.
    """

    READING = "reading"
    TABLES = "tables"
    SOURCE = "source"
    ENGINE = "engine"


@dataclass(frozen=True, kw_only=True)
class Right:
    """Rights on something, and why a user needs the rights.

    :param on: what the rights are on, as SQL.
    """

    rights: Sequence[str]
    on: str
    about: About
    why: str
    need: Need = Need.LOAD

    @property
    def element(self) -> Sql:
        """The rights as a part of GRANT and CHECK GRANT."""
        return Sql(f"{', '.join(self.rights)} ON {self.on}")


@dataclass(frozen=True, kw_only=True)
class Use:
    """What a user does with this package, as far as the rights depend on it.

    :param database: the database of the loaded table; loads keep their own tables there.
    :param tables: what is loaded, as SQL: tables, or all tables of the database.
    :param new_tables: tables that a load may create, as SQL.
    :param views: materialized views fed by the load, as SQL.
    :param view_tables: tables that the views write to, as SQL.
    :param ledger: the ledger, as SQL, if the ledger is not among the other tables of loads.
    :param engines: of the loaded table, and of the tables that loads create besides locks; none if unknown.
    :param has_prefixes: the servers take the beginning of a name for a right.
    :param has_cluster: the load runs on a cluster, or may do so.
    :param on_cluster: the load is known to run statements ON CLUSTER.
    :param is_replicated: the table is known to have replicas.
    :param is_staged: rows go to a staging table first.
    :param replaces: commits remove rows from the table.
    :param adds_columns: the load adds columns to the table.
    :param holds: the load shows the rows before the commit.
    :param settles: the load waits for merges before the commit.
    :param function: reads the files.
    :param collection: a named collection with the keys of the store; '' for none.
    """

    database: str
    tables: Sequence[str]
    new_tables: Sequence[str] = ()
    views: Sequence[str] = ()
    view_tables: Sequence[str] = ()
    ledger: str = ""
    engines: Sequence[str] = ()
    has_prefixes: bool = True
    has_cluster: bool = True
    on_cluster: bool = False
    is_replicated: bool = False
    is_staged: bool = True
    replaces: bool = True
    adds_columns: bool = False
    holds: bool = False
    settles: bool = False
    function: TableFunction = TableFunction.S3
    collection: str = ""

    @property
    def own(self) -> str:
        """The tables of loads: staging, lock and ledger."""
        return f"{short_identifier(self.database)}.{'ch_s3_' if self.has_prefixes else ''}*"


def all_loads(database: str) -> Use:
    """Loads into any table of a database, in all modes, also a new table, or a table that lacks columns."""
    tables = [f"{short_identifier(database)}.*"]
    return Use(database=database, tables=tables, new_tables=tables, adds_columns=True)


def declare_rights(use: Use) -> Iterator[Right]:
    """Declare all rights for a use; a right may come twice, with different needs."""
    yield from _of_reading(use)
    yield from _of_tables(use)
    yield from _of_sources(use)
    yield from _of_engines(use)


def show_grants(rights: Iterable[Right], user: str) -> str:
    """Render a single GRANT, with the reason before each right; behind it, as comments, a GRANT for each comfort."""
    rights = list(rights)
    needed = _by_reason(one for one in rights if one.need is not Need.OPTIONAL)
    optional = _by_reason(one for one in rights if one.need is Need.OPTIONAL)
    to = f"TO {short_identifier(user)};"
    reasons = [f"    -- {why}\n    " + ",\n    ".join(elements) for why, elements in needed.items()]
    lines = ["GRANT", ",\n".join(reasons), to]
    if optional:
        lines.append("-- optional:")
    for why, elements in optional.items():
        lines += [f"-- {why}", f"-- GRANT {', '.join(elements)} {to}"]
    return "\n".join(lines)


def _by_reason(rights: Iterable[Right]) -> dict[str, list[Sql]]:
    reasons: dict[str, list[Right]] = {}
    for one in rights:
        reasons.setdefault(one.why, []).append(one)
    # the rights on one thing are one element, also if each of them is alone
    return {why: join_rights(found) for why, found in reasons.items()}


def join_rights(rights: Iterable[Right]) -> list[Sql]:
    """Join the rights on each thing, as the parts of a GRANT."""
    by_thing: dict[str, list[str]] = {}
    for one in rights:
        by_thing.setdefault(one.on, []).extend(one.rights)
    return [Sql(f"{', '.join(dict.fromkeys(names))} ON {on}") for on, names in by_thing.items()]


def _of_engines(use: Use) -> Iterator[Right]:
    why = "the engines of tables that loads create"
    for engine in ["Memory"] if use.is_staged else []:
        yield Right(rights=("TABLE ENGINE",), on=engine, about=About.ENGINE, why=why)
    for engine in (use.engines or _ENGINES) if use.is_staged or use.new_tables else []:
        need = Need.LOAD if use.engines else Need.TOOL
        yield Right(rights=("TABLE ENGINE",), on=engine, about=About.ENGINE, why=why, need=need)


def _of_reading(use: Use) -> Iterator[Right]:
    staged = Need.LOAD if use.is_staged else Need.TOOL
    needs = {
        "clusters": Need.LOAD,
        "macros": Need.LOAD,
        "merges": Need.LOAD if use.settles else Need.TOOL,
        "mutations": Need.LOAD if use.is_staged and use.replaces else Need.TOOL,
        "parts": staged,
        "processes": Need.LOAD,
        "query_log": Need.LOAD,
        "replicas": staged if use.is_replicated else Need.TOOL,
        "replicated_merge_tree_settings": staged if use.is_replicated else Need.TOOL,
        "replicated_fetches": staged if use.is_replicated else Need.TOOL,
        "replication_queue": staged if use.is_replicated else Need.TOOL,
        "server_settings": Need.LOAD,
    }
    for table, need in needs.items():
        yield _reading(table, "what loads, the sensor, ch-s3 plan, loads and tune read", need)
    yield _reading("part_log", "the sensor's history of parts; whether a partition was replaced or dropped")
    yield _reading("detached_parts", "whether rows were lost with a broken part")
    yield _reading("disks", "whether the disks have room for the load")
    yield _reading("storage_policies", "whether the disks have room for the load")
    yield _reading("asynchronous_metrics", "how much memory is free, for ch-s3 doctor")
    yield Right(
        rights=("SYSTEM FLUSH LOGS",),
        on="*.*",
        about=About.READING,
        why="a load need not wait up to 7.5 s for system.query_log",
        need=Need.OPTIONAL,
    )


def _reading(table: str, why: str, need: Need = Need.OPTIONAL) -> Right:
    return Right(rights=("SELECT",), on=f"system.{table}", about=About.READING, why=why, need=need)


def _of_tables(use: Use) -> Iterator[Right]:
    about = About.TABLES
    removing = Need.LOAD if use.is_staged and use.replaces else Need.OPTIONAL
    for table in use.tables:
        yield Right(rights=READ_AND_WRITE, on=table, about=about, why="the tables that are loaded")
        why = "modes that replace rows, and ch-s3 loads undo"
        yield Right(rights=("ALTER DELETE",), on=table, about=about, why=why, need=removing)
    for table in use.new_tables:
        rights = ("CREATE TABLE", *READ_AND_WRITE)
        yield Right(rights=rights, on=table, about=about, why="tables that a load creates, if they are missing")
    for view in use.views:
        yield Right(rights=("SHOW TABLES",), on=view, about=about, why="to see materialized views")
    for table in use.view_tables:
        yield Right(rights=READ_AND_WRITE, on=table, about=about, why="the tables of materialized views")
    if use.adds_columns:
        for table in use.tables:
            yield Right(rights=("ALTER ADD COLUMN",), on=table, about=about, why="columns that the table lacks")
    if use.is_staged:
        need = Need.LOAD if use.holds else Need.OPTIONAL
        on, why = f"{short_identifier(use.database)}.*", "views of the rows of loads with commit='held'"
        yield Right(rights=("CREATE VIEW", "DROP VIEW"), on=on, about=about, why=why, need=need)
        # A user without rights does not see whether the table has replicas.
        if use.holds and not use.is_replicated:
            need = Need.TOOL if use.has_cluster else Need.OPTIONAL
        why = "to drop these views ON CLUSTER, where DROP VIEW is not enough"
        yield Right(rights=("DROP TABLE",), on=on, about=about, why=why, need=need)
        yield from _of_own_tables(use)


def _of_own_tables(use: Use) -> Iterator[Right]:
    about, why = About.TABLES, "staging, lock and ledger, which loads create"
    yield Right(rights=OWN, on=use.own, about=about, why=why)
    ledger = use.ledger or f"{short_identifier(use.database)}.ch_s3_ledger"
    if use.ledger:
        for table in (ledger, f"{ledger}_files"):
            yield Right(rights=READ_AND_WRITE, on=table, about=about, why=why)
            yield Right(rights=("CREATE TABLE",), on=table, about=about, why=why, need=Need.TOOL)
    yield Right(rights=("ALTER UPDATE",), on=ledger, about=about, why="ch-s3 loads prune", need=Need.TOOL)
    rights = ("ALTER ADD COLUMN", "ALTER DROP COLUMN", "ALTER MODIFY COLUMN")
    why = "to complete a commit if somebody altered the columns of the table halfway"
    yield Right(rights=rights, on=use.own, about=about, why=why, need=Need.OPTIONAL)


def _of_sources(use: Use) -> Iterator[Right]:
    about = About.SOURCE
    source = {TableFunction.S3: "S3", TableFunction.AZURE: "AZURE", TableFunction.URL: "URL"}[use.function]
    yield Right(rights=(source,), on="*.*", about=about, why="to read the files")
    if not use.is_staged:
        # CREATE TABLE implies this right.
        temporary, why = ("CREATE TEMPORARY TABLE",), "to use a table function"
        yield Right(rights=temporary, on="*.*", about=About.TABLES, why=why)
    if use.collection:
        rights = ("NAMED COLLECTION",)
        yield Right(rights=rights, on=short_identifier(use.collection), about=about, why="the keys of the store")
    if not use.has_cluster:
        why = "loads into Distributed tables; set the connection's field cluster, too"
        yield Right(rights=("REMOTE", "CLUSTER"), on="*.*", about=about, why=why, need=Need.OPTIONAL)
        return
    yield Right(rights=("REMOTE",), on="*.*", about=about, why="to query all nodes of a cluster")
    need, why = Need.LOAD if use.on_cluster else Need.TOOL, "statements ON CLUSTER, for replicas"
    yield Right(rights=("CLUSTER",), on="*.*", about=About.TABLES, why=why, need=need)
