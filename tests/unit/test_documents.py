"""What can be checked of the documents without running them: links, and quoted messages."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.marks import RANKS

# one process reads the code
pytestmark = pytest.mark.xdist_group("documents")

ROOT = Path(__file__).parents[2]
GENERATED = sorted((ROOT / "docs" / "reference").glob("*.md"))
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
PACKAGES = (ROOT / "airflow_provider_ch_s3", ROOT / "lab" / "ch_s3_lab")
TROUBLESHOOTING = ROOT / "docs" / "troubleshooting.md"
CONCEPTS = {
    "Try": r"(?:an?|the|each|every|one|first|last|next|later|earlier|other|another|its|which) tr(?:y|ies)",
    "Attempt": "attempts?",
    "Chunk": "chunks?",
    "Part": "parts?(?! of)",
    "Settled": "settled?",
    "Staging": "stag(?:ed|ing)",
    "Ledger": "ledger",
    "Lock": "lock",
}
"""The words of docs/concepts.md, as they appear in sentences."""
PLAIN_WORDS = {"Load", "Commit"}
"""Words of that page which readers understand before they have read it."""
WITHOUT_CONCEPTS = {"CHANGELOG.md", "concepts.md", "decisions.md", "reference.md", "testing.md"}
"""The page itself, and pages that are generated, or for contributors."""
COMMANDS = ("make test", "make test-push", "make test-all")
"""In the order of ``RANKS``."""
PARTLY_ON_SERVERS = {"values"}
"""Layers of docs/testing.md that also name tests without a server."""
VARIABLE = "\0"
"""In a message of the code: a value, which a page shows as …"""


def read_prose(document: Path) -> str:
    """A document without its code."""
    return re.sub(r"^```.*?^```$|`[^`\n]+`", "", document.read_text(), flags=re.DOTALL | re.MULTILINE)


@cache
def anchors(document: Path) -> set[str]:
    """What GitHub and MyST make of the headings."""
    text = re.sub(r"^```.*?^```$", "", document.read_text(), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", [*DOCUMENTS, *GENERATED], ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", read_prose(document)):
        if re.match(r"https?:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        assert target.exists(), f"{document.name} links to {link}"
        is_of_the_site = document.name != "README.md"
        assert not is_of_the_site or target.is_relative_to(ROOT / "docs"), (
            f"{document.name} links out of docs: {link}"
        )
        assert not anchor or anchor in anchors(target), f"{document.name} links to {link}, which is no heading there"


@pytest.mark.parametrize(
    "page", [one for one in DOCUMENTS if one.name not in WITHOUT_CONCEPTS], ids=lambda path: path.name
)
def test_a_page_that_uses_concepts_links_to_them(page: Path) -> None:
    """In the paragraph, item or row of the first such word, or before it."""
    words = re.compile(rf"\b(?:{'|'.join(CONCEPTS.values())})\b", re.I)
    without_headings = re.sub(r"^#.*$|!\[[^\]]*", "", read_prose(page), flags=re.MULTILINE)
    for block in re.split(r"\n(?=\n|- |\|)", without_headings):
        if "concepts.md)" in block:
            return
        found = words.search(re.sub(r"\]\([^)]*\)", "", block))
        assert not found, f"{page.name} has {found[0]!r} before it links to concepts.md"


def test_the_words_are_those_of_the_page() -> None:
    words = re.findall(r"^- \*\*(\w+)\*\*", (ROOT / "docs" / "concepts.md").read_text(), re.MULTILINE)
    assert set(words) == CONCEPTS.keys() | PLAIN_WORDS


def test_the_readme_stays_short() -> None:
    text = (ROOT / "README.md").read_text()
    assert text.count("\n") <= 110
    assert len(text.split()) <= 600


def test_the_readme_names_targets_of_make_that_tests_run() -> None:
    block = "```bash\nmake demo\nmake test\n```"
    assert block in (ROOT / "README.md").read_text()
    recipes = (ROOT / "Makefile").read_text()
    assert "\ndemo: $(READY)\n\t$(BIN)/ch-s3 demo\n" in recipes  # tests/airflow/test_demo.py
    assert "\nTESTS := not push and not thorough\ntest: $(READY)\n" in recipes
    assert '\n\t$(BIN)/pytest $(PARALLEL) -m "$(TESTS)" --durations=25\n\n' in recipes  # runs this test


def quoted_messages() -> Iterator[tuple[str, str]]:
    """The headings of the page, with each message below the heading."""
    for heading, messages in re.findall(
        r"^### (.+)\n\n```text\n([^`]*)\n```$", TROUBLESHOOTING.read_text(), re.MULTILINE
    ):
        yield from ((heading, re.sub(r" \[[a-z-]+\]$", "", message)) for message in messages.splitlines())


@cache
def code_messages() -> tuple[str, ...]:
    """Every text of the packages but docstrings, with ``VARIABLE`` for what is filled in."""
    files = [path for package in PACKAGES for path in package.rglob("*.py")]
    nodes = [node for path in files for node in ast.walk(ast.parse(path.read_text()))]
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    return tuple(text for node in nodes if id(node) not in docstrings and (text := text_of(node)))


def text_of(node: ast.AST) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(value) or VARIABLE for value in node.values)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return re.sub(r"%[sd]|\{\w+\}", VARIABLE, node.value)  # of log messages and of str.format
    return ""


def says(text: str, quoted: str) -> bool:
    """Whether a text of the code can become the quoted one: the same words, with values in the place of each …"""
    value = f"[^{VARIABLE}]*{VARIABLE}.*"
    words = [part.strip() for part in quoted.strip("… ").split("…")]
    return all(part in text for part in words) and bool(re.search(value.join(map(re.escape, words)), text, re.DOTALL))


@pytest.mark.parametrize(("heading", "quoted"), [pytest.param(*found, id=found[0]) for found in quoted_messages()])
def test_a_quoted_message_is_one_of_the_code(heading: str, quoted: str) -> None:
    assert any(says(text, quoted) for text in code_messages()), (
        f"no text of the package says {quoted!r} any more; correct it in docs/troubleshooting.md, under {heading!r}"
    )


def test_every_message_of_the_page_is_checked() -> None:
    text = TROUBLESHOOTING.read_text()
    assert len({heading for heading, _ in quoted_messages()}) == text.count("\n### ") == text.count("```text") >= 20


def test_the_layers_are_run_by_the_commands_of_the_page(request: pytest.FixtureRequest) -> None:
    """By the marks of all tests, whichever of them run now."""
    first: dict[str, int] = {}
    for node, rank in request.config.stash[RANKS].items():
        path, *names = node.split("::")
        for name in (path.rpartition("/")[2], *names[:-1]):
            first[name] = min(rank, first.get(name, rank))
    wrong = {}
    layers = (ROOT / "docs" / "testing.md").read_text().partition("\n## Which layer")[2].partition("\n## ")[0]
    for layer, _, where, how in re.findall(r"^\| (.*) \| (.*) \| (.*) \| (.*) \|$", layers, re.MULTILINE):
        named = re.findall(r"`(Test\w+)`", where) or re.findall(r"`(test_\w+\.py)`", where)
        ranks = {name: first[name] for name in named if name in first}
        told = [rank for rank, command in enumerate(COMMANDS) if f"`{command}`" in how]
        if layer in PARTLY_ON_SERVERS or not (ranks and told):
            continue
        if not set(ranks.values()) <= set(told) or min(ranks.values()) != min(told):
            wrong[layer] = {name: COMMANDS[rank] for name, rank in ranks.items()}
    assert wrong == {}
    if "test_exactly_once.py" not in first:
        pytest.skip("the tests on servers were not collected: run pytest for all folders")
