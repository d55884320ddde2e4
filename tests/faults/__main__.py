"""``python -m tests.faults --runs 200 --seed 7``: random faults on a real Airflow, with a report.

``--points`` kills the worker at every named point of every mode instead. ``--watchers`` runs watchers of new
files, and loads of their events, without Airflow.
"""

from __future__ import annotations

import argparse
import secrets
import signal
import sys
from collections.abc import Mapping

from ch_s3_lab.sandbox import SandboxConfig
from tests.faults.harness import Harness, running_harness
from tests.faults.judge import Outcome
from tests.faults.oracle import MODES, REJECT
from tests.faults.plans import CLOUD_WEIGHTS, REPLICATED_WEIGHTS, WEIGHTS, Kind, Plan, random_plan, random_way
from tests.faults.points import Traces, kill_plans
from tests.faults.report import format_report, is_good
from tests.faults.sources import AZURE, STORES
from tests.faults.watchers import format_walks, walk_all
from tests.sandbox.topologies import CLOUD, TOPOLOGIES

CLUSTERS = {
    "shards": (SandboxConfig(shards=3), WEIGHTS),
    "replicated": (TOPOLOGIES["on-cluster"], REPLICATED_WEIGHTS),
    "replicated-old": (TOPOLOGIES["old"], REPLICATED_WEIGHTS),
    "database": (TOPOLOGIES["database"], REPLICATED_WEIGHTS),
    "database-old": (TOPOLOGIES["old-database"], REPLICATED_WEIGHTS),
    "cloud": (TOPOLOGIES[CLOUD], CLOUD_WEIGHTS),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--runs", type=int, default=200, help="how many random runs (200)")
    parser.add_argument("--seed", type=int, default=None, help="of the series to repeat (default: a new one)")
    parser.add_argument("--only", type=int, default=None, help="run only the run of this number in the series")
    parser.add_argument("--points", action="store_true", help="kill the worker at every named point instead")
    parser.add_argument("--watchers", action="store_true", help="run watchers of new files instead")
    parser.add_argument("--cluster", choices=CLUSTERS, default="shards", help="which cluster (shards)")
    parser.add_argument("--kind", type=Kind, choices=list(Kind), help="run only this kind of fault")
    parser.add_argument("--mode", choices=MODES, help="run only this mode of load")
    parser.add_argument(
        "--forked",
        action="store_true",
        help="fork tasks without Airflow, five times as fast; omits faults that need it",
    )
    options = parser.parse_args()
    seed = secrets.randbelow(10**6) if options.seed is None else options.seed
    # an exit, so that the cluster and Airflow are stopped
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    config, weights = CLUSTERS[options.cluster]
    if options.kind:
        weights = {options.kind: 1}
    is_balanced = options.cluster == "cloud"
    with running_harness(
        config, has_airflow=not (options.forked or options.watchers), is_balanced=is_balanced
    ) as harness:
        if options.points:
            plans = point_plans(harness, [options.mode] if options.mode else modes_of(harness))
        else:
            print(f"seed {seed}", flush=True)
            numbers = range(options.runs) if options.only is None else [options.only]
            if options.watchers:
                return run_watchers(harness, seed, numbers)
            plans = random_plans(harness, seed, numbers, weights, options)
        outcomes = harness.run_all(plans, on_outcome=say)
    print(format_report(outcomes))
    return 0 if is_good(outcomes) else 1


def run_watchers(harness: Harness, seed: int, numbers: range | list[int]) -> int:
    walks = []
    for walk in walk_all(harness, seed, numbers):
        walks.append(walk)
        print(walk, flush=True)
    print(format_walks(walks))
    return int(any(walk.wrong for walk in walks))


def modes_of(harness: Harness) -> list[str]:
    """List the modes that the cluster can run: older servers do not number the lines of a file."""
    return [mode for mode in MODES if mode != REJECT or harness.sandbox.replicas == 1]


def random_plans(
    harness: Harness,
    seed: int,
    numbers: range | list[int],
    weights: Mapping[Kind, int],
    options: argparse.Namespace,
) -> list[Plan]:
    modes = modes_of(harness)
    chosen = {}
    for number in numbers:
        kind, way = random_way(seed, number, weights, modes)
        if options.mode in (None, way[0]) and not (options.forked and kind.needs_airflow):
            chosen[number] = way
    points = Traces(harness=harness).of(chosen.values())
    # The servers of 24.8 take no key of Azure from a connection.
    stores = [store for store in STORES if store != AZURE or not options.cluster.endswith("-old")]
    return [random_plan(seed, number, points, weights, modes, stores) for number in chosen]


def point_plans(harness: Harness, modes: list[str]) -> list[Plan]:
    points = Traces(harness=harness).of((mode, is_deferred) for mode in modes for is_deferred in (False, True))
    return [plan for (mode, way), found in points.items() for plan in kill_plans(mode, way, found.writes)]


def say(outcome: Outcome) -> None:
    print(outcome, flush=True)


if __name__ == "__main__":
    sys.exit(main())
