"""The first try of a task's life never comes after its current one."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ch_s3.transfers.task import identify


@pytest.mark.parametrize(
    ("try_number", "max_tries", "retries", "expected"),
    [
        pytest.param(1, 2, 2, 1, id="first"),
        pytest.param(2, 2, 2, 1, id="a-retry"),
        pytest.param(2, 3, 2, 2, id="cleared"),
        pytest.param(0, 2, 2, 0, id="tasks-test"),
        pytest.param(1, 2, 0, 1, id="retries-were-lowered"),
    ],
)
def test_first_try(try_number: int, max_tries: int, retries: int, expected: int) -> None:
    ti = SimpleNamespace(
        dag_id="d", task_id="t", run_id="r", map_index=-1, try_number=try_number, max_tries=max_tries
    )
    run = SimpleNamespace(start_date=datetime(2026, 11, 24, tzinfo=UTC))
    context: Any = {"ti": ti, "dag_run": run, "task": SimpleNamespace(retries=retries)}
    found = identify(context, table="d.t")
    assert (found.first_try, found.is_first_try) == (expected, try_number <= expected)
