"""``python -m tests.combinations --ways 3 --seed 7``: cases of any two or three levels, compared with an oracle."""

from __future__ import annotations

import argparse
import secrets
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

from ch_s3_lab.sandbox import SandboxConfig
from ch_s3_lab.sandbox.given import given_or_running_sandbox
from tests.combinations.array import cover
from tests.combinations.factors import FACTORS, ORC, Case, case_of
from tests.combinations.process import run_case
from tests.combinations.together import NEW, goes_together, refused_cases
from tests.sandbox.topologies import TOPOLOGIES

CLUSTERS = {
    "shards": SandboxConfig(),
    "replicated": TOPOLOGIES["on-cluster"],
    "replicated-old": TOPOLOGIES["old"],
    "database": TOPOLOGIES["database"],
    "old-database": TOPOLOGIES["old-database"],
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.combinations", description=__doc__)
    parser.add_argument("--ways", type=int, choices=(2, 3), default=3, help="of any so many factors (3)")
    parser.add_argument("--seed", type=int, default=None, help="of the cases to try again (default: a new one)")
    parser.add_argument("--jobs", type=int, default=4, help="processes (4)")
    parser.add_argument("--cluster", choices=CLUSTERS, default="shards", help="which cluster (shards)")
    parser.add_argument("--case", action="append", default=[], help="factor=level: a single case; repeatable")
    options = parser.parse_args()
    seed = secrets.randbelow(10**6) if options.seed is None else options.seed
    if options.case:
        cases = [case_of(**dict(one.split("=", 1) for one in options.case))]
    else:
        found, impossible = cover(FACTORS, options.ways, goes_together, seed)
        cases = [*map(Case, found), *refused_cases()]
        if CLUSTERS[options.cluster].engine == "25.8":  # its servers crash now and then while they read ORC
            cases = [case for case in cases if case["format"] != ORC]
        if CLUSTERS[options.cluster].database_engine == "Replicated":  # a new table would have replicas on all nodes
            cases = [case for case in cases if not case.is_in(cluster="one node", kind=NEW)]
        print(f"seed {seed}: {len(cases)} runs; {len(impossible)} tuples are impossible", flush=True)
    failed = refused = 0
    with (
        given_or_running_sandbox(CLUSTERS[options.cluster]) as sandbox,
        ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool,
    ):
        running = [pool.submit(run_case, sandbox.to_json(), case) for case in cases]
        for done, future in enumerate(as_completed(running), 1):
            outcome = future.result()
            refused += outcome.refused
            if outcome.failures:
                failed += 1
                print(f"--- {outcome}", flush=True)
            if not done % 20:
                print(f"{done} of {len(cases)}, {failed} failed", flush=True)
    print(f"seed {seed}: {len(cases)} runs, {refused} refused as they have to be, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
