"""The load for a command, given by the operator's arguments."""

from __future__ import annotations

import argparse
import datetime
import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow_provider_ch_s3.arguments import (
    Arrivals,
    Columns,
    Format,
    NamedCollection,
    OnMissingColumns,
    OnNewColumns,
    OwnKeys,
    Role,
)
from airflow_provider_ch_s3.cli.parser import amount_of, count_of_some
from airflow_provider_ch_s3.cli.task import find_operator
from airflow_provider_ch_s3.common.text import MIB
from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.modes import MODES, Append, Merge, MergeDuplicates, Mode, ReplaceWhere
from airflow_provider_ch_s3.table.new_table import AUTO

if TYPE_CHECKING:
    from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
    from airflow_provider_ch_s3.load.staged import StagedLoad
    from airflow_provider_ch_s3.transfers.files_to_clickhouse import FilesToClickHouseOperator
    from airflow_provider_ch_s3.transfers.lake_to_clickhouse import LakeToClickHouseOperator
    from airflow_provider_ch_s3.tuning import SettingValue


def add_load_arguments(parser: argparse.ArgumentParser, *, is_optional: bool = False) -> None:
    """Register the arguments of a load.

    :param is_optional: the command may run without a load, or take the load from a task.
    """
    parser.add_argument("--conn-id", default="clickhouse_s3_default", help="Airflow connection to ClickHouse")
    add_store_arguments(parser)
    add_source_argument(
        parser,
        is_required=not is_optional,
        help="s3://bucket/key, gs://bucket/key, az://container/path or https://host/path, with globs; repeatable",
    )
    parser.add_argument("--lake", choices=("iceberg", "delta"), help="the source is the location of such a table")
    parser.add_argument(
        "--catalog-conn-id",
        help="with --lake iceberg: Airflow connection of a catalog; the source is then namespace.table",
    )
    parser.add_argument("--snapshot", default="latest", help="with --lake: an id, a version, or a time with its zone")
    parser.add_argument(
        "--max-metadata-bytes",
        type=count_of_some("a number of bytes"),
        default=512 * MIB,
        metavar="N",
        help="with --lake: bytes that may be read of one object of the metadata, unpacked (default: 512 MiB)",
    )
    parser.add_argument("--table", required=not is_optional, help="table or database.table, local or Distributed")
    parser.add_argument(
        "--create-table",
        type=parse_table_fields,
        nargs="?",
        const=AUTO,
        metavar="JSON",
        help="if the table does not exist, plan one for the files; with fields of CreateTable as a JSON object",
    )
    parser.add_argument("--columns", type=parse_columns, help="columns to load, separated by commas")
    parser.add_argument(
        "--select",
        type=parse_assignment,
        action="append",
        default=[],
        metavar="COLUMN=EXPRESSION",
        help="SQL expression over the columns of the files, for a column of the table; repeatable",
    )
    parser.add_argument("--where", default="", help="SQL condition over the columns of the files")
    parser.add_argument(
        "--setting",
        type=parse_setting,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="ClickHouse setting that overrides the computed one; repeatable",
    )
    parser.add_argument(
        "--mode", choices=[mode.name for mode in MODES], default=Append.name, help="load mode (default: append)"
    )
    parser.add_argument("--replace-where", default="", metavar="CONDITION", help="with --mode replace_where")
    parser.add_argument("--merge-key", type=parse_columns, help="with --mode merge: columns, separated by commas")
    parser.add_argument("--merge-version", default="", metavar="COLUMN", help="with --mode merge")
    parser.add_argument("--merge-deleted", default="", metavar="CONDITION", help="with --mode merge")
    parser.add_argument(
        "--merge-duplicates",
        choices=[one.value for one in MergeDuplicates],
        help="with --mode merge (default: refuse)",
    )
    parser.add_argument(
        "--on-new-columns",
        choices=[one.value for one in OnNewColumns],
        default=OnNewColumns.FAIL.value,
        help="columns of the files that the table lacks (default: fail)",
    )
    parser.add_argument(
        "--on-missing-columns",
        choices=[one.value for one in OnMissingColumns],
        default=OnMissingColumns.FAIL.value,
        help="columns of the table that files lack (default: fail)",
    )
    parser.add_argument("--data-format", help="e.g. Parquet (default: inferred from the file names)")
    parser.add_argument("--compression", help="e.g. gz (default: inferred from the file names)")
    parser.add_argument("--structure", help="columns of the files, as name Type, …")
    parser.add_argument(
        "--min-file-age",
        type=amount_of("a number of seconds"),
        default=0.0,
        metavar="SECONDS",
        help="leave out files that are younger",
    )
    parser.add_argument(
        "--expected-files",
        action="append",
        metavar="NAME",
        help="file without which a folder is not complete, such as _SUCCESS; repeatable",
    )


def add_store_arguments(parser: argparse.ArgumentParser) -> None:
    """Register the arguments for reaching the files."""
    parser.add_argument(
        "--aws-conn-id", default="aws_default", help="Airflow connection to S3; empty: the servers' own role"
    )
    parser.add_argument(
        "--hmac-conn-id",
        default="google_cloud_hmac",
        help="Airflow connection to Google Cloud Storage; empty: the bucket is public",
    )
    parser.add_argument("--wasb-conn-id", default="wasb_default", help="Airflow connection to Azure Blob Storage")
    parser.add_argument("--named-collection", default="", help="named collection on the servers with the keys")
    parser.add_argument("--role-arn", default="", help="ARN of a role that the servers assume to read the files")
    parser.add_argument("--external-id", default="", help="what the owner of that role asks for")
    parser.add_argument("--requester-pays", action="store_true", help="agree to pay for the requests to S3")


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
    if not (args.dag or args.task or args.date):
        return args
    if not (args.dag and args.task):
        raise ConfigError("argument-missing", "--dag, --task and --date name a task together; give --dag and --task")
    if given := [name for name, default in _load_defaults().items() if getattr(args, name) != default]:
        option = f"--{given[0].replace('_', '-')}"
        raise ConfigError(
            "arguments-contradict",
            f"--dag takes all arguments from the task; leave {option} out, or --dag and --task",
        )
    operator = find_operator(args.dag, args.task, args.date)
    taken = {
        "operator": operator,
        "conn_id": operator.clickhouse_conn_id,
        "source": operator.source,
        "table": operator.table,
        "mode": operator.kinds["mode"].parse("mode", operator.mode).name,
    }
    return argparse.Namespace(**{**vars(args), **taken})


def parse_columns(text: str) -> list[str]:
    """Parse ``a, b``."""
    return [name for part in text.split(",") if (name := part.strip())]


def parse_assignment(text: str) -> tuple[str, str]:
    """Parse ``name=value``; the value may contain more equals signs.

    :raises argparse.ArgumentTypeError: for any other form.
    """
    name, _, value = (part.strip() for part in text.partition("="))
    if not name or not value:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def parse_table_fields(text: str) -> str | dict[str, Any]:
    """Parse ``auto``, or a JSON object.

    :raises argparse.ArgumentTypeError: for anything else.
    """
    if text == AUTO:
        return text
    try:
        fields = json.loads(text)
    except json.JSONDecodeError:
        fields = None
    if not isinstance(fields, dict):
        raise argparse.ArgumentTypeError(
            f'{text!r} is not a JSON object; write one, such as \'{{"order_by": "day"}}\''
        )
    return fields


def parse_setting(text: str) -> tuple[str, SettingValue]:
    """Parse ``name=value`` as a DAG would write the value: numbers are numbers.

    :raises argparse.ArgumentTypeError: for any other form.
    """
    name, value = parse_assignment(text)
    if re.fullmatch(r"[+-]?\d+", value):
        return name, int(value)
    if re.fullmatch(r"[+-]?\d*\.\d+", value):
        return name, float(value)
    return name, value


def _make_operator(args: argparse.Namespace, more: Mapping[str, Any]) -> FilesToClickHouseOperator:
    """Build the operator of a load for the source's store: the operator's code reads the arguments."""
    from airflow_provider_ch_s3.files.addresses import AZURE, GCS, HTTP, find_scheme
    from airflow_provider_ch_s3.transfers.azure_blob_to_clickhouse import AzureBlobStorageToClickHouseOperator
    from airflow_provider_ch_s3.transfers.gcs_to_clickhouse import GCSToClickHouseOperator
    from airflow_provider_ch_s3.transfers.http_to_clickhouse import HttpToClickHouseOperator
    from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator

    given: dict[str, Any] = {name: getattr(args, name) for name in ("source", "table", "create_table", "where")}
    given |= {
        "task_id": "plan",
        "mode": _read_mode(args),
        "arrivals": Arrivals(min_age=args.min_file_age, expected=args.expected_files),
        "columns": Columns(args.columns or None, on_new=args.on_new_columns, on_missing=args.on_missing_columns),
        "data_format": Format(args.data_format, compression=args.compression, structure=args.structure),
        "select": dict(args.select),
        "settings": dict(args.setting),
        **more,
    }
    credentials = _read_credentials(args)
    of_s3 = {
        "aws_conn_id": args.aws_conn_id or None,
        "credentials": credentials,
        "requester_pays": args.requester_pays,
    }
    if args.lake:
        return _make_lake_operator(args, {**given, **of_s3})
    scheme = find_scheme(args.source[0])
    if scheme is HTTP:
        return HttpToClickHouseOperator(**given)
    given["credentials"] = credentials
    if scheme is AZURE:
        return AzureBlobStorageToClickHouseOperator(wasb_conn_id=args.wasb_conn_id, **given)
    if scheme is GCS:
        return GCSToClickHouseOperator(hmac_conn_id=args.hmac_conn_id or None, **given)
    return S3ToClickHouseOperator(**{**given, **of_s3})


def _read_mode(args: argparse.Namespace) -> Mode | str:
    """Build the load mode from the options for the mode's fields."""
    of_merge = {
        "key": args.merge_key or None,
        "version": args.merge_version,
        "deleted": args.merge_deleted,
        "duplicates": args.merge_duplicates,
    }
    given = [name for name, value in of_merge.items() if value]
    if args.mode == Merge.name:
        return Merge(**{**of_merge, "key": args.merge_key or ()})
    if given:
        raise ConfigError(
            "argument-without-effect",
            f"--merge-{given[0]} has no effect without --mode merge; add it, or remove the option",
        )
    if (args.mode == ReplaceWhere.name) != bool(args.replace_where):
        raise ConfigError(
            "argument-missing",
            "--mode replace_where and --replace-where CONDITION belong together; give both, or neither",
        )
    return ReplaceWhere(args.replace_where) if args.replace_where else str(args.mode)


def _read_credentials(args: argparse.Namespace) -> OwnKeys | NamedCollection | Role:
    if args.named_collection and args.role_arn:
        raise ConfigError(
            "arguments-contradict",
            "--named-collection and --role-arn are two ways to read the files; give one of them",
        )
    if args.external_id and not args.role_arn:
        raise ConfigError(
            "argument-without-effect",
            "--external-id is sent when the servers assume a role; give --role-arn, or remove it",
        )
    if args.named_collection:
        return NamedCollection(args.named_collection)
    return Role(args.role_arn, external_id=args.external_id) if args.role_arn else OwnKeys()


def _make_lake_operator(args: argparse.Namespace, given: Mapping[str, Any]) -> LakeToClickHouseOperator:
    from airflow_provider_ch_s3.transfers.delta_to_clickhouse import DeltaToClickHouseOperator
    from airflow_provider_ch_s3.transfers.iceberg_to_clickhouse import IcebergToClickHouseOperator

    given = {name: value for name, value in given.items() if name != "data_format"}
    source = args.source[0] if len(args.source) == 1 else args.source
    given |= {"source": source, "snapshot": args.snapshot, "max_metadata_bytes": args.max_metadata_bytes}
    if args.lake == "delta":
        return DeltaToClickHouseOperator(**given)
    return IcebergToClickHouseOperator(catalog_conn_id=args.catalog_conn_id, **given)


def read_load(args: argparse.Namespace, hook: ClickHouseS3Hook, *, run_id: str = "RUN", **more: Any) -> StagedLoad:
    """Build the load from the arguments.

    :param run_id: distinguishes a running load from other loads.
    :param more: further arguments of the operator.
    """
    from airflow_provider_ch_s3.identity import LoadIdentity
    from airflow_provider_ch_s3.load.staged import StagedLoad
    from airflow_provider_ch_s3.transfers.task import limit_of
    from airflow_provider_ch_s3.tuning import LoadLimit

    taken: FilesToClickHouseOperator | None = getattr(args, "operator", None)
    operator = taken or _make_operator(args, more)
    limit = limit_of(taken, is_mapped=False) if taken else LoadLimit()
    store = operator.open_store()
    return StagedLoad(
        client=hook,
        store=store,
        declaration=hook.declaration,
        request=operator.read_request(store, hook, limit),
        # placeholders: the log_comment of a DAG's load contains its own names
        identity=LoadIdentity(
            dag_id=taken.dag_id if taken else "DAG",
            task_id=taken.task_id if taken else "TASK",
            run_id=run_id,
            table=args.table,
            since=datetime.datetime.now(datetime.UTC),
        ),
    )
