"""Users whose profiles cut or change answers."""

from __future__ import annotations

from collections.abc import Mapping

from ch_s3_lab.sandbox import SandboxConfig
from ch_s3_lab.sandbox.config import EMBEDDED
from tests.sandbox.node_settings import write_settings

HOSTILE = "hostile"
CUTTING: dict[str, dict[str, object]] = {
    "read": {"max_rows_to_read": 10, "read_overflow_mode": "break"},
    "read-leaf": {"max_rows_to_read_leaf": 10, "read_overflow_mode_leaf": "break"},
    "time": {"max_execution_time": 0.01, "timeout_overflow_mode": "break"},
    "time-leaf": {"max_execution_time_leaf": 0.01, "timeout_overflow_mode_leaf": "break"},
    "result": {"max_result_rows": 1, "result_overflow_mode": "break"},
    "sort": {"max_rows_to_sort": 1, "sort_overflow_mode": "break"},
    "group-by": {"max_rows_to_group_by": 1, "group_by_overflow_mode": "any"},
    "distinct": {"max_rows_in_distinct": 1, "distinct_overflow_mode": "break"},
    "set": {"max_rows_in_set": 1, "set_overflow_mode": "break"},
    "join": {"max_rows_in_join": 1, "join_overflow_mode": "break"},
    "transfer": {"max_rows_to_transfer": 1, "transfer_overflow_mode": "break"},
    "offset": {"offset": 1},
    "result-filter": {"additional_result_filter": "0"},
}
"""User → the settings of a profile that ends answers early, or leaves rows out."""


def _elements(values: Mapping[str, object]) -> str:
    return "".join(f"<{name}>{value}</{name}>" for name, value in values.items())


USER = "<password>{0}</password><networks><ip>127.0.0.1</ip></networks><profile>{0}</profile><quota>default</quota>"
PROFILES = f"""
<clickhouse>
  <profiles>
    <hostile>
      <limit>2</limit>
      <final>1</final>
      <additional_table_filters>{{'system.tables': '0', 'system.parts': '0'}}</additional_table_filters>
      <use_query_cache>1</use_query_cache>
      <query_cache_system_table_handling>save</query_cache_system_table_handling>
      <query_cache_nondeterministic_function_handling>save</query_cache_nondeterministic_function_handling>
      <extremes>1</extremes>
      <aggregate_functions_null_for_empty>1</aggregate_functions_null_for_empty>
      <empty_result_for_aggregation_by_empty_set>1</empty_result_for_aggregation_by_empty_set>
      <join_use_nulls>1</join_use_nulls>
      <transform_null_in>1</transform_null_in>
      <group_by_use_nulls>1</group_by_use_nulls>
      <cast_keep_nullable>1</cast_keep_nullable>
      <data_type_default_nullable>1</data_type_default_nullable>
      <prefer_column_name_to_alias>1</prefer_column_name_to_alias>
      <asterisk_include_alias_columns>1</asterisk_include_alias_columns>
      <asterisk_include_materialized_columns>1</asterisk_include_materialized_columns>
      <input_format_tsv_crlf_end_of_line>1</input_format_tsv_crlf_end_of_line>
      <describe_compact_output>1</describe_compact_output>
      <describe_include_subcolumns>1</describe_include_subcolumns>
      <describe_include_virtual_columns>1</describe_include_virtual_columns>
      <force_index_by_date>1</force_index_by_date>
      <force_primary_key>1</force_primary_key>
      <force_optimize_projection>1</force_optimize_projection>
    </hostile>
    <limited>
      <max_rows_in_distinct>1</max_rows_in_distinct>
      <distinct_overflow_mode>break</distinct_overflow_mode>
      <max_rows_to_group_by>1</max_rows_to_group_by>
      <group_by_overflow_mode>any</group_by_overflow_mode>
    </limited>
    <fixed>
      <final>1</final>
      <constraints><final><const/></final></constraints>
    </fixed>
    {"".join(f"<{user}>{_elements(settings)}</{user}>" for user, settings in CUTTING.items())}
  </profiles>
  <users>
    <hostile>{USER.format("hostile")}</hostile>
    <limited>{USER.format("limited")}</limited>
    <fixed>{USER.format("fixed")}</fixed>
    {_elements({user: USER.format(user) for user in CUTTING})}
  </users>
</clickhouse>
"""

VISITOR = "visitor"
# What a node does for others; the user of this test logs in as somebody else.
UNEVEN = """
<clickhouse>
  <profiles>
    <uneven>
      <limit>2</limit>
      <offset>1</offset>
      <final>1</final>
      <extremes>1</extremes>
      <input_format_allow_errors_num>100</input_format_allow_errors_num>
      <input_format_csv_use_default_on_bad_values>1</input_format_csv_use_default_on_bad_values>
      <s3_ignore_file_doesnt_exist>1</s3_ignore_file_doesnt_exist>
      <log_queries>0</log_queries>
      <insert_null_as_default>1</insert_null_as_default>
      <cast_keep_nullable>1</cast_keep_nullable>
      <transform_null_in>1</transform_null_in>
      <data_type_default_nullable>1</data_type_default_nullable>
      <prefer_column_name_to_alias>1</prefer_column_name_to_alias>
      <aggregate_functions_null_for_empty>1</aggregate_functions_null_for_empty>
      <empty_result_for_aggregation_by_empty_set>1</empty_result_for_aggregation_by_empty_set>
      <join_use_nulls>1</join_use_nulls>
      <distributed_group_by_no_merge>1</distributed_group_by_no_merge>
      <force_primary_key>1</force_primary_key>
    </uneven>
  </profiles>
  <users><loader><profile>uneven</profile></loader></users>
</clickhouse>
"""
VISITORS = f"""
<clickhouse>
  <users>
    <visitor>{USER.format("visitor").replace("<profile>visitor", "<profile>default")}</visitor>
  </users>
</clickhouse>
"""

SERVER_ROLE = "s3_allow_server_credentials_in_user_queries"
# Older servers do not know the setting, and would not start.
KEYED = f"""
<clickhouse>
  <profiles>
    <keyed>
      <{SERVER_ROLE}>0</{SERVER_ROLE}>
      <constraints><{SERVER_ROLE}><const/></{SERVER_ROLE}></constraints>
    </keyed>
  </profiles>
  <users>
    <keyed>{USER.format("keyed")}</keyed>
  </users>
</clickhouse>
"""


def write_profiles(config: SandboxConfig) -> None:
    """Declare the users on every node of a sandbox that has a directory and is not running yet."""
    write_settings(config, "hostile.xml", PROFILES)
    if config.engine == EMBEDDED:
        write_settings(config, "keyed.xml", KEYED)


def write_uneven_profile(config: SandboxConfig, node: int) -> None:
    """Have one node obey a hostile profile when it works for others, and declare a user who logs in.

    :param node: its number, from 1.
    """
    write_settings(config, "visitors.xml", VISITORS)
    write_settings(config, "uneven.xml", UNEVEN, nodes=[node])
