"""``ch-s3 plan``: what a load would do, without doing it."""

from __future__ import annotations

import argparse
import datetime
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # Known to type checkers only.
    from argparse import _SubParsersAction


def add_parser(subparsers: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register ``plan``."""
    parser = subparsers.add_parser(
        "plan", help="print the settings and the SQL of a load, with reasons, and run nothing", description=__doc__
    )
    parser.add_argument("--conn-id", default="clickhouse_s3_default", help="Airflow connection to ClickHouse")
    parser.add_argument(
        "--aws-conn-id", default="aws_default", help="Airflow connection to S3; empty: the servers' own role"
    )
    parser.add_argument("--named-collection", default="", help="named collection on the servers with the S3 keys")
    parser.add_argument("--source", action="append", required=True, help="s3://bucket/key, with globs; repeatable")
    parser.add_argument("--table", required=True, help="table or database.table, local or Distributed")
    parser.add_argument("--columns", help="columns to load, separated by commas")
    parser.add_argument("--where", default="", help="SQL condition over the columns of the files")
    parser.add_argument("--data-format", help="e.g. Parquet, when the file names do not tell")
    parser.add_argument("--structure", help="name Type, … of the files")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the plan and the statement."""
    from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
    from airflow_provider_ch_s3.hooks.s3_file_store import S3FileStore
    from airflow_provider_ch_s3.load.prepare import format_plan
    from airflow_provider_ch_s3.load.request import LoadIdentity, LoadRequest
    from airflow_provider_ch_s3.load.run import LoadRun
    from airflow_provider_ch_s3.source import parse_source
    from airflow_provider_ch_s3.sql.statement import shorten_lines

    hook = ClickHouseS3Hook(clickhouse_conn_id=args.conn_id)
    load = LoadRun(
        client=hook,
        store=S3FileStore(aws_conn_id=args.aws_conn_id or None, named_collection=args.named_collection),
        declaration=hook.declaration,
        request=LoadRequest(
            pattern=parse_source(args.source),
            table=args.table,
            data_format=args.data_format,
            structure=args.structure,
            columns=args.columns.split(",") if args.columns else None,
            where=args.where,
            connection_settings=hook.connection_settings,
        ),
        identity=LoadIdentity(
            dag_id="", task_id="plan", run_id="", table=args.table, since=datetime.datetime.now(datetime.UTC)
        ),
    )
    try:
        prepared = load.prepare()
    finally:
        hook.close()
    for note in prepared.cluster.notes:
        print(f"note: {note}")
    print(format_plan(prepared))
    statement = prepared.insert(log_comment="")
    print(f"\n{shorten_lines(re.sub(r'{s3_[a-z_]+:String}', repr('***'), statement.text))}")
    return 0
