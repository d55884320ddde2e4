"""Find out which rights a load needs, check the rights, and render the GRANT for them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.cluster.spec import ClusterDeclaration, DdlMode, parse_version
from airflow_provider_ch_s3.create.make import LOCAL_SUFFIX
from airflow_provider_ch_s3.errors import ClusterError, ConfigError, TargetError
from airflow_provider_ch_s3.exactly_once.holdings import Effect, Replaced
from airflow_provider_ch_s3.exactly_once.ledger import ledger_name
from airflow_provider_ch_s3.exactly_once.modes.registry import mode_for
from airflow_provider_ch_s3.exactly_once.target import Target
from airflow_provider_ch_s3.exactly_once.views import View, destination_of
from airflow_provider_ch_s3.files.stores import ObjectStore
from airflow_provider_ch_s3.introspection.cluster import read_server
from airflow_provider_ch_s3.introspection.table import read_table, views_of
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.sql import server_queries, staging_queries
from airflow_provider_ch_s3.sql.filters import short_identifier
from airflow_provider_ch_s3.sql.rights import (
    READ_AND_WRITE,
    About,
    Need,
    Right,
    Use,
    all_loads,
    declare_rights,
    join_rights,
    show_grants,
)
from airflow_provider_ch_s3.table.bad_rows import bad_row_table
from airflow_provider_ch_s3.table.target import (
    TableName,
    engine_of,
    has_replicas,
    is_merge_tree,
    parse_distribution,
    parse_table,
)

# Older servers have neither CHECK GRANT nor rights on all tables whose names begin alike.
FIRST_VERSION = (25, 8)

# What read_server() reads, besides what every user may read.
_OF_SERVER = ("system.clusters", "system.macros")


@dataclass(frozen=True, kw_only=True)
class Session:
    """What a server tells a user without any right."""

    user: str
    database: str
    version: tuple[int, int]

    @property
    def can_check(self) -> bool:
        """Whether the server can tell the rights of the user."""
        return self.version >= FIRST_VERSION


def read_session(client: ClickHouseClient) -> Session:
    """Read who the user is, and where."""
    row = client.query(server_queries.render_read_session())[0]
    return Session(user=row["user"], database=row["database"], version=parse_version(row["version"]))


def find_use(
    client: ClickHouseClient,
    declaration: ClusterDeclaration,
    session: Session,
    request: LoadRequest | None = None,
    store: ObjectStore | None = None,
) -> Use:
    """Find out what a load needs rights for, as far as the user may see the table.

    :param request: None for loads into any table of the session's database, in any mode.
    """
    name = parse_table(request.table, session.database) if request else None
    database = name.database if name else session.database
    use = dataclasses.replace(
        all_loads(database),
        ledger=_ledger_apart(declaration, database),
        has_prefixes=session.version >= FIRST_VERSION,
        has_cluster=bool(declaration.cluster),
    )
    if request is None or name is None or store is None:
        return use
    access = store.access()
    use = dataclasses.replace(
        use,
        tables=[_shown(name)],
        is_staged=request.mode.is_staged,
        replaces=_replaces(mode_for(request).effect),
        adds_columns=request.adds_columns,
        holds=request.holds is not None,
        settles=request.settles,
        function=access.function,
        collection=access.named_collection,
    )
    table = rows = read_table(client, name, None)
    local, cluster, is_replicated = name, declaration.cluster, None
    if rows and rows[0]["engine"] == "Distributed":
        distribution = parse_distribution(rows[0]["engine_full"])
        local, cluster = distribution.local, cluster or distribution.cluster
        rows = read_table(client, local, None)
        use = dataclasses.replace(
            use,
            database=local.database,
            tables=[_shown(name), _shown(local)],
            ledger=_ledger_apart(declaration, local.database),
            has_cluster=True,
        )
    new = [bad_row_table(one) for one in {name, local}] if request.keeps_bad_rows else []
    if rows:
        engine = engine_of(rows[0]["engine_full"]).partition("(")[0]
        is_replicated = has_replicas(engine)
        if is_merge_tree(engine):  # a staged load refuses any other table
            use = dataclasses.replace(
                use, engines=_engines(engine, keeps_bad_rows=request.keeps_bad_rows), is_replicated=is_replicated
            )
    elif request.create_table:
        new += [name, dataclasses.replace(name, table=f"{name.table}{LOCAL_SUFFIX}")]
    use = dataclasses.replace(use, new_tables=sorted(map(_shown, new)))
    if request.mode.replays_views:
        use = _with_views(client, use, [*table, *rows])
    declaration = dataclasses.replace(declaration, cluster=cluster)
    on_cluster = session.can_check and _runs_on_cluster(client, declaration, use, is_replicated)
    return dataclasses.replace(use, on_cluster=on_cluster)


def _runs_on_cluster(
    client: ClickHouseClient, declaration: ClusterDeclaration, use: Use, is_replicated: bool | None
) -> bool:
    """Whether a load runs statements ON CLUSTER; False if the user may not read how the servers are set up.

    False also if the connection is wrong about the cluster, for example if the cluster does not exist.

    :param is_replicated: as for :meth:`.ConnectedServer.ddl_mode`.
    """
    reading = [one for one in _needed(use, {About.READING}) if one.on in _OF_SERVER]
    if not (use.is_staged or use.new_tables) or not _has(client, reading):
        return False
    server = read_server(client)
    try:
        cluster = declaration.cluster and server.fill_in(declaration.cluster)
        known = dataclasses.replace(declaration, cluster=cluster)
        return server.ddl_mode(known, use.database, is_replicated=is_replicated) is DdlMode.ON_CLUSTER
    except (ClusterError, ConfigError):  # a load is told so, and so is the doctor, by other checks
        return False


def _with_views(client: ClickHouseClient, use: Use, rows: Sequence[Mapping[str, Any]]) -> Use:
    """Add the views of a table, and the tables of the views: all tables, unless the user sees the views.

    :param rows: of the table, by :func:`read_table`.
    """
    views = {view for row in rows for view in views_of(row)}
    found = {view: client.query(staging_queries.render_read_view(view, None)) for view in views}
    queries = [(view, row["create_table_query"]) for view, seen in found.items() for row in seen]
    tables = {_shown(parse_table(table, view.database)) for view, sql in queries if (table := destination_of(sql))}
    if not rows or not all(found.values()):
        tables = {f"{short_identifier(use.database)}.*"}
    return dataclasses.replace(
        use, views=[_shown(view) for view in views] or sorted(tables), view_tables=sorted(tables)
    )


def check_tables(target: Target, effect: Effect, views: Iterable[View], *, holds: bool = False) -> None:
    """Check the rights to write to the ledger, to stage and to commit.

    :param effect: of the commit.
    :param holds: the load shows the rows before the commit.
    :raises TargetError: if not; has the GRANT of the missing rights.
    """
    spec, ledger = target.spec, target.ledger.name
    use = Use(
        database=spec.local.database,
        tables=[_shown(spec.local)],
        view_tables=[_shown(view.table) for view in views],
        ledger=_apart(ledger, spec.local.database),
        replaces=_replaces(effect),
        holds=holds,
    )
    if target.cluster.server_version >= FIRST_VERSION:
        check_rights(target.client, use, {About.TABLES})


def check_rights(client: ClickHouseClient, use: Use, about: Set[About]) -> None:
    """Check all rights of a load.

    :param about: which rights to check.
    :raises TargetError: if not; has the GRANT of the missing rights.
    """
    _check_granted(client, _needed(use, about))


def _needed(use: Use, about: Set[About]) -> list[Right]:
    return [one for one in declare_rights(use) if one.need is Need.LOAD and one.about in about]


def check_ledger(client: ClickHouseClient, session: Session, ledger: TableName, *, is_there: bool) -> None:
    """Check the rights to use the ledger, and to create a missing ledger, if the server can tell.

    :raises TargetError: if not; has the GRANT of the missing rights.
    """
    rights = READ_AND_WRITE if is_there else (*READ_AND_WRITE, "CREATE TABLE")
    if session.can_check:
        _check_granted(client, [Right(rights=rights, on=_shown(ledger), about=About.TABLES, why="the ledger")])


def _check_granted(client: ClickHouseClient, needed: Sequence[Right]) -> None:
    """Check some rights.

    :raises TargetError: if not; has the GRANT of the missing rights.
    """
    missing = _find_missing(client, needed)
    if not missing:
        return
    what = ", ".join(join_rights(missing))
    user = read_session(client).user
    raise TargetError(
        "grant-missing",
        f"user {user!r} lacks rights, and nothing was changed; have an administrator run GRANT {what} TO"
        f" {short_identifier(user)} on every node (`ch-s3 doctor --grants` prints all rights that a load needs)",
    )


def _find_missing(client: ClickHouseClient, needed: Sequence[Right]) -> list[Right]:
    """Find the rights that the user lacks, each by itself."""
    if _has(client, needed):
        return []
    single = [dataclasses.replace(one, rights=[right]) for one in needed for right in one.rights]
    return [one for one in single if not _has(client, [one])]


def _has(client: ClickHouseClient, rights: Sequence[Right]) -> bool:
    return bool(client.query(server_queries.render_check_grant(rights))[0]["result"])


def _shown(table: TableName) -> str:
    return f"{short_identifier(table.database)}.{short_identifier(table.table)}"


def _ledger_apart(declaration: ClusterDeclaration, database: str) -> str:
    """The ledger named by the connection, unless the ledger is among the tables of loads."""
    return _apart(ledger_name(declaration.ledger_table, database), database)


def _apart(ledger: TableName, database: str) -> str:
    return "" if ledger == ledger_name(None, database) else _shown(ledger)


def _replaces(effect: Effect) -> bool:
    return effect.replaced is not Replaced.NOTHING


def _engines(engine: str, *, keeps_bad_rows: bool) -> list[str]:
    """The engines of the tables created by a staged load into a table with an engine."""
    plain = "ReplicatedMergeTree" if has_replicas(engine) else "MergeTree"
    return sorted({plain, engine, *(("MergeTree", "Null") if keeps_bad_rows else ())})


def render_missing(client: ClickHouseClient, use: Use, session: Session, what: str) -> str:
    """Render the GRANT of missing rights: of all rights if the server cannot tell; '' if the load can run."""
    if not session.can_check:
        return render_block(use, session, what)
    missing = _find_missing(client, list(declare_rights(use)))
    return "" if all(one.need is Need.OPTIONAL for one in missing) else _render(missing, session, what)


def render_block(use: Use, session: Session, what: str) -> str:
    """Render the GRANT of all rights, for an administrator to run.

    :param what: describes the load.
    """
    return _render(list(declare_rights(use)), session, what)


def _render(rights: Sequence[Right], session: Session, what: str) -> str:
    head = (
        f"-- {what}, on ClickHouse {'.'.join(map(str, session.version))}: an administrator runs this on every node,"
        " or adds ON CLUSTER behind GRANT"
    )
    return f"{head}\n{show_grants(rights, session.user)}"
