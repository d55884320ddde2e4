"""Compare candidates: every round loads with each of them, in rotating order."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from airflow_provider_ch_s3.cluster.spec import NodeSpec
from airflow_provider_ch_s3.common.text import MIB, format_bytes
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.load.prepare import PreparedLoad
from airflow_provider_ch_s3.load.staged import StagedLoad
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.trials.measure import measure_load, new_identity, with_settings
from airflow_provider_ch_s3.trials.measurement import DEFAULTS, OURS, Measurement, rotate
from airflow_provider_ch_s3.tuning import SettingValue
from ch_s3_lab.bench.arena import Arena
from ch_s3_lab.bench.pushes import PUSHES, PushJob
from ch_s3_lab.bench.score import BEST, CEILING, FORMULA, Result, best_of_grid
from ch_s3_lab.bench.workloads import Workload

log = get_log(__name__)

Settings = Mapping[str, SettingValue]

PUSHED = "W1"
"""The only workload that is also pushed by a worker: row by row, that takes minutes."""


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How much is measured.

    :param rounds: loads of each candidate.
    :param threads: values of ``max_insert_threads`` in the grid.
    :param readers: values of ``max_threads`` in the grid.
    :param blocks: values of ``min_insert_block_size_bytes``, in MiB.
    :param pushes: names of the tools that push the first workload (see ``PUSHES``).
    """

    rounds: int
    threads: Sequence[int]
    readers: Sequence[int]
    blocks: Sequence[int]
    pushes: Sequence[str] = tuple(PUSHES)

    def grid(self) -> list[Settings]:
        """List all combinations."""
        return [
            {"max_insert_threads": t, "min_insert_block_size_bytes": b * MIB, "max_threads": r}
            for t, b, r in itertools.product(self.threads, self.blocks, self.readers)
        ]


FULL = Effort(rounds=5, threads=(1, 2, 4), readers=(1, 2, 4), blocks=(64, 128, 256))
QUICK = Effort(rounds=3, threads=(2, 4), readers=(2,), blocks=(64, 256))


def compare(arena: Arena, workload: Workload, effort: Effort) -> Result:
    """Measure a workload with all candidates."""
    arena.make_files(workload.dataset)
    ours = prepare_workload(arena, workload)
    measure = partial(measure_load, arena.hook, partial(arena.table, workload))
    measure(ours, "warm-up")
    grid = [measure(with_settings(ours, {**ours.plan.sent, **point}), describe(point)) for point in effort.grid()]
    candidates = {
        DEFAULTS: with_settings(ours, {}),
        FORMULA: with_settings(ours, published_formula(ours.cluster.weakest)),
        OURS: ours,
    }
    if best := best_of_grid(grid):
        candidates[BEST] = with_settings(ours, best.settings)
    rounds: list[Measurement] = []
    for number in range(effort.rounds):
        for name in rotate(list(candidates), number):
            rounds.append(measure(candidates[name], name))
            log.info("%s %s", workload.name, rounds[-1])
        nowhere = partial(arena.table, workload, engine="Null")
        rounds.append(measure_load(arena.hook, nowhere, ours, CEILING, has_parts=False))
        if arena.sandbox is not None and workload.name == PUSHED:
            rounds += [measure_push(arena, workload, name) for name in effort.pushes]
    predicted = dataclasses.asdict(ours.plan.prediction)
    return Result(workload=workload.name, title=workload.title, rounds=rounds, grid=grid, predicted=predicted)


def prepare_workload(arena: Arena, workload: Workload) -> PreparedLoad:
    """Plan the load of a workload as the operator does."""
    with arena.table(workload) as table:
        return StagedLoad(
            client=arena.hook,
            store=arena.store,
            declaration=arena.hook.declaration,
            request=LoadRequest(source=arena.source(workload.dataset), table=str(table)),
            identity=new_identity(table),
        ).preview()


def measure_push(arena: Arena, workload: Workload, name: str) -> Measurement:
    """Measure the wall-clock time in which a worker pushes the files' rows; a first push imports the libraries."""
    assert arena.sandbox is not None
    seconds = 0.0
    for keys in (workload.dataset.keys[:1], workload.dataset.keys):
        with arena.table(workload) as table:
            job = PushJob(
                sandbox=arena.sandbox, access=arena.store.access(), table=table.table, bucket=arena.bucket, keys=keys
            )
            began = time.monotonic()
            PUSHES[name](job)
            seconds = time.monotonic() - began
    return Measurement(candidate=name, load_seconds=seconds)


def published_formula(node: NodeSpec) -> Settings:
    """Compute settings with the unmodified formula, for all of a node's memory.

    Source: "Supercharging your large ClickHouse data loads", part 2.
    """
    threads = max(1, node.vcpus // 2)
    blocks_in_memory = 3 * threads
    return {
        "max_insert_threads": threads,
        "min_insert_block_size_bytes": node.memory_bytes // blocks_in_memory,
        "min_insert_block_size_rows": 0,
        "insert_deduplicate": 0,
        "optimize_on_insert": 0,
    }


def describe(point: Settings) -> str:
    """Describe a point of the grid in a few words."""
    block = format_bytes(int(point["min_insert_block_size_bytes"]))
    return f"{point['max_insert_threads']} writers, {block}, {point['max_threads']} readers"
