"""A name that a test patches must exist, also in tests that a push does not run: then it is found when it moves."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

TESTS = Path(__file__).parents[1]
FILES = sorted(path for folder in ("airflow", "faults", "sandbox") for path in (TESTS / folder).glob("*.py"))


def patches(path: Path) -> Iterator[tuple[ast.expr, str]]:
    """Find the calls of ``setattr`` of a monkeypatch: what is patched, and the name."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Call(func=ast.Attribute(attr="setattr"), args=[owner, ast.Constant(value=str(name)), *_]) if (
                not isinstance(owner, ast.Constant)
            ):
                yield owner, name
            case ast.Call(func=ast.Attribute(attr="setattr"), args=[ast.Constant(value=dotted), *_]):
                raise AssertionError(f"{path.name}: patch an imported object, not the text {dotted!r}")


@pytest.mark.parametrize("path", [path for path in FILES if "setattr" in path.read_text()], ids=lambda p: p.stem)
def test_what_is_patched_is_there(path: Path) -> None:
    module = importlib.import_module(".".join(path.relative_to(TESTS.parent).with_suffix("").parts))
    for owner, name in patches(path):
        root = next(node for node in ast.walk(owner) if isinstance(node, ast.Name)).id
        # Anything else is a value or an argument of the test itself.
        if isinstance(vars(module).get(root), ModuleType | type):
            assert hasattr(eval(ast.unparse(owner), vars(module)), name), f"{ast.unparse(owner)}.{name}"
