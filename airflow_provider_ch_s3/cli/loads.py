"""``ch-s3 loads``: show what the ledger records of loads."""

from __future__ import annotations

import argparse
import dataclasses
import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from airflow_provider_ch_s3.cli.parser import Subparsers, amount_of, count_of_some, parse_time
from airflow_provider_ch_s3.cli.request import (
    add_more_arguments,
    add_source_argument,
    complete_arguments,
    read_load,
)
from airflow_provider_ch_s3.cli.screen import clean_output, confirm, print_json, print_table, print_text
from airflow_provider_ch_s3.cluster.fields import DEFAULT_CONNECTION
from airflow_provider_ch_s3.common.timing import REAL_TIME

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from airflow_provider_ch_s3.exactly_once.target import Target
    from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
    from airflow_provider_ch_s3.introspection.cluster import ConnectedServer
    from airflow_provider_ch_s3.reporting.values import Selection
    from airflow_provider_ch_s3.reporting.view import LedgerView

RUNNING = "running"
STATES = (RUNNING, "committed", "undone", "abandoned")


def add_parser(subparsers: Subparsers) -> None:
    """Register ``loads``."""
    parser = subparsers.add_parser(
        "loads",
        help="list loads, show one, undo or adopt rows, delete old records",
        description=__doc__,
        examples=(
            "ch-s3 loads --dag flights --since 7d",
            "ch-s3 loads show ch-s3-94e0a3c1d9fd0e6e0f4c",
        ),
    )
    parser.add_argument("--conn-id", default=DEFAULT_CONNECTION, help="Airflow connection to ClickHouse")
    parser.add_argument("--database", help="database of the ledger (default: the connection's)")
    parser.add_argument("--cluster", help="cluster whose nodes hold the ledger (default: the connection's)")
    parser.add_argument("--dag", default="", help="list only the loads of this DAG")
    parser.add_argument("--table", default="", help="list only the loads into this table")
    parser.add_argument("--state", choices=STATES, default="", help="list only the loads in this state")
    parser.add_argument(
        "--since", type=_since, default=0.0, metavar="TIME", help="list only later ones: 7d, 12h or 2026-01-31 (UTC)"
    )
    parser.add_argument(
        "--limit",
        type=count_of_some("a number of loads"),
        default=50,
        help="number of latest loads to list (default: 50)",
    )
    parser.set_defaults(run=run, action="list", timing=REAL_TIME)
    actions = parser.add_subparsers(title="actions", metavar="ACTION")
    show = actions.add_parser(
        "show",
        help="show what happened to one load",
        examples=("ch-s3 loads show ch-s3-94e0a3c1d9fd0e6e0f4c",),
    )
    show.add_argument("load_id", metavar="LOAD_ID", help="as the list shows it")
    show.set_defaults(action="show")
    for shown, what in ((parser, "the list, open attempts and locks"), (show, "the load and its files")):
        shown.add_argument("--json", action="store_true", help=f"print {what} as JSON")
    prune = actions.add_parser(
        "prune",
        help="delete the records of old loads that have ended; files that a table holds remain known",
        examples=("ch-s3 loads prune --older-than-days 90",),
    )
    prune.add_argument(
        "--older-than-days",
        type=amount_of("a number of days"),
        required=True,
        help="minimum age of the records to delete",
    )
    prune.set_defaults(action="prune")
    adopt = actions.add_parser(
        "adopt",
        help="record what a table holds that others have filled: files, or the rows of another table",
        examples=(
            "ch-s3 loads adopt flights --source 's3://flights/dt=2013-*/*.parquet'",
            "ch-s3 loads adopt flights --from flights_old",
        ),
    )
    adopt.add_argument("table", metavar="TABLE", help="table or database.table")
    choice = adopt.add_mutually_exclusive_group()
    add_source_argument(
        choice, help="the files whose rows the table holds, as the operator's source names these files; repeatable"
    )
    choice.add_argument(
        "--from",
        dest="earlier",
        default="",
        metavar="TABLE",
        help="the table that was restored, copied or exchanged (default: one of the same name)",
    )
    choice.add_argument("--anew", action="store_true", help="the table holds no file: load all of them")
    add_more_arguments(adopt)
    adopt.add_argument(
        "--yes", action="store_true", help="with --source: record files without footers, or with more or fewer rows"
    )
    adopt.set_defaults(action="adopt")
    undo = actions.add_parser(
        "undo",
        help="remove the rows of a load from its table; its files can be loaded again",
        examples=(
            "ch-s3 loads undo ch-s3-94e0a3c1d9fd0e6e0f4c --dry-run",
            "ch-s3 loads undo ch-s3-94e0a3c1d9fd0e6e0f4c",
        ),
    )
    undo.add_argument("load_id", metavar="LOAD_ID", help="as the list shows it, or the query id of one INSERT of it")
    consent = undo.add_mutually_exclusive_group()
    consent.add_argument("--dry-run", action="store_true", help="say what would be removed, and remove nothing")
    consent.add_argument("--yes", action="store_true", help="remove the rows without asking")
    undo.add_argument(
        "--abandon",
        action="store_true",
        help="first end what a try of its task has begun that died for good, and will not be tried again",
    )
    undo.set_defaults(action="undo")


def _since(text: str) -> float:
    """Parse ``7d``, ``12h`` or a day; return how many days ago the time is."""
    try:
        if match := re.fullmatch(r"(\d+(?:\.\d+)?)([dh])", text):
            return float(match[1]) / (1 if match[2] == "d" else 24)
        ago = datetime.now(UTC) - parse_time(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time; write 7d, 12h or 2026-01-31") from None
    if ago.total_seconds() <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not in the past")
    return ago.total_seconds() / 86_400


def run(args: argparse.Namespace) -> int:
    """List, show, prune, adopt or undo."""
    with clean_output():
        answer = _answer(args)
    answer()
    return 0


def _answer(args: argparse.Namespace) -> Callable[[], None]:
    """Do what is asked; return a function that prints the answer."""
    from airflow_provider_ch_s3.common.text import count_of
    from airflow_provider_ch_s3.exactly_once.ledger import ledger_name
    from airflow_provider_ch_s3.hooks.lookup import clickhouse_hook
    from airflow_provider_ch_s3.introspection.cluster import read_server
    from airflow_provider_ch_s3.reporting.prune import prune
    from airflow_provider_ch_s3.reporting.text import HEADS, IMPORTANT, WHY, format_load, tabulate_loads
    from airflow_provider_ch_s3.reporting.view import LedgerView

    with clickhouse_hook(args.conn_id) as hook:
        declared, server = hook.declaration, read_server(hook)
        _check_names(args, server)
        ledger = ledger_name(declared.ledger_table, args.database or server.database)
        view = LedgerView(client=hook, cluster=args.cluster or declared.cluster, ledger=ledger)
        match args.action:
            case "show" if args.json:
                return partial(_print_values, view.load_files(args.load_id))
            case "show":
                return partial(print_text, format_load(view, args.load_id))
            case "prune":
                deleted = count_of(prune(view, args.older_than_days), "attempt")
                return partial(print_text, f"deleted the records of {deleted}")
            case "adopt":
                return partial(print_text, _adopt(hook, args))
            case "undo":
                return partial(print_text, _undo(hook, view, args))
            case _ if args.json:
                return partial(_print_values, view.page(_select(view, args, server)))
            case _:
                selection = _select(view, args, server)
                if not (rows := tabulate_loads(view, selection)):
                    view.check_there(selection)
                    return partial(print_text, f"the ledger {ledger} has no load that these options select")
                return partial(print_table, HEADS, rows, important=IMPORTANT, note=WHY)


def _select(view: LedgerView, args: argparse.Namespace, server: ConnectedServer) -> Selection:
    from airflow_provider_ch_s3.reporting.values import OPEN, Selection
    from airflow_provider_ch_s3.table.target import parse_table

    table = str(parse_table(args.table, args.database or server.database)) if args.table else ""
    return Selection(
        table=view.find_table(table),
        dag=args.dag,
        states=OPEN if args.state == RUNNING else tuple(filter(None, [args.state])),
        days=args.since,
        limit=args.limit,
    )


def _check_names(args: argparse.Namespace, server: ConnectedServer) -> None:
    """Check that the names in the options exist on the connected server.

    :raises ConfigError: if a name does not.
    """
    from airflow_provider_ch_s3.common.text import show_name
    from airflow_provider_ch_s3.errors import ConfigError

    for option, name, what, known in (
        ("--database", args.database, "database", server.engines),
        ("--cluster", args.cluster, "cluster", server.clusters),
    ):
        if name and name not in known:
            raise ConfigError(
                "load-unknown",
                f"{option} {name!r}: the connected server has no {what} of this name that the user may see; it has"
                f" {', '.join(map(show_name, sorted(known))) or 'none'}",
            )


def _adopt(hook: ClickHouseS3Hook, args: argparse.Namespace) -> str:
    from airflow_provider_ch_s3.load.adopt import adopt, adopt_files

    target = _find_target(hook, args, args.table)
    if not args.source:
        return adopt(target, source=args.earlier, is_anew=args.anew)
    load = read_load(complete_arguments(args), hook)
    question, otherwise = "record these files as loaded?", "nothing was recorded"
    ask = partial(confirm, question=question, otherwise=otherwise, is_sure=args.yes)
    return adopt_files(target, load, confirm=ask)


def _undo(hook: ClickHouseS3Hook, view: LedgerView, args: argparse.Namespace) -> str:
    from airflow_provider_ch_s3.errors import ConfigError, LoadError
    from airflow_provider_ch_s3.introspection.table import read_table
    from airflow_provider_ch_s3.load.undo import undo
    from airflow_provider_ch_s3.table.target import parse_table

    if not args.load_id:
        raise ConfigError(
            "argument-missing", "undo takes one load back: give the id of that load, as `ch-s3 loads` lists it"
        )
    first, *_ = view.load_files(args.load_id).attempts
    table = parse_table(first.named, parse_table(first.table, "").database)
    if not read_table(hook, table, None):
        raise LoadError(
            "table-missing",
            f"{args.load_id} was loaded into {table}, which is not there any more, or which this user may not see; if"
            " that table was renamed, give it this name again (RENAME TABLE), undo the load, and rename it back",
        )
    target = _find_target(hook, args, str(table))
    ask = partial(confirm, question="remove these rows?", otherwise="nothing was removed", is_sure=args.yes)
    return undo(target, args.load_id, confirm=None if args.dry_run else ask, abandons_open=args.abandon)


def _find_target(hook: ClickHouseS3Hook, args: argparse.Namespace, table: str) -> Target:
    from airflow_provider_ch_s3.identity import LoadIdentity
    from airflow_provider_ch_s3.load.wiring import find_target

    declaration = hook.declaration
    if args.cluster:
        declaration = dataclasses.replace(declaration, cluster=args.cluster)
    run_id = getattr(args, "load_id", "")
    identity = LoadIdentity(dag_id="ch-s3", task_id=args.action, run_id=run_id, table=table, since=datetime.now(UTC))
    return find_target(hook, declaration, identity, timing=args.timing)


def _print_values(page: DataclassInstance) -> None:
    print_json(dataclasses.asdict(page))
