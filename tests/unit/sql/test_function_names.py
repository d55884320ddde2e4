"""The functions that a load defines for its texts."""

from __future__ import annotations

import re

import pytest

from airflow_provider_ch_s3.clickhouse.conversion import Conversion, Method
from airflow_provider_ch_s3.sql import conversions

KINDS = (
    *("Date", "DateTime64(3)", "Decimal(1, 23)", "Decimal(12, 3)", "DateTime('Europe/Berlin')"),
    *("Enum8('a.' = 1)", "Enum8('a,' = 1)", "FixedString(3)"),
)


@pytest.mark.parametrize("is_nullable", [False, True])
def test_names_are_words_and_differ(is_nullable: bool) -> None:
    """24.8 sends them to other nodes without quotes."""
    made = [Conversion(method=Method.TEXT, type=kind, is_nullable=is_nullable) for kind in KINDS]
    names = [conversions.function_name(one) for one in made]
    assert all(re.fullmatch(r"\w+", name, re.ASCII) for name in names)
    assert len(set(names)) == len(KINDS)
