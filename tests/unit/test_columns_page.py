"""docs/columns.md has the rules as the code says them."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ch_s3.clickhouse.type_table import TABLE
from docs._site import columns_page

PAGE = Path(__file__).parents[2] / "docs" / "columns.md"


def test_the_page_is_what_the_code_says(request: pytest.FixtureRequest) -> None:
    text = columns_page.render_page(PAGE.read_text())
    if request.config.getoption("--update-golden"):
        PAGE.write_text(text)
    assert PAGE.read_text() == text, "to write it again: pytest tests/unit/test_columns_page.py --update-golden"


@pytest.mark.parametrize("part", columns_page.PARTS)
def test_each_part_has_its_place(part: str) -> None:
    assert PAGE.read_text().count(f"<!-- {part}: generated -->") == 1


def test_a_rule_has_one_meaning() -> None:
    rules = {(rule.name, rule.meaning) for cells in TABLE.values() for rule in cells.values()}
    names = [name for name, _ in rules]
    assert len(names) == len(set(names))
