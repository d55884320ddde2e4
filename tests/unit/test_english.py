"""Phrases that a reader has to read twice, in pages, docstrings, messages, help texts and comments."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PHRASES = (
    "anew",
    "as a rule",
    "be it",
    "beside",
    "brought",
    "is told by",
    "lies",
    "nobody knows",
    "of which",
    "on their way",
    "says so",
    "those that",
    "which is none",
    "without a word",
)
IS_NO = re.compile(r"(\bthere\s+(?:[#*/]+\s+)?)?\bis\s+(?:[#*/]+\s+)?no\b(?!\s+(?:[#*/]+\s+)?longer\b)", re.I)
"""``is no column`` for ``is not a column``; ``there is no column`` and ``is no longer`` are as they should be."""
OPTION = re.compile(r"--anew|\b(?:is_|args\.)anew\b")
"""Of ``ch-s3 loads adopt``."""
FOLDERS = {"airflow_provider_ch_s3": ("py", "jinja", "js"), "docs": ("md", "py"), "example_dags": ("py",)}
FILES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "Makefile", "setup.cfg")),
    *(path for name, kinds in FOLDERS.items() for kind in kinds for path in sorted((ROOT / name).rglob(f"*.{kind}"))),
]


def find(text: str) -> list[str]:
    """Find the lines with one of the phrases, also where a line ends within it."""
    words = "|".join(phrase.replace(" ", r"\s+(?:[#*/]+\s+)?") for phrase in PHRASES)
    plain = OPTION.sub("", text)
    found = [
        *re.finditer(rf"\b(?:{words})\b", plain, re.I),
        *(one for one in IS_NO.finditer(plain) if not one[1]),
    ]
    return [f"{plain.count(chr(10), 0, one.start()) + 1}: {one[0]}" for one in found]


def test_no_phrase_needs_a_second_reading() -> None:
    assert {str(path.relative_to(ROOT)): found for path in FILES if (found := find(path.read_text()))} == {}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("a file, be it\n  one or a million", ["1: be it"], id="two-lines"),
        pytest.param("loads adopt --anew, is_anew=args.anew", [], id="the-option"),
        pytest.param("besides, it relies on thosethat", [], id="other-words"),
        pytest.param("a, which is no column; there\n# is no file; it is no\nlonger", ["1: is no"], id="is-no"),
        pytest.param("# one,\n# of\n# which", ["2: of\n# which"], id="comment"),
    ],
)
def test_what_is_found(text: str, found: list[str]) -> None:
    assert find(text) == found
