"""docs/reference.md and the pages of docs/reference are what the code says."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from airflow_provider_ch_s3.common.declared import declared_fields
from airflow_provider_ch_s3.modes import MODES
from docs._site import reference_page

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
MOST_LINES = 150
PAGES = reference_page.render_pages()


def test_the_pages_are_what_the_code_says(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-golden"):
        for path in (DOCS / "reference").glob("*.md"):
            path.unlink()
        for name, text in PAGES.items():
            (DOCS / name).write_text(text)
    found = {str(path.relative_to(DOCS)) for path in (DOCS / "reference").glob("*.md")} | {"reference.md"}
    assert {name: (DOCS / name).read_text() for name in found} == PAGES, (
        "to write them again: pytest tests/unit/test_reference.py --update-golden"
    )


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_short_and_each_heading_is_there_once(name: str) -> None:
    text = PAGES[name]
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    assert len(headings) == len(set(headings))
    assert text.count("\n") <= MOST_LINES


def test_each_argument_of_a_mode_has_a_heading() -> None:
    for mode in MODES:
        text = PAGES[f"reference/{reference_page.page_of(mode)}.md"]
        assert re.findall(r"^## (.+)$", text, re.MULTILINE) == list(declared_fields(mode))


def test_an_argument_says_whether_it_is_templated() -> None:
    text = PAGES["reference/files-to-clickhouse.md"]
    assert "\n`str`; default `''`; templated SQL: `where=\"fare > 0\"`\n" in text
    assert "\n`float`; default `5.0`; not templated: `poll_interval=2`\n" in text


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
