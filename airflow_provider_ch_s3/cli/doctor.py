"""``ch-s3 doctor``: check one by one what a load needs, and say how to fix what is missing."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from airflow_provider_ch_s3.cli.parser import Subparsers
from airflow_provider_ch_s3.cli.request import add_load_arguments, read_load, take_task
from airflow_provider_ch_s3.cli.screen import clean_output, print_json, print_line, print_text
from airflow_provider_ch_s3.cli.task import add_task_arguments
from airflow_provider_ch_s3.errors import ConfigError

if TYPE_CHECKING:
    from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
    from airflow_provider_ch_s3.load.doctor import Finding, Subject

GRANT_MISSING = "grant-missing"
LACKING = "the user lacks rights; have an administrator run the statement below [grant-missing]"
"""In place of what a server says of a missing right: a server names a single right at a time."""
MARKS = {"ok": "✔", "failed": "✘", "skipped": "-"}


def add_parser(subparsers: Subparsers) -> None:
    """Register ``doctor``."""
    parser = subparsers.add_parser(
        "doctor",
        help="check what a load needs: connection, nodes, ledger; with --source and --table also files and rights",
        description=__doc__,
        examples=(
            "ch-s3 doctor --grants",
            "ch-s3 doctor --source 's3://flights/dt=2013-*/*.parquet' --table flights",
        ),
    )
    add_load_arguments(parser, is_optional=True)
    add_task_arguments(parser)
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print the findings as JSON")
    output.add_argument(
        "--grants",
        action="store_true",
        help="check nothing: print the GRANT that the user needs, for the load or for all loads",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Check, and print each finding at once; 1 if something is missing."""
    if bool(args.source) != bool(args.table):
        raise ConfigError(
            "argument-missing",
            "--source and --table belong together; give both, or neither to check the connection alone",
        )
    with clean_output():
        args = take_task(args)
    if args.grants:
        with clean_output():
            block = _show_grants(args)
        print_text(block)
        return 0
    findings, shown = _examine(args), []
    missing: str | None = None
    while finding := _next(findings):
        shown.append(finding)
        if args.json:
            continue
        text = finding.text
        if finding.code == GRANT_MISSING:
            if missing is None:
                with clean_output():
                    missing = _show_grants(args, only_missing=True)
            text = LACKING if missing else text  # an expression may need a right that no load needs
        print_line(MARKS[finding.state], f"{finding.check}: {text}")
    if args.json:
        print_json([dataclasses.asdict(finding) for finding in shown])
    elif missing:
        print_text(f"\n{missing}")
    return int(any(finding.state == "failed" for finding in shown))


def _next(findings: Iterator[Finding]) -> Finding | None:
    with clean_output():
        return next(findings, None)


def _show_grants(args: argparse.Namespace, *, only_missing: bool = False) -> str:
    from airflow_provider_ch_s3.hooks.lookup import clickhouse_hook
    from airflow_provider_ch_s3.load.rights import render_block, render_missing

    with clickhouse_hook(args.conn_id) as hook:
        subject = _subject(args, hook)
        what = f"mode={args.mode.name} into {args.table}" if args.table else "loads in all modes"
        if only_missing:
            return render_missing(hook, subject.use, subject.session, what)
        return render_block(subject.use, subject.session, what)


def _subject(args: argparse.Namespace, hook: ClickHouseS3Hook) -> Subject:
    from airflow_provider_ch_s3.load.doctor import Subject

    find_load = partial(read_load, args, hook) if args.table else None
    return Subject(client=hook, declaration=hook.declaration, find_load=find_load)


def _examine(args: argparse.Namespace) -> Iterator[Finding]:
    from airflow_provider_ch_s3.hooks.lookup import clickhouse_hook
    from airflow_provider_ch_s3.load.doctor import CONNECTION_CHECKS, LOAD_CHECKS, Finding, State, examine

    with clickhouse_hook(args.conn_id) as hook:
        subject = _subject(args, hook)
        yield from examine(subject, LOAD_CHECKS if subject.find_load else CONNECTION_CHECKS)
        if not subject.find_load:
            text = "the store, table and rights are checked with --source 's3://…' and --table (--create-table)"
            yield Finding(check="load", state=State.SKIPPED, text=text)
