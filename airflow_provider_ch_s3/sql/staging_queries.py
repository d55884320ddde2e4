"""Render the statements of staging tables and of the commit."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from airflow_provider_ch_s3.sql.filters import Sql
from airflow_provider_ch_s3.sql.render import IN_FILE, statement
from airflow_provider_ch_s3.table.new_table import NewColumn
from airflow_provider_ch_s3.table.target import TableName


@statement
def render_create_staging(
    staging: TableName, target: TableName, cluster: str | None, *, comment: str, engine: Sql | None = None
) -> str:
    """Create a table like the target: with the same engine, keys, settings and storage policy.

    :param engine: the engine clause, if the target's own clause does not do: replicas need a separate path in Keeper.
    """
    # The target may have types that servers refuse by default.
    return """
        CREATE TABLE IF NOT EXISTS {{ staging | table_name }}{{ cluster | on_cluster }} AS {{ target | table_name }}
        {% if engine %}
        ENGINE = {{ engine }}
        {% endif %}
        COMMENT {{ comment | literal }}
        SETTINGS allow_suspicious_low_cardinality_types = 1
    """


@statement
def render_read_view(view: TableName, cluster: str | None) -> str:
    """Read the definition of a materialized view on each node with the view."""
    return """
        SELECT {{ node_name }} AS node, create_table_query, as_select
        FROM {{ cluster | all_nodes("system.tables") }}
        WHERE {{ view | is_table("name") }}
    """


@statement
def render_create_feed(feed: TableName, staged: TableName, cluster: str | None, *, select: Sql) -> str:
    """Create a materialized view that reads the inserts into a staging table and writes to a second table."""
    return """
        CREATE MATERIALIZED VIEW IF NOT EXISTS {{ feed | table_name }}{{ cluster | on_cluster }} TO {{ staged | table_name }}
        AS {{ select }}
    """  # noqa: E501


@statement
def render_create_held(view: TableName, staged: TableName, cluster: str | None, *, on: str | None) -> str:
    """Create a view of the rows of a staging table on all nodes.

    :param on: the cluster whose nodes get the view; None for the node that takes the statement.
    """
    return """
        CREATE VIEW IF NOT EXISTS {{ view | table_name }}{{ on | on_cluster }}
        AS SELECT * FROM {{ cluster | all_shards(staged) }}
    """


@statement
def render_drop_held(view: TableName, cluster: str | None) -> str:
    """Drop a view of held rows, if there is one."""
    return "DROP VIEW IF EXISTS {{ view | table_name }}{{ cluster | on_cluster }} SYNC"


@statement
def render_rename_staging(staging: TableName, renamed: TableName, cluster: str | None) -> str:
    """Take a staging table from the earlier owner: late statements of the earlier owner no longer find the table."""
    # IF EXISTS: on a node where another owner was faster the table has another name.
    return "RENAME TABLE IF EXISTS {{ staging | table_name }} TO {{ renamed | table_name }}{{ cluster | on_cluster }}"


@statement
def render_drop_staging(staging: TableName, cluster: str | None) -> str:
    """Drop a staging table where it exists."""
    return """
        DROP TABLE IF EXISTS {{ staging | table_name }}{{ cluster | on_cluster }} SYNC
        SETTINGS max_table_size_to_drop = 0
    """


@statement
def render_read_partitions(table: TableName, cluster: str | None, *, partitions: Collection[str] = ()) -> str:
    """Read the partitions with rows on each node.

    ``last_block`` rises with inserts, ``version`` with mutations; merges change neither. If ``has_deleted``, ``rows``
    falls with merges: rows deleted by a lightweight DELETE count until then. ``names`` is a hash of the names of the
    parts. ``ranges`` has the first and the last block of each part.

    :param partitions: only these; all if empty.
    """
    return IN_FILE


@statement
def render_count_target(table: TableName, cluster: str | None) -> str:
    """Count the rows of a table on each node; ``has_deleted``: the parts count deleted or changed rows, too."""
    return """
        SELECT {{ node_name }} AS node, sum(rows) AS rows,
            max(has_lightweight_delete OR startsWith(partition_id, 'patch-')) AS has_deleted
        FROM {{ cluster | all_nodes("system.parts") }}
        WHERE {{ table | is_table("table") }} AND active
        GROUP BY node
    """


@statement
def render_read_blocks(tables: Sequence[TableName], cluster: str | None) -> str:
    """Read rows, greatest block number and version of each partition of some tables on each node."""
    # Block numbers of inactive parts count, too: a new part gets a greater one than any of them.
    return """
        SELECT
            {{ node_name }} AS node,
            table,
            partition_id,
            sumIf(rows, active) AS rows,
            max(max_block_number) AS last_block,
            maxIf(data_version, active) AS version
        FROM {{ cluster | all_nodes("system.parts") }}
        WHERE {{ tables | are_tables("table") }}
        GROUP BY node, table, partition_id
        ORDER BY node, table, partition_id
    """


@statement
def render_read_digests(
    table: TableName, cluster: str | None, *, partitions: Collection[str], digest_length: int
) -> str:
    """Read the beginnings of the hashes of all active parts in some partitions, on each node."""
    # A statement of its own: the server computes each hash from the hashes of all files of the part.
    return """
        SELECT
            {{ node_name }} AS node,
            partition_id,
            groupArray(substring(hash_of_all_files, 1, {{ digest_length | literal }})) AS digests
        FROM {{ cluster | all_nodes("system.parts") }}
        WHERE {{ table | is_table("table") }} AND active
            AND partition_id IN ({{ partitions | literals }})
        GROUP BY node, partition_id
        ORDER BY node, partition_id
    """


@statement
def render_read_parts(tables: Sequence[TableName], cluster: str | None, *, partitions: Sequence[str]) -> str:
    """Read all parts of some partitions, active or not, on each node, and since when the node is up (Unix time)."""
    return IN_FILE


@statement
def render_read_logged_parts(
    uuids: Sequence[str],
    cluster: str | None,
    *,
    partitions: Sequence[str],
    query_prefix: str,
    named: str,
    began_at: int,
    margin_seconds: int,
    reach_seconds: int,
) -> str:
    """Read the part log of each node, to find where some statements have added parts to a table.

    ``reaches_back``: whether the log has an entry from before the beginning. ``has_named``: whether the log has parts
    added by statements that contain a name. ``seen``: the partitions of the table with an entry since the beginning.
    ``added``: the partitions to which the statements have added parts.

    :param uuids: UUIDs of the table on all nodes.
    :param query_prefix: of the statements' query ids.
    :param named: what the text of each of the statements contains; for a Replicated database, where a node runs the
        statements of another node under query ids of its own. Empty: the query ids tell.
    :param began_at: Unix time of the beginning; the clock of a node may be slow by ``margin_seconds``.
    :param reach_seconds: how long before the beginning to look for earlier entries.
    """
    return """
        WITH (
            toString(table_uuid) IN ({{ uuids | literals }})
            AND partition_id IN ({{ partitions | literals }})
            AND event_time >= toDateTime({{ (began_at - margin_seconds) | literal }})
            AND error = 0
        ) AS is_ours,
        startsWith(query_id, {{ query_prefix | literal }}) AS is_sent,
        {% if named %}
        query_id IN (
            SELECT query_id
            FROM system.query_log
            WHERE event_time >= toDateTime({{ (began_at - reach_seconds) | literal }})
                AND query_kind = 'Alter'
                AND position(query, {{ named | literal }}) > 0
        ) AS is_named
        {% else %}
        is_sent AS is_named
        {% endif %}
        SELECT
            {{ node_name }} AS node,
            max(event_time < toDateTime({{ began_at | literal }})) AS reaches_back,
            max(is_named) AS has_named,
            groupUniqArrayIf(partition_id, is_ours) AS seen,
            groupUniqArrayIf(partition_id, is_ours AND event_type = 'NewPart' AND (is_sent OR is_named)) AS added
        FROM {{ cluster | all_nodes("system.part_log") }}
        WHERE event_time >= toDateTime({{ (began_at - reach_seconds) | literal }})
        GROUP BY node
    """


@statement
def render_read_broken_parts(tables: Sequence[TableName], cluster: str | None, *, partition: str) -> str:
    """Read the parts of a partition that the servers have detached as broken; the tables share a database."""
    # Parts that a server could not read at the start: after an interrupted MOVE, these are the only copy of the rows.
    return """
        SELECT {{ node_name }} AS node, table, name
        FROM {{ cluster | all_nodes("system.detached_parts") }}
        WHERE database = {{ tables[0].database | literal }}
            AND table IN ({{ tables | map(attribute="table") | literals }})
            AND partition_id = {{ partition | literal }}
            AND startsWith(reason, 'broken')
        ORDER BY node, table, name
    """


@statement
def render_drop_parts(staging: TableName, *, parts: Sequence[str]) -> str:
    """Drop parts of a staging table on a single node."""
    return """
        ALTER TABLE {{ staging | table_name }}
        {% for part in parts %}
            DROP PART {{ part | literal }}{% if not loop.last %},{% endif %}

        {% endfor %}
        SETTINGS max_partition_size_to_drop = 0
    """


@statement
def render_alter_staging(
    staging: TableName, *, added: Sequence[NewColumn], dropped: Sequence[str], modified: Sequence[NewColumn]
) -> str:
    """Give a staging table on one node, and the table's replicas, the present columns of the target."""
    return IN_FILE


@statement
def render_count_same_rows(
    staging: TableName,
    target: TableName,
    cluster: str | None,
    *,
    node: str,
    partition: str,
    last_block: int,
    compared: Sql,
) -> str:
    """Count the rows in later parts of a partition on one node, and how many of them equal a staged row.

    Rows marked by a lightweight DELETE count, too.

    :param compared: expressions, equal in equal rows.
    """
    # In the expressions an alias takes precedence over a column of the same name, so no table has columns like these.
    # The name of a part is its partition, its first block, its last block, and more. The hash of several values is
    # NULL if one of them is, but not the hash of their text.
    return """
        SELECT
            count() AS ch_s3_rows,
            countIf(sipHash64(toString(tuple({{ compared }}))) IN (
                SELECT sipHash64(toString(tuple({{ compared }})))
                FROM {{ staging | table_name }}
                WHERE _partition_id = {{ partition | literal }}
            )) AS ch_s3_same_rows
        FROM {{ cluster | all_replicas(target) }}
        WHERE {{ node_name }} = {{ node | literal }}
            AND _partition_id = {{ partition | literal }}
            AND toInt64(splitByChar('_', substring(_part, length(_partition_id) + 2))[2]) > {{ last_block | literal }}
        {# Each node compares with its own staged rows. At the end of summer time, an hour of texts comes twice. #}
        SETTINGS apply_deleted_mask = 0, prefer_global_in_and_join = 0, date_time_output_format = 'unix_timestamp',
            max_execution_time = 0
    """


@statement
def render_sum_rows(table: TableName, cluster: str | None, *, node: str, partition: str, compared: Sql) -> str:
    """Count the rows of a partition on one node that this user sees, and sum the hashes of these rows.

    :param compared: expressions, equal in equal rows.
    """
    return """
        SELECT
            count() AS ch_s3_rows,
            sum(sipHash64(toString(tuple({{ compared }})))) AS ch_s3_sum
        FROM {{ cluster | all_replicas(table) }}
        WHERE {{ node_name }} = {{ node | literal }}
            AND _partition_id = {{ partition | literal }}
        SETTINGS date_time_output_format = 'unix_timestamp', max_execution_time = 0
    """


@statement
def render_read_idle_seconds(table: TableName, cluster: str | None) -> str:
    """Read how long ago, by the servers' clocks, anything last happened to a table on any node."""
    return """
        {# Since a table was created or renamed, and since its last part was written or merged. #}
        SELECT min(idle_seconds) AS idle_seconds
        FROM
        (
            SELECT toFloat64(now()) - toFloat64(metadata_modification_time) AS idle_seconds
            FROM {{ cluster | all_nodes("system.tables") }}
            WHERE {{ table | is_table("name") }}
            UNION ALL
            SELECT toFloat64(now()) - toFloat64(modification_time) AS idle_seconds
            FROM {{ cluster | all_nodes("system.parts") }}
            WHERE {{ table | is_table("table") }}
        )
    """


@statement
def render_move_partitions(staging: TableName, target: TableName, *, partitions: Sequence[str]) -> str:
    """Move partitions in turn; a repetition moves nothing, unless the node died the first time."""
    return IN_FILE


@statement
def render_replace_partitions(
    staging: TableName, target: TableName, *, partitions: Sequence[str], allow_empty: bool
) -> str:
    """Replace partitions in turn; a repetition has the same result.

    :param allow_empty: whether the server has the setting to let an empty partition replace a full one.
    """
    return IN_FILE


@statement
def render_copy_partitions(
    merged: TableName, held: TableName, *, partitions: Sequence[str], allow_empty: bool
) -> str:
    """Copy partitions as links to the same files: every column of every row stays the same, bit for bit.

    Earlier rows of these partitions are removed.

    :param allow_empty: as in :func:`render_replace_partitions`.
    """
    return IN_FILE


@statement
def render_attach_partitions(merged: TableName, held: TableName, *, partitions: Sequence[str]) -> str:
    """Copy partitions in addition to present rows; replicas leave out parts attached before."""
    return IN_FILE


@statement
def render_hold_merges(merged: TableName, cluster: str | None) -> str:
    """Hold back merges, which might change the number of rows; mutations still run."""
    # On older servers mutations wait while merges of other tables run, and parts of this age are merged at any size.
    # A replica that removes an empty part removes from Keeper what was attached as this part. A REPLACE at the same
    # time then leaves all that was attached in Keeper, and the next ATTACH of the same parts skips them.
    return """
        ALTER TABLE {{ merged | table_name }}{{ cluster | on_cluster }}
        MODIFY SETTING max_bytes_to_merge_at_max_space_in_pool = 1, max_bytes_to_merge_at_min_space_in_pool = 1,
            min_age_to_force_merge_seconds = 0, max_number_of_merges_with_ttl_in_pool = 0,
            number_of_free_entries_in_pool_to_execute_mutation = 0, remove_empty_parts = 0
    """


@statement
def render_delete_rows(merged: TableName, *, condition: Sql) -> str:
    """Start deleting the rows that fulfil a condition, on one node and the node's replicas."""
    # Only starts the deletion, so that all nodes work at the same time.
    return """
        ALTER TABLE {{ merged | table_name }}
        DELETE WHERE ifNull(({{ condition }}), 0) != 0
        SETTINGS mutations_sync = 0
    """


@statement
def render_await_deletion(merged: TableName) -> str:
    """Wait for the deletion started before; fails if the deletion failed."""
    # A mutation that changes nothing ends after earlier mutations, and fails if an earlier mutation fails.
    return """
        ALTER TABLE {{ merged | table_name }}
        DELETE WHERE 0
        SETTINGS mutations_sync = 2
    """


@statement
def render_touched_partitions(table: TableName, cluster: str | None, *, condition: Sql) -> str:
    """Read the partitions with rows that fulfil a condition."""
    # No alias: it would take precedence over a column of the same name in the condition.
    return """
        SELECT DISTINCT _partition_id
        FROM {{ cluster | all_replicas(table) }}
        WHERE ifNull(({{ condition }}), 0) != 0
        ORDER BY _partition_id
        SETTINGS max_execution_time = 0
    """


@statement
def render_count_outside(staging: TableName, cluster: str | None, *, condition: Sql) -> str:
    """Count all rows, and the rows for which a condition is false or NULL."""
    # In the condition an alias takes precedence over a column of the same name, so no table has columns like
    # these.
    return """
        SELECT count() AS ch_s3_rows, countIf(ifNull(({{ condition }}), 0) = 0) AS ch_s3_outside
        FROM {{ cluster | all_shards(staging) }}
        SETTINGS max_execution_time = 0
    """


@statement
def render_count_seen(table: TableName, cluster: str | None, *, partitions: Sequence[str]) -> str:
    """Count the rows of some partitions, as queries return them."""
    return """
        SELECT _partition_id AS partition_id, count() AS rows
        FROM {{ cluster | all_shards(table) }}
        WHERE _partition_id IN ({{ partitions | literals }})
        GROUP BY partition_id
        SETTINGS apply_deleted_mask = 1, max_execution_time = 0
    """


@statement
def render_check_condition(target: TableName, *, columns: Sequence[str], condition: str) -> str:
    """Evaluate a condition for no row; fails if the text is not a condition over the columns, or not repeatable."""
    # The subquery hides virtual columns, which differ between copies of a row. The query cache refuses
    # functions whose results may change.
    return """
        SELECT count()
        FROM (SELECT {{ columns | identifiers }} FROM {{ target | table_name }} LIMIT 0)
        WHERE ({{ condition | expression }})
        SETTINGS {{ only_repeatable }}
    """


@statement
def render_count_visible(
    table: TableName, cluster: str | None, *, partitions: Collection[str] = (), counts_deleted: bool
) -> str:
    """Count the rows of each partition that this user may see, on each node.

    :param partitions: only these; all if empty.
    :param counts_deleted: whether rows marked by a lightweight DELETE count, as in ``system.parts``.
    """
    return """
        SELECT {{ node_name }} AS node, _partition_id AS partition_id, count() AS rows
        FROM {{ cluster | all_replicas(table) }}
        {% if partitions %}
        WHERE _partition_id IN ({{ partitions | literals }})
        {% endif %}
        GROUP BY node, partition_id
        ORDER BY partition_id, node
        SETTINGS apply_deleted_mask = {{ (0 if counts_deleted else 1) | literal }}, max_execution_time = 0
    """


@statement
def render_unapplied_changes(table: TableName, cluster: str | None) -> str:
    """Read the mutations and lightweight updates not yet written into the parts, on each node."""
    return IN_FILE


@statement
def render_renamed_columns(table: TableName, cluster: str | None, *, since: int) -> str:
    """Read the renamings of columns on each node.

    :param since: Unix time.
    """
    return """
        SELECT {{ node_name }} AS node, command AS change
        FROM {{ cluster | all_nodes("system.mutations") }}
        WHERE {{ table | is_table("table") }}
            AND toUnixTimestamp(create_time) >= {{ since | literal }} AND command LIKE '%RENAME COLUMN%'
        ORDER BY node, change
    """
