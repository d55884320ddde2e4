"""``ch-s3 tune``: measure the constants of the plan on your cluster, with a sample of your files."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from airflow_provider_ch_s3.cli.parser import Subparsers, amount_of
from airflow_provider_ch_s3.cli.request import add_load_arguments, read_load
from airflow_provider_ch_s3.cli.screen import clean_output, print_text
from airflow_provider_ch_s3.common.bars import show_steps
from airflow_provider_ch_s3.common.text import count_of, format_bytes, format_seconds
from airflow_provider_ch_s3.errors import ConfigError

if TYPE_CHECKING:
    from airflow_provider_ch_s3.load.prepare import PreparedLoad
    from airflow_provider_ch_s3.trials.measurement import Measurement

BAR_SECONDS = 0.25
LONGEST_BAR = 60


def add_parser(subparsers: Subparsers) -> None:
    """Register ``tune``."""
    parser = subparsers.add_parser(
        "tune",
        help="measure the constants of the plan on your cluster, with a sample of your files",
        description=__doc__,
        examples=("ch-s3 tune --source 's3://flights/dt=2013-*/*.parquet' --table flights",),
    )
    add_load_arguments(parser)
    parser.add_argument(
        "--max-seconds",
        type=amount_of("a number of seconds"),
        default=600,
        help="ask before taking longer (default: 600)",
    )
    parser.add_argument(
        "--max-memory-ratio",
        type=amount_of("a share of the memory"),
        help="ask before using more of a node's memory (default: the connection's share)",
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument(
        "--save", action="store_true", help="write the result into the connection, in Airflow's database"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Search, show each load, print the result."""
    from airflow_provider_ch_s3.hooks.lookup import check_stored_connection, clickhouse_hook, store_extra
    from airflow_provider_ch_s3.trials.search import MOST_LOADS, plan_sample, search

    if args.save:
        check_stored_connection(args.conn_id)
    with ExitStack() as stack:
        with clean_output(shows_steps=True):
            hook = stack.enter_context(clickhouse_hook(args.conn_id))
            sample = plan_sample(read_load(args, hook))
        _confirm(args, sample)
        with show_steps("loads of the sample", MOST_LOADS) as advance:
            found = search(hook, sample, lambda measured: _show(measured, advance))
    print_text(
        "median times until settled: "
        + ", ".join(f"{name} {seconds:.2f} s" for name, seconds in found.seconds.items())
    )
    if found.calibration.core_seconds_per_gib is None:
        print("these files have too few rows to measure the time for a GiB; tune with more or larger files")
    extra = {"calibration": found.calibration.as_dict()}
    if args.save:
        store_extra(args.conn_id, extra)
        print(f"saved in the extra of connection {args.conn_id!r}:")
    else:
        print(f"for the extra of connection {args.conn_id!r} (--save writes it there):")
    print(json.dumps(extra))
    return 0


def _confirm(args: argparse.Namespace, sample: PreparedLoad) -> None:
    """Print what will happen, and ask if it exceeds what is allowed.

    :raises ConfigError: if the answer is not yes, or there is no terminal to ask on.
    """
    from airflow_provider_ch_s3.trials.measure import QUIET_SECONDS
    from airflow_provider_ch_s3.trials.search import MOST_LOADS

    expected, cluster = sample.plan.prediction, sample.cluster
    seconds = MOST_LOADS * (expected.settled_seconds + QUIET_SECONDS)
    ratio = expected.peak_memory_bytes / cluster.weakest.memory_bytes
    print_text(
        f"up to {MOST_LOADS} loads of {count_of(len(sample.source.files), 'file')},"
        f" {format_bytes(sample.source.size_bytes)}, into a scratch table next to {sample.target.local}: about"
        f" {format_seconds(seconds)}, {format_bytes(expected.peak_memory_bytes)} of memory per node ({ratio:.0%})"
    )
    most_memory = args.max_memory_ratio if args.max_memory_ratio is not None else cluster.ingest_memory_ratio
    if args.yes or (seconds <= args.max_seconds and ratio <= most_memory):
        return
    limits = f"{format_seconds(args.max_seconds)} or {most_memory:.0%} of the memory"
    if not sys.stdin.isatty() or input(f"this is more than {limits}; continue? [y/N] ").strip().lower() != "y":
        raise ConfigError(
            "tuning-too-expensive",
            f"not tuned: it would take more than {limits}; raise --max-seconds or --max-memory-ratio, or give --yes",
        )


def _show(measured: Measurement, advance: Callable[[], None]) -> None:
    bar = "#" * min(LONGEST_BAR, round(measured.settled_seconds / BAR_SECONDS))
    print_text(f"{measured}\n  {bar}")
    advance()
