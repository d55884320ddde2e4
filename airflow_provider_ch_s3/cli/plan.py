"""``ch-s3 plan``: show what a load would do, without running it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from airflow_provider_ch_s3.cli.request import add_load_arguments, read_load

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
        help="also show the guards that every node has by itself, which the SQL does not name",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the plan and the statement."""
    from airflow_provider_ch_s3.clickhouse.statement import SQL_LINE_LIMIT, shorten_lines
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
    print(f"\n{shorten_lines(text, limit=SQL_LINE_LIMIT)}")
    return 0
