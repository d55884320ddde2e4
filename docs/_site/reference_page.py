"""docs/reference.md, made from the code: from dataclasses, signatures, docstrings and rules."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any

from airflow_provider_ch_s3 import arguments as load_arguments
from airflow_provider_ch_s3 import modes
from airflow_provider_ch_s3.cluster.fields import CONNECTION_FIELDS
from airflow_provider_ch_s3.common.declared import declared_fields
from airflow_provider_ch_s3.export.report import ExportReport
from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
from airflow_provider_ch_s3.operators.s3_query import S3QueryOperator
from airflow_provider_ch_s3.report import LoadReport, NodeReport
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.sensors.parts_settled import ClickHousePartsSettledSensor
from airflow_provider_ch_s3.table.new_table import CreateTable
from airflow_provider_ch_s3.table.row_check import Expect, OnFailure
from airflow_provider_ch_s3.table.settle import NodeParts
from airflow_provider_ch_s3.transfers.azure_blob_to_clickhouse import AzureBlobStorageToClickHouseOperator
from airflow_provider_ch_s3.transfers.clickhouse_to_s3 import ClickHouseToS3Operator
from airflow_provider_ch_s3.transfers.delta_to_clickhouse import DeltaToClickHouseOperator
from airflow_provider_ch_s3.transfers.files_to_clickhouse import FilesToClickHouseOperator
from airflow_provider_ch_s3.transfers.gcs_to_clickhouse import GCSToClickHouseOperator
from airflow_provider_ch_s3.transfers.http_to_clickhouse import HttpToClickHouseOperator
from airflow_provider_ch_s3.transfers.iceberg_to_clickhouse import IcebergToClickHouseOperator
from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from airflow_provider_ch_s3.tuning import EXPORT_RULES, IN_PLACE_RULES, Prediction
from airflow_provider_ch_s3.tuning.rule import Rule, SettingValue
from airflow_provider_ch_s3.tuning.rules import KEPT, RULES

OPERATORS = (
    S3ToClickHouseOperator,
    GCSToClickHouseOperator,
    AzureBlobStorageToClickHouseOperator,
    HttpToClickHouseOperator,
    IcebergToClickHouseOperator,
    DeltaToClickHouseOperator,
)
# Its default is what Airflow is configured to.
CONFIGURED = {"deferrable": "`operators.default_deferrable` of Airflow"}
VALUES = (
    *modes.MODES,
    *(getattr(load_arguments, name) for name in load_arguments.__all__),
)
EXAMPLES = {
    "after_load": 'Move("loaded/flights")',
    "arn": '"arn:aws:iam::123456789012:role/loads"',
    "arrivals": 'Arrivals(min_age=timedelta(minutes=10), expected="_SUCCESS")',
    "aws_conn_id": '"aws_data"',
    "bad_rows": "Reject(max_ratio=0.001)",
    "catalog_conn_id": '"iceberg_catalog"',
    "checks": '{"no negative fare": "countIf(fare < 0) = 0"}',
    "chunks": "Chunks(max_files=1000)",
    "clickhouse_conn_id": '"clickhouse_eu"',
    "collection": '"flights_s3"',
    "columns": '["time", "fare"]',
    "compression": '"gz"',
    "condition": "\"day = '{{ ds }}'\"",
    "conditions": '{"no negative fare": "countIf(fare < 0) = 0"}',
    "create_table": 'CreateTable(order_by="time")',
    "credentials": 'NamedCollection("flights_s3")',
    "data_format": '"Parquet"',
    "deferrable": "True",
    "deleted": "\"op = 'D'\"",
    "delimiter": '";"',
    "destination": '"s3://reports/{{ ds }}/"',
    "distributed": "False",
    "duplicates": '"collapse"',
    "encoding": '"windows-1252"',
    "engine": '"ReplacingMergeTree(version)"',
    "escape": '"\\\\"',
    "expected": '"_SUCCESS"',
    "expression": '"count() > 1000"',
    "external_id": '"partner-7"',
    "folder": '"loaded/flights"',
    "format": '"Parquet"',
    "header": "True",
    "hmac_conn_id": '"gcs_hmac"',
    "is_absolute": "True",
    "keep_staged": "timedelta(hours=1)",
    "key": '["order_id"]',
    "list_after_loaded": "True",
    "max_bytes": "50 * 1024**3",
    "max_files": "1000",
    "max_parts": "300",
    "max_parts_per_partition": "10",
    "max_ratio": "0.001",
    "max_rewritten_bytes": "50 * 1024**3",
    "max_rows": "10_000",
    "min_age": "timedelta(minutes=10)",
    "min_files": "24",
    "min_rows": "1000",
    "mode": '"replace_partitions"',
    "null_words": '["NA", "null"]',
    "of": '"median of the last 7 loads"',
    "on_changed": '"replace"',
    "on_failure": '"warn"',
    "on_loaded": '"load"',
    "on_missing": '"delete"',
    "on_new": '"add"',
    "on_none": '"skip"',
    "on_partial": '"replace"',
    "only": '["time", "fare"]',
    "order_by": '["airline", "time"]',
    "overwrite": "True",
    "partition_by": '"toYYYYMM(time)"',
    "partitions": "\"{{ ti.xcom_pull('load')['partitions'] }}\"",
    "poke_interval": "60",
    "poll_interval": "2",
    "provenance": '{"source_file": "path"}',
    "query": '"SELECT * FROM flights WHERE day = today()"',
    "quote": '"\'"',
    "requester_pays": "True",
    "select": '{"fare_cents": "fare * 100"}',
    "settings": '{"max_threads": 8}',
    "settle_before_commit": "True",
    "sharding_key": '"cityHash64(airline)"',
    "skip_if_nothing_new": "True",
    "skip_lines": "2",
    "snapshot": '"{{ data_interval_end }}"',
    "source": "",
    "sql": '"SELECT count() FROM {files}"',
    "stable_seconds": "30",
    "stalled_seconds": "1800",
    "structure": '"time DateTime, fare Float64"',
    "table": '"analytics.flights"',
    "trim": "True",
    "types": '{"fare": "Decimal(9, 2)"}',
    "validate_only": "True",
    "version": '"updated_at"',
    "views": '"replay"',
    "wasb_conn_id": '"wasb_data"',
    "where": '"fare > 0"',
    "within": "0.1",
}
# Where the same name means something else.
OWN_EXAMPLES = {
    (load_arguments.Columns, "on_missing"): '"default"',
    (load_arguments.Reject, "max_rows"): "100",
    (S3ToClickHouseOperator, "source"): '"s3://flights/dt={{ ds }}/*.parquet"',
    (GCSToClickHouseOperator, "source"): '"gs://flights/dt={{ ds }}/*.parquet"',
    (AzureBlobStorageToClickHouseOperator, "source"): '"az://flights/dt={{ ds }}/*.parquet"',
    (HttpToClickHouseOperator, "source"): '"https://data.example.com/{{ ds }}/{0..23}.csv.gz"',
    (IcebergToClickHouseOperator, "source"): '"s3://lake/warehouse/sales/orders"',
    (DeltaToClickHouseOperator, "source"): '"s3://lake/delta/events"',
    (S3QueryOperator, "source"): '"s3://flights/dt={{ ds }}/*.parquet"',
    (ClickHouseToS3Operator, "partition_by"): '{"dt": "toDate(time)"}',
    (Expect, "expression"): '"avg(fare)"',
    (CreateTable, "settings"): '{"storage_policy": "tiered"}',
}

PAGE = """\
# Reference

<!-- Made from the code by `pytest tests/unit/test_reference.py --update-golden`: do not edit. -->

## Connection fields

The extra of a connection of type `clickhouse_s3`; all fields are optional.

{connection_fields}

## Operators

One for each kind of store. Each takes the arguments of its store, and the arguments that all have in common.
All arguments but `deferrable` and `poll_interval` are templated.

{stores}

### All operators

{operator}

Raises:

{operator_errors}

## Values

Each is in `airflow_provider_ch_s3.modes` or `airflow_provider_ch_s3.arguments`, and may also be a dict of its fields.
A field that is named `(first)` may be given without its name.

{values}

Class methods that make one of what is compared most often:

{expect_constructors}

## Export operator

`airflow_provider_ch_s3.transfers.clickhouse_to_s3.ClickHouseToS3Operator`. All arguments but
`deferrable` and `poll_interval` are templated. See
[Exports](export.md).

{export}

Returns, {export_returns}

{export_report}

Raises:

{export_errors}

## Query operator

`airflow_provider_ch_s3.operators.s3_query.S3QueryOperator`. All arguments are templated. See
[Queries over files in place](s3-query.md).

{query}

Returns, {query_returns}

Raises:

{query_errors}

## Sensor

`airflow_provider_ch_s3.sensors.parts_settled.ClickHousePartsSettledSensor`. All arguments but
`poke_interval` and `deferrable` are templated.

{sensor}

Returns, {sensor_returns}

{node_parts}

Raises:

{sensor_errors}

## Hook

`airflow_provider_ch_s3.hooks.clickhouse_s3.ClickHouseS3Hook(clickhouse_conn_id="clickhouse_s3_default")`. It can do
what the hook of Airflow's ClickHouse provider can, such as `get_records` and `run`.

{hook}

In the statements of `run_ddl`, write `{{on_cluster}}` after the name of the table or database. It becomes `ON CLUSTER
name` if the connection's DDL mode requires that, and nothing otherwise:
`hook.run_ddl("CREATE TABLE IF NOT EXISTS d.t {{on_cluster}} (a Int8) ENGINE MergeTree ORDER BY a")`. In the mode
`on_cluster`, a statement without it is refused.

## Load report

The operator returns it through XCom, as a dict of these fields.

{load_report}

Each node in `nodes`:

{node_report}

`predicted`:

{prediction}

## Settings

What a load sends with its INSERT. A value of the operator overrides one of the connection, and both override computed
ones; pinned settings take no other value. `ch-s3 plan` shows the values for a load, with the reasons.

{rules}

These stay at their defaults, whatever a profile of the server says, and are pinned:

{kept}

### Settings of exports

In addition to `max_execution_time`, `log_…`, `…_overflow_mode` and the pinned defaults above.

{export_rules}

### Settings of queries in place

In addition to the same ones.

{in_place_rules}
"""


def render_page() -> str:
    """The whole page."""
    return PAGE.format(
        connection_fields=_table(
            ("field", "value", "default", "meaning"),
            ((f"`{f.name}`", f.expected, f.if_empty, f.description) for f in CONNECTION_FIELDS),
        ),
        stores="\n\n".join(f"### {one.__name__}\n\n`{one.__module__}`\n\n{_arguments(one)}" for one in OPERATORS),
        operator=_arguments(FilesToClickHouseOperator, documented_below=("source",), also=LoadRequest),
        operator_errors=_errors(FilesToClickHouseOperator),
        values="\n\n".join(
            f"### {value.__name__}\n\n{_summary(value)}\n\n{_options(value)}".rstrip() for value in VALUES
        ),
        expect_constructors=_methods(Expect, ("rows", "bytes", "ratio_of_nulls")),
        hook=_methods(ClickHouseS3Hook, ("run_ddl", "cluster_spec")),
        export=_arguments(ClickHouseToS3Operator),
        export_returns=_parse_returns(ClickHouseToS3Operator),
        export_report=render_fields(ExportReport),
        export_errors=_errors(ClickHouseToS3Operator),
        query=_arguments(S3QueryOperator),
        query_returns=_parse_returns(S3QueryOperator),
        query_errors=_errors(S3QueryOperator),
        sensor=_arguments(ClickHousePartsSettledSensor),
        sensor_returns=_parse_returns(ClickHousePartsSettledSensor),
        sensor_errors=_errors(ClickHousePartsSettledSensor),
        node_parts=render_fields(NodeParts),
        load_report=render_fields(LoadReport),
        node_report=render_fields(NodeReport),
        prediction=render_fields(Prediction),
        rules=_rules(RULES),
        export_rules=_rules(rule for rule in EXPORT_RULES if rule not in RULES),
        in_place_rules=_rules(rule for rule in IN_PLACE_RULES if rule not in RULES),
        kept=_table(("setting", "value", "why"), ((f"`{r.name}`", _code(r.value), _sentence(r.about)) for r in KEPT)),
    )


def parse_parameters(documented: type) -> dict[str, str]:
    """The ``:param name:`` texts of a class, each in a line of Markdown."""
    return dict(_parse(documented, r"param (\w+)"))


def _arguments(operator: Any, *, documented_below: Sequence[str] = (), also: Any = None) -> str:
    """A table of the arguments that a class adds to the arguments of the base class.

    :param documented_below: arguments described in the docstrings of the classes below.
    :param also: the request: describes the arguments declared there.
    """
    texts = parse_parameters(operator)
    declared = declared_fields(also) if also else {}
    texts |= {name: text for name, text in parse_parameters(also).items() if name in declared} if also else {}
    arguments = [
        argument
        for argument in inspect.signature(operator.__init__).parameters.values()
        if argument.kind is argument.KEYWORD_ONLY and argument.name not in documented_below
    ]
    missing = {argument.name for argument in arguments} ^ (set(texts) - set(documented_below))
    if missing:
        raise ValueError(f"{operator.__name__}: described or declared alone: {missing}")
    return _table(
        ("argument", "type", "default", "meaning", "example"),
        (
            (
                f"`{argument.name}`",
                _type(argument.annotation),
                "required" if argument.default is argument.empty else _default(argument),
                _sentence(texts[argument.name]),
                _example(operator, argument.name),
            )
            for argument in arguments
        ),
    )


def _summary(value: Any) -> str:
    """The first paragraph of a docstring."""
    return _markdown((inspect.getdoc(value) or "").partition("\n\n")[0])


def _options(value: Any) -> str:
    """A table of the fields of a dataclass for users."""
    texts = parse_parameters(value)
    fields = dataclasses.fields(value)
    _check_names(value, [field.name for field in fields], texts)
    if not fields:
        return ""
    return _table(
        ("field", "type", "default", "meaning", "example"),
        (
            (
                f"`{field.name}`" + ("" if field.kw_only else " (first)"),
                _choices(field) or _type(str(field.type)),
                _field_default(field),
                _sentence(texts[field.name]),
                _example(value, field.name),
            )
            for field in fields
        ),
    )


def _field_default(field: Any) -> str:
    if field.default_factory is not dataclasses.MISSING:
        return _code(field.default_factory())
    default = field.default.value if isinstance(field.default, Enum) else field.default
    return "required" if default is dataclasses.MISSING else _code(default)


def _choices(field: Any) -> str:
    """The words that a field may have; '' if all texts are allowed."""
    kind = type(field.default) if isinstance(field.default, Enum) else OnFailure if field.name == "on_failure" else ()
    return " or ".join(f'`"{choice.value}"`' for choice in kind)


def _example(owner: Any, name: str) -> str:
    """An example, as written in a DAG."""
    example = OWN_EXAMPLES.get((owner, name)) or EXAMPLES[name]
    return f"`{name}={example}`"


def _methods(owner: Any, names: Sequence[str]) -> str:
    """What methods do, by the first paragraph of their docstrings."""
    return _table(
        ("method", "what it does"),
        (
            (
                f"`{name}{_call(getattr(owner, name))}`",
                _markdown((inspect.getdoc(getattr(owner, name)) or "").partition("\n\n")[0]),
            )
            for name in names
        ),
    )


def _call(method: Any) -> str:
    return f"({', '.join(inspect.signature(method).parameters)})".replace("(self, ", "(") if callable(method) else ""


def render_fields(value: Any) -> str:
    """A table of the fields of a dataclass, by the docstring.

    :raises ValueError: if the docstring does not describe exactly these fields.
    """
    texts = parse_parameters(value)
    fields = dataclasses.fields(value)
    _check_names(value, [field.name for field in fields], texts)
    return _table(
        ("field", "type", "meaning"), ((f"`{f.name}`", _type(str(f.type)), _sentence(texts[f.name])) for f in fields)
    )


def _rules(rules: Iterable[Rule]) -> str:
    return _table(
        ("setting", "value", "formats", "rule", "source"),
        (
            (
                f"`{rule.name}`",
                ("computed" if rule.value is None else _code(rule.value)) + (", pinned" if rule.is_pinned else ""),
                ", ".join(rule.formats) or "all",
                _sentence(_markdown(rule.about)),
                _source(rule),
            )
            for rule in rules
        ),
    )


def _source(rule: Rule) -> str:
    if rule.source:
        return f"[{rule.source.title}]({rule.source.url})"
    page = "formats" if rule.name.startswith(("input_format_", "date_time_")) else "settings"
    return f"[ClickHouse](https://clickhouse.com/docs/operations/settings/{page}#{rule.name})"


def _errors(documented: type) -> str:
    return "\n".join(f"- `{name}` {text}" for name, text in _parse(documented, r"raises (\w+)"))


def _parse_returns(documented: type) -> str:
    (text,) = (text for _, text in _parse(documented, r"(returns)"))
    return text


def _parse(documented: type, field: str) -> list[tuple[str, str]]:
    doc = inspect.getdoc(documented) or ""
    found = re.findall(rf"^:{field}: (.*?)(?=\n:|\n\n|\Z)", doc, re.DOTALL | re.MULTILINE)
    return [(name, _markdown(text)) for name, text in found]


def _check_names(documented: type, names: Sequence[str], texts: dict[str, str]) -> None:
    if list(texts) != list(names):
        raise ValueError(f"{documented.__name__} has {list(names)}, and its docstring describes {list(texts)}")


def _default(argument: inspect.Parameter) -> str:
    return CONFIGURED.get(argument.name) or _code(argument.default)


def _code(value: object) -> str:
    return f"`{value}`" if value != "" else "`''`"


def _type(annotation: str) -> str:
    # a stroke would end the cell of a table
    value = str(SettingValue).replace(" | ", " or ")
    return " or ".join(f"`{one}`" for one in annotation.replace("SettingValue", value).split(" | "))


def _markdown(text: str) -> str:
    """A single line, with Markdown's way to write code."""
    text = re.sub(r":class:`(\w+)`", r"`\1`", re.sub(r"\s+", " ", text).strip())
    return text.replace("``", "`")


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:].removesuffix('.')}."


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
