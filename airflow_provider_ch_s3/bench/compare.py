"""Candidates side by side: every round loads with each of them, in changing order."""

from __future__ import annotations

import dataclasses
import itertools
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from airflow_provider_ch_s3.bench.arena import Arena
from airflow_provider_ch_s3.bench.measure import measure_load, measure_push, prepare_workload, with_settings
from airflow_provider_ch_s3.bench.pushes import PUSHES
from airflow_provider_ch_s3.bench.score import (
    BEST,
    CEILING,
    DEFAULTS,
    FORMULA,
    OURS,
    Measurement,
    Result,
    best_of_grid,
)
from airflow_provider_ch_s3.bench.workloads import Workload
from airflow_provider_ch_s3.cluster import NodeSpec
from airflow_provider_ch_s3.tuning import SettingValue
from airflow_provider_ch_s3.units import MIB, format_bytes

log = logging.getLogger(__name__)

Settings = Mapping[str, SettingValue]

PUSHED = "W1"
"""The workload that workers push, too: row by row they take minutes for it."""


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How much is tried.

    :param rounds: loads of each candidate.
    :param threads: values of ``max_insert_threads`` in the grid; ``readers`` of ``max_threads``.
    :param blocks: values of ``min_insert_block_size_bytes``, in MiB.
    :param pushes: names of what users do today instead, for the first workload.
    """

    rounds: int
    threads: Sequence[int]
    readers: Sequence[int]
    blocks: Sequence[int]
    pushes: Sequence[str] = tuple(PUSHES)

    def grid(self) -> list[Settings]:
        """Every combination."""
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


def rotate(names: list[str], number: int) -> list[str]:
    """Another one begins in each round: whatever lingers of a load meets all candidates alike."""
    start = number % len(names)
    return names[start:] + names[:start]


def published_formula(node: NodeSpec) -> Settings:
    """What the formula gives as it stands, with all of a node's memory.

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
    """A point of the grid in a few characters."""
    block = format_bytes(int(point["min_insert_block_size_bytes"]))
    return f"{point['max_insert_threads']} writers, {block}, {point['max_threads']} readers"
