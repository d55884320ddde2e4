"""What a reader has to read twice: some phrases anywhere, and words that point back in pages and docstrings."""

from __future__ import annotations

import ast
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
    "lake's table",
    "lakes' tables",
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
FOLDERS = {
    "airflow_provider_ch_s3": ("py", "jinja", "js"),
    "lab/ch_s3_lab": ("py", "jinja"),
    "docs": ("md", "py"),
    "example_dags": ("py",),
}
FILES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "Makefile", "setup.cfg", "lab/setup.cfg")),
    ROOT / "tests/golden/messages.txt",
    *(path for name, kinds in FOLDERS.items() for kind in kinds for path in sorted((ROOT / name).rglob(f"*.{kind}"))),
]

POINTING = frozenset({"that", "which", "those", "one", "ones", "it", "its", "such", "other", "others"})
MAX_POINTING_RATIO = 0.04
"""Of the words of a page, or of all docstrings of a module. README and httpx have less, and read well."""
ALWAYS_ALLOWED = 2
"""Words that point back, in a text of less than 50 words: there, a single word would decide."""
CODE = re.compile(r"^```.*?^```$|<!--.*?-->|(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL | re.MULTILINE)
"""Blocks and inline code, also of docstrings and in the cells of tables, and comments of a page."""
LITERAL = re.compile(r"(?<=::\n)(?:[ \t]*\n|[ \t]+\S.*(?:\n|\Z))+")
"""The indented block after ``::`` of a docstring."""
ADDRESS = re.compile(r"\]\([^)]*\)|https?://\S+")
FIELD = re.compile(r"^\s*:(?:param|raises) [^:]+:|^\s*:\w+:", re.MULTILINE)
"""Names of arguments and errors, at the beginning of their descriptions."""
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
MODULES = [
    path
    for name in ("airflow_provider_ch_s3", "lab/ch_s3_lab", "docs", "example_dags")
    for path in sorted((ROOT / name).rglob("*.py"))
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


def read_words(prose: str) -> list[str]:
    """Read the words of a text; ``read-only``, ``one-time`` and ``user's`` are one word, a number is not a word."""
    return re.findall(r"[^\W\d_]+(?:['-][^\W\d_]+)*", prose.lower())


def words_of_page(text: str) -> list[str]:
    return read_words(ADDRESS.sub(" ", CODE.sub(" ", text)))


def words_of_docstrings(source: str) -> list[str]:
    """Read the words of every docstring of a module, also of those below a constant or a field."""
    texts = (
        node.value.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    )
    prose = (FIELD.sub(" ", CODE.sub(" ", LITERAL.sub("", text))) for text in texts)
    return [word for text in prose for word in read_words(ADDRESS.sub(" ", text))]


def points_too_often(words: list[str]) -> str:
    """Return how many of the words point back, if they are too many; otherwise an empty text."""
    found = [word for word in words if word in POINTING]
    if len(found) <= max(ALWAYS_ALLOWED, MAX_POINTING_RATIO * len(words)):
        return ""
    return f"{len(found)} of {len(words)} words, {len(found) / len(words):.1%}"


def pages_above_the_limit() -> dict[str, str]:
    return {path.name: found for path in PAGES if (found := points_too_often(words_of_page(path.read_text())))}


def modules_above_the_limit() -> dict[str, str]:
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in MODULES}
    return {name: found for name, text in texts.items() if (found := points_too_often(words_of_docstrings(text)))}


def test_pages_repeat_the_noun() -> None:
    assert pages_above_the_limit() == {}


def test_docstrings_repeat_the_noun() -> None:
    assert modules_above_the_limit() == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param(
            "# A load's file\n\nIt reads 12 read-only ones", "a load's file it reads read-only ones", id="text"
        ),
        pytest.param("Set `that` or ``which` one``.\n```bash\necho it\n```\nDone.", "set or done", id="code"),
        pytest.param("[A page](that-one.md#it) of https://its.such/one, yes", "a page of yes", id="addresses"),
        pytest.param("| a | b |\n| --- | --- |\n| `it` | which |", "a b which", id="table"),
        pytest.param("<!-- one: generated -->\nTwo\n", "two", id="comment"),
    ],
)
def test_words_of_a_page(text: str, words: str) -> None:
    assert words_of_page(text) == words.split()


def test_words_of_docstrings() -> None:
    source = '''
"""The module::

    that = which

shows ``it``."""
LIMIT = "one"
"""Rows."""
def load(one):
    """Load a file.

    :param one: the file.
    :raises OtherError: if it failed, see https://its.such/one
    :returns: rows.
    """
    return "that"
'''
    assert sorted(words_of_docstrings(source)) == sorted(
        ["the", "module", "shows", "rows", "load", "a", "file", "the", "file", "if", "it", "failed", "see", "rows"]
    )


@pytest.mark.parametrize(
    ("pointing", "plain", "found"),
    [
        pytest.param(0, 0, "", id="empty"),
        pytest.param(2, 3, "", id="two-in-a-short-text"),
        pytest.param(3, 46, "3 of 49 words, 6.1%", id="three-in-a-short-text"),
        pytest.param(3, 71, "3 of 74 words, 4.1%", id="just-above"),
        pytest.param(3, 72, "", id="four-percent"),
        pytest.param(10, 240, "", id="four-percent-of-a-longer-text"),
    ],
)
def test_when_words_point_back_too_often(pointing: int, plain: int, found: str) -> None:
    every = sorted(POINTING)
    assert points_too_often([every[number % 10] for number in range(pointing)] + ["load"] * plain) == found
