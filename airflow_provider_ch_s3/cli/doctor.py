"""``ch-s3 doctor``: check one by one what a load needs, and say how to fix what is missing."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from airflow_provider_ch_s3.cli.parser import Subparsers
from airflow_provider_ch_s3.cli.request import add_load_arguments, read_load
from airflow_provider_ch_s3.cli.screen import clean_output, print_json, print_line
from airflow_provider_ch_s3.errors import ConfigError

if TYPE_CHECKING:
    from airflow_provider_ch_s3.load.doctor import Finding

MARKS = {"ok": "✔", "failed": "✘", "skipped": "-"}


def add_parser(subparsers: Subparsers) -> None:
    """Register ``doctor``."""
    parser = subparsers.add_parser(
        "doctor",
        help="check what a load needs: connection, nodes, ledger; with --source and --table also files and rights",
        description=__doc__,
        examples=("ch-s3 doctor", "ch-s3 doctor --source 's3://flights/dt=2013-*/*.parquet' --table flights"),
    )
    add_load_arguments(parser, is_optional=True)
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Check, and print each finding at once; 1 if something is missing."""
    if bool(args.source) != bool(args.table):
        raise ConfigError(
            "argument-missing",
            "--source and --table belong together; give both, or neither to check the connection alone",
        )
    findings, shown = _examine(args), []
    while finding := _next(findings):
        shown.append(finding)
        if not args.json:
            print_line(MARKS[finding.state], f"{finding.check}: {finding.text}")
    if args.json:
        print_json([dataclasses.asdict(finding) for finding in shown])
    return int(any(finding.state == "failed" for finding in shown))


def _next(findings: Iterator[Finding]) -> Finding | None:
    with clean_output():
        return next(findings, None)


def _examine(args: argparse.Namespace) -> Iterator[Finding]:
    from airflow_provider_ch_s3.hooks.lookup import clickhouse_hook
    from airflow_provider_ch_s3.load.doctor import CONNECTION_CHECKS, LOAD_CHECKS, Finding, State, Subject, examine

    with clickhouse_hook(args.conn_id) as hook:
        find_load = partial(read_load, args, hook) if args.table else None
        subject = Subject(client=hook, declaration=hook.declaration, find_load=find_load)
        yield from examine(subject, (*CONNECTION_CHECKS, *(LOAD_CHECKS if find_load else ())))
        if not find_load:
            text = "the store, table and rights are checked with --source 's3://…' and --table (--create-table)"
            yield Finding(check="load", state=State.SKIPPED, text=text)
