"""``ch-s3 bench``: compare the plan with the server's defaults and with the best settings that a search finds."""

from __future__ import annotations

import argparse
import dataclasses
import os
import platform
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_ch_s3 import __version__
from airflow_provider_ch_s3.cli.parser import Subparsers, count_of_some
from airflow_provider_ch_s3.cli.screen import print_text
from airflow_provider_ch_s3.common.bars import show_steps
from airflow_provider_ch_s3.common.text import format_bytes, show_version
from airflow_provider_ch_s3.errors import ConfigError
from ch_s3_lab.extras import check_extra

if TYPE_CHECKING:
    from ch_s3_lab.bench.arena import Arena
    from ch_s3_lab.bench.score import Result
    from ch_s3_lab.bench.workloads import Workload

# The most informative ones in a short time: many files, small files, text, partitions. With less than half of the
# rows, the defaults produce too few parts for a merge.
QUICK_WORKLOADS = ("W1", "W3", "W5", "W6")
QUICK_SCALE = 0.5
# Disks are finite, and the files stay in the cache.
MAX_SCALE = 100


def add_parser(subparsers: Subparsers) -> None:
    """Register ``bench``."""
    parser = subparsers.add_parser(
        "bench",
        help="compare the plan with the server's defaults and a grid of settings",
        description=__doc__,
        examples=("ch-s3 bench --quick",),
    )
    parser.add_argument("--quick", action="store_true", help="some workloads with fewer rows, under 10 minutes")
    parser.add_argument(
        "--workload", action="append", metavar="NAME", help="W1 to W15; repeatable; default: all but W13 and W14"
    )
    parser.add_argument(
        "--rounds", type=count_of_some("a number of loads"), help="loads of each candidate (5; with --quick 3)"
    )
    parser.add_argument("--scale", type=float, help="share of the rows (1; with --quick 0.5)")
    parser.add_argument("--no-grid", action="store_true", help="skip the search")
    parser.add_argument("--pushes", action="store_true", help="on W1, also workers that push rows; 3 min per round")
    parser.add_argument("--built-in-store", action="store_true", help="use the sandbox's own, slow object store")
    parser.add_argument("--out", type=Path, default=Path("build/bench"), help="directory for results and charts")
    parser.add_argument(
        "--conn-id", help="your own cluster instead of the sandbox; tables are created and dropped there"
    )
    parser.add_argument("--aws-conn-id", default="aws_default", help="with --conn-id: connection to S3")
    parser.add_argument("--bucket", help="with --conn-id: your own bucket, for the files")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Measure, write the report, print the closing line; 1 if the plan is slower than the defaults anywhere."""
    from ch_s3_lab.bench.compare import FULL, QUICK, compare
    from ch_s3_lab.bench.report import format_row, make_seconds, write_page, write_results
    from ch_s3_lab.bench.score import score_results

    effort = QUICK if args.quick else FULL
    effort = dataclasses.replace(
        effort,
        rounds=args.rounds or effort.rounds,
        threads=() if args.no_grid else effort.threads,
        pushes=effort.pushes if args.pushes else (),
    )
    chosen = _choose(args)
    check_extra("ch-s3 bench", "bench", _modules(args))
    results: list[Result] = []
    print_text(str(make_seconds(results)).rstrip("\n"))
    with ExitStack() as stack:
        advance = stack.enter_context(show_steps("workloads", len(chosen)))
        for arena, workload, store_name in _arenas(args, chosen, stack):
            results.append(compare(arena, workload, effort))
            print_text(format_row(results[-1]))
            advance()
            about = _about(args, arena, store=store_name, rounds=effort.rounds)
            write_results(args.out, results, about)
    write_page(args.out, results, about)
    score = score_results(results)
    print_text(f"report: {args.out / 'index.html'}\n{score}")
    return 0 if score.is_good else 1


def _choose(args: argparse.Namespace) -> list[Workload]:
    """Return the requested workloads.

    :raises ConfigError: if a name is unknown, or a number is out of range.
    """
    from ch_s3_lab.bench.workloads import LARGE, Hardware, workloads

    scale = args.scale if args.scale is not None else QUICK_SCALE if args.quick else 1.0
    if not 0 < scale <= MAX_SCALE:
        raise ConfigError(
            "argument-invalid",
            f"--scale {scale} is out of range; give a share of the rows above 0, up to {MAX_SCALE}",
        )
    known = workloads(scale=scale)
    if unknown := sorted(set(args.workload or ()) - set(known)):
        raise ConfigError("argument-invalid", f"there is no workload {unknown[0]!r}; choose from {', '.join(known)}")
    names = args.workload or (QUICK_WORKLOADS if args.quick else tuple(name for name in known if name not in LARGE))
    chosen = [known[name] for name in names]
    if args.conn_id:
        # the remaining workloads need hardware that only a sandbox can have
        chosen = [workload for workload in chosen if workload.hardware == Hardware()]
    if not chosen:
        raise ConfigError(
            "arguments-contradict",
            f"only a sandbox has the hardware for {', '.join(names)}; leave --conn-id out, or choose W1",
        )
    return chosen


def _modules(args: argparse.Namespace) -> Iterator[str]:
    yield "matplotlib"
    if args.pushes:
        yield from ("airflow_clickhouse_plugin", "clickhouse_driver", "dlt", "pyarrow")


def _arenas(
    args: argparse.Namespace, chosen: Sequence[Workload], stack: ExitStack
) -> Iterator[tuple[Arena, Workload, str]]:
    """Yield each workload with the place where it runs: workloads for the same hardware share a sandbox."""
    from ch_s3_lab.bench.arena import open_connections, open_sandbox
    from ch_s3_lab.bench.store import running_store

    if args.conn_id:
        if not args.bucket:
            raise ConfigError(
                "argument-missing", "--conn-id needs --bucket, a bucket to which the benchmark may write its files"
            )
        arena = stack.enter_context(open_connections(args.conn_id, args.aws_conn_id, bucket=args.bucket))
        for workload in chosen:
            yield arena, workload, args.aws_conn_id
        return
    store = stack.enter_context(running_store(is_built_in=args.built_in_store))
    for hardware, group in groupby(chosen, key=attrgetter("hardware")):
        with open_sandbox(hardware, store) as arena:
            for workload in group:
                yield arena, workload, store.name


def _about(args: argparse.Namespace, arena: Arena, *, store: str, rounds: int) -> dict[str, Any]:
    """Describe the conditions of a run."""
    cluster = arena.hook.cluster_spec
    return {
        "package": f"airflow-provider-ch-s3 {__version__}",
        "ClickHouse": show_version(cluster.server_version),
        "machine": f"{os.cpu_count()} cores, {format_bytes(_memory_bytes())}, {platform.machine()}",
        "object store": store,
        "rounds": rounds,
        "workloads": "quick" if args.quick else "full",
    }


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
