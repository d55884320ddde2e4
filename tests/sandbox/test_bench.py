"""The benchmark with a few rows: whether it measures what it claims to, not how fast anything is."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ch_s3.cli import main
from airflow_provider_ch_s3.trials import measure
from airflow_provider_ch_s3.tuning.rules import KEPT
from ch_s3_lab.bench import store
from ch_s3_lab.bench.pushes import PUSHES
from ch_s3_lab.sandbox.engine import cache_dir

pytestmark = pytest.mark.sandbox

SCALE = "0.001"
ROWS = 12_000
CLOSING = r"bench: load_x=\d+\.\d\d settled_x=\d+\.\d\d worst=\d+\.\d\d grid=(\d+\.\d\d|nan)"


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "QUIET_SECONDS", 0.5)


def bench(out: Path, *arguments: str) -> list[dict[str, Any]]:
    code = main(["bench", "--built-in-store", "--scale", SCALE, "--rounds", "1", "--out", str(out), *arguments])
    assert code in (0, 1)  # with so few rows, the plan may be slower
    results: list[dict[str, Any]] = json.loads((out / "results.json").read_text())["results"]
    return results


@pytest.mark.thorough
def test_candidates_and_pushes_bring_the_same_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (result,) = bench(tmp_path, "--workload", "W1", "--quick", "--pushes")
    last = capsys.readouterr().out.splitlines()[-1]
    assert re.fullmatch(CLOSING, last), last
    rounds = {one["candidate"]: one for one in result["rounds"]}
    loads = {"server defaults", "published formula", "our plan", "best of grid", "read ceiling"}
    assert set(rounds) == loads | set(PUSHES)
    assert {rounds[name]["rows"] for name in loads - {"read ceiling"}} == {ROWS}
    assert all(one["load_seconds"] > 0 for one in rounds.values())
    assert set(rounds["server defaults"]["settings"]) <= {rule.name for rule in KEPT}
    assert len(result["grid"]) == 4
    plan = rounds["our plan"]
    assert plan["parts"][-1][1] >= 1
    assert plan["settled_seconds"] >= plan["parts"][0][0]
    page = (tmp_path / "index.html").read_text()
    assert page.count("<svg") == 4  # load, settled, grid, parts
    assert "http" not in re.sub(
        r"http://www\.w3\.org|http://purl\.org|http://creativecommons\.org|https://matplotlib\.org", "", page
    )
    seconds, resources, pushed = (tmp_path / "tables.md").read_text().split("\n\n")[1::2]
    for table, columns in ((seconds, 13), (resources, 9)):
        assert [line.count(" | ") + 1 for line in table.splitlines()] == [columns] * 3
    assert [line.split(" | ")[1] for line in pushed.splitlines()[2:]] == list(PUSHES)
    assert page.count("<table>") == 3


@pytest.mark.thorough
def test_each_kind_of_workload(tmp_path: Path) -> None:
    names = ("W4", "W5", "W7", "W8", "W9", "W10", "W11", "W12", "W15")
    results = bench(tmp_path, "--no-grid", *(word for name in names for word in ("--workload", name)))
    assert [result["workload"] for result in results] == list(names)
    for result in results:
        assert [one["error"] for one in result["rounds"]] == [""] * 4
        # by default a ReplacingMergeTree replaces rows already on insert
        rows = {one["rows"] for one in result["rounds"] if one["candidate"] != "server defaults"}
        assert rows == {ROWS // 10 if result["workload"] in ("W7", "W15") else ROWS}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["--workload", "W99"], "there is no workload 'W99'; choose from W1, W2", id="workload"),
        pytest.param(["--scale", "0"], "--scale 0.0 is out of range; give a share of the rows above 0", id="scale"),
        pytest.param(
            ["--conn-id", "mine", "--bucket", "b", "--workload", "W12"],
            "only a sandbox has the hardware for W12",
            id="hardware",
        ),
        pytest.param(["--conn-id", "mine"], "--conn-id needs --bucket", id="bucket"),
    ],
)
def test_bad_input_is_told_before_anything_starts(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", *arguments]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.skipif(
    not (cache_dir() / "bench" / store.VERSITYGW_VERSION / "versitygw").exists(),
    reason="versitygw is not built yet; `ch-s3 bench` does that where Go is",
)
def test_versitygw_keeps_its_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = cache_dir() / "bench" / store.VERSITYGW_VERSION
    monkeypatch.setenv("CH_S3_CACHE_DIR", str(tmp_path))
    shutil.copytree(program, tmp_path / "bench" / store.VERSITYGW_VERSION)
    with store.running_store() as first:
        assert first.name == "versitygw"
        first.client().create_bucket(Bucket="kept")
        first.client().put_object(Bucket="kept", Key="a/b", Body=b"rows")
    with store.running_store() as second:
        assert second.client().get_object(Bucket="kept", Key="a/b")["Body"].read() == b"rows"
