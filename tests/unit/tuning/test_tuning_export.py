"""The rules of an export with numbers worked out by hand."""

from __future__ import annotations

import dataclasses

import pytest

from airflow_provider_ch_s3.clickhouse.statement import SettingValue
from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.tuning import EXPORT_RULES, ExportFacts, MemorySharing, Plan, ServerSetting, plan_query
from airflow_provider_ch_s3.tuning.rules import KEPT
from tests.failures import coded

MIB = 1_048_576
GIB = 1_073_741_824

FACTS = ExportFacts(memory_bytes=2 * GIB, ingest_memory_ratio=0.5, data_format="Parquet")
SERVER = {rule.name: ServerSetting(value="other") for rule in (*EXPORT_RULES, *KEPT)}


def plan(facts: ExportFacts = FACTS, **operator: SettingValue) -> Plan:
    return plan_query(EXPORT_RULES, facts, server=SERVER, operator=operator, connection={})


@pytest.mark.parametrize(
    ("memory_gib", "is_partitioned", "running", "expected_mib"),
    [
        pytest.param(2, False, 0, 256, id="a-quarter-of-half-of-2-gib"),
        pytest.param(64, False, 0, 512, id="no-more-than-clickhouse-itself"),
        pytest.param(2, False, 1, 128, id="shared-with-another-load"),
        pytest.param(64, True, 0, 81.92, id="32-gib-for-four-copies-in-100-files"),
        pytest.param(2, True, 0, 8, id="never-below-8-mib"),
    ],
)
def test_row_groups_fit_the_memory(memory_gib: int, is_partitioned: bool, running: int, expected_mib: float) -> None:
    facts = dataclasses.replace(
        FACTS,
        memory_bytes=memory_gib * GIB,
        is_partitioned=is_partitioned,
        sharing=MemorySharing(running=running),
    )
    assert plan(facts).sent["output_format_parquet_row_group_size_bytes"] == int(expected_mib * MIB)


def test_other_formats_have_no_row_groups() -> None:
    sent = plan(dataclasses.replace(FACTS, data_format="CSV")).sent
    assert [name for name in sent if "parquet" in name] == []


@pytest.mark.parametrize("name", ["s3_truncate_on_insert", "s3_create_new_file_on_insert", "skip_unavailable_shards"])
def test_what_keeps_an_export_complete_is_pinned(name: str) -> None:
    assert plan().sent[name] == 0
    with pytest.raises(ConfigError, match=coded("setting-not-allowed", f"'{name}'", "1")):
        plan(**{name: 1})


def test_an_export_ends_with_its_task() -> None:
    assert plan(dataclasses.replace(FACTS, timeout_seconds=90.5)).sent["max_execution_time"] == 91
    assert "max_execution_time" not in plan().sent


def test_a_profile_may_not_leave_rows_out() -> None:
    sent = plan().sent
    assert (sent["limit"], sent["result_overflow_mode"]) == (0, "throw")
