"""``ch-s3 demo``, as ``make demo`` runs it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ch_s3_lab.demo import command as demo
from ch_s3_lab.sandbox.info import Sandbox
from tests.airflow.conftest import DOCS, ROOT, code_blocks
from tests.logs import unfolded
from tests.marks import thorough

pytestmark = [pytest.mark.sandbox, pytest.mark.airflow_run]


@pytest.mark.parametrize(
    ("options", "nodes"),
    [pytest.param([], 3, id="shards"), thorough(["--shards", "2", "--replicas", "2"], 4, id="replicas")],
)
def test_demo_loads_and_compares(tmp_path: Path, options: list[str], nodes: int) -> None:
    report_path = tmp_path / "build" / "demo-report.json"
    done = subprocess.run(
        [sys.executable, "-m", "airflow_provider_ch_s3", "demo", *options, "--report", str(report_path)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    if not options:
        check_page(done.stdout)
    last = done.stdout.splitlines()[-1]
    assert re.fullmatch(
        rf"demo: OK rows=336776 nodes={nodes} insert_seconds=\d+\.\d\d settle_seconds=\d+\.\d\d parts=\d+", last
    )
    check_log(report_path.with_suffix(".log").read_text())
    report = json.loads(report_path.read_text())
    assert report["source"] == report["table"]
    assert report["load"]["files_read"] == 365
    assert sum(node["rows_written"] for node in report["load"]["nodes"].values()) == 336776


def check_log(text: str) -> None:
    """Check that what the load has logged fits on a page."""
    records = re.split(r"^(?=\S+ \[\w+ *\] )", text, flags=re.MULTILINE)
    ours = (
        re.match(r"\S+ \[\w+ *\] (.*?) *\[airflow_provider_ch_s3\.(?!sensors)", record, re.DOTALL)
        for record in records
    )
    lines = unfolded(record[1] for record in ours if record)
    assert any("submitting ch-s3-" in line for line in lines)
    assert len(lines) <= 25, lines


def check_page(printed: str) -> None:
    """Check that a run prints what docs/commands.md shows, except progress and plan, which depend on the machine."""
    *_, shown = code_blocks(DOCS / "commands.md", "text")
    lines = [
        line for line in shown.splitlines() if line.strip("… ") and "%, " not in line and " [computed] " not in line
    ]
    assert len(lines) > 10
    assert {shape(line) for line in lines} - {shape(line) for line in printed.splitlines()} == set()


def shape(line: str) -> str:
    """Remove what differs from run to run from a line: numbers, their units, names of nodes and folders."""
    line = re.sub(r"\d[\d,.]*", "N", line)
    line = re.sub(r"N [KMG]iB", "N B", re.sub(r"\S+:N:", "node:", line))
    return re.sub(r"log: \S+", "log", line)


@pytest.mark.thorough
def test_fingerprint_sees_one_changed_value(ch_s3_sandbox: Sandbox, ch_s3_database: str) -> None:
    ch_s3_sandbox.query(f"CREATE TABLE {ch_s3_database}.a (x Nullable(String), n Int8) ENGINE Memory")
    ch_s3_sandbox.query(f"CREATE TABLE {ch_s3_database}.b (x Nullable(String), n Int8) ENGINE Memory")
    ch_s3_sandbox.query(f"INSERT INTO {ch_s3_database}.a VALUES ('a', 1), (NULL, 2)")
    ch_s3_sandbox.query(f"INSERT INTO {ch_s3_database}.b VALUES ('', 2), ('a', 1)")
    first, second = (demo.fingerprint(ch_s3_sandbox, f"{ch_s3_database}.{table}", ["x", "n"]) for table in "ab")
    assert first["rows"] == second["rows"] == 2
    assert first["checksum"] != second["checksum"]
