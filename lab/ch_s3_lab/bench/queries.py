"""The statements of the benchmark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from airflow_provider_ch_s3.files.access import S3Access
from airflow_provider_ch_s3.sql.render import statement
from airflow_provider_ch_s3.table.target import TableName


@statement
def render_write_bench_file(
    access: S3Access, key: str, columns: Mapping[str, tuple[str, str]], *, first: int, count: int, row_count: int
) -> str:
    """Have the server write one file; its name tells format and compression.

    :param key: with the bucket.
    :param columns: name → type and expression over ``number`` and ``row_count``.
    """
    return """
        {% set prefix = access.parameter_prefix %}
        {# Names of the columns come from the aliases. #}
        {% set url = access.endpoint_url ~ "/" ~ key %}
        {% set access_key, secret_key = prefix ~ "access_key", prefix ~ "secret_key" %}
        INSERT INTO FUNCTION s3({{ url | literal }}, {{ access_key | parameter }}, {{ secret_key | parameter }})
        WITH {{ row_count | literal }} AS row_count
        SELECT
        {% for name, (_, value) in columns.items() %}
            {{ value | expression }} AS {{ name | identifier }}{% if not loop.last %},{% endif %}

        {% endfor %}
        FROM numbers({{ first | literal }}, {{ count | literal }})
        SETTINGS s3_truncate_on_insert = 1
    """


@statement
def render_create_bench_table(
    table: TableName,
    cluster: str | None,
    *,
    columns: Mapping[str, str],
    engine: str,
    order_by: Sequence[str] = (),
    partition_by: str = "",
    storage_policy: str = "",
) -> str:
    """A new table.

    :param columns: name → type.
    """
    return """
        CREATE TABLE {{ table | table_name }}{{ cluster | on_cluster }}
        (
        {% for name, type in columns.items() %}
            {{ name | identifier }} {{ type | expression }}{% if not loop.last %},{% endif %}

        {% endfor %}
        )
        ENGINE = {{ engine | expression }}
        {% if order_by %}
        ORDER BY ({{ order_by | identifiers }})
        {% endif %}
        {% if partition_by %}
        PARTITION BY {{ partition_by | expression }}
        {% endif %}
        {% if storage_policy %}
        SETTINGS storage_policy = {{ storage_policy | literal }}
        {% endif %}
    """
