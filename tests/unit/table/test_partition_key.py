"""Partitions of a table as partition keys of asset events."""

from __future__ import annotations

import pytest

from airflow_provider_ch_s3.table.partition_key import key_of_partition


@pytest.mark.parametrize(
    ("expression", "value", "key"),
    [
        pytest.param("day", "2026-11-26", "2026-11-26", id="date"),
        pytest.param("toYYYYMMDD(time)", "20261126", "2026-11-26", id="day-as-number"),
        pytest.param("toYYYYMM(time)", "202611", "2026-11", id="month-as-number"),
        pytest.param("toYear(time)", "2026", "2026", id="year"),
        pytest.param("toStartOfMonth(time)", "2026-11-01", "2026-11-01", id="start-of-a-month"),
        pytest.param("toStartOfHour(time)", "2026-11-26 10:00:00", "2026-11-26T10:00:00", id="hour"),
        pytest.param("intDiv(id, 10)", "202611", "202611", id="number"),
        pytest.param("region", "eu'x, (y", "eu'x, (y", id="text"),
        pytest.param("tuple(region)", "eu", "eu", id="tuple-of-one"),
        pytest.param("(a % 2) * (b % 3)", "1", "1", id="brackets-that-are-no-tuple"),
        pytest.param("(toYYYYMM(day), region)", "(202611,'eu\\'x')", "2026-11|eu'x", id="tuple"),
        pytest.param(
            "(n, time, day)",
            "(NULL,'2026-11-26 10:01:02','2026-11-26')",
            "NULL|2026-11-26T10:01:02|2026-11-26",
            id="null",
        ),
    ],
)
def test_key(expression: str, value: str, key: str) -> None:
    assert key_of_partition(expression, value) == key
