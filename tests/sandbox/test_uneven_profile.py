"""One node obeys a hostile profile when it works for others: loads are the same, and only their SQL is longer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from airflow_provider_ch_s3.arguments import Format
from airflow_provider_ch_s3.errors import ChS3Error
from ch_s3_lab.sandbox import Sandbox, SandboxConfig
from ch_s3_lab.sandbox.config import EMBEDDED
from ch_s3_lab.sandbox.launch import running_sandbox
from tests.failures import coded
from tests.sandbox.conftest import Lab, bag, lab_in
from tests.sandbox.hostile_profiles import VISITOR, write_uneven_profile

pytestmark = [pytest.mark.sandbox, pytest.mark.thorough]

HOW = {"data_format": Format("CSV", structure="p UInt8, n UInt32")}
FILES = 12
ROWS = [{"p": p, "n": n} for p in range(FILES) for n in range(30)]


@pytest.fixture(
    scope="module",
    params=[pytest.param(2, id="another-node"), pytest.param(1, id="the-connected-node")],
)
def uneven_sandbox(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    config = SandboxConfig(
        shards=3,
        engine=EMBEDDED,
        directory=tmp_path_factory.mktemp("uneven"),
        memory_bytes_per_node=2 * 1024**3,
    )
    write_uneven_profile(config, request.param)
    with running_sandbox(config) as sandbox:
        yield replace(sandbox, user=VISITOR, password=VISITOR)


@pytest.fixture
def lab(uneven_sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """A table, and as many partitions and files, of which each node reads some."""
    lab = lab_in(uneven_sandbox, monkeypatch)
    for p in range(FILES):
        lab.put(f"in/{p}.csv", "".join(f"{p},{n}\n" for n in range(30)).encode())
    lab.create("t", "p UInt8, n UInt32", "MergeTree PARTITION BY p ORDER BY n")
    return lab


def test_loads_hold_each_row_once(lab: Lab) -> None:
    table = f"{lab.database}.t"
    for number, mode in enumerate(({}, {}, {"mode": "replace_partitions"}, {"mode": "replace_table"})):
        operator = lab.operator("in/*.csv", table, task_id=f"load{number}", **HOW, **mode)
        operator.execute(lab.context(operator))
        assert bag(lab.rows(table)) == bag(ROWS)
        assert operator.sql == "" or "input_format_allow_errors_num = 0" in operator.sql
    assert lab.left_overs() == []


def test_rows_are_sent_to_their_shards(lab: Lab) -> None:
    table = lab.distribute(f"{lab.database}.t", "n")
    lab.load("in/*.csv", table, **HOW)
    assert bag(lab.rows(f"{lab.database}.t")) == bag(ROWS)


@pytest.mark.parametrize("mode", ["append", "direct"])
def test_a_bad_row_fails_the_load(lab: Lab, mode: str) -> None:
    for p in range(FILES):
        lab.put(f"bad/{p}.csv", f"{p},1\n{p},many\n".encode())
    table = f"{lab.database}.t"
    with pytest.raises(ChS3Error, match=coded("value-does-not-fit", "many")):
        lab.load("bad/*.csv", table, mode=mode, **HOW)
    if mode == "append":
        assert lab.rows(table) == []
