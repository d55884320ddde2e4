"""Each error has a code, and ``tests/golden/messages.txt`` has the codes with their sentences."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from airflow_provider_ch_s3.errors import CheckFailedError, ChS3Error, ConfigError, NewColumnsError, ServerError
from ch_s3_lab.errors import SandboxError

# one process reads the code
pytestmark = pytest.mark.xdist_group("messages")

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden" / "messages.txt"
PACKAGES = (ROOT / "airflow_provider_ch_s3", ROOT / "lab" / "ch_s3_lab")
CODE = re.compile(r"[a-z]+(?:-[a-z]+){1,3}")
MAKERS = {"refusal": 0, "build_failure": 1}
"""Functions that make an error of a given code, with the place of the code in their arguments."""
VALUE = "{…}"
TROUBLESHOOTING = ROOT / "docs" / "troubleshooting.md"


def classes(root: type[ChS3Error] = ChS3Error) -> Iterator[type[ChS3Error]]:
    yield root
    for kind in root.__subclasses__():
        yield from classes(kind)


NAMES = {kind.__name__ for kind in (*classes(), SandboxError)}


@dataclass(frozen=True, kw_only=True)
class Made:
    """A call that makes an error.

    :param codes: none if the code comes from another error.
    :param sentences: the texts that the sentence can become, with ``{…}`` for values.
    """

    place: str
    codes: frozenset[str]
    sentences: frozenset[str]


@cache
def made() -> tuple[Made, ...]:
    """What the packages make errors with."""
    files = [path for package in PACKAGES for path in sorted(package.rglob("*.py"))]
    return tuple(one for path in files for one in made_in(path))


def made_in(path: Path) -> Iterator[Made]:
    module = ast.parse(path.read_text())
    texts: dict[ast.AST, dict[str, list[ast.expr]]] = defaultdict(lambda: defaultdict(list))
    for function in (node for node in ast.walk(module) if isinstance(node, ast.FunctionDef)):
        inside = list(ast.walk(function))
        for node in inside:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                for call in inside:
                    texts[call][node.targets[0].id].append(node.value)
    for call in (node for node in ast.walk(module) if isinstance(node, ast.Call)):
        names = {node.id for node in ast.walk(call.func) if isinstance(node, ast.Name)}
        if names & (NAMES | MAKERS.keys()) and call.args:
            code, *others = call.args[max(MAKERS.get(name, 0) for name in names) :]
            found = [text for argument in others for text in sentences_of(argument, texts[call])]
            yield Made(
                place=f"{path.relative_to(ROOT)}:{call.lineno}",
                codes=frozenset(sentences_of(code, texts[call])),
                sentences=frozenset(found) or frozenset({VALUE}),
            )


def sentences_of(node: ast.expr, texts: Mapping[str, Sequence[ast.expr]]) -> list[str]:
    match node:
        case ast.Constant(value=str() as text):
            return [text]
        case ast.JoinedStr(values=values):
            parts = [str(value.value) if isinstance(value, ast.Constant) else VALUE for value in values]
            return ["".join(parts)]
        case ast.IfExp(body=body, orelse=orelse):
            return [*sentences_of(body, texts), *sentences_of(orelse, texts)]
        case ast.BinOp(left=left, right=right):
            ends = sentences_of(right, texts) or [VALUE]
            return [f"{one}{end}" for one in sentences_of(left, texts) for end in ends]
        case ast.Name(id=name):
            return [text for value in texts.get(name, ()) for text in sentences_of(value, {})]
    return []


@cache
def coded_sentences() -> dict[str, set[str]]:
    """The sentences of each code that the packages name."""
    found: dict[str, set[str]] = defaultdict(set)
    for one in made():
        for code in one.codes:
            found[code] |= one.sentences
    return found


def test_the_sentences_of_all_codes(request: pytest.FixtureRequest) -> None:
    blocks = [
        "\n".join([f"[{code}]", *(f"  {one}".replace("\n", "\\n") for one in sorted(sentences))])
        for code, sentences in sorted(coded_sentences().items())
    ]
    text = "\n\n".join(blocks) + "\n"
    if request.config.getoption("--update-golden"):
        GOLDEN.write_text(text)
    assert GOLDEN.read_text() == text, "to write it anew: pytest tests/unit/test_messages.py --update-golden"


def test_codes_are_two_to_four_words() -> None:
    assert [(one.place, code) for one in made() for code in one.codes if not CODE.fullmatch(code)] == []


def test_each_section_of_the_page_explains_one_code() -> None:
    text = TROUBLESHOOTING.read_text()
    sections = re.findall(r"^### .+ \(`([a-z-]+)`\)\n\n```text\n([^`]*\n)```$", text, re.MULTILINE)
    assert len(dict(sections)) == text.count("\n### ")
    assert dict(sections).keys() <= coded_sentences().keys()
    assert [code for code, messages in sections if messages.count(f" [{code}]\n") != messages.count("\n")] == []


def test_a_message_ends_with_the_code() -> None:
    error = ConfigError("table-missing", "no such table")
    assert (str(error), error.sentence, error.code) == (
        "no such table [table-missing]",
        "no such table",
        "table-missing",
    )


def test_an_addition_to_a_sentence_comes_before_the_code() -> None:
    error = ConfigError("table-missing", "no such table")
    error.sentence += "; create it"
    assert str(error) == "no such table; create it [table-missing]"


def test_errors_with_values_have_codes_too() -> None:
    assert str(NewColumnsError("new-columns", "a", ["b"])) == "a [new-columns]"
    assert str(CheckFailedError("check-failed", "a", [])) == "a [check-failed]"


def test_the_code_of_a_server_is_a_number_beside_the_code() -> None:
    error = ServerError("server-error", "no", server_code=60)
    assert (str(error), error.code, error.server_code) == ("no [server-error]", "server-error", 60)


def test_no_test_pins_a_sentence() -> None:
    """Tests match the code of an error and the values it names, so that sentences can improve."""
    pinned = []
    for path in (ROOT / "tests").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(
                    func=ast.Attribute(attr="raises"),
                    args=[kind, *_],
                    keywords=[ast.keyword(arg="match", value=ast.Constant() | ast.JoinedStr())],
                ) if NAMES & {one.id for one in ast.walk(kind) if isinstance(one, ast.Name)}:
                    pinned.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert pinned == [], "match the code instead, by coded(…)"
