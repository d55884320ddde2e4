"""docs/testing.md has the factors, and docs/limits.md what cannot go together, as the tests say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.combinations.pages import render_page

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(("page", "part"), [("testing.md", "factors"), ("limits.md", "together")])
def test_the_page_is_what_the_tests_say(request: pytest.FixtureRequest, page: str, part: str) -> None:
    path = DOCS / page
    text = render_page(path.read_text())
    if request.config.getoption("--update-golden"):
        path.write_text(text)
    assert path.read_text() == text, "to write it again: pytest tests/combinations/test_pages.py --update-golden"
    assert text.count(f"<!-- {part}: generated -->") == 1
