"""The direction of imports: values at the bottom, then tuning and SQL, then the load, then Airflow."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import airflow_provider_ch_s3

PACKAGE = "airflow_provider_ch_s3"
ROOT = Path(airflow_provider_ch_s3.__file__).parent

GROUND = {"errors", "units"}
# The check of an expression is text in, text out: the values parse structures and engines with it.
TEXT = GROUND | {"sql.expressions"}
VALUES = TEXT | {
    "arguments",
    "names",
    "connection_fields",
    "connection_extra",
    "declaration",
    "calibration",
    "column_types",
    "common_type",
    "conversion",
    "path_columns",
    "text_columns",
    "chunk",
    "cluster",
    "globs",
    "target",
    "source",
    "access",
    "addresses",
    "url_globs",
    "regions",
    "file_format",
    "file_schema",
    "frames",
    "mapping",
    "bad_rows",
    "csv_dialect",
    "new_table",
    "settle",
}
ASKING = VALUES | {"tuning", "sql", "protocols", "request", "pace", "batches", "parallel", "steps", "codec"}
PURE = ASKING | {"inspect", "create", "query", "exactly_once", "rejects", "load"}

# place -> what of ours it may import, beside itself
MAY_IMPORT = {
    "errors": set(),
    "units": set(),
    "sql.tokens": {"errors"},
    "sql.expressions": {"errors", "sql.tokens"},
    "connection_fields": set(),
    "connection_extra": {"arguments", "errors", "connection_fields"},
    "declaration": GROUND | {"arguments"} | {"calibration", "cluster", "connection_extra", "connection_fields"},
    "calibration": GROUND,
    "chunk": GROUND,
    "cluster": GROUND | {"connection_fields", "calibration"},
    "column_types": set(),
    "common_type": {"column_types"},
    "target": TEXT | {"names"},
    "arguments": {"errors"},
    "names": set(),
    "globs": set(),
    "conversion": {"column_types"},
    "addresses": GROUND | {"arguments", "globs", "names", "url_globs"},
    "source": GROUND | {"access", "addresses", "column_types", "conversion", "file_format", "globs"},
    "access": {"url_globs"},
    "url_globs": {"errors", "globs"},
    "regions": set(),
    "path_columns": TEXT | {"column_types", "names", "source", "target"},
    "text_columns": TEXT | {"csv_dialect", "column_types", "source", "target"},
    "file_format": {"errors"},
    "frames": set(),
    "file_schema": TEXT | {"column_types", "common_type", "source"},
    "mapping": TEXT | {"names", "target", "source", "conversion"},
    "settle": GROUND,
    "new_table": TEXT | {"arguments", "target"},
    "tuning": VALUES,
    "sql": VALUES | {"tuning.setting"},
    "pace": set(),
    "batches": set(),
    "parallel": set(),
    "steps": set(),
    "codec": GROUND,
    "request": VALUES | {"tuning"},
    "protocols": VALUES | {"sql"},
    "inspect": ASKING,
    "csv_dialect": {"arguments", "errors"},
    "bad_rows": {"column_types", "target"},
    "rejects": ASKING | {"inspect", "query", "exactly_once"},
    "create": ASKING | {"inspect"},
    "query": ASKING,
    "exactly_once": ASKING | {"inspect", "query"},
    "load": PURE,
    "export": PURE,
    "in_place": PURE,
    "calibrate": PURE,
    "sandbox": GROUND | {"pace"},
}


def modules(place: str) -> list[Path]:
    path = ROOT.joinpath(*place.split("."))
    return sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]


def imports(path: Path) -> set[str]:
    """Every module that a file imports, at any depth of its code."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import, which this test does not follow"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def is_inside(name: str, places: set[str]) -> bool:
    return any(f"{name}.".startswith(f"{PACKAGE}.{place}.") for place in places)


@pytest.mark.parametrize("place", MAY_IMPORT)
def test_imports_go_down_only(place: str) -> None:
    allowed = MAY_IMPORT[place] | {place}
    wrong = {
        f"{path.relative_to(ROOT)} imports {name}"
        for path in modules(place)
        for name in imports(path)
        if name.startswith(f"{PACKAGE}.") and not is_inside(name, allowed)
    }
    assert wrong == set()


def test_the_sensor_imports_nothing_of_a_load() -> None:
    imported = {name for path in modules("sensors") for name in imports(path)}
    assert not [name for name in imported if is_inside(name, {"load", "exactly_once"})]


@pytest.mark.parametrize("place", MAY_IMPORT)
def test_no_airflow_and_no_driver(place: str) -> None:
    foreign = {"airflow", "clickhouse_connect"} | ({"boto3", "botocore"} if place != "sandbox" else set())
    wrong = {
        f"{path.relative_to(ROOT)} imports {name}"
        for path in modules(place)
        for name in imports(path)
        if name.partition(".")[0] in foreign
    }
    assert wrong == set()


def test_every_place_exists_and_has_a_rule() -> None:
    glue = {
        "example_dags",
        "hooks",
        "transfers",
        "operators",
        "stores",
        "sensors",
        "triggers",
        "plugins",
        "links",
        "assets",
        "cli",
        "bench",
        "get_provider_info",
    }
    places = {path.stem for path in ROOT.iterdir() if (path.is_dir() or path.suffix == ".py") and path.stem[0] != "_"}
    assert places <= {*MAY_IMPORT, *glue}
    assert all(path.exists() for place in MAY_IMPORT for path in modules(place))


def import_graph(root: Path) -> dict[str, set[str]]:
    """Module → the modules of the same package that it imports, at any depth of its code."""
    files = {".".join(path.relative_to(root.parent).with_suffix("").parts): path for path in root.rglob("*.py")}
    files = {name.removesuffix(".__init__"): path for name, path in files.items()}
    # "from package.module import name" is an import of the module, unless the name is one itself
    return {
        name: {found if found in files else found.rpartition(".")[0] for found in imports(path)} & files.keys()
        for name, path in files.items()
    }


@pytest.mark.parametrize("command", ["tune", "plan", "loads"])
def test_a_command_for_workers_needs_neither_bench_nor_sandbox(command: str) -> None:
    graph = import_graph(ROOT)
    needed, new = set(), {PACKAGE, f"{PACKAGE}.__main__", f"{PACKAGE}.cli", f"{PACKAGE}.cli.{command}"}
    while new:
        needed |= new
        new = {found for name in new for found in graph[name]} - needed
    assert f"{PACKAGE}.hooks.clickhouse_s3" in needed
    assert [name for name in sorted(needed) if is_inside(name, {"bench", "sandbox"})] == []


def test_no_import_circles() -> None:
    TopologicalSorter(import_graph(ROOT)).prepare()


def test_a_circle_is_found_within_a_function_too(tmp_path: Path) -> None:
    package = tmp_path / "circular"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "a.py").write_text("from circular import b")
    (package / "b.py").write_text("def later():\n    from circular.a import name")
    with pytest.raises(CycleError, match=r"circular\.a"):
        TopologicalSorter(import_graph(package)).prepare()
