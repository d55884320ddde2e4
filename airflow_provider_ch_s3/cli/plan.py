"""``ch-s3 plan``: show what a load would do, without running the load."""

from __future__ import annotations

import argparse
import dataclasses
import uuid
from typing import TYPE_CHECKING, Any

from airflow_provider_ch_s3.cli.parser import Subparsers, count_of_some
from airflow_provider_ch_s3.cli.request import add_load_arguments, read_load, take_task
from airflow_provider_ch_s3.cli.screen import clean_output, print_json, print_sql, print_text
from airflow_provider_ch_s3.cli.task import add_task_arguments
from airflow_provider_ch_s3.errors import ConfigError

if TYPE_CHECKING:
    from airflow_provider_ch_s3.clickhouse.statement import Statement
    from airflow_provider_ch_s3.load.prepare import PreparedLoad
    from airflow_provider_ch_s3.load.selection import ChunkSelection


def add_parser(subparsers: Subparsers) -> None:
    """Register ``plan``."""
    parser = subparsers.add_parser(
        "plan",
        help="say what a load would load, with which settings and SQL, and run nothing",
        description=__doc__,
        examples=(
            "ch-s3 plan --source 's3://flights/dt=2013-*/*.parquet' --table flights",
            "ch-s3 plan --dag flights --task load --date 2013-01-03T02:00:00",
        ),
    )
    add_load_arguments(parser, is_optional=True)
    add_task_arguments(parser)
    parser.add_argument(
        "--settings", action="store_true", help="also show the settings, with their reasons, and the SQL"
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="with --settings: also show the guards that every node has by itself, which the SQL does not name",
    )
    for name, unit, what in (
        ("--nodes", "a number of nodes", "N nodes"),
        ("--vcpus", "a number of cores", "N cores on each node"),
        ("--memory-gib", "a number of GiB", "N GiB of memory on each node"),
    ):
        parser.add_argument(
            name,
            type=count_of_some(unit),
            metavar="N",
            help=f"estimate the load with {what}",
        )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--sql", action="store_true", help="print the SQL alone, with all of its lines")
    form.add_argument("--json", action="store_true", help="print plan and SQL as JSON")
    parser.add_argument(
        "--validate",
        action="store_true",
        help="also stage, verify and check the rows as a load does, print its report, and drop them",
    )
    parser.add_argument(
        "--sample-files",
        type=count_of_some("a number of files"),
        default=0,
        metavar="N",
        help="with --validate: only so many of the files",
    )
    parser.set_defaults(run=run, usage_error=parser.error)


def run(args: argparse.Namespace) -> int:
    """Print the plan and the statement, or validate the files.

    :raises ConfigError: if an argument needs another argument that is missing.
    """
    if not (args.dag or args.task or (args.source and args.table)):
        args.usage_error("give --source and --table, or --dag and --task")
    if args.validate:
        return _validate(args)
    if args.sample_files:
        raise ConfigError(
            "argument-without-effect", "--sample-files says what to validate; add --validate, or leave it out"
        )
    with clean_output():
        from airflow_provider_ch_s3.clickhouse.statement import SQL_LINE_LIMIT, shorten_lines
        from airflow_provider_ch_s3.hooks.lookup import clickhouse_hook
        from airflow_provider_ch_s3.load.plan_text import format_elsewhere, format_plan

        args = take_task(args)
        with clickhouse_hook(args.conn_id) as hook:
            load = read_load(args, hook)
            selection, prepared = load.preview_new()
        sql = _without_secrets(prepared.insert(load.identity))
    asked = {"node_count": args.nodes, "vcpus": args.vcpus, "memory_gib": args.memory_gib}
    elsewhere = prepared.on(prepared.cluster.resized(**asked)) if any(asked.values()) else None
    if args.json:
        there = {"elsewhere": _describe_elsewhere(elsewhere)} if elsewhere else {}
        print_json({**_describe(prepared, selection), **there, "sql": sql})
    elif args.sql:
        print_sql(sql)
    else:
        _print_summary(prepared, selection, args.mode.name)
        if elsewhere:
            print_text(format_elsewhere(elsewhere))
        if args.settings or args.all:
            print_text(f"\n{format_plan(prepared, show_all=args.all)}")
            print_sql(f"\n{shorten_lines(sql, limit=SQL_LINE_LIMIT)}")
    return 0


def _print_summary(prepared: PreparedLoad, selection: ChunkSelection | None, mode: str) -> None:
    from airflow_provider_ch_s3.create.make import describe_table
    from airflow_provider_ch_s3.load.plan_text import format_summary

    for note in prepared.cluster.notes:
        print_text(f"note: {note}")
    if prepared.new_table:
        print_sql(f"{describe_table(prepared.new_table)}\n")
    print_text(format_summary(prepared, selection, mode))


def _describe_elsewhere(prepared: PreparedLoad) -> dict[str, Any]:
    """Describe what another cluster would take, as values for JSON."""
    node, plan = prepared.cluster.weakest, prepared.plan
    seconds = plan.prediction.load_seconds
    return {
        "nodes": prepared.cluster.node_count,
        "vcpus": node.vcpus,
        "memory_bytes": node.memory_bytes,
        "settings": plan.in_text,
        "expected": dataclasses.asdict(plan.prediction),
        "trusted_load_seconds": [seconds * factor for factor in plan.trusted_range],
    }


def _describe(prepared: PreparedLoad, selection: ChunkSelection | None) -> dict[str, Any]:
    """Describe a plan as values for JSON."""
    from airflow_provider_ch_s3.create.make import describe_table
    from airflow_provider_ch_s3.load.plan_text import advise

    source, plan = prepared.source, prepared.plan
    return {
        "table": str(prepared.target.name),
        "new_table": describe_table(prepared.new_table) if prepared.new_table else None,
        "source": str(source.origin),
        "data_format": source.data_format,
        "files": len(source.files),
        "is_nothing_new": selection is not None and not selection.files,
        "files_skipped": selection.left_out.skipped_count if selection else 0,
        "files_too_young": selection.left_out.young_count if selection else 0,
        "size_bytes": source.size_bytes,
        "rows": source.rows,
        "nodes": prepared.cluster.hosts,
        "settings": [
            {"name": one.name, "value": one.value, "origin": one.origin.value, "reason": one.reason}
            for one in plan.all
        ],
        "left_out": dict(plan.left_out),
        "expected": dataclasses.asdict(plan.prediction),
        "notes": list(prepared.cluster.notes),
        "advice": advise(prepared),
    }


def _without_secrets(statement: Statement) -> str:
    from airflow_provider_ch_s3.sql.filters import literal, parameter

    text = statement.text
    for name in statement.parameters:
        text = text.replace(parameter(name), literal("***"))
    return text


def _validate(args: argparse.Namespace) -> int:
    if args.sql:
        raise ConfigError(
            "arguments-contradict", "--sql shows the statement of a plan, and --validate runs it; give one of them"
        )
    with clean_output(shows_steps=True):
        from airflow_provider_ch_s3.hooks.lookup import clickhouse_hook

        args = take_task(args)
        with clickhouse_hook(args.conn_id) as hook:
            # Each validation is a separate run, so that two validations do not disturb each other.
            run_id = f"validate-{uuid.uuid4().hex[:8]}"
            load = read_load(args, hook, run_id=run_id)
            checks = dataclasses.replace(load.request.checks, validate_only=True)
            load.request = dataclasses.replace(load.request, sample_files=args.sample_files, checks=checks)
            report = load.run()
    if args.json:
        print_json(report.as_dict())
    else:
        print_text(str(report))
    return 0
