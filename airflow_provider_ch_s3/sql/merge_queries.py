"""Render the statements of a merge by key: what the new rows change, and the rows that result.

Columns whose names begin with ``ch_s3_`` are not columns of the target.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from zlib import crc32

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
    undecided: bool = False,
) -> str:
    """Compare the staged rows with the target's rows of the same keys; the result goes to the first shard.

    :param columns: columns of the target; rows that are equal in these columns are the same. If empty, only keys and
        versions are compared, and keys with the same version on both sides stay undecided.
    :param shards: node → shard.
    :param in_part: selects the keys to compare, as of :func:`is_in_part`: by the columns of the key, or for undecided
        keys by the columns of the key in the table of changes.
    :param undecided: compare only keys that are undecided.
    """
    return IN_FILE


def is_in_part(key: Sequence[str], number: int, parts: int) -> Sql:
    """Print the condition for the rows with a part of all keys, so that each key is in a single part.

    :param number: of the part, from 0.
    """
    if parts == 1:
        return Sql("1")  # 24.8 has no hash of lists and tuples with NULL
    text = "cityHash64({{ key | identifiers }}) % {{ parts | literal }} = {{ number | literal }}"
    return Sql(render("is_in_part", text, key=key, number=number, parts=parts).text)


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
def render_sum_changes(changes: TableName, cluster: str | None) -> str:
    """Count what becomes of the staged rows, and number the partitions, while only the first shard has the result."""
    return """
        SELECT
            sumIf(ch_s3_staged_rows, ch_s3_outcome != 'undecided') AS rows,
            countIf(ch_s3_outcome = 'undecided') AS undecided,
            countIf(ch_s3_outcome = 'inserted') AS inserted,
            countIf(ch_s3_outcome = 'updated') AS updated,
            countIf(ch_s3_outcome = 'deleted') AS deleted,
            countIf(ch_s3_outcome = 'unchanged') AS unchanged,
            rows - countIf(ch_s3_outcome NOT IN ('late', 'undecided')) AS late,
            countIf(ch_s3_held_rows > 1) AS doubled,
            countIf(ch_s3_source != '') AS added,
            sumIf(ch_s3_held_rows, ch_s3_drops) AS dropped,
            groupUniqArrayIf(toUInt32(ch_s3_place), ch_s3_source = 'staged') AS added_in,
            groupUniqArrayIf(ch_s3_held_in, ch_s3_drops) AS dropped_in
        FROM {{ cluster | all_shards(changes) }}
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


SEVERAL = 0
"""The number that stands for several partitions in the table of changes, where the target holds a key twice."""


def number_of(partition: str) -> int:
    """The number of a partition in the table of changes: ``CRC32()`` of the partition's id.

    Two partitions may have the same number: so a search by the number may find more partitions than those with a key.
    """
    return crc32(partition.encode())


def is_dropped(changes: TableName, rule: MergeRule, *, held_in: Collection[int] = ()) -> Sql:
    """Print the condition that a row of the target is deleted, or replaced by a newer row.

    :param held_in: look only for keys with these numbers of partitions; for all keys, if empty.
    """
    text = """
        ({{ rule.key | identifiers }}) IN (SELECT {{ rule.changed_key | identifiers }} FROM {{ changes | table_name }} WHERE ch_s3_drops{% if held_in %} AND ch_s3_held_in IN ({{ held_in | literals }}){% endif %})
    """  # noqa: E501
    return Sql(render("is_dropped", text, changes=changes, rule=rule, held_in=held_in).text)


@statement
def render_delete_dropped(merged: TableName, *, conditions: Mapping[str, Sql]) -> str:
    """Start deleting rows on one node and the node's replicas.

    :param conditions: partition → the rows to delete there, as of :func:`is_dropped`.
    """
    # The table of changes is equal on all replicas, so the mutation may read it.
    return """
        ALTER TABLE {{ merged | table_name }}
        {% for partition, condition in conditions.items() %}
            DELETE IN PARTITION ID {{ partition | literal }}
                WHERE ifNull(({{ condition }}), 0) != 0{% if not loop.last %},{% endif %}

        {% endfor %}
        SETTINGS mutations_sync = 0, allow_nondeterministic_mutations = 1
    """


def is_winner(
    changes: TableName,
    rule: MergeRule,
    shards: Mapping[str, int],
    *,
    is_staged: bool,
    partitions: Collection[str] | None = None,
) -> Sql:
    """Print the condition that a row has to be copied, on the same shard: the row stays, and its key changes.

    :param shards: node → shard.
    :param is_staged: for staged rows; otherwise for rows of the target, for keys that the target holds several times.
    :param partitions: only in these; None for all.
    """
    # The shard is compared outside of the subquery: the initiator computes what is constant in there (25.8).
    text = """
        ({{ rule.columns | identifiers }}, {{ shards | place_here }}) IN (
            SELECT {{ rule.changed_key | identifiers }}{% if rule.version %}, ch_s3_version{% endif %}, ch_s3_place
            FROM {{ changes | table_name }}
            WHERE ch_s3_source = {{ ("staged" if is_staged else "held") | literal }}{% if is_staged and partitions is not none %} AND toUInt32(ch_s3_place) IN ({{ numbers | literals }}){% endif %}

        ){% if partitions is not none %} AND _partition_id IN ({{ partitions | literals }}){% endif %}

    """  # noqa: E501
    values = {"changes": changes, "rule": rule, "shards": shards, "is_staged": is_staged, "partitions": partitions}
    numbers = sorted(map(number_of, partitions or ()))
    return Sql(render("is_winner", text, **values, numbers=numbers).text)


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
    staged: TableName, cluster: str | None, *, rule: MergeRule, columns: Sequence[str], limit_rows: int, in_part: Sql
) -> str:
    """Read some keys whose newest row is unclear, because several staged rows may be the newest.

    :param in_part: selects the rows to look at, as of :func:`is_in_part`.
    """
    # The least and the greatest digest take less memory than all of them; most keys are there once, and need none.
    return """
        {% if rule.version %}
        WITH reinterpretAsUInt128(sipHash128(formatRow('RowBinary', ch_s3_deleted, {{ columns | identifiers }}))) AS ch_s3_digest
        {% endif %}
        SELECT {{ rule.columns | identifiers }}, count() AS ch_s3_rows
        FROM {{ cluster | all_shards(staged) }}
        WHERE {{ in_part }}
        {% if rule.version %}
            AND ({{ rule.columns | identifiers }}) GLOBAL IN (
                SELECT {{ rule.columns | identifiers }}
                FROM {{ cluster | all_shards(staged) }}
                WHERE {{ in_part }}
                GROUP BY {{ rule.columns | identifiers }}
                HAVING count() > 1
            )
        {% endif %}
        GROUP BY {{ rule.columns | identifiers }}
        {% if rule.version %}
        HAVING min(ch_s3_digest) != max(ch_s3_digest)
        {% else %}
        HAVING ch_s3_rows > 1
        {% endif %}
        LIMIT {{ limit_rows | literal }}
        SETTINGS max_execution_time = 0
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
