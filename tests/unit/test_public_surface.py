"""What others read: docstrings everywhere, secrets nowhere."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.files.access import S3Access
from airflow_provider_ch_s3.files.addresses import Source
from airflow_provider_ch_s3.files.source import FileColumn, SourceFile, SourceSpec
from airflow_provider_ch_s3.sql.load_queries import render_describe_files

ROOT = Path(__file__).parents[2]
PACKAGES = ("airflow_provider_ch_s3", "lab/ch_s3_lab")
# an __init__ may be empty
FILES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py") if path.read_text())


def public(node: ast.Module | ast.ClassDef, prefix: str = "") -> Iterator[tuple[str, ast.AST]]:
    """The public classes, functions and methods; a property may be told by its name alone."""
    for child in node.body:
        if not isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) or child.name[0] == "_":
            continue
        if any("property" in ast.unparse(decorator) for decorator in child.decorator_list):
            continue
        yield f"{prefix}{child.name}", child
        if isinstance(child, ast.ClassDef):
            yield from public(child, f"{child.name}.")


@pytest.mark.parametrize("path", [pytest.param(path, id=str(path.relative_to(ROOT))) for path in FILES])
def test_public_names_have_docstrings(path: Path) -> None:
    tree = ast.parse(path.read_text())
    named = [("the module", tree), *public(tree)]
    assert [name for name, node in named if not ast.get_docstring(node)] == []  # type: ignore[arg-type]


ACCESS = S3Access(
    endpoint_url="http://s3",
    access_key="AKIA-KEY",
    secret_key="SECRET-KEY",
    session_token="TOKEN",
    parameter_prefix="s3_",
)
SOURCE = SourceSpec(
    origin=Source(bucket="b", globs=("*",)),
    access=ACCESS,
    files=(SourceFile(key="k", etag="e", size_bytes=1),),
    data_format="Parquet",
    compression="auto",
    columns=(FileColumn(name="a", type="UInt8"),),
)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(ACCESS, id="S3Access"),
        pytest.param(SOURCE, id="SourceSpec"),
        pytest.param(Statement(text="SELECT {p:String}", parameters={"p": "SECRET-KEY"}), id="Statement"),
        pytest.param(render_describe_files(SOURCE), id="rendered"),
    ],
)
def test_no_secret_in_repr_or_text(value: object) -> None:
    for shown in (repr(value), str(value), f"{value}"):
        assert not [secret for secret in ("AKIA-KEY", "SECRET-KEY", "TOKEN") if secret in shown]


def test_the_secrets_travel_beside_the_text() -> None:
    statement = render_describe_files(SOURCE)
    assert statement.parameters == {
        "s3_access_key": "AKIA-KEY",
        "s3_secret_key": "SECRET-KEY",
        "s3_session_token": "TOKEN",
    }
    assert "SECRET-KEY" not in statement.text
