"""The name that a misspelt name was meant as."""

from __future__ import annotations

import pytest

from airflow_provider_ch_s3.common.text import find_nearest


@pytest.mark.parametrize(
    ("name", "near"), [("T2", "t2"), ("flihgts", "Flights"), ("FLIGHTS", "Flights"), ("replace", ""), ("x", "")]
)
def test_the_nearest_name_in_whatever_case(name: str, near: str) -> None:
    assert find_nearest(name, ["t2", "Flights", "replace_table"]) == near
