"""docs/reference.md is what the code says."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from docs._site import reference_page

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference.md"


def test_the_page_is_what_the_code_says(request: pytest.FixtureRequest) -> None:
    text = reference_page.render_page()
    if request.config.getoption("--update-golden"):
        PAGE.write_text(text)
    assert PAGE.read_text() == text, "to write it anew: pytest tests/unit/test_reference.py --update-golden"


@pytest.mark.parametrize("heading", ["Connection fields", "Operators", "Sensor", "Load report", "Settings"])
def test_links_from_elsewhere_find_their_heading(heading: str) -> None:
    assert f"\n## {heading}\n" in PAGE.read_text()


@dataclass(frozen=True, kw_only=True)
class Documented:
    """A value.

    :param first: one text,
        on two lines.
    :param second: see :class:`Other` and ``code``.
    """

    first: int
    second: int


@dataclass(frozen=True, kw_only=True)
class Undocumented(Documented):
    """A value.

    :param first: one text.
    """


@dataclass(frozen=True, kw_only=True)
class Outdated(Documented):
    """A value.

    :param first: one text.
    :param second: another.
    :param third: which it had once.
    """


def test_docstrings_become_markdown() -> None:
    assert reference_page.parse_parameters(Documented) == {
        "first": "one text, on two lines.",
        "second": "see `Other` and `code`.",
    }


@pytest.mark.parametrize("value", [Undocumented, Outdated])
def test_a_docstring_describes_each_field_and_no_other(value: type) -> None:
    with pytest.raises(ValueError, match=f"{value.__name__} has"):
        reference_page.render_fields(value)
