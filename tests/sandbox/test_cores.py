"""Nodes that count more cores than the machine has: a load leaves four parts on a node, and nothing is merged."""

from __future__ import annotations

import shutil

import pytest

from airflow_provider_ch_s3.trials.measurement import OURS
from ch_s3_lab.bench.arena import open_sandbox
from ch_s3_lab.bench.scripts.cores import MEMORY_BYTES, Row, measure
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

# A quarter of a KiB of memory for each row, and next to nothing in the store. Each file has a day.
COLUMNS = {
    "day": ("UInt64", "intDiv(number * 24, row_count)"),
    "n": ("UInt64", "cityHash64(number)"),
    "text": ("String", "repeat(toString(number % 10), 239)"),
}


ROWS = 1_200_000  # 300 MiB
FILES = 24


def workload(rows: int, partition_by: str = "") -> Workload:
    dataset = Dataset(name=f"cores-{rows}", row_count=rows, file_count=FILES, columns=COLUMNS)
    return Workload(name="cores", title="", dataset=dataset, order_by=("n",), partition_by=partition_by)


def load(cores: int, engine: str, workload: Workload, memory_bytes: int = MEMORY_BYTES) -> Row:
    """Load with the plan for nodes that count so many cores."""
    if engine != EMBEDDED:
        try:
            package_of(engine)
            find_classpath(None)
        except SandboxError as error:
            pytest.skip(str(error))
    hardware = Hardware(cores=cores, memory_bytes=memory_bytes, engine=engine)
    with running_store(is_built_in=True) as store, open_sandbox(hardware, store) as arena:
        assert arena.hook.cluster_spec.weakest.vcpus == cores
        (found,) = measure(arena, workload, cores, candidates=(OURS,))
    assert found["rows"] == workload.dataset.row_count
    return found


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("cores", "engine", "rows", "partition_by", "writers", "parts"),
    [
        pytest.param(64, EMBEDDED, ROWS, "", 4, 4, id="64-cores"),
        pytest.param(64, EMBEDDED, 200_000, "", 1, 1, id="few-rows"),
        pytest.param(16, "25.8", ROWS, "", 4, 4, id="a-whole-server"),
        # Four blocks of 75 MiB, each with rows of all days; five blocks might leave five parts of a day.
        pytest.param(64, EMBEDDED, ROWS, "day", 4, 4 * FILES, id="by-day"),
    ],
)
def test_parts_and_merges(cores: int, engine: str, rows: int, partition_by: str, writers: int, parts: int) -> None:
    found = load(cores, engine, workload(rows, partition_by))
    assert found["settings"]["max_insert_threads"] == writers
    assert 1 <= found["new_parts"] <= parts
    assert (found["merges"], found["written_per_kept"]) == (0, 1.0)


@pytest.mark.thorough
def test_rows_that_do_not_fit_into_four_blocks_are_merged_once() -> None:
    """870 - 420 MiB of 1 GiB hold 15 blocks of 30 MiB, so 300 MiB are ten parts, in one pass.

    Half of 16 cores would write, but 300 MiB are only five blocks of the least size.
    """
    found = load(16, EMBEDDED, workload(ROWS), memory_bytes=2 * 1024**3)
    assert found["settings"]["max_insert_threads"] == 5
    assert 6 <= found["new_parts"] <= 16
    assert found["merges"] >= 1
    assert found["written_per_kept"] <= 1 + 1 + 1  # the pass that is predicted, and another one at most
