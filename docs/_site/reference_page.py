"""docs/reference, made from the code: a page for each operator and value, from declarations and docstrings."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any

from airflow_provider_ch_s3 import arguments as load_arguments
from airflow_provider_ch_s3 import modes
from airflow_provider_ch_s3.clickhouse.statement import SettingValue
from airflow_provider_ch_s3.cluster.fields import CONNECTION_FIELDS, ConnectionField
from airflow_provider_ch_s3.common.declared import Form, Kind, default_of, kind_of
from airflow_provider_ch_s3.export.report import ExportReport
from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
from airflow_provider_ch_s3.operators.held import ClickHouseCommitHeldOperator, ClickHouseDropHeldOperator
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
from airflow_provider_ch_s3.transfers.lake_to_clickhouse import OF_FOLDERS, LakeToClickHouseOperator
from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from airflow_provider_ch_s3.triggers.new_files import NewFilesTrigger
from airflow_provider_ch_s3.triggers.new_snapshot import NewSnapshotTrigger
from airflow_provider_ch_s3.tuning import EXPORT_RULES, IN_PLACE_RULES, Prediction
from airflow_provider_ch_s3.tuning.rule import Rule
from airflow_provider_ch_s3.tuning.rules import KEPT, RULES

OPERATORS: Sequence[Any] = (
    FilesToClickHouseOperator,
    S3ToClickHouseOperator,
    GCSToClickHouseOperator,
    AzureBlobStorageToClickHouseOperator,
    HttpToClickHouseOperator,
    IcebergToClickHouseOperator,
    DeltaToClickHouseOperator,
    ClickHouseCommitHeldOperator,
    ClickHouseDropHeldOperator,
    ClickHouseToS3Operator,
    S3QueryOperator,
    ClickHousePartsSettledSensor,
    NewFilesTrigger,
    NewSnapshotTrigger,
)
REPORTS = {ClickHouseToS3Operator: ExportReport, ClickHousePartsSettledSensor: NodeParts}
PAGES = {ClickHouseCommitHeldOperator: "commit-held", ClickHouseDropHeldOperator: "drop-held"}
"""Pages that do not have the name of the module."""
VALUES = (*modes.MODES, *(getattr(load_arguments, name) for name in load_arguments.__all__))
# Its default is what Airflow is configured to.
CONFIGURED = {"deferrable": "`operators.default_deferrable` of Airflow"}
EXAMPLES = {
    "again_after": "timedelta(hours=4)",
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
    "commit": '"held"',
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
    "hold_seconds": "timedelta(days=2)",
    "is_absolute": "True",
    "keep_staged": "timedelta(hours=1)",
    "key": '["order_id"]',
    "lake": '"delta"',
    "list_after_loaded": "True",
    "load": '"load"',
    "max_bytes": "50 * 1024**3",
    "max_files": "1000",
    "max_metadata_bytes": "2 * 1024**3",
    "max_parts": "300",
    "wait_for_merges": "False",
    "max_parts_per_partition": "10",
    "max_ratio": "0.001",
    "max_rewritten_bytes": "50 * 1024**3",
    "max_rows": "10_000",
    "min_age": "timedelta(minutes=10)",
    "min_files": "24",
    "min_rows": "1000",
    "mode": '"replace_partitions"',
    "notifications": '"sqs://orders-arrived"',
    "null_words": '["NA", "null"]',
    "of": '"median of the last 7 loads"',
    "on_changed": '"replace"',
    "on_failure": '"warn"',
    "on_loaded": '"load"',
    "on_missing": '"delete"',
    "on_new": '"add"',
    "on_none": '"skip"',
    "on_partial": '"replace"',
    "on_removed": '"delete"',
    "on_unknown_rows": '"keep"',
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
    "sharding_key": '"cityHash64(airline)"',
    "skip_if_nothing_new": "True",
    "skip_lines": "2",
    "snapshot": '"{{ data_interval_end }}"',
    "source": '"s3://flights/dt={{ ds }}/*.parquet"',
    "sql": '"SELECT count() FROM {files}"',
    "stable_seconds": "30",
    "stalled_seconds": "1800",
    "store_conn_id": '"lake_store"',
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
    (GCSToClickHouseOperator, "source"): '"gs://flights/dt={{ ds }}/*.parquet"',
    (AzureBlobStorageToClickHouseOperator, "source"): '"az://flights/dt={{ ds }}/*.parquet"',
    (HttpToClickHouseOperator, "source"): '"https://data.example.com/{{ ds }}/{0..23}.csv.gz"',
    (IcebergToClickHouseOperator, "source"): '"s3://lake/warehouse/sales/orders"',
    (DeltaToClickHouseOperator, "source"): '"s3://lake/delta/events"',
    (NewFilesTrigger, "source"): '"s3://shop/orders/**/*.csv"',
    (NewSnapshotTrigger, "source"): '"s3://lake/orders"',
    (ClickHouseToS3Operator, "partition_by"): '{"dt": "toDate(time)"}',
    (Expect, "expression"): '"avg(fare)"',
    (CreateTable, "settings"): '{"storage_policy": "tiered"}',
}

MADE = "<!-- Made from the code by `pytest tests/unit/test_reference.py --update-golden`: do not edit. -->"
INDEX = """\
Each argument has a heading to link to, with the type, the default, whether the argument is templated, and an example.
*Templated SQL* may be the name of a [`.sql` file](templates.md#sql-from-a-file).

## Operators, sensor and triggers

All operators that load take the arguments of [FilesToClickHouseOperator](reference/files-to-clickhouse.md).

{operators}

## Load modes

Values of the argument [`mode`](reference/files-to-clickhouse.md#mode), in `airflow_provider_ch_s3.modes`.

{modes}

## Other values

Values of other arguments, in `airflow_provider_ch_s3.arguments`. Each value may also be a dict of the fields.

{values}

## Everything else

- [Connection](reference/connection.md): the extra fields of `clickhouse_s3`
- [Hook](reference/hook.md): DDL on every node, for your own tasks
- [Load report](reference/load-report.md): what a load returns through XCom
- [Settings](reference/settings.md): what a load, an export and a query send to ClickHouse, and why"""
CONNECTION = """\
Extra fields of a connection of type `clickhouse_s3`, all optional. [Connections](../connections.md) has examples.

{fields}"""
HOOK = """\
`airflow_provider_ch_s3.hooks.clickhouse_s3.ClickHouseS3Hook(clickhouse_conn_id="clickhouse_s3_default")`. It can do
what the hook of Airflow's ClickHouse provider can, such as `get_records` and `run`.

{methods}

In the statements of `run_ddl`, write `{{on_cluster}}` after the name of the table or database. It becomes `ON CLUSTER
name` if the connection's DDL mode requires that, and nothing otherwise:
`hook.run_ddl("CREATE TABLE IF NOT EXISTS d.t {{on_cluster}} (a Int8) ENGINE MergeTree ORDER BY a")`. In the mode
`on_cluster`, a statement without it is refused."""
LOAD_REPORT = """\
The operator returns the report through XCom, as a dict of these fields.

{report}

Each node in `nodes`:

{node}

`predicted`:

{predicted}"""
SETTINGS = """\
A value of the operator overrides a value of the connection, and both override computed values; pinned settings take
no other value. `ch-s3 plan` shows the values for a load, with the reasons.

## Settings of loads

{loads}

These stay at their defaults, whatever a profile of the server says, and are pinned:

{kept}

## Settings of exports

In addition to `max_execution_time`, `log_…`, `…_overflow_mode` and the pinned defaults above.

{exports}

## Settings of queries in place

In addition to the same ones.

{in_place}"""


def render_pages() -> dict[str, str]:
    """Render all pages: path below ``docs`` → Markdown."""
    pages = {
        "connection": (
            "Connection",
            CONNECTION.format(fields="\n\n".join(map(_connection_field, CONNECTION_FIELDS))),
        ),
        "hook": ("Hook", HOOK.format(methods=_methods(ClickHouseS3Hook, ("run_ddl", "cluster_spec")))),
        "load-report": (
            "Load report",
            LOAD_REPORT.format(
                report=render_fields(LoadReport), node=render_fields(NodeReport), predicted=render_fields(Prediction)
            ),
        ),
        "settings": (
            "Settings",
            SETTINGS.format(
                loads=_rules(RULES),
                kept=_table(
                    ("setting", "value", "why"), ((f"`{r.name}`", _code(r.value), _sentence(r.about)) for r in KEPT)
                ),
                exports=_rules(rule for rule in EXPORT_RULES if rule not in RULES),
                in_place=_rules(rule for rule in IN_PLACE_RULES if rule not in RULES),
            ),
        ),
        **{page_of(one): (one.__name__, _value(one)) for one in VALUES},
        **{page_of(one): (one.__name__, _operator(one)) for one in OPERATORS},
    }
    found = {f"reference/{page}.md": f"# {title}\n\n{MADE}\n\n{body}\n" for page, (title, body) in pages.items()}
    index = INDEX.format(
        operators="\n".join(map(_item, OPERATORS)),
        modes="\n".join(map(_item, modes.MODES)),
        values="\n".join(map(_item, VALUES[len(modes.MODES) :])),
    )
    return {"reference.md": f"# Reference\n\n{MADE}\n\n{index}\n", **found}


def page_of(documented: type) -> str:
    """Return the name of a class's page: the class names the page of a value, the module the page of an operator."""
    if documented in PAGES:
        return PAGES[documented]
    if documented in VALUES:
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", documented.__name__).lower()
    return documented.__module__.rpartition(".")[2].replace("_", "-")


def parse_parameters(documented: type) -> dict[str, str]:
    """The ``:param name:`` texts of a class, each in one line of Markdown."""
    return dict(_parse(documented, r"param (\w+)"))


def _item(documented: type) -> str:
    summary = _describe(documented).partition("\n\n")[0].partition(";")[0]
    return f"- [{documented.__name__}](reference/{page_of(documented)}.md): {summary.rstrip('.')}"


def _operator(operator: Any) -> str:
    """Render the page of an operator, without the arguments of its bases."""
    bases = [f"[{one.__name__}]({page_of(one)}.md)" for one in operator.__mro__[1:] if one in OPERATORS]
    is_lake = issubclass(operator, LakeToClickHouseOperator)
    refused = f", except {', '.join(f'`{name}`' for name in sorted(OF_FOLDERS))}," if is_lake else ""
    takes = f"Takes the arguments of {' and '.join(bases)}{refused} and:" if bases else ""
    parts = [_describe(operator), _import(operator), takes, _arguments(operator)]
    if returned := dict(_parse(operator, "(returns)")):
        text = returned["returns"].replace("`LoadReport`", "[`LoadReport`](load-report.md)")
        fields = [render_fields(REPORTS[operator])] if operator in REPORTS else []
        parts += ["## Returns", _sentence(text), *fields, "## Errors", _errors(operator)]
    return "\n\n".join(filter(None, parts))


def _arguments(operator: Any) -> str:
    """Render the arguments that a class adds to the base class; the request describes declared arguments.

    :raises ValueError: if the docstring and the class have different arguments.
    """
    parameters = inspect.signature(operator.__init__).parameters.values()
    arguments = {one.name: one for one in parameters if one.kind is one.KEYWORD_ONLY}
    texts = parse_parameters(operator)
    if operator is FilesToClickHouseOperator:
        texts |= {name: text for name, text in parse_parameters(LoadRequest).items() if name in arguments}
    if missing := set(arguments) ^ set(texts):
        raise ValueError(f"{operator.__name__}: described or declared alone: {missing}")
    return "\n\n".join(
        _argument(
            name,
            _type(one.annotation),
            "required" if one.default is one.empty else f"default {CONFIGURED.get(name) or _code(one.default)}",
            _templated(getattr(operator, "kinds", {}).get(name)),
            _example(operator, name),
            texts[name],
        )
        for name, one in arguments.items()
    )


def _value(value: Any) -> str:
    """Render what a value is for, and its fields."""
    texts = parse_parameters(value)
    fields = dataclasses.fields(value)
    _check_names(value, [field.name for field in fields], texts)
    bases = {base.__name__ for base in value.__mro__}
    used = [
        f"[`{argument.name}`]({page_of(operator)}.md#{argument.name})"
        for operator in (FilesToClickHouseOperator, S3ToClickHouseOperator)
        for argument in inspect.signature(operator.__init__).parameters.values()
        if bases & set(re.findall(r"\w+", str(argument.annotation)))
    ]
    parts = [_describe(value), f"A value of {' and '.join(used)}.", _import(value)]
    parts += [
        _argument(
            field.name,
            _choices(field) or _type(str(field.type)),
            _field_default(field) + ("" if field.kw_only else ", may be given without the name"),
            _templated(kind_of(field)),
            _example(value, field.name),
            texts[field.name],
        )
        for field in fields
    ]
    if value is Expect:
        parts.append(
            f"Class methods for common comparisons:\n\n{_methods(Expect, ('rows', 'bytes', 'ratio_of_nulls'))}"
        )
    return "\n\n".join(parts)


def _argument(name: str, kind: str, default: str, templated: str, example: str, meaning: str) -> str:
    return f"## {name}\n\n{_sentence(meaning)}\n\n{kind}; {default}; {templated}: {example}"


def _connection_field(field: ConnectionField) -> str:
    return f"## {field.name}\n\n{field.description}\n\n{field.expected.capitalize()}; default: {field.if_empty}."


def _templated(kind: Kind | None) -> str:
    if kind is None:
        return "not templated"
    return "templated SQL" if Form.SQL in (kind.form, kind.of and kind.of.form) else "templated"


def _describe(documented: Any) -> str:
    """All paragraphs of a docstring, without the description of arguments."""
    text = re.split(r"^:\w|^The remaining arguments", inspect.getdoc(documented) or "", flags=re.MULTILINE)[0]
    return "\n\n".join(map(_markdown, text.strip().split("\n\n")))


def _import(documented: type) -> str:
    module = load_arguments.__name__ if documented.__name__ in load_arguments.__all__ else documented.__module__
    return f"```python\nfrom {module} import {documented.__name__}\n```"


def _field_default(field: Any) -> str:
    default = default_of(field)
    if default is dataclasses.MISSING:
        return "required"
    return f"default {_code(default.value if isinstance(default, Enum) else default)}"


def _choices(field: Any) -> str:
    """Return the words that a field takes; '' if the field takes any text."""
    kind = type(field.default) if isinstance(field.default, Enum) else OnFailure if field.name == "on_failure" else ()
    return " or ".join(f'`"{choice.value}"`' for choice in kind)


def _example(owner: Any, name: str) -> str:
    """Return an example as a DAG has the argument."""
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
    """A table of the fields of a dataclass, by its docstring.

    :raises ValueError: if the docstring and the class have different fields.
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
        page = re.sub(r"^(?!https?:)", "../", rule.source.url)
        return f"[{rule.source.title}]({page})"
    page = "formats" if rule.name.startswith(("input_format_", "date_time_")) else "settings"
    return f"[ClickHouse](https://clickhouse.com/docs/operations/settings/{page}#{rule.name})"


def _errors(documented: type) -> str:
    return "\n".join(f"- `{name}` {text}" for name, text in _parse(documented, r"raises (\w+)"))


def _parse(documented: type, field: str) -> list[tuple[str, str]]:
    doc = inspect.getdoc(documented) or ""
    found = re.findall(rf"^:{field}: (.*?)(?=\n:|\n\n|\Z)", doc, re.DOTALL | re.MULTILINE)
    return [(name, _markdown(text)) for name, text in found]


def _check_names(documented: type, names: Sequence[str], texts: dict[str, str]) -> None:
    if list(texts) != list(names):
        raise ValueError(f"{documented.__name__} has {list(names)}, and its docstring describes {list(texts)}")


def _code(value: object) -> str:
    return f"`{value}`" if value != "" else "`''`"


def _type(annotation: str) -> str:
    """Render a type, with links from the names of values to the pages; a stroke would end the cell of a table."""
    value = str(SettingValue).replace(" | ", " or ")
    pages = {"Mode": "../reference", **{one.__name__: page_of(one) for one in VALUES}}
    names = annotation.replace("SettingValue", value).split(" | ")
    return " or ".join(f"[`{one}`]({pages[one]}.md)" if one in pages else f"`{one}`" for one in names)


def _markdown(text: str) -> str:
    """One line, with Markdown's way to write code."""
    text = re.sub(r":class:`(\w+)`", r"`\1`", re.sub(r"\s+", " ", text).strip())
    return text.replace("``", "`")


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:].removesuffix('.')}."


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
