"""``ch-s3 loads``: what the ledger remembers of loads."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # Known to type checkers only.
    from argparse import _SubParsersAction


def add_parser(subparsers: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register ``loads``."""
    parser = subparsers.add_parser("loads", help="list loads, show one, forget old ones", description=__doc__)
    parser.add_argument("--conn-id", default="clickhouse_s3_default", help="Airflow connection to ClickHouse")
    parser.add_argument("--database", help="database of the ledger; that of the connection when left out")
    parser.add_argument("--cluster", help="whose nodes hold the ledger; that of the connection when left out")
    parser.add_argument("--limit", type=int, default=50, help="how many of the latest to list")
    parser.set_defaults(run=run, action="list")
    actions = parser.add_subparsers(title="actions", metavar="ACTION")
    show = actions.add_parser("show", help="show what happened to one load")
    show.add_argument("load_id", metavar="LOAD_ID", help="as the list shows it")
    show.set_defaults(action="show")
    prune = actions.add_parser(
        "prune",
        help="forget old loads that are over; files that a table holds stay known",
    )
    prune.add_argument("--older-than-days", type=float, required=True, help="age of what may go")
    prune.set_defaults(action="prune")


def run(args: argparse.Namespace) -> int:
    """List, show or prune."""
    from airflow_provider_ch_s3.cli.connections import clickhouse_hook
    from airflow_provider_ch_s3.exactly_once.ledger import ledger_name
    from airflow_provider_ch_s3.load.ledger_view import format_load, format_loads, read_ledger
    from airflow_provider_ch_s3.sql.load_queries import render_read_session

    with clickhouse_hook(args.conn_id) as hook:
        declared = hook.declaration
        database = args.database or hook.query(render_read_session())[0]["database"]
        view = read_ledger(hook, args.cluster or declared.cluster, ledger_name(declared.ledger_table, database))
        match args.action:
            case "show":
                print(format_load(view, args.load_id))
            case "prune":
                print(f"forgot {view.prune(args.older_than_days)} attempts")
            case _:
                print(format_loads(view, limit=args.limit))
    return 0
