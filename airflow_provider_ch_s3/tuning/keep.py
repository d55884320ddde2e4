"""Settings that keep a load complete: with other values ClickHouse drops rows or replaces values without an error.

All stay at their defaults, whatever the server's profiles say; operator and connection cannot change them.
"""

from __future__ import annotations

from airflow_provider_ch_s3.access import TableFunction
from airflow_provider_ch_s3.tuning.rule import PlanFacts, Rule, fixed
from airflow_provider_ch_s3.tuning.setting import SettingValue

_FEWER = "with any other value a load leaves rows out and still reports success; use where to select rows"
ENDS_EARLY = "a load that reaches a limit of the server must fail, not end early and report success"
_BAD_ROWS = "rows that cannot be parsed must fail the load, not be dropped"
_REPLACED = "a value that cannot be converted must fail the load, not be replaced by a default"
_NAMES = "the values that the load checked must take precedence over columns of the files with the same name"
_SHORT_CIRCUIT = "an expression that fails for missing values must not be evaluated for them"

_VALUES: dict[str, tuple[SettingValue, str]] = {
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
    "input_format_allow_errors_num": (0, _BAD_ROWS),
    "input_format_allow_errors_ratio": (0, _BAD_ROWS),
    "input_format_csv_use_default_on_bad_values": (0, _REPLACED),
    "input_format_ipv4_default_on_conversion_error": (0, _REPLACED),
    "input_format_ipv6_default_on_conversion_error": (0, _REPLACED),
    "cast_ipv4_ipv6_default_on_conversion_error": (0, _REPLACED),
    "check_conversion_from_numbers_to_enum": (1, _REPLACED),
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
