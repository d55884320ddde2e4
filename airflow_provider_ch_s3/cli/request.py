"""The load for a command, given by the operator's arguments."""

from __future__ import annotations

import argparse
import datetime
import re
from typing import TYPE_CHECKING, Any

from airflow_provider_ch_s3.cli.task import find_operator
from airflow_provider_ch_s3.cluster.fields import DEFAULT_CONNECTION
from airflow_provider_ch_s3.common.text import did_you_mean
from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.modes import MODE, Append
from airflow_provider_ch_s3.table.new_table import AUTO

if TYPE_CHECKING:
    from airflow_provider_ch_s3.files.addresses import Scheme
    from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
    from airflow_provider_ch_s3.load.staged import StagedLoad
    from airflow_provider_ch_s3.transfers.files_to_clickhouse import FilesToClickHouseOperator


def add_load_arguments(parser: argparse.ArgumentParser, *, is_optional: bool = False) -> None:
    """Register the arguments of a load.

    :param is_optional: the command may run without a load, or take the load from a task.
    """
    parser.add_argument("--conn-id", default=DEFAULT_CONNECTION, help="Airflow connection to ClickHouse")
    add_source_argument(
        parser,
        is_required=not is_optional,
        help="s3://bucket/key, gs://bucket/key, az://container/path or https://host/path, with globs; repeatable",
    )
    parser.add_argument("--lake", choices=("iceberg", "delta"), help="the source is the location of such a table")
    parser.add_argument("--table", required=not is_optional, help="table or database.table, local or Distributed")
    parser.add_argument(
        "--mode",
        type=lambda text: MODE.parse("mode", text),
        default=Append(),
        help="load mode (default: append); with the fields of the mode as a JSON object:"
        ' \'{"merge": {"key": ["id"]}}\'',
    )
    parser.add_argument(
        "--create-table",
        nargs="?",
        const=AUTO,
        metavar="JSON",
        help="if the table does not exist, plan one for the files; with fields of CreateTable as a JSON object",
    )
    add_more_arguments(parser)


def add_more_arguments(parser: argparse.ArgumentParser) -> None:
    """Register the connection to S3, and one option for all further arguments of the operator."""
    parser.add_argument("--aws-conn-id", help="Airflow connection to S3; empty: the servers' own role")
    parser.add_argument(
        "--argument",
        type=parse_assignment,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="further argument of the operator, as a template would render the value: a text, a number, or JSON, such"
        ' as \'columns={"on_new": "add"}\'; empty: None; repeatable',
    )


def add_source_argument(parser: argparse._ActionsContainer, *, help: str, is_required: bool = False) -> None:
    """Register the argument for the files."""
    parser.add_argument("--source", action="append", required=is_required, help=help)


def complete_arguments(args: argparse.Namespace) -> argparse.Namespace:
    """Add the defaults of a load to the arguments of a command with only some arguments of a load."""
    return argparse.Namespace(**{**_load_defaults(), **vars(args)})


def _load_defaults() -> dict[str, Any]:
    parser = argparse.ArgumentParser()
    add_load_arguments(parser, is_optional=True)
    return vars(parser.parse_args([]))


def take_task(args: argparse.Namespace) -> argparse.Namespace:
    """Take connection, source, table and all other arguments of a load from the named task, if a task is named.

    :raises ConfigError: if only --dag or --task is given, if the task does not load, or with further options.
    """
    if not (args.dag or args.task or args.date or args.map_index is not None):
        return args
    if not (args.dag and args.task):
        raise ConfigError(
            "argument-missing", "--dag, --task, --date and --map-index name a task together; give --dag and --task"
        )
    if given := [name for name, default in _load_defaults().items() if getattr(args, name) != default]:
        option = f"--{given[0].replace('_', '-')}"
        raise ConfigError(
            "arguments-contradict",
            f"--dag takes all arguments from the task; leave {option} out, or --dag and --task",
        )
    operator = find_operator(args.dag, args.task, args.date, args.map_index)
    taken = {
        "operator": operator,
        "conn_id": operator.clickhouse_conn_id,
        "source": operator.source,
        "table": operator.table,
        "mode": MODE.parse("mode", operator.mode),
    }
    return argparse.Namespace(**{**vars(args), **taken})


def parse_assignment(text: str) -> tuple[str, str | None]:
    """Parse ``name=value``; the value may contain more equals signs, and is None if it is empty.

    :raises argparse.ArgumentTypeError: for any other form.
    """
    name, equals, value = (part.strip() for part in text.partition("="))
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value or None


def make_operator(args: argparse.Namespace) -> FilesToClickHouseOperator:
    """Build the operator of a load for the source's store: the operator's code reads the arguments."""
    _check_rendered(args)
    kind = _find_operator(args)
    given = {name: getattr(args, name) for name in ("table", "mode", "create_table")}
    # the location of a lake table is one address
    given["source"] = args.source[0] if args.lake and len(args.source) == 1 else args.source
    further = dict(args.argument)
    if args.aws_conn_id is not None:
        further["store_conn_id" if args.lake else "aws_conn_id"] = args.aws_conn_id or None
    known = sorted(kind.kinds.keys() - given.keys() - {"clickhouse_conn_id"})
    if unknown := [name for name in further if name not in known]:
        remedy = did_you_mean(unknown[0], known, otherwise=f"known are {', '.join(known)}")
        raise ConfigError(
            "argument-invalid",
            f"--argument {unknown[0]}=…: {kind.__name__} has no such argument, or the command has an option for the"
            f" argument; {remedy}",
        )
    return kind(task_id="plan", **given, **further)


def _check_rendered(args: argparse.Namespace) -> None:
    """Check that no argument has a template.

    :raises ConfigError: if there is a template.
    """
    given = [("--source", text) for text in args.source]
    given += [("--table", args.table), ("--mode", repr(args.mode)), ("--create-table", args.create_table)]
    given += [(f"--argument {name}", text) for name, text in args.argument]
    for option, text in given:
        if found := re.search(r"\{\{.*?\}\}|\{%.*?%\}", text or "", re.DOTALL):
            raise ConfigError(
                "argument-invalid",
                f"{option} has the template {found[0]}, and only Airflow renders templates, in a run of a DAG: write"
                " the value, such as a date, or have `ch-s3 plan` or `ch-s3 doctor` render the arguments of a task"
                " with --dag, --task and --date",
            )


def _find_operator(args: argparse.Namespace) -> type[FilesToClickHouseOperator]:
    from airflow_provider_ch_s3.files.addresses import AZURE, GCS, HTTP, find_scheme
    from airflow_provider_ch_s3.transfers.azure_blob_to_clickhouse import AzureBlobStorageToClickHouseOperator
    from airflow_provider_ch_s3.transfers.delta_to_clickhouse import DeltaToClickHouseOperator
    from airflow_provider_ch_s3.transfers.gcs_to_clickhouse import GCSToClickHouseOperator
    from airflow_provider_ch_s3.transfers.http_to_clickhouse import HttpToClickHouseOperator
    from airflow_provider_ch_s3.transfers.iceberg_to_clickhouse import IcebergToClickHouseOperator
    from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator

    if args.lake:
        return DeltaToClickHouseOperator if args.lake == "delta" else IcebergToClickHouseOperator
    of_scheme: dict[Scheme, type[FilesToClickHouseOperator]] = {
        AZURE: AzureBlobStorageToClickHouseOperator,
        GCS: GCSToClickHouseOperator,
        HTTP: HttpToClickHouseOperator,
    }
    return of_scheme.get(find_scheme(args.source[0]), S3ToClickHouseOperator)


def read_load(args: argparse.Namespace, hook: ClickHouseS3Hook, *, run_id: str = "") -> StagedLoad:
    """Build the load from the arguments.

    :param run_id: of a load that runs; '' if nothing runs.
    """
    from airflow_provider_ch_s3.identity import LoadIdentity
    from airflow_provider_ch_s3.load.staged import StagedLoad
    from airflow_provider_ch_s3.transfers.task import limit_of
    from airflow_provider_ch_s3.tuning import LoadLimit

    taken: FilesToClickHouseOperator | None = getattr(args, "operator", None)
    operator = taken or make_operator(args)
    limit = limit_of(taken, is_mapped=getattr(args, "map_index", None) is not None) if taken else LoadLimit()
    store = operator.open_store()
    if taken:
        dag_id, task_id = taken.dag_id, taken.task_id
    else:  # placeholders, if nothing runs: the log_comment of a DAG's load contains its own names
        dag_id, task_id = ("ch-s3", "plan") if run_id else ("DAG", "TASK")
    return StagedLoad(
        client=hook,
        store=store,
        declaration=hook.declaration,
        request=operator.read_request(store, hook, limit),
        identity=LoadIdentity(
            dag_id=dag_id,
            task_id=task_id,
            run_id=run_id or "RUN",
            table=args.table,
            since=datetime.datetime.now(datetime.UTC),
        ),
    )
