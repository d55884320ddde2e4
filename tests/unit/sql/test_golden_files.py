"""Every statement has a golden file, and every golden file a statement."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from pathlib import Path

import pytest

from airflow_provider_ch_s3 import sql
from ch_s3_lab.bench import queries
from tests.unit import sql as tests_of_sql
from tests.unit.sql.places import AT_BOTH, without_cluster

GOLDEN = Path(__file__).parents[2] / "golden"
MODULES = [*(import_module(f"{sql.__name__}.{found.name}") for found in pkgutil.iter_modules(sql.__path__)), queries]
STATEMENTS = {
    name.removeprefix("render_")
    for module in MODULES
    for name, value in vars(module).items()
    if name.startswith("render_") and value.__module__ == module.__name__
}
CASES = {
    name
    for found in pkgutil.iter_modules(tests_of_sql.__path__)
    if found.name.startswith("test_golden_") and found.name != "test_golden_files"
    for name in import_module(f"{tests_of_sql.__name__}.{found.name}").CASES
}


@pytest.mark.parametrize("statement", sorted(STATEMENTS))
def test_every_statement_has_a_case(statement: str) -> None:
    # What is written to the ledger has one template, by which its golden files are called.
    names = (f"{statement}_", statement.replace("write_", "write_ledger_"))
    assert [name for name in CASES if f"{name}_".startswith(names)] != []


def test_no_golden_file_is_left_over() -> None:
    assert len(STATEMENTS) > 100
    assert {path.stem for path in GOLDEN.glob("*.sql")} == CASES


@pytest.mark.parametrize("name", AT_BOTH)
def test_one_server_is_asked_the_same_as_a_cluster(name: str) -> None:
    everywhere, here = AT_BOTH[name]
    assert here.text == without_cluster(everywhere.text)
    assert here.text != everywhere.text
    assert here.parameters == everywhere.parameters
