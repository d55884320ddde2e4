"""The direction of imports: what any program could use, then values, tuning and SQL, the load, Airflow."""

from __future__ import annotations

import ast
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import airflow_provider_ch_s3
import ch_s3_lab

PACKAGE = "airflow_provider_ch_s3"
ROOT = Path(airflow_provider_ch_s3.__file__).parent
LAB = "ch_s3_lab"
LAB_ROOT = Path(ch_s3_lab.__file__).parent

GROUND = {"discretion", "errors", "common"}
LANGUAGE = GROUND | {"clickhouse"}
VALUES = LANGUAGE | {"cluster", "files", "table"}
ARGUMENTS = VALUES | {"modes", "arguments"}
ASKING = ARGUMENTS | {"tuning", "request", "contradictions", "identity", "sql"}
PURE = ASKING | {"introspection", "monitoring", "report", "create", "exactly_once", "bad_rows", "load"}

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
    "contradictions": ARGUMENTS | {"tuning", "request"},
    "identity": set(),
    "sql": VALUES,
    "introspection": ASKING,
    "monitoring": ASKING,
    "report": ASKING | {"monitoring"},
    "create": ASKING | {"introspection"},
    "exactly_once": ASKING | {"introspection", "monitoring", "report"},
    "bad_rows": ASKING | {"introspection", "monitoring", "report", "exactly_once"},
    "load": PURE,
    "reporting": PURE,
    "export": PURE,
    "stores": GROUND | {"files", "arguments"},
    "lakes": VALUES,
    "trials": PURE,
}
WITH_A_DRIVER = {"stores"}

# room of the lab -> the rooms of the lab that it may import
LAB_MAY_IMPORT = {
    "errors": set(),
    "extras": set(),
    "sandbox": {"errors"},
    "planned": {"sandbox"},
    "demo": {"errors", "extras", "sandbox", "planned"},
    "bench": {"errors", "extras", "sandbox", "planned", "demo.local_airflow"},
    "pytest": {"sandbox"},
}
SANDBOX_OF_PROVIDER = GROUND | {"cli.parser", "cli.screen"}


def modules(place: str, root: Path = ROOT) -> list[Path]:
    path = root.joinpath(*place.split("."))
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


def is_inside(name: str, places: set[str], package: str = PACKAGE) -> bool:
    return any(f"{name}.".startswith(f"{package}.{place}.") for place in places)


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


def test_the_provider_imports_nothing_of_the_lab() -> None:
    wrong = {
        f"{path.relative_to(ROOT)} imports {name}"
        for path in ROOT.rglob("*.py")
        for name in imports(path)
        if name.partition(".")[0] == LAB
    }
    assert wrong == set()


@pytest.mark.parametrize("place", LAB_MAY_IMPORT)
def test_rooms_of_the_lab_import_down_only(place: str) -> None:
    wrong = {
        f"{path.relative_to(LAB_ROOT)} imports {name}"
        for path in modules(place, LAB_ROOT)
        for name in imports(path)
        if name.startswith(f"{LAB}.") and not is_inside(name, LAB_MAY_IMPORT[place] | {place}, LAB)
    }
    assert wrong == set()


def test_the_sandbox_knows_nothing_of_loads() -> None:
    names = {name for path in modules("sandbox", LAB_ROOT) for name in imports(path)}
    assert {name for name in names if name.startswith(PACKAGE) and not is_inside(name, SANDBOX_OF_PROVIDER)} == set()
    assert {name for name in names if name.partition(".")[0] in {"airflow", "clickhouse_connect"}} == set()


def test_the_sensor_imports_nothing_of_a_load() -> None:
    imported = {name for path in modules("sensors") for name in imports(path)}
    assert not [name for name in imported if is_inside(name, {"load", "exactly_once"})]


def test_only_the_registry_tells_load_modes_apart() -> None:
    naming = {str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py") if "LoadMode." in path.read_text()}
    assert naming == {"modes.py", "exactly_once/modes/registry.py"}


def test_only_the_arguments_of_append_are_asked_for_by_class() -> None:
    """Everything else asks the mode."""
    asking = {
        str(path.relative_to(ROOT))
        for path in ROOT.rglob("*.py")
        if re.search(r"isinstance\([\w.]*mode, ", path.read_text())
    }
    assert asking == {"contradictions.py", "exactly_once/modes/append.py"}


@pytest.mark.parametrize("place", [place for place in MAY_IMPORT if place not in WITH_A_DRIVER])
def test_no_airflow_and_no_driver(place: str) -> None:
    foreign = {"airflow", "clickhouse_connect", "boto3", "botocore"}
    wrong = {
        f"{path.relative_to(ROOT)} imports {name}"
        for path in modules(place)
        for name in imports(path)
        if name.partition(".")[0] in foreign
    }
    assert wrong == set()


def test_every_room_exists_and_has_a_rule() -> None:
    glue = {"hooks", "transfers", "operators", "sensors", "triggers", "assets", "plugins", "get_provider_info"}
    assert rooms(ROOT) <= {*MAY_IMPORT, *glue, "cli"}
    assert all(path.exists() for place in MAY_IMPORT for path in modules(place))
    assert rooms(LAB_ROOT) == LAB_MAY_IMPORT.keys()


def rooms(root: Path) -> set[str]:
    """The folders of a package, and the modules next to them."""
    return {path.stem for path in root.iterdir() if (path.is_dir() or path.suffix == ".py") and path.stem[0] != "_"}


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


@pytest.mark.parametrize("root", [ROOT, LAB_ROOT])
def test_no_circles_of_modules(root: Path) -> None:
    TopologicalSorter(import_graph(root)).prepare()


@pytest.mark.parametrize("root", [ROOT, LAB_ROOT])
def test_no_circles_of_rooms(root: Path) -> None:
    TopologicalSorter(room_graph(root)).prepare()


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
