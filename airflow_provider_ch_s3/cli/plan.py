"""``ch-s3 plan``: show what a load would do, without running it."""

from __future__ import annotations

import argparse
import dataclasses
import uuid
from typing import TYPE_CHECKING

from airflow_provider_ch_s3.cli.request import add_load_arguments, parse_assignment, read_load
from airflow_provider_ch_s3.errors import ConfigError

if TYPE_CHECKING:
    # Known to type checkers only.
    from argparse import _SubParsersAction


def add_parser(subparsers: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register ``plan``."""
    parser = subparsers.add_parser(
        "plan", help="print the settings and the SQL of a load, with reasons, and run nothing", description=__doc__
    )
    add_load_arguments(parser)
    parser.add_argument(
        "--all",
        action="store_true",
        help="also show the settings that neither differ from the server's own nor protect the data",
    )
    parser.add_argument(
        "--validate",
        action="store_true",
        help="also stage, verify and check the rows as a load does, print its report, and drop them",
    )
    parser.add_argument(
        "--sample-files", type=int, default=0, metavar="N", help="with --validate: only so many of the files"
    )
    parser.add_argument(
        "--check",
        type=parse_assignment,
        action="append",
        default=[],
        metavar="NAME=CONDITION",
        help="with --validate: SQL condition that aggregates the staged rows; repeatable",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the plan and the statement, or validate the files.

    :raises ConfigError: if arguments are missing that others need.
    """
    if args.validate:
        return _validate(args)
    if args.sample_files or args.check:
        raise ConfigError("--sample-files and --check say what to validate; add --validate, or leave them out")
    from airflow_provider_ch_s3.clickhouse.statement import shorten_lines
    from airflow_provider_ch_s3.create.make import describe_table
    from airflow_provider_ch_s3.hooks.lookup import clickhouse_hook
    from airflow_provider_ch_s3.load.plan_text import format_plan
    from airflow_provider_ch_s3.sql.filters import literal, parameter

    with clickhouse_hook(args.conn_id) as hook:
        load = read_load(args, hook)
        prepared = load.prepare()
    for note in prepared.cluster.notes:
        print(f"note: {note}")
    if prepared.new_table:
        print(f"{describe_table(prepared.new_table)}\n")
    print(format_plan(prepared, show_all=args.all))
    statement = prepared.insert(load.identity)
    text = statement.text
    for name in statement.parameters:
        text = text.replace(parameter(name), literal("***"))
    print(f"\n{shorten_lines(text)}")
    return 0


def _validate(args: argparse.Namespace) -> int:
    from airflow_provider_ch_s3.hooks.lookup import clickhouse_hook

    if args.sample_files < 0:
        raise ConfigError(f"--sample-files {args.sample_files} is no number of files; give 1 or more")
    with clickhouse_hook(args.conn_id) as hook:
        # Each validation is a run of its own, so that two of them do not disturb each other.
        run_id = f"validate-{uuid.uuid4().hex[:8]}"
        load = read_load(args, hook, run_id=run_id, validate_only=True, checks=dict(args.check))
        load.request = dataclasses.replace(load.request, sample_files=args.sample_files)
        print(load.run())
    return 0
