"""All settings of a plan, each listed once: with a value for every load, or with a function for the value.

docs/reference/settings.md is generated from this list.
"""

from __future__ import annotations

from airflow_provider_ch_s3.clickhouse.statement import SettingValue
from airflow_provider_ch_s3.common.text import format_bytes
from airflow_provider_ch_s3.files.access import TableFunction
from airflow_provider_ch_s3.files.data_format import (
    CSV_END_SETTING,
    CSV_SKIP_SETTING,
    TRIM_SETTING,
    TSV_END_SETTING,
    TSV_SKIP_SETTING,
)
from airflow_provider_ch_s3.files.file_format import JSON_AS_TEXT, MISSING_COLUMNS_SETTINGS, STATED_TYPES_SETTINGS
from airflow_provider_ch_s3.files.globs import MAX_URLS
from airflow_provider_ch_s3.tuning import insert, read
from airflow_provider_ch_s3.tuning.facts import LoadFacts
from airflow_provider_ch_s3.tuning.rule import Citation, PlanFacts, Rule, computed, fixed

_FEWER = "with any other value a load leaves rows out and still reports success; use where to select rows"
ENDS_EARLY = "a load that reaches a limit of the server must fail, not end early and report success"
_BAD_ROWS = "rows that cannot be parsed must fail the load, not be dropped"
_REPLACED = "a value that cannot be converted must fail the load, not be replaced by a default"
_NAMES = "the values that the load checked must take precedence over columns of the files with the same name"
_SHORT_CIRCUIT = "an expression that fails for missing values must not be evaluated for them"

_REWRITES = "the servers must run the load's own statement, not one that the setting makes of it"

# By them newer servers make another statement of each: 26.8 and later.
_REWRITING: dict[str, SettingValue] = {"select": "", "filter": "", "order": "", "sort": "", "page": 0}

_WHOLE: dict[str, tuple[SettingValue, str]] = {
    "timeout_overflow_mode": ("throw", ENDS_EARLY),
    "read_overflow_mode": ("throw", ENDS_EARLY),
    "read_overflow_mode_leaf": ("throw", ENDS_EARLY),
    "limit": (0, _FEWER),
    "offset": (0, _FEWER),
    "additional_table_filters": ("{}", _FEWER),
    "additional_result_filter": ("", _FEWER),
    "timeout_overflow_mode_leaf": ("throw", ENDS_EARLY),
    "result_overflow_mode": ("throw", ENDS_EARLY),
    "sort_overflow_mode": ("throw", ENDS_EARLY),
    "group_by_overflow_mode": ("throw", ENDS_EARLY),
    "distinct_overflow_mode": ("throw", ENDS_EARLY),
    "set_overflow_mode": ("throw", ENDS_EARLY),
    "join_overflow_mode": ("throw", ENDS_EARLY),
    "transfer_overflow_mode": ("throw", ENDS_EARLY),
    **{name: (value, _REWRITES) for name, value in _REWRITING.items()},
}

NEWER_ANSWERS: dict[str, SettingValue] = {
    **_REWRITING,
    # from 25.8 on: with 0, rows are read as they were before a lightweight UPDATE
    "apply_patch_parts": 1,
    # from 26.7 on: with 1, an answer has no rows
    "discard_query_data": 0,
    # from 26.8 on: with 1, an answer comes before the statement has ended
    "run_query_in_background": 0,
}
"""As ``WHOLE_ANSWERS``, for settings known only to newer servers."""

WHOLE_ANSWERS: dict[str, SettingValue] = {
    **{name: value for name, (value, _) in _WHOLE.items() if name not in NEWER_ANSWERS},
    # 26.7 takes a DateTime64 before 1970 for a late time, after compiling a GROUP BY with max() (the fourth time)
    "compile_aggregate_expressions": 0,
    "final": 0,
    "use_query_cache": 0,
    # Whoever has looked at several files leaves the columns of the first one there for all of them (24.8, 25.8).
    "schema_inference_use_cache_for_s3": 0,
    "schema_inference_use_cache_for_azure": 0,
    "schema_inference_use_cache_for_url": 0,
    "use_cache_for_count_from_files": 0,
    "extremes": 0,
    "apply_deleted_mask": 1,
    "distributed_group_by_no_merge": 0,
    "empty_result_for_aggregation_by_empty_set": 0,
    "aggregate_functions_null_for_empty": 0,
    "count_distinct_implementation": "uniqExact",
    "skip_unavailable_shards": 0,
    "ignore_cold_parts_seconds": 0,
    # by the name known to all versions
    "allow_experimental_parallel_reading_from_replicas": 0,
    "prefer_column_name_to_alias": 0,
    "join_use_nulls": 0,
    "transform_null_in": 0,
    "group_by_use_nulls": 0,
    "cast_keep_nullable": 0,
    "data_type_default_nullable": 0,
    "asterisk_include_alias_columns": 0,
    "asterisk_include_materialized_columns": 0,
    "describe_compact_output": 0,
    "describe_include_subcolumns": 0,
    "describe_include_virtual_columns": 0,
    "describe_extend_object_types": 0,
    "force_index_by_date": 0,
    "force_primary_key": 0,
    "force_data_skipping_indices": "",
    "force_optimize_projection": 0,
    "force_optimize_projection_name": "",
    "force_optimize_skip_unused_shards": 0,
}
"""Settings sent with every statement: a profile must neither cut nor change the answers that loads rely on.

All supported servers know these settings.
"""

_VALUES: dict[str, tuple[SettingValue, str]] = {
    **_WHOLE,
    "input_format_allow_errors_num": (0, _BAD_ROWS),
    "input_format_allow_errors_ratio": (0, _BAD_ROWS),
    "input_format_csv_use_default_on_bad_values": (0, _REPLACED),
    "input_format_ipv4_default_on_conversion_error": (0, _REPLACED),
    "input_format_ipv6_default_on_conversion_error": (0, _REPLACED),
    "cast_ipv4_ipv6_default_on_conversion_error": (0, _REPLACED),
    "check_conversion_from_numbers_to_enum": (1, _REPLACED),
    "decimal_check_overflow": (1, _REPLACED),
    "type_json_skip_duplicated_paths": (0, _REPLACED),
    "type_json_skip_invalid_typed_paths": (0, _REPLACED),
    "materialized_views_ignore_errors": (0, "a view that fails must fail the load, not lack rows"),
    "prefer_column_name_to_alias": (0, _NAMES),
    "short_circuit_function_evaluation": ("enable", _SHORT_CIRCUIT),
}

_MISSING = "a file that disappears must fail the load, not be left out"
_STORES: dict[str, TableFunction] = {
    "s3_ignore_file_doesnt_exist": TableFunction.S3,
    "azure_ignore_file_doesnt_exist": TableFunction.AZURE,
    "http_skip_not_found_url_for_globs": TableFunction.URL,
}

KEPT: tuple[Rule[PlanFacts], ...] = (
    *(fixed(name, value, reason, is_pinned=True, protects_data=True) for name, (value, reason) in _VALUES.items()),
    *(fixed(name, 0, _MISSING, store=store, is_pinned=True, protects_data=True) for name, store in _STORES.items()),
)
"""Settings that keep a load complete: with other values ClickHouse drops rows or replaces values without an error.

All stay at their defaults, whatever the server's profiles say; operator and connection cannot change them.
"""

SUPERCHARGING = Citation(
    "Supercharging your large ClickHouse data loads, part 2",
    "https://clickhouse.com/blog/supercharge-your-clickhouse-data-loads-part2",
)
ALTINITY = Citation(
    "Altinity: Tips for high-performance ClickHouse clusters with S3",
    "https://altinity.com/blog/tips-for-high-performance-clickhouse-clusters-with-s3-object-storage",
)
S3_GUIDE = Citation(
    "ClickHouse: Optimizing for S3 insert and read performance",
    "https://clickhouse.com/docs/integrations/s3/performance",
)
PARTITION_KEYS = Citation(
    "ClickHouse: Custom partitioning key",
    "https://clickhouse.com/docs/engines/table-engines/mergetree-family/custom-partitioning-key",
)
READ_TWICE = Citation("ClickHouse issue 120485", "https://github.com/ClickHouse/ClickHouse/issues/120485")
MEASURED = Citation("measured", "tuning.md")

_OVERRIDES = "from ClickHouse 26.2 on this overrides insert_deduplicate"
_EMPTY = "an empty field is a NULL, not the number 0"
_TYPES = "an expression must have the type that the load checked"
_STATED = "text is parsed as the table's columns need it, whatever types the file states"
_GONE = "files that disappear between listing and reading must fail the load, not make it an empty one"
_FOUND_AGAIN = "a retry finds the load by its query id in system.query_log, and the report is read from there"

# Whatever the query does: it reaches the store, and is found again.
EVERY_QUERY: tuple[Rule[PlanFacts], ...] = (
    computed(read.s3_allow_server_credentials_in_user_queries, store=TableFunction.S3, is_pinned=True),
    computed(read.max_execution_time),
    fixed("log_queries", 1, _FOUND_AGAIN, is_pinned=True),
    fixed("log_queries_min_query_duration_ms", 0, _FOUND_AGAIN, is_pinned=True),
    fixed("log_queries_probability", 1, _FOUND_AGAIN, is_pinned=True),
    fixed("log_queries_min_type", "QUERY_START", _FOUND_AGAIN, is_pinned=True),
)

RULES: tuple[Rule[LoadFacts], ...] = (
    computed(insert.max_insert_threads, source=SUPERCHARGING),
    computed(insert.min_insert_block_size_bytes, source=SUPERCHARGING),
    fixed(
        "min_insert_block_size_rows",
        0,
        "a limit in rows (1,048,449 by default) would end blocks before their size in bytes is reached",
        source=SUPERCHARGING,
    ),
    computed(insert.max_insert_threads_min_free_memory_per_thread, source=MEASURED),
    computed(insert.max_partitions_per_insert_block, source=PARTITION_KEYS),
    fixed(
        "insert_deduplicate",
        0,
        "equal blocks from different files are different rows, and hashing every block takes time",
        protects_data=True,
    ),
    fixed("deduplicate_insert", "disable", _OVERRIDES, protects_data=True),
    fixed("deduplicate_insert_select", "disable", _OVERRIDES, protects_data=True),
    computed(insert.max_insert_delayed_streams_for_parallel_write, source=MEASURED),
    computed(insert.insert_quorum),
    fixed("insert_null_as_default", 0, read.NULLS, protects_data=True),
    fixed(
        "optimize_on_insert",
        0,
        "merges replace, sum and collapse rows later; doing so in the INSERT as well takes the time twice",
    ),
    computed(insert.parallel_distributed_insert_select),
    computed(insert.distributed_foreground_insert, protects_data=True),
    computed(insert.async_insert, protects_data=True),
    computed(read.max_threads, source=S3_GUIDE),
    fixed(
        "max_threads_min_free_memory_per_thread",
        read.READER_BYTES,
        f"a reader holds about {format_bytes(read.READER_BYTES)}; with less free memory per thread the server uses"
        " fewer threads, and its default is 1 GiB",
        source=MEASURED,
    ),
    computed(read.cluster_table_function_split_granularity, source=MEASURED),
    computed(read.input_format_parallel_parsing, source=ALTINITY),
    fixed(
        "input_format_parquet_max_block_size",
        read.PARQUET_CHUNK_ROWS,
        "fewer, larger chunks of a file cost less to put together as a block; a chunk of wide rows ends at 16 MiB",
        source=MEASURED,
    ),
    computed(read.max_download_buffer_size, source=S3_GUIDE),
    fixed("s3_throw_on_zero_files_match", 1, _GONE, store=TableFunction.S3, protects_data=True),
    fixed("azure_throw_on_zero_files_match", 1, _GONE, store=TableFunction.AZURE, protects_data=True),
    fixed(
        "max_http_get_redirects",
        0,
        "a redirect could lead the servers to whatever their network reaches",
        store=TableFunction.URL,
        protects_data=True,
    ),
    fixed(
        "glob_expansion_max_elements",
        MAX_URLS,
        "the files of a load are named one by one",
        store=TableFunction.URL,
    ),
    fixed(
        "enable_parallel_replicas",
        0,
        "the files are already distributed over the nodes; replicas that distribute them again read them twice",
        is_pinned=True,
        protects_data=True,
        source=READ_TWICE,
    ),
    computed(read.use_hive_partitioning, protects_data=True),
    computed(read.date_time_input_format),
    fixed(
        "date_time_overflow_behavior",
        "throw",
        "a date or time that a column cannot hold must fail the load, not become a different one",
        protects_data=True,
    ),
    *(
        fixed(name, 0, "a text in an object stays what it is, also one that looks like a date", protects_data=True)
        for name in ("input_format_try_infer_dates", "input_format_try_infer_datetimes")
    ),
    computed(read.input_format_null_as_default, protects_data=True),
    *(fixed(name, 0, _TYPES, protects_data=True) for name in ("cast_keep_nullable", "data_type_default_nullable")),
    fixed("transform_null_in", 0, "NULL IN (…) must yield what the load checked", protects_data=True),
    fixed("input_format_csv_empty_as_default", 1, _EMPTY, protects_data=True),
    fixed(
        "input_format_tsv_empty_as_default",
        0,
        "an empty field is an empty text; the load itself makes a NULL of an empty number",
        protects_data=True,
    ),
    computed(read.input_format_tsv_crlf_end_of_line, is_pinned=True, protects_data=True),
    fixed(
        "precise_float_parsing",
        1,
        "a Float must be the nearest one to its text; before 25.9, ClickHouse's default misses the last bit of some",
        is_pinned=True,
        protects_data=True,
    ),
    *(
        fixed(name, 1, "the load reads values of JSON as text, by its own rules", is_pinned=True, protects_data=True)
        for name in JSON_AS_TEXT
    ),
    fixed(
        "input_format_json_read_bools_as_numbers",
        0,
        "true and false are no numbers",
        is_pinned=True,
        protects_data=True,
    ),
    fixed(
        TRIM_SETTING,
        0,
        "the spaces around a text belong to it (RFC 4180), unless Csv(trim=True) says otherwise",
        protects_data=True,
    ),
    *(
        fixed(
            name,
            0,
            "the first lines are rows, too, unless Csv(skip_lines=…) says otherwise",
            protects_data=True,
        )
        for name in (CSV_SKIP_SETTING, TSV_SKIP_SETTING)
    ),
    *(computed(read.skip_empty_end, name=name, protects_data=True) for name in (CSV_END_SETTING, TSV_END_SETTING)),
    computed(read.input_format_skip_unknown_fields, protects_data=True),
    fixed(
        "input_format_json_defaults_for_missing_elements_in_named_tuple",
        1,
        "a field that an object lacks is read as NULL, which fails the load if the column is not Nullable",
        protects_data=True,
    ),
    computed(read.input_format_json_ignore_unknown_keys_in_named_tuple, protects_data=True),
    *(fixed(name, 0, _STATED, protects_data=True) for name in STATED_TYPES_SETTINGS),
    *(computed(read.deny_missing_columns, name=name, protects_data=True) for name in MISSING_COLUMNS_SETTINGS),
    *EVERY_QUERY,
)
