"""The direction of imports: what any program could use, then values, tuning and SQL, the load, Airflow."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import airflow_provider_ch_s3

PACKAGE = "airflow_provider_ch_s3"
ROOT = Path(airflow_provider_ch_s3.__file__).parent

GROUND = {"discretion", "errors", "common"}
LANGUAGE = GROUND | {"clickhouse"}
VALUES = LANGUAGE | {"cluster", "files", "table"}
ARGUMENTS = VALUES | {"modes", "arguments"}
ASKING = ARGUMENTS | {"tuning", "request", "identity", "sql"}
PURE = ASKING | {"introspection", "monitoring", "report", "create", "exactly_once", "rejects", "load"}

# room -> what of ours it may import, beside itself
MAY_IMPORT = {
    "discretion": set(),
    "errors": {"discretion"},
    "common": {"discretion", "errors"},
    "clickhouse": GROUND,
    "cluster": LANGUAGE,
    "files": LANGUAGE,
    "table": LANGUAGE | {"files"},
    "tuning": VALUES,
    "modes": VALUES,
    "arguments": VALUES,
    "request": ARGUMENTS | {"tuning"},
    "identity": set(),
    "sql": VALUES | {"tuning.rule"},
    "introspection": ASKING,
    "monitoring": ASKING,
    "report": ASKING | {"monitoring"},
    "create": ASKING | {"introspection"},
    "exactly_once": ASKING | {"introspection", "monitoring", "report"},
    "rejects": ASKING | {"introspection", "monitoring", "report", "exactly_once"},
    "load": PURE,
    "reporting": PURE,
    "export": PURE,
    "stores": GROUND | {"files"},
    "lakes": VALUES,
    "sandbox": GROUND,
    "bench.measurement": PURE,
    "bench.measure": PURE | {"bench.measurement"},
    "bench.search": PURE | {"bench.measure", "bench.measurement"},
}
WITH_A_DRIVER = {"stores"}


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


@pytest.mark.parametrize("place", [place for place in MAY_IMPORT if place not in WITH_A_DRIVER])
def test_no_airflow_and_no_driver(place: str) -> None:
    foreign = {"airflow", "clickhouse_connect"} | ({"boto3", "botocore"} if place != "sandbox" else set())
    wrong = {
        f"{path.relative_to(ROOT)} imports {name}"
        for path in modules(place)
        for name in imports(path)
        if name.partition(".")[0] in foreign
    }
    assert wrong == set()


def test_every_room_exists_and_has_a_rule() -> None:
    glue = {"hooks", "transfers", "operators", "sensors", "triggers", "assets", "plugins", "get_provider_info"}
    tools = {"cli", "bench"}
    rooms = {path.stem for path in ROOT.iterdir() if (path.is_dir() or path.suffix == ".py") and path.stem[0] != "_"}
    assert rooms <= {*MAY_IMPORT, *glue, *tools}
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


def room_graph(root: Path) -> dict[str, set[str]]:
    """Folder, or module beside the folders → those that it imports."""
    graph: dict[str, set[str]] = {}
    for name, found in import_graph(root).items():
        rooms = {other.split(".")[1] for other in found if "." in other}
        if "." in name:
            room = name.split(".")[1]
            graph.setdefault(room, set()).update(rooms - {room})
    return graph


@pytest.mark.parametrize("command", ["tune", "plan", "loads"])
def test_a_command_for_workers_needs_neither_trials_nor_sandbox(command: str) -> None:
    graph = import_graph(ROOT)
    needed, new = set(), {PACKAGE, f"{PACKAGE}.__main__", f"{PACKAGE}.cli", f"{PACKAGE}.cli.{command}"}
    while new:
        needed |= new
        new = {found for name in new for found in graph[name]} - needed
    assert f"{PACKAGE}.hooks.clickhouse_s3" in needed
    measuring = {PACKAGE + name for name in (".bench", ".bench.measure", ".bench.measurement", ".bench.search")}
    assert [name for name in sorted(needed - measuring) if is_inside(name, {"bench", "sandbox"})] == []


def test_no_circles_of_modules() -> None:
    TopologicalSorter(import_graph(ROOT)).prepare()


def test_no_circles_of_rooms() -> None:
    TopologicalSorter(room_graph(ROOT)).prepare()


@pytest.fixture
def circular(tmp_path: Path) -> Path:
    """Two rooms without a circle of modules: a.one → b.two → a.three."""
    package = tmp_path / "circular"
    for room in ("a", "b"):
        (package / room).mkdir(parents=True)
        (package / room / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "a" / "one.py").write_text("from circular.b import two")
    (package / "a" / "three.py").touch()
    (package / "b" / "two.py").write_text("def later():\n    from circular.a.three import name")
    return package


def test_a_circle_is_found_within_a_function_too(circular: Path) -> None:
    TopologicalSorter(import_graph(circular)).prepare()
    (circular / "a" / "three.py").write_text("from circular.b.two import later")
    with pytest.raises(CycleError, match=r"circular\.a"):
        TopologicalSorter(import_graph(circular)).prepare()


def test_a_circle_of_rooms_is_found(circular: Path) -> None:
    with pytest.raises(CycleError, match="'a'"):
        TopologicalSorter(room_graph(circular)).prepare()
