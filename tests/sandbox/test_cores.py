"""Nodes that count more cores than the machine has: a load leaves four parts on a node, and nothing is merged."""

from __future__ import annotations

import shutil

import pytest

from airflow_provider_ch_s3.trials.measurement import OURS
from ch_s3_lab.bench.arena import open_sandbox
from ch_s3_lab.bench.scripts.cores import MEMORY_BYTES, measure
from ch_s3_lab.bench.store import running_store
from ch_s3_lab.bench.workloads import Dataset, Hardware, Workload
from ch_s3_lab.errors import SandboxError
from ch_s3_lab.sandbox.config import EMBEDDED
from ch_s3_lab.sandbox.engine import package_of
from ch_s3_lab.sandbox.zookeeper import find_classpath

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.push,
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler (cc), which makes a node count other cores"),
]

# A quarter of a KiB of memory for each row, and next to nothing in the store.
COLUMNS = {"n": ("UInt64", "cityHash64(number)"), "text": ("String", "repeat(toString(number % 10), 239)")}


def workload(rows: int) -> Workload:
    dataset = Dataset(name=f"cores-{rows}", row_count=rows, file_count=24, columns=COLUMNS)
    return Workload(name="cores", title="", dataset=dataset, order_by=("n",))


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("cores", "engine", "rows", "writers", "parts"),
    [
        # 300 MiB
        pytest.param(64, EMBEDDED, 1_200_000, 4, 4, id="64-cores"),
        pytest.param(64, EMBEDDED, 200_000, 1, 1, id="few-rows"),
        pytest.param(16, "25.8", 1_200_000, 4, 4, id="a-whole-server"),
    ],
)
def test_parts_and_merges(cores: int, engine: str, rows: int, writers: int, parts: int) -> None:
    if engine != EMBEDDED:
        try:
            package_of(engine)
            find_classpath(None)
        except SandboxError as error:
            pytest.skip(str(error))
    hardware = Hardware(cores=cores, memory_bytes=MEMORY_BYTES, engine=engine)
    with running_store(is_built_in=True) as store, open_sandbox(hardware, store) as arena:
        assert arena.hook.cluster_spec.weakest.vcpus == cores
        (found,) = measure(arena, workload(rows), cores, candidates=(OURS,))
    assert found["settings"]["max_insert_threads"] == writers
    assert found["rows"] == rows
    assert 1 <= found["new_parts"] <= parts
    assert (found["merges"], found["written_per_kept"]) == (0, 1.0)
