"""Render the statements of the ledger and of locks, and the statements to show or forget past loads."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.sql.render import IN_FILE, render, statement
from airflow_provider_ch_s3.table.target import TableName


@statement
def render_read_ledger_comments(tables: Sequence[TableName], cluster: str | None) -> str:
    """Read the comments of the ledger's tables, which name the schema version, for each node with these tables."""
    return """
        SELECT {{ node_name }} AS node, name, engine, comment
        FROM {{ cluster | all_nodes("system.tables") }}
        WHERE database = {{ tables[0].database | literal }} AND name IN ({{ tables | map(attribute="table") | literals }})
    """  # noqa: E501


@statement
def render_create_ledger(ledger: TableName, cluster: str | None, *, comment: str, is_replicated: bool) -> str:
    """Create the table of events, unless it exists."""
    return IN_FILE


@statement
def render_create_ledger_files(ledger: TableName, cluster: str | None, *, comment: str, is_replicated: bool) -> str:
    """Create the table of files, unless it exists."""
    return IN_FILE


def render_write_event(ledger: TableName, event: Mapping[str, Any], *, quorum: int) -> Statement:
    """Append one event, whose kind is part of the statement's name.

    :param quorum: number of replicas to wait for.
    """
    return _render_write(f"write_event_{event['event']}", ledger, [event], quorum)


def render_write_files(ledger: TableName, rows: Sequence[Mapping[str, Any]], *, quorum: int) -> Statement:
    """Append a manifest, or a piece of a manifest; ``quorum`` as in :func:`render_write_event`."""
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

    :param table_uuids: also read the names of the table with these UUIDs; a table has few names in its life.
    :param attempts: numbers of further attempts.
    :param since: number of the first attempt to read, of all loads; 0 if nothing was read before.
    """
    return IN_FILE


@statement
def render_read_attempt_files(
    ledger: TableName, cluster: str | None, *, target: str, attempt: tuple[str, int], after: str, limit: int
) -> str:
    """Read the first rows of an attempt's manifest with paths greater than ``after``.

    :param attempt: the id of the attempt's load, and the attempt's number.
    """
    return """
        SELECT DISTINCT path, etag, size_bytes
        FROM {{ cluster | all_replicas(ledger) }}
        WHERE target = {{ target | literal }}
            AND (load_id, attempt) IN ({{ [attempt] | tuples }})
            AND path > {{ after | literal }}
        ORDER BY path
        LIMIT {{ limit | literal }}
        SETTINGS select_sequential_consistency = 1
    """


@statement
def render_count_by_folder(
    ledger: TableName, cluster: str | None, *, target: str, attempts: Sequence[tuple[str, int]], limit: int
) -> str:
    """Count the files of attempts in each folder, the folders with the most files first."""
    return """
        SELECT
            substring(path, 1, length(path) - position(reverse(path), '/') + 1) AS folder,
            toUInt32(uniqExact(path)) AS files
        FROM {{ cluster | all_replicas(ledger) }}
        WHERE target = {{ target | literal }}
            AND (load_id, attempt) IN ({{ attempts | tuples }})
        GROUP BY folder
        ORDER BY files DESC, folder
        LIMIT {{ limit | literal }}
        SETTINGS select_sequential_consistency = 1
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
    """Read the attempts that were to load files with paths from ``first`` to ``last``, with the files.

    :param only: read only these paths; empty for all.
    """
    # The range keeps a load of one night's files from reading years of files.
    return """
        SELECT DISTINCT path, etag, load_id, attempt
        FROM {{ cluster | all_replicas(ledger) }}
        WHERE target {{ targets | is_among }} AND path BETWEEN {{ first | literal }} AND {{ last | literal }}
        {% if only %}
            AND path IN ({{ only | literals }})
        {% endif %}
        SETTINGS select_sequential_consistency = 1
    """


@statement
def render_read_last_files(
    ledger: TableName, cluster: str | None, *, target: str, prefix: str, before: str, limit: int
) -> str:
    """Read the last paths that begin with ``prefix``, in descending order; a path may occur several times.

    :param before: only paths before this path; '' for all.
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
        SETTINGS select_sequential_consistency = 1
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
    """Read the commits of the given attempts into the table: when, and how.

    :param attempts: numbers of the attempts.
    """
    # If a commit was recorded twice, the first record tells the time.
    return """
        {% include "_commits.sql.jinja" %}

            AND attempt IN ({{ attempts | literals }})
        GROUP BY target, load_id, generation, attempt
        HAVING countIf(event = 'undone') = 0
        SETTINGS select_sequential_consistency = 1
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
        SETTINGS select_sequential_consistency = 1
    """


@statement
def render_read_replacements(
    ledger: TableName,
    cluster: str | None,
    *,
    targets: Sequence[str],
    table_uuids: Sequence[str],
    partitions: Sequence[str],
    keeping: Sequence[str],
    by_partition: Sequence[str],
) -> str:
    """Read when each of the given partitions was last replaced, and when the whole table was (partition ``''``).

    :param keeping: load modes that replace nothing.
    :param by_partition: load modes that replace the partitions of the new rows; all others replace the table.
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
    """Read the attempts among the given ones that one task has planned, in any run of the task.

    :param attempts: the id of the load and the number of each attempt.
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
        SETTINGS select_sequential_consistency = 1
    """


def render_write_names(ledger: TableName, names: Sequence[Mapping[str, str]], *, quorum: int) -> Statement:
    """Append names of tables: rows of target (a UUID), event and name."""
    return _render_write("write_names", ledger, names, quorum)


def render_write_announcement(ledger: TableName, load_id: str) -> Statement:
    """Record that a load is about to be planned, for the loads that are planned at the same time."""
    row = {"target": "announcements", "load_id": load_id, "event": "announced"}
    return _render_write("write_announcement", ledger, [row], quorum=0)


@statement
def render_read_last_commit(ledger: TableName, cluster: str | None, *, target: str) -> str:
    """Read the epoch of the last commit; 0 if there was no commit."""
    return """
        SELECT max(epoch) AS epoch
        FROM {{ cluster | all_replicas(ledger) }}
        WHERE target = {{ target | literal }} AND event = 'committed'
        SETTINGS select_sequential_consistency = 1
    """


@statement
def render_read_earlier_uuids(ledger: TableName, cluster: str | None, *, target: str) -> str:
    """Read the UUIDs of the table into which the last commit under a name went; no row if there was no commit."""
    # Read from the newest commit backwards: no more than one of them.
    return """
        SELECT table_uuids
        FROM {{ cluster | all_replicas(ledger) }}
        WHERE target = {{ target | literal }} AND event = 'committed' AND notEmpty(table_uuids)
        ORDER BY attempt DESC, epoch DESC
        LIMIT 1
        SETTINGS select_sequential_consistency = 1
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
    """Record all commits into one table for a second table with the same rows, too."""
    return IN_FILE


@statement
def render_read_past_reports(
    ledger: TableName, cluster: str | None, *, target: str, since: int, min_volume_bytes: int
) -> str:
    """Read, for each format, the newest commit of the attempts from the number ``since`` on."""
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
    :param load_id: of the asking load, which does not count.
    :param since: number of the first attempt to count.
    """
    return IN_FILE


@statement
def render_create_lock(lock: TableName, *, owner: str) -> str:
    """Take a lock; if two processes try on the same node, the second fails with TABLE_ALREADY_EXISTS."""
    return """
        CREATE TABLE {{ lock | table_name }} (nothing UInt8)
        ENGINE = Memory
        COMMENT {{ owner | literal }}
    """


@statement
def render_drop_lock(lock: TableName) -> str:
    """Release a lock; fails with UNKNOWN_TABLE if another process has taken the lock over."""
    return "DROP TABLE {{ lock | table_name }} SYNC"


@statement
def render_read_tables(database: str, prefixes: Sequence[str], cluster: str | None) -> str:
    """Read names, comments and UUIDs of the tables whose names start with any of ``prefixes``, on each node."""
    return """
        SELECT {{ node_name }} AS node, name, comment, toString(uuid) AS uuid
        FROM {{ cluster | all_nodes("system.tables") }}
        WHERE database = {{ database | literal }}
            AND arrayExists(prefix -> startsWith(name, prefix), [{{ prefixes | literals }}])
        ORDER BY name, node
    """


@statement
def render_find_ledgers(comment: str, cluster: str | None, *, limit: int) -> str:
    """Find ledgers, real or pretended, by the beginning of the table's comment, on all nodes."""
    # Tables, not views: views would read other tables with the rights of this user. On all nodes, since all are read.
    return """
        SELECT database, name, groupUniqArray(engine) AS engines, groupUniqArray(comment) AS comments
        FROM {{ cluster | all_nodes("system.tables") }}
        WHERE startsWith(comment, {{ comment | literal }})
        GROUP BY database, name
        ORDER BY database, name
        LIMIT {{ limit | literal }}
    """


@statement
def render_read_ledger_columns(tables: Sequence[TableName], cluster: str | None) -> str:
    """Read the columns of some tables: name, type, kind of default, default, in their order.

    :param tables: at least one table. The answer has a row for each table, with every list of columns that any node
        has.
    """
    return IN_FILE


@statement
def render_read_latest_attempts(
    ledger: TableName,
    cluster: str | None,
    *,
    target: str = "",
    named: str = "",
    load_id: str = "",
    dag: str = "",
    states: Sequence[str] = (),
    days: float = 0.0,
    after: tuple[float, str, int] | None = None,
    limit: int,
) -> str:
    """Read the attempts planned last, the newest first, and their states.

    :param target: only attempts into this target; '' for all.
    :param named: only attempts of tasks into this table, whether the task names the database or not; '' for all.
    :param load_id: only attempts of this load; '' for all.
    :param dag: only attempts of this DAG; '' for all.
    :param states: only attempts in these states; empty for all.
    :param days: only attempts planned within these days; 0 for all.
    :param after: only attempts planned before this attempt: time of planning (Unix time), id of the load, number.
    """
    return IN_FILE


@statement
def render_read_history(ledger: TableName, cluster: str | None, *, attempts: Sequence[tuple[str, str, int]]) -> str:
    """Read all events of some attempts, without the details of a commit that begins.

    :param attempts: target, id of the load, and number of each attempt.
    """
    # Without what a commit found before the commit began: only processes that resume the commit need these details,
    # which may be long.
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
        SETTINGS select_sequential_consistency = 1
    """


@statement
def render_read_targets(ledger: TableName, cluster: str | None, *, limit: int) -> str:
    """Read the targets of all loads: the number of committed attempts, and how long ago the last commit was."""
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
        SETTINGS select_sequential_consistency = 1
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
    """


@statement
def render_read_lock_events(ledger: TableName, cluster: str | None, *, locks: Sequence[tuple[str, int]]) -> str:
    """Read how long ago some locks were taken, and how long ago their owners wrote a heartbeat.

    :param locks: target and epoch of each lock.
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
        SETTINGS select_sequential_consistency = 1
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

    :param attempts: only files of these attempts; empty for all.
    :param prefix: only paths with this beginning.
    :param after: only files after this file: path, ETag, id of the load, number of the attempt.
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
        SETTINGS select_sequential_consistency = 1
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
    """Remove the beginnings of some attempts of a target; if last, also their ends."""
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
    """Remove the locks of a target, and the announcements of all loads, from before a Unix time."""
    # The last epoch is always kept: no epoch may be used twice.
    return """
        ALTER TABLE {{ ledger | table_name }}{{ cluster | on_cluster }}
        DELETE WHERE (
                target = {{ target | literal }}
                    AND epoch < {{ last_epoch | literal }}
                    AND event IN ('locked', 'alive')
                OR target = 'announcements'
            )
            AND toFloat64(time) < {{ before_seconds | literal }}
        SETTINGS mutations_sync = 2
    """


@statement
def render_forget_details(
    ledger: TableName, cluster: str | None, *, target: str, first_open: int, before_seconds: float
) -> str:
    """Remove the details of events before a Unix time, of attempts before the first open attempt."""
    # The columns stay: later loads look them up.
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
    """Read which of the given UUIDs belong to a table on any node."""
    return """
        SELECT DISTINCT toString(uuid) AS uuid
        FROM {{ cluster | all_nodes("system.tables") }}
        WHERE toString(uuid) IN ({{ uuids | literals }})
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
