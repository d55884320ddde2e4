"""Render the statements of a merge by key: what the new rows change, and the rows that result.

Columns whose names begin with ``ch_s3_`` are not columns of the target.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.sql.filters import Sql
from airflow_provider_ch_s3.sql.render import IN_FILE, render, statement
from airflow_provider_ch_s3.table.merge_rule import MergeRule
from airflow_provider_ch_s3.table.new_table import NewColumn
from airflow_provider_ch_s3.table.target import TableName


@statement
def render_create_merge_staging(
    staging: TableName, cluster: str | None, *, columns: Sequence[NewColumn], engine: Sql, comment: str
) -> str:
    """Create a staging table whose rows may also stand for deletions."""
    return IN_FILE


@statement
def render_create_changes(
    changes: TableName, cluster: str | None, *, key_types: Sequence[str], version_type: str, engine: Sql, comment: str
) -> str:
    """Create the table that says, for each key of the staged rows, what becomes of the key."""
    return IN_FILE


@statement
def render_find_changes(
    changes: TableName,
    staged: TableName,
    target: TableName,
    cluster: str | None,
    *,
    rule: MergeRule,
    columns: Sequence[str],
    shards: Mapping[str, int],
    in_part: Sql,
) -> str:
    """Compare the staged rows with the target's rows of the same keys; the result goes to the first shard.

    :param columns: columns of the target; rows that are equal in these columns are the same.
    :param shards: node → shard.
    :param in_part: selects the staged rows to compare, as of :func:`is_in_part`.
    """
    return IN_FILE


def is_in_part(rule: MergeRule, number: int, parts: int) -> Sql:
    """Print the condition for the rows with a part of all keys, so that each key is in a single part.

    :param number: of the part, from 0.
    """
    if parts == 1:
        return Sql("1")  # 24.8 has no hash of lists and tuples with NULL
    text = "cityHash64({{ rule.key | identifiers }}) % {{ parts | literal }} = {{ number | literal }}"
    return Sql(render("is_in_part", text, rule=rule, number=number, parts=parts).text)


@statement
def render_copy_changes(changes: TableName, cluster: str | None, *, shards: Mapping[str, int], shard: int) -> str:
    """Copy the result from the first shard to another shard.

    :param shards: node → shard.
    """
    # Otherwise each shard would copy its own rows to itself.
    return """
        INSERT INTO {{ cluster | into_shards(changes) }}
        SELECT *
        FROM {{ cluster | all_shards(changes) }}
        WHERE {{ shards | shard_here }} = 1
        SETTINGS parallel_distributed_insert_select = 0, insert_shard_id = {{ shard | literal }},
            distributed_foreground_insert = 1, max_execution_time = 0
    """


@statement
def render_sum_changes(changes: TableName) -> str:
    """Count what becomes of the staged rows, and name the partitions."""
    return """
        SELECT
            sum(ch_s3_staged_rows) AS rows,
            countIf(ch_s3_outcome = 'inserted') AS inserted,
            countIf(ch_s3_outcome = 'updated') AS updated,
            countIf(ch_s3_outcome = 'deleted') AS deleted,
            countIf(ch_s3_outcome = 'unchanged') AS unchanged,
            sum(ch_s3_staged_rows) - countIf(ch_s3_outcome != 'late') AS late,
            countIf(ch_s3_held_rows > 1) AS doubled,
            countIf(ch_s3_source != '') AS added,
            sumIf(ch_s3_held_rows, ch_s3_drops) AS dropped
        FROM {{ changes | table_name }}
        SETTINGS max_execution_time = 0
    """


@statement
def render_read_doubled(changes: TableName, *, rule: MergeRule, limit_rows: int) -> str:
    """Read some keys that the target holds more than once."""
    return """
        SELECT
        {% for name, changed in rule.names.items() %}
            {{ changed | identifier }} AS {{ name | identifier }},
        {% endfor %}
            ch_s3_held_rows AS ch_s3_rows
        FROM {{ changes | table_name }}
        WHERE ch_s3_held_rows > 1
        LIMIT {{ limit_rows | literal }}
    """


def is_dropped(changes: TableName, rule: MergeRule) -> Sql:
    """Print the condition that a row of the target is deleted, or replaced by a newer row."""
    text = """
        ({{ rule.key | identifiers }}) IN (SELECT {{ rule.changed_key | identifiers }} FROM {{ changes | table_name }} WHERE ch_s3_drops)
    """  # noqa: E501
    return Sql(render("is_dropped", text, changes=changes, rule=rule).text)


def is_winner(
    changes: TableName,
    rule: MergeRule,
    shards: Mapping[str, int],
    *,
    is_staged: bool,
    partitions: Collection[str] | None = None,
) -> Sql:
    """Print the condition that a row has to be copied on its shard: the row stays, and its key changes.

    :param shards: node → shard.
    :param is_staged: for staged rows; otherwise for rows of the target, for keys that the target holds several times.
    :param partitions: only in these; None for all.
    """
    # The shard is compared outside of the subquery: the initiator computes what is constant in there (25.8).
    text = """
        ({{ rule.columns | identifiers }}, {{ shards | shard_here }}) IN (
            SELECT {{ rule.changed_key | identifiers }}{% if rule.version %}, ch_s3_version{% endif %}, ch_s3_shard
            FROM {{ changes | table_name }}
            WHERE ch_s3_source = {{ ("staged" if is_staged else "held") | literal }}
        ){% if partitions is not none %} AND _partition_id IN ({{ partitions | literals }}){% endif %}

    """
    values = {"changes": changes, "rule": rule, "shards": shards, "is_staged": is_staged, "partitions": partitions}
    return Sql(render("is_winner", text, **values).text)


@statement
def render_insert_winners(
    merged: TableName,
    held: TableName,
    cluster: str | None,
    *,
    rule: MergeRule,
    columns: Sequence[str],
    condition: Sql,
) -> str:
    """Copy some rows to another table, each row on its own shard; of rows with equal keys, copy a single row.

    :param held: the staged rows, or the target.
    """
    return IN_FILE


@statement
def render_count_unmergeable(staged: TableName, cluster: str | None, *, condition: str) -> str:
    """Count the staged rows, and the staged rows without a key or a version.

    :param condition: holds for rows without a key or a version.
    """
    return """
        SELECT count() AS ch_s3_rows, countIf({{ condition | expression }}) AS ch_s3_unmergeable
        FROM {{ cluster | all_shards(staged) }}
        SETTINGS max_execution_time = 0
    """


@statement
def render_read_ambiguous(
    staged: TableName, cluster: str | None, *, rule: MergeRule, columns: Sequence[str], limit_rows: int
) -> str:
    """Read some keys whose newest row is unclear, because several staged rows may be the newest."""
    # The least and the greatest digest take less memory than all of them.
    return """
        {% if rule.version %}
        WITH reinterpretAsUInt128(sipHash128(formatRow('RowBinary', ch_s3_deleted, {{ columns | identifiers }}))) AS ch_s3_digest
        {% endif %}
        SELECT {{ rule.columns | identifiers }}, count() AS ch_s3_rows
        FROM {{ cluster | all_shards(staged) }}
        GROUP BY {{ rule.columns | identifiers }}
        HAVING ch_s3_rows > 1
        {% if rule.version %}
            AND min(ch_s3_digest) != max(ch_s3_digest)
        {% endif %}
        LIMIT {{ limit_rows | literal }}
        SETTINGS max_bytes_before_external_group_by = 500000000, max_execution_time = 0
    """  # noqa: E501


@statement
def render_try_merge_key(target: TableName, *, rule: MergeRule) -> str:
    """Group no rows by their key; fails if the columns cannot be a key."""
    return """
        SELECT {{ rule.key | identifiers }}, max({% if rule.version %}{{ rule.version | identifier }}{% else %}0{% endif %})
        FROM (SELECT {{ rule.columns | identifiers }} FROM {{ target | table_name }} LIMIT 0)
        WHERE ({{ rule.key | identifiers }}) IN (SELECT {{ rule.key | identifiers }} FROM {{ target | table_name }} LIMIT 0)
        GROUP BY {{ rule.key | identifiers }}
    """  # noqa: E501


def render_read_sizes(table: TableName, cluster: str | None) -> Statement:
    """Read rows and stored bytes of each partition, over all shards."""
    text = """
        SELECT partition_id, sum(rows) AS rows, sum(bytes_on_disk) AS bytes
        FROM {{ cluster | all_shards(parts) }}
        WHERE {{ table | is_table("table") }} AND active
        GROUP BY partition_id
        ORDER BY partition_id
    """
    parts = TableName(database="system", table="parts")
    return render("read_sizes", text, table=table, cluster=cluster, parts=parts)
