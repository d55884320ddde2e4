"""``python -m tests.values --pairs 20000 --seed 7 --engine 25.8``: texts and values, compared with an oracle."""

from __future__ import annotations

import argparse
import logging
import secrets
import sys
from collections import Counter
from itertools import chain

import pytest

import tests.conftest  # noqa: F401  Airflow's configuration, before anything imports it
from ch_s3_lab.sandbox import SandboxConfig
from ch_s3_lab.sandbox.config import EMBEDDED, SERVERS
from ch_s3_lab.sandbox.given import given_or_running_sandbox
from tests.sandbox.conftest import lab_in
from tests.values.harness import Harness, Outcome, run_series
from tests.values.lanes import LANES
from tests.values.typed import run_typed

TYPED = "typed"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.values", description=__doc__)
    parser.add_argument("--pairs", type=int, default=20_000, help="how many pairs (20,000)")
    parser.add_argument("--seed", type=int, default=None, help="of the pairs to try again (default: a new one)")
    parser.add_argument("--engine", choices=(EMBEDDED, *SERVERS), default=EMBEDDED, help=f"ClickHouse ({EMBEDDED})")
    parser.add_argument(
        "--lane", choices=[TYPED, *(lane.name for lane in LANES)], action="append", help="only this way; repeatable"
    )
    options = parser.parse_args()
    seed = secrets.randbelow(10**6) if options.seed is None else options.seed
    config = SandboxConfig(shards=1, engine=options.engine)
    logging.disable(logging.CRITICAL)
    print(f"seed {seed}, engine {options.engine}", flush=True)
    lanes = [lane for lane in LANES if not options.lane or lane.name in options.lane]
    total = Outcome()
    with pytest.MonkeyPatch.context() as patch, given_or_running_sandbox(config) as sandbox:
        lab = lab_in(sandbox, patch)
        lab.connect_one_node()
        harness = Harness(lab=lab, version=options.engine)
        of_text = (
            ()
            if options.lane == [TYPED]
            else run_series(harness, pairs=options.pairs * 3 // 4, seed=seed, lanes=lanes)
        )
        of_types = (
            run_typed(harness, pairs=options.pairs // 4, seed=seed)
            if not options.lane or TYPED in options.lane
            else ()
        )
        for what, outcome in chain(of_text, of_types):
            total.add(outcome)
            print(
                f"{what}: {outcome.pairs} pairs, {outcome.loaded} loaded, {outcome.refused} refused,"
                f" {len(outcome.findings)} findings",
                flush=True,
            )
            for finding in outcome.findings:
                print(f"  {finding}", flush=True)
    print(f"seed {seed}, engine {options.engine}: {total.pairs:,} pairs, {len(total.findings)} findings")
    for (lane, kind), count in sorted(Counter((one.lane, one.type) for one in total.findings).items()):
        print(f"  {count:5} {lane} {kind}")
    return 1 if total.findings else 0


if __name__ == "__main__":
    sys.exit(main())
