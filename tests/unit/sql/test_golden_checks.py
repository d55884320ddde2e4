"""The statements of the checks of staged rows; ``pytest --update-golden`` writes them anew."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.sql import check_queries
from airflow_provider_ch_s3.table.target import TableName
from tests.unit.sql.places import at_both

TARGET = TableName(database="it's", table="a`b")
STAGING = TableName(database="it's", table="ch_s3_stage_52115f13b013_0123_2_7_7")
CHECKS = [
    ("countIf(id < 3) = 0", ("countIf(id < 3)", "0")),
    ("max(`tail\\`num`) LIKE 'N%'", ()),
]

CASES: dict[str, Statement] = {
    "try_check_sides": check_queries.render_try_check(
        TARGET, columns=["id", "tail`num"], expression=CHECKS[0][0], sides=CHECKS[0][1]
    ),
    "try_check_one": check_queries.render_try_check(
        TARGET, columns=["id", "tail`num"], expression=CHECKS[1][0], sides=()
    ),
    "describe_check": check_queries.render_describe_check(
        TARGET, columns=["id", "tail`num"], expression=CHECKS[1][0]
    ),
    **at_both("run_checks_cluster", check_queries.render_run_checks, STAGING, checks=CHECKS),
    "run_checks_where": check_queries.render_run_checks(STAGING, None, checks=CHECKS[:1], where="NOT (id = 3)"),
    **at_both(
        "read_old_values_cluster",
        check_queries.render_read_old_values,
        TARGET,
        expressions=["count()", "max(`tail\\`num`)"],
        partitions=["20130101", "it's"],
    ),
    "read_old_values_where": check_queries.render_read_old_values(
        TARGET, None, expressions=["sum(id)"], condition="id > 3"
    ),
    **at_both(
        "read_counted_cluster",
        check_queries.render_read_counted,
        STAGING,
        columns=["id", "tail`num"],
        condition="id < 3",
        limit_rows=5,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_statement_is_as_the_golden_file(name: str, check_golden: Callable[[str, str], None]) -> None:
    check_golden(name, CASES[name].text)


@pytest.mark.parametrize("check", ["1) OR (1", "1 UNION ALL SELECT 1", "1; DROP TABLE x", "1 -- ", "1, 2", "'a"])
def test_a_hostile_check_reaches_no_statement(check: str) -> None:
    with pytest.raises(ConfigError):
        check_queries.render_try_check(TARGET, columns=["id"], expression=check, sides=())
    with pytest.raises(ConfigError):
        check_queries.render_describe_check(TARGET, columns=["id"], expression=check)
    with pytest.raises(ConfigError):
        check_queries.render_run_checks(STAGING, None, checks=[(check, ())])
    with pytest.raises(ConfigError):
        check_queries.render_read_counted(STAGING, None, columns=["id"], condition=check, limit_rows=5)
