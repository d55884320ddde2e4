"""Render the statements of the ledger and of locks, and the ones that show or forget what loads did."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.sql.render import IN_FILE, render, statement
from airflow_provider_ch_s3.table.target import TableName


@statement
def render_read_ledger_comments(tables: Sequence[TableName], cluster: str | None) -> str:
    """Read the comments of the ledger's tables, which have the schema version, for each node that has them."""
    return """
        SELECT {{ node_name }} AS node, name, engine, comment
        FROM {{ cluster | all_nodes("system.tables") }}
        WHERE database = {{ tables[0].database | literal }} AND name IN ({{ tables | map(attribute="table") | literals }})
        SETTINGS skip_unavailable_shards = 0
    """  # noqa: E501


@statement
def render_create_ledger(ledger: TableName, cluster: str | None, *, comment: str, is_replicated: bool) -> str:
    """Create the table of events if it does not exist."""
    return IN_FILE


@statement
def render_create_ledger_files(ledger: TableName, cluster: str | None, *, comment: str, is_replicated: bool) -> str:
    """Create the table of files if it does not exist."""
    return IN_FILE


def render_write_event(ledger: TableName, event: Mapping[str, Any], *, quorum: int) -> Statement:
    """Append one event, whose kind is part of the statement's name.

    :param quorum: number of replicas that must have it before the statement ends.
    """
    return _render_write(f"write_event_{event['event']}", ledger, [event], quorum)


def render_write_files(ledger: TableName, rows: Sequence[Mapping[str, Any]], *, quorum: int) -> Statement:
    """Append a manifest, or a piece of one; ``quorum`` as in :func:`render_write_event`."""
    return _render_write("write_files", ledger, rows, quorum)


def _render_write(name: str, ledger: TableName, rows: Sequence[Mapping[str, Any]], quorum: int) -> Statement:
    text = """
        INSERT INTO {{ ledger | table_name }} ({{ columns | identifiers }})
        SETTINGS async_insert = 0, insert_quorum = {{ quorum | literal }}, insert_quorum_parallel = 1
        FORMAT JSONEachRow
        {{ rows | json_rows }}
    """
    return render(name, text, ledger=ledger, columns=list(rows[0]), rows=rows, quorum=quorum)


@statement
def render_read_events(
    ledger: TableName,
    cluster: str | None,
    *,
    target: str,
    load_id: str,
    table_uuids: Sequence[str] = (),
    attempts: Collection[int] = (),
    since: int = 0,
) -> str:
    """Read the events of one load and of all attempts that may be open, in order.

    :param table_uuids: of the table whose names to read, too; it has few in its life.
    :param attempts: numbers of further attempts.
    :param since: number of the first attempt whose events to read, of all loads; 0 if nothing was read before.
    """
    return IN_FILE


@statement
def render_read_attempt_files(
    ledger: TableName, cluster: str | None, *, target: str, attempt: tuple[str, int], after: str, limit: int
) -> str:
    """Read the first rows of an attempt's manifest with paths greater than ``after``.

    :param attempt: the id of its load, and its number.
    """
    return """
        SELECT DISTINCT path, etag, size_bytes
        FROM {{ cluster | all_replicas(ledger) }}
        WHERE target = {{ target | literal }}
            AND (load_id, attempt) IN ({{ [attempt] | tuples }})
            AND path > {{ after | literal }}
        ORDER BY path
        LIMIT {{ limit | literal }}
        SETTINGS skip_unavailable_shards = 0, select_sequential_consistency = 1
    """


@statement
def render_read_loaded_files(
    ledger: TableName,
    cluster: str | None,
    *,
    targets: Sequence[str],
    first: str,
    last: str,
    only: Sequence[str] = (),
) -> str:
    """Read which attempts were to load which files, with paths from ``first`` to ``last``; of them, ``only`` some."""
    # The range keeps a load of one night's files from reading years of files.
    return """
        SELECT DISTINCT path, etag, load_id, attempt
        FROM {{ cluster | all_replicas(ledger) }}
        WHERE target {{ targets | is_among }} AND path BETWEEN {{ first | literal }} AND {{ last | literal }}
        {% if only %}
            AND path IN ({{ only | literals }})
        {% endif %}
        SETTINGS skip_unavailable_shards = 0, select_sequential_consistency = 1
    """


@statement
def render_read_last_files(
    ledger: TableName, cluster: str | None, *, target: str, prefix: str, before: str, limit: int
) -> str:
    """Read the last paths that begin with ``prefix``, in descending order; a path may be there more than once.

    :param before: only paths before this one; '' for all.
    """
    return """
        {# In the order of the primary key, from its end: no more is read than asked for. #}
        SELECT path
        FROM {{ cluster | all_replicas(ledger) }}
        WHERE target = {{ target | literal }}
            AND startsWith(path, {{ prefix | literal }})
        {% if before %}
            AND path < {{ before | literal }}
        {% endif %}
        ORDER BY target DESC, path DESC
        LIMIT {{ limit | literal }}
        SETTINGS skip_unavailable_shards = 0, select_sequential_consistency = 1
    """


@statement
def render_read_commits(
    ledger: TableName,
    cluster: str | None,
    *,
    targets: Sequence[str],
    table_uuids: Sequence[str],
    attempts: Sequence[int],
) -> str:
    """Read which of the given attempts were committed into the table, when, and how.

    :param attempts: their numbers.
    """
    # A commit that was recorded twice happened when it was recorded first.
    return """
        {% include "_commits.sql.jinja" %}

            AND attempt IN ({{ attempts | literals }})
        GROUP BY target, load_id, generation, attempt
        HAVING countIf(event = 'undone') = 0
        SETTINGS skip_unavailable_shards = 0, select_sequential_consistency = 1
    """


@statement
def render_read_commits_into(
    ledger: TableName,
    cluster: str | None,
    *,
    targets: Sequence[str],
    table_uuids: Sequence[str],
    partitions: Sequence[str],
    since: int,
) -> str:
    """Read the commits of attempts with rows for any of the given partitions, from the epoch ``since`` on."""
    return """
        {% include "_commits.sql.jinja" %}

            AND hasAny(mapKeys(partitions), [{{ partitions | literals }}])
            AND epoch >= {{ since | literal }}
        GROUP BY target, load_id, generation, attempt
        HAVING countIf(event = 'undone') = 0
        SETTINGS skip_unavailable_shards = 0, select_sequential_consistency = 1
    """


@statement
def render_read_replacements(
    ledger: TableName,
    cluster: str | None,
    *,
    targets: Sequence[str],
    table_uuids: Sequence[str],
    partitions: Sequence[str],
    counts_conditions: bool = False,
) -> str:
    """Read when each of the given partitions was last replaced, and when the whole table was (partition ``''``).

    :param counts_conditions: ``replace_where``, ``merge`` and ``replace_files`` count as replacing the whole table.
    """
    return IN_FILE


@statement
def render_read_planned_by(
    ledger: TableName,
    cluster: str | None,
    *,
    targets: Sequence[str],
    attempts: Sequence[tuple[str, int]],
    dag: str,
    task: str,
) -> str:
    """Read which of some attempts one task has planned, in any of its runs.

    :param attempts: for each the id of its load, and its number.
    """
    return """
        {# The details of old attempts may have been forgotten; then it is unknown whose they were. #}
        SELECT DISTINCT load_id, generation, attempt
        FROM {{ cluster | all_replicas(ledger) }}
        WHERE target {{ targets | is_among }}
            AND event = 'planned'
            AND (load_id, attempt) IN ({{ attempts | tuples }})
            AND JSONExtractString(detail, 'dag') = {{ dag | literal }}
            AND JSONExtractString(detail, 'task') = {{ task | literal }}
        SETTINGS skip_unavailable_shards = 0, select_sequential_consistency = 1
    """


def render_write_names(ledger: TableName, names: Sequence[Mapping[str, str]], *, quorum: int) -> Statement:
    """Append names of tables: rows of target (a UUID), event and name."""
    return _render_write("write_names", ledger, names, quorum)


def render_write_claim(ledger: TableName, load_id: str) -> Statement:
    """Record that a load is about to be planned, for other loads that are planned now."""
    claim = {"target": "claims", "load_id": load_id, "event": "claimed"}
    return _render_write("write_claim", ledger, [claim], quorum=0)


@statement
def render_read_earlier_uuids(ledger: TableName, cluster: str | None, *, target: str) -> str:
    """Read the UUIDs of the table that the last commit under a name went into; no row if there was none."""
    # Read from the newest commit backwards: no more than one of them.
    return """
        SELECT table_uuids
        FROM {{ cluster | all_replicas(ledger) }}
        WHERE target = {{ target | literal }} AND event = 'committed' AND notEmpty(table_uuids)
        ORDER BY attempt DESC, epoch DESC
        LIMIT 1
        SETTINGS skip_unavailable_shards = 0, select_sequential_consistency = 1
    """


@statement
def render_adopt_commits(
    ledger: TableName,
    cluster: str | None,
    *,
    targets: Sequence[str],
    earlier_uuids: Sequence[str],
    table_uuids: Sequence[str],
    quorum: int,
) -> str:
    """Record all commits into one table for another one, too, which holds the same rows."""
    return IN_FILE


@statement
def render_read_past_reports(
    ledger: TableName, cluster: str | None, *, target: str, since: int, min_volume_bytes: int
) -> str:
    """Read, for each format, the newest commit of an attempt with the number ``since`` or a greater one."""
    # Only recent attempts are read: the table is ordered by them.
    return """
        SELECT detail
        FROM {{ cluster | all_replicas(ledger) }}
        WHERE target = {{ target | literal }}
            AND attempt >= {{ since | literal }}
            AND event = 'committed'
            AND volume_bytes >= {{ min_volume_bytes | literal }}
            AND detail NOT IN ('', '{}')
        ORDER BY attempt DESC
        LIMIT 1 BY data_format
        SETTINGS skip_unavailable_shards = 0
    """


@statement
def render_read_earlier_loads(
    ledger: TableName,
    cluster: str | None,
    *,
    target: str,
    dag: str,
    task: str,
    map_index: int,
    load_id: str,
    since: int,
    limit: int,
) -> str:
    """Read what the newest commits of a task say of their rows, files and checks.

    :param map_index: -1 for a task that is not mapped; siblings do not count.
    :param load_id: of the load that asks, which does not count.
    :param since: number of the first attempt that counts.
    """
    return IN_FILE


@statement
def render_create_lock(lock: TableName, *, owner: str) -> str:
    """Take a lock; of two processes that try to on the same node, one fails with TABLE_ALREADY_EXISTS."""
    return """
        CREATE TABLE {{ lock | table_name }} (nothing UInt8)
        ENGINE = Memory
        COMMENT {{ owner | literal }}
    """


@statement
def render_drop_lock(lock: TableName) -> str:
    """Release a lock; fails with UNKNOWN_TABLE if another process has taken it over."""
    return "DROP TABLE {{ lock | table_name }} SYNC"


@statement
def render_read_tables(database: str, prefixes: Sequence[str], cluster: str | None) -> str:
    """Read names, comments and UUIDs of the tables whose names start with one of ``prefixes``, on each node."""
    return """
        SELECT {{ node_name }} AS node, name, comment, toString(uuid) AS uuid
        FROM {{ cluster | all_nodes("system.tables") }}
        WHERE database = {{ database | literal }}
            AND arrayExists(prefix -> startsWith(name, prefix), [{{ prefixes | literals }}])
        ORDER BY name, node
        SETTINGS skip_unavailable_shards = 0
    """


@statement
def render_find_ledgers(comment: str, cluster: str | None, *, limit: int) -> str:
    """Find tables, and what else calls itself one, by the beginning of their comment, on all nodes."""
    # Tables, not views, which would read other tables with the rights of this user; on all nodes, since all
    # are read.
    return """
        SELECT database, name, groupUniqArray(engine) AS engines, groupUniqArray(comment) AS comments
        FROM {{ cluster | all_nodes("system.tables") }}
        WHERE startsWith(comment, {{ comment | literal }})
        GROUP BY database, name
        ORDER BY database, name
        LIMIT {{ limit | literal }}
        SETTINGS skip_unavailable_shards = 0
    """


@statement
def render_read_ledger_columns(tables: Sequence[TableName], cluster: str | None) -> str:
    """Read which columns some tables have: name, type, kind of default, default, in their order.

    :param tables: at least one; each has one row, with all lists of columns that it has on any node.
    """
    return IN_FILE


@statement
def render_read_latest_attempts(
    ledger: TableName,
    cluster: str | None,
    *,
    target: str = "",
    load_id: str = "",
    dag: str = "",
    states: Sequence[str] = (),
    days: float = 0.0,
    after: tuple[float, str, int] | None = None,
    limit: int,
) -> str:
    """Read which attempts were planned last, the newest first, and their states.

    :param target: only those of one target; '' for all.
    :param load_id: only those of one load; '' for all.
    :param dag: only those of one DAG; '' for all.
    :param states: only those in one of these states; none for all.
    :param days: only those planned within these days; 0 for all.
    :param after: only those planned before this one: when it was planned (Unix time), the id of its load, its number.
    """
    return IN_FILE


@statement
def render_read_history(ledger: TableName, cluster: str | None, *, attempts: Sequence[tuple[str, str, int]]) -> str:
    """Read all events of some attempts, without the details of a commit that begins.

    :param attempts: for each its target, the id of its load, and its number.
    """
    # Without what a commit found before it began: that is for processes that resume it, and may be long.
    return """
        SELECT DISTINCT
            * REPLACE (if(event = 'committing', '{}', detail) AS detail),
            toFloat64(now64(6)) - time_seconds AS age_seconds
        FROM
        (
            {% include "_events.sql.jinja" %}

            WHERE (target, load_id, attempt) IN ({{ attempts | tuples }})
        )
        ORDER BY target, epoch, time_seconds
        SETTINGS skip_unavailable_shards = 0, select_sequential_consistency = 1
    """


@statement
def render_read_targets(ledger: TableName, cluster: str | None, *, limit: int) -> str:
    """Read the targets of all loads: how many attempts were committed, and how long ago the last one was."""
    # Replicas of a ledger hold the same rows, so that attempts are counted, not rows.
    return """
        SELECT
            target,
            uniqExactIf((load_id, attempt), event = 'committed') AS commits,
            toFloat64(now64(6)) - toFloat64(maxIf(time, event = 'committed')) AS age_seconds
        FROM {{ cluster | all_replicas(ledger) }}
        WHERE event IN ('locked', 'committed')
        GROUP BY target
        ORDER BY target
        LIMIT {{ limit | literal }}
        SETTINGS skip_unavailable_shards = 0, select_sequential_consistency = 1
    """


@statement
def render_read_locks(databases: Sequence[str], prefix: str, cluster: str | None, *, limit: int) -> str:
    """Read names and comments of the locks in some databases, on all nodes."""
    return """
        SELECT DISTINCT name, comment
        FROM {{ cluster | all_nodes("system.tables") }}
        WHERE database IN ({{ databases | literals }}) AND startsWith(name, {{ prefix | literal }})
        ORDER BY name
        LIMIT {{ limit | literal }}
        SETTINGS skip_unavailable_shards = 0
    """


@statement
def render_read_lock_events(ledger: TableName, cluster: str | None, *, locks: Sequence[tuple[str, int]]) -> str:
    """Read how long ago some locks were taken, and how long ago their owners gave a sign of life.

    :param locks: for each its target and its epoch.
    """
    # The events of a lock have its epoch as their attempt.
    return """
        SELECT
            target,
            attempt,
            toFloat64(now64(6)) - toFloat64(min(time)) AS age_seconds,
            toFloat64(now64(6)) - toFloat64(max(time)) AS silent_seconds
        FROM {{ cluster | all_replicas(ledger) }}
        WHERE event IN ('locked', 'alive')
            AND (target, attempt) IN ({{ locks | tuples }})
        GROUP BY target, attempt
        SETTINGS skip_unavailable_shards = 0, select_sequential_consistency = 1
    """


@statement
def render_read_recorded_files(
    ledger: TableName,
    cluster: str | None,
    *,
    targets: Sequence[str],
    attempts: Sequence[tuple[str, int]] = (),
    prefix: str = "",
    after: tuple[str, str, str, int] | None = None,
    limit: int,
) -> str:
    """Read the files that attempts were to load, in the order of their paths.

    :param attempts: only those of these attempts; none for all.
    :param prefix: with which the paths begin.
    :param after: only what comes after this file: its path, its ETag, the id of its load, the number of the attempt.
    """
    return IN_FILE


@statement
def render_read_last_locks(ledger: TableName, cluster: str | None) -> str:
    """Read the last epoch of each target, and the first attempt that was open then."""
    return """
        SELECT target, max(epoch) AS last_epoch, argMax(first_open, epoch) AS first_open
        FROM {{ cluster | all_replicas(ledger) }}
        WHERE event = 'locked'
        GROUP BY target
        ORDER BY target
        SETTINGS skip_unavailable_shards = 0, select_sequential_consistency = 1
    """


@statement
def render_read_ended_attempts(ledger: TableName, cluster: str | None, *, before_seconds: float) -> str:
    """Read the attempts that ended before a Unix time, and into which tables they were committed."""
    return IN_FILE


@statement
def render_prune_ledger(
    ledger: TableName,
    cluster: str | None,
    *,
    target: str,
    attempts: Sequence[tuple[str, int]],
    last_epoch: int,
    is_last: bool,
) -> str:
    """Remove how some attempts of a target began; if last, how they ended."""
    return """
        {# The last epoch is always kept: no epoch may be used twice. So is what was undone: it may go before the #}
        {# commit does, which would then count again. #}
        ALTER TABLE {{ ledger | table_name }}{{ cluster | on_cluster }}
        DELETE WHERE target = {{ target | literal }} AND epoch < {{ last_epoch | literal }}
        {% if is_last %}
            AND event NOT IN ('locked', 'alive', 'undone') AND (load_id, attempt) IN ({{ attempts | tuples }})
        {% else %}
            AND event IN ('planned', 'committing') AND (load_id, attempt) IN ({{ attempts | tuples }})
        {% endif %}
        SETTINGS mutations_sync = 2
    """


@statement
def render_prune_locks(
    ledger: TableName, cluster: str | None, *, target: str, last_epoch: int, before_seconds: float
) -> str:
    """Remove the locks of a target from before a Unix time, and the claims of all loads from before it."""
    # The last epoch is always kept: no epoch may be used twice.
    return """
        ALTER TABLE {{ ledger | table_name }}{{ cluster | on_cluster }}
        DELETE WHERE (
                target = {{ target | literal }}
                    AND epoch < {{ last_epoch | literal }}
                    AND event IN ('locked', 'alive')
                OR target = 'claims'
            )
            AND toFloat64(time) < {{ before_seconds | literal }}
        SETTINGS mutations_sync = 2
    """


@statement
def render_forget_details(
    ledger: TableName, cluster: str | None, *, target: str, first_open: int, before_seconds: float
) -> str:
    """Remove the details of what happened before a Unix time to attempts before the first open one."""
    # What the columns say stays: it is what other loads look up.
    return """
        ALTER TABLE {{ ledger | table_name }}{{ cluster | on_cluster }}
        UPDATE detail = '{}' WHERE target = {{ target | literal }}
            AND attempt < {{ first_open | literal }}
            AND detail != '{}'
            AND toFloat64(time) < {{ before_seconds | literal }}
        SETTINGS mutations_sync = 2
    """


@statement
def render_read_uuids(uuids: Sequence[str], cluster: str | None) -> str:
    """Read which of the given UUIDs belong to a table that exists on any node."""
    return """
        SELECT DISTINCT toString(uuid) AS uuid
        FROM {{ cluster | all_nodes("system.tables") }}
        WHERE toString(uuid) IN ({{ uuids | literals }})
        SETTINGS skip_unavailable_shards = 0
    """


@statement
def render_prune_ledger_files(
    ledger: TableName, cluster: str | None, *, target: str, attempts: Sequence[tuple[str, int]]
) -> str:
    """Remove the manifests of some attempts of a target."""
    return """
        ALTER TABLE {{ ledger | table_name }}{{ cluster | on_cluster }}
        DELETE WHERE target = {{ target | literal }} AND (load_id, attempt) IN ({{ attempts | tuples }})
        SETTINGS mutations_sync = 2
    """
