"""Settings that keep a load whole: at other values ClickHouse drops rows, or replaces values, without an error.

All stay at their defaults, whatever the server's profiles say. Nobody may give them other values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_provider_ch_s3.tuning.setting import SettingValue


@dataclass(frozen=True, kw_only=True)
class Kept:
    """The only value of a setting that a load runs with, and what any other one would do."""

    value: SettingValue
    reason: str


_FEWER = "any other value leaves rows out, and the load is called a success; use where to choose rows"
_ENDS_EARLY = "a load that reaches a limit of the server must fail, not end early and report success"
_BAD_ROWS = "rows that cannot be parsed must fail the load, not be dropped"
_REPLACED = "a value that cannot be converted must fail the load, not be replaced by a default"
_NAMES = "the values that the load checked must win over what the files hold under the same name"

KEPT: Mapping[str, Kept] = {
    "limit": Kept(value=0, reason=_FEWER),
    "offset": Kept(value=0, reason=_FEWER),
    "additional_table_filters": Kept(value="{}", reason=_FEWER),
    "additional_result_filter": Kept(value="", reason=_FEWER),
    "timeout_overflow_mode_leaf": Kept(value="throw", reason=_ENDS_EARLY),
    "result_overflow_mode": Kept(value="throw", reason=_ENDS_EARLY),
    "sort_overflow_mode": Kept(value="throw", reason=_ENDS_EARLY),
    "group_by_overflow_mode": Kept(value="throw", reason=_ENDS_EARLY),
    "distinct_overflow_mode": Kept(value="throw", reason=_ENDS_EARLY),
    "set_overflow_mode": Kept(value="throw", reason=_ENDS_EARLY),
    "join_overflow_mode": Kept(value="throw", reason=_ENDS_EARLY),
    "transfer_overflow_mode": Kept(value="throw", reason=_ENDS_EARLY),
    "input_format_allow_errors_num": Kept(value=0, reason=_BAD_ROWS),
    "input_format_allow_errors_ratio": Kept(value=0, reason=_BAD_ROWS),
    "input_format_csv_use_default_on_bad_values": Kept(value=0, reason=_REPLACED),
    "input_format_ipv4_default_on_conversion_error": Kept(value=0, reason=_REPLACED),
    "input_format_ipv6_default_on_conversion_error": Kept(value=0, reason=_REPLACED),
    "cast_ipv4_ipv6_default_on_conversion_error": Kept(value=0, reason=_REPLACED),
    "check_conversion_from_numbers_to_enum": Kept(value=1, reason=_REPLACED),
    "type_json_skip_duplicated_paths": Kept(value=0, reason=_REPLACED),
    "type_json_skip_invalid_typed_paths": Kept(value=0, reason=_REPLACED),
    "s3_ignore_file_doesnt_exist": Kept(value=0, reason="a file that vanishes must fail the load, not be left out"),
    "materialized_views_ignore_errors": Kept(value=0, reason="a view that fails must fail the load, not lack rows"),
    "prefer_column_name_to_alias": Kept(value=0, reason=_NAMES),
    "short_circuit_function_evaluation": Kept(
        value="enable", reason="what fails for a value that is not there must not be computed"
    ),
}
