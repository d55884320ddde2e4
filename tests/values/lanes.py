"""The ways in which a text gets into a load: formats, folders and expressions; what each makes of the text itself."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from tests.values.oracle import (
    NULL,
    REFUSED,
    Kind,
    Verdict,
    exact,
    judge_float,
    judge_padded,
    may,
    must,
    parse_number,
)

SAMPLES = {
    "integer": "1",
    "float": "1.5",
    "decimal": "0",
    "day": "2024-01-02",
    "time": "2024-01-02 03:04:05",
    "span": "01:02:03",
    "bool": "true",
    "uuid": "00112233-4455-6677-8899-aabbccddeeff",
    "ipv4": "1.2.3.4",
    "ipv6": "::1",
    "text": "a",
}
WRAPPERS = {
    "": "{}",
    "Nullable": "Nullable({})",
    "LowCardinality": "LowCardinality({})",
    "Array": "Array({})",
    "Map": "Map(String, {})",
    "Tuple": "Tuple(a {})",
}
NESTED = frozenset({"Array", "Map", "Tuple"})
# The inner value, with a check that there is one.
_INNER = {"Array": "if(length({0}) = 1, {1}, 'no single element')", "Map": "{1}", "Tuple": "{1}"}
_ELEMENT = {"Array": "{}[1]", "Map": "{}['k']", "Tuple": "tupleElement({}, 'a')"}


def sample(kind: Kind) -> str:
    """Return a text that every lane takes for a value of a kind."""
    if kind.family == "enum":
        return kind.type.split("'")[1]
    return SAMPLES[kind.family]


def shown(name: str, kind: Kind, wrapper: str) -> str:
    """Return SQL that shows a column's value as text."""
    if wrapper in NESTED:
        element = kind.shown.format(f"CAST({_ELEMENT[wrapper].format(name)}, {sql_text(kind.type)})")
        return _INNER[wrapper].format(name, element)
    value = kind.shown.format(f"CAST(assumeNotNull({name}), {sql_text(kind.type)})")
    return f"if(isNull({name}), '{NULL}', {value})"


def sql_text(text: str) -> str:
    """Quote a text for ClickHouse."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\0", "\\0").replace("\n", "\\n")
    return f"'{escaped}'"


@dataclass(frozen=True, kw_only=True)
class Lane:
    """One way.

    :param suffix: of the files' names.
    :param wrappers: the wrappers of ``WRAPPERS`` that it can carry.
    :param carries: whether a text can be written this way as a value of a kind.
    :param judge: what the text means there for a kind in a wrapper.
    :param body: writes a file of columns ``n`` and others; a missing value is None.
    :param source: SQL that stands for a file with one row: column, type that the server reads, wrapper, text.
    :param arguments: further arguments of the load.
    :param has_rejects: whether a load can set bad rows aside.
    :param is_nameless: the files have no names, so that they have to have all columns.
    :param is_folder: each text is the name of a folder.
    :param is_selected: an expression is the text, which the files hold under another name.
    """

    name: str
    suffix: str
    wrappers: tuple[str, ...]
    carries: Callable[[Kind, str], bool]
    judge: Callable[[Kind, str, str], Verdict]
    body: Callable[[Sequence[str], Sequence[Sequence[str | None]], str], bytes]
    source: Callable[[str, str, str, str], str]
    arguments: Mapping[str, object]
    has_rejects: bool = False
    is_nameless: bool = False
    is_folder: bool = False
    is_selected: bool = False


def missing(wrapper: str) -> Verdict:
    return must(NULL) if wrapper == "Nullable" else REFUSED


def inside(verdict: Verdict, kind: Kind, wrapper: str, text: str) -> Verdict:
    """Weaken the verdict of what is in a list, a map or a tuple: only what is plain there has to be loaded."""
    is_plain = kind.family == "text" or (kind.family == "integer" and text in verdict.values)
    return verdict if wrapper not in NESTED or is_plain else verdict.weaker()


def judge_quoted(kind: Kind, wrapper: str, text: str) -> Verdict:
    return inside(judge_padded(kind, text), kind, wrapper, text)


# Delimited text


def judge_in_csv(kind: Kind, wrapper: str, text: str) -> Verdict:
    """Judge a quoted field; numbers are written in a list without quotes."""
    if wrapper != "Array" and kind.family != "text":
        return judge_field(kind, wrapper, text)
    if wrapper != "Array" or not is_bare(text) or text == "null":
        return judge_quoted(kind, wrapper, text)
    return (
        judge_bare_json(kind, wrapper, text).weaker()
        if kind.family == "text"
        else judge_bare_json(kind, wrapper, text)
    )


def judge_field(kind: Kind, wrapper: str, text: str) -> Verdict:
    """Judge a field that is no text: blanks around it do not belong to it, and an empty one is a missing value."""
    bare = text.strip(" \t")
    found = kind.judge(bare) if bare else missing(wrapper)
    return found if bare == text else found.weaker()


def judge_bare_csv(kind: Kind, wrapper: str, text: str) -> Verdict:
    is_text = kind.family == "text"
    if text == "\\N" and is_text and wrapper != "Nullable":
        return may(*judge_padded(kind, text).values, *kind.judge("").values)
    stripped = text if is_text else text.strip(" \t")
    if stripped == "\\N" or (stripped == "" and not (is_text and wrapper != "Nullable")):
        return missing(wrapper)
    if is_text and text and text.strip(" \t") == "":
        return may(*kind.judge(text).values, *missing(wrapper).values, *kind.judge("").values)
    return judge_padded(kind, text) if is_text else judge_field(kind, wrapper, text)


def carried_bare(kind: Kind, text: str) -> bool:
    return not set(text) & set(',"\n\r') and not text.startswith("'")


def carried_quoted(kind: Kind, text: str) -> bool:
    return "\r" not in text


def csv_quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def in_list(text: str) -> str:
    if is_bare(text) and text != "null":
        return f"[{text}]"
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"['{escaped}']"


def csv_cell(text: str | None, wrapper: str, *, is_quoted: bool) -> str:
    if text is None:
        return ""
    if wrapper == "Array":
        text = in_list(text)
    return csv_quoted(text) if is_quoted else text


def csv_lane(name: str, *, is_quoted: bool, has_header: bool, **more: bool) -> Lane:
    def body(names: Sequence[str], rows: Sequence[Sequence[str | None]], wrapper: str) -> bytes:
        lines = [",".join(["n", *names])] if has_header else []
        for n, row in enumerate(rows):
            lines.append(",".join([str(n), *(csv_cell(one, wrapper, is_quoted=is_quoted) for one in row)]))
        return "".join(f"{line}\n" for line in lines).encode()

    data_format = "CSVWithNames" if has_header else "CSV"

    def source(column: str, read_as: str, wrapper: str, text: str) -> str:
        structure = sql_text(f"n UInt32, {column} {read_as}")
        return f"format({data_format}, {structure}, {sql_text(body([column], [[text]], wrapper).decode())})"

    return Lane(
        name=name,
        suffix="csv",
        wrappers=("", "Nullable", "LowCardinality", *(("Array",) if is_quoted else ())),
        carries=carried_quoted if is_quoted else carried_bare,
        judge=judge_in_csv if is_quoted else judge_bare_csv,
        body=body,
        source=source,
        arguments={"data_format": data_format},
        **more,
    )


TSV_CONTROLS = str.maketrans({"\t": "\\t", "\n": "\\n", "\r": "\\r", "\0": "\\0"})
TSV_ESCAPES = TSV_CONTROLS | str.maketrans({"\\": "\\\\"})
"""ClickHouse writes and reads lists with the escapes of their texts alone."""


def tsv_body(names: Sequence[str], rows: Sequence[Sequence[str | None]], wrapper: str) -> bytes:
    lines = ["\t".join(["n", *names])]
    for n, row in enumerate(rows):
        cells = [
            "\\N"
            if one is None
            else (in_list(one).translate(TSV_CONTROLS) if wrapper == "Array" else one.translate(TSV_ESCAPES))
            for one in row
        ]
        lines.append("\t".join([str(n), *cells]))
    return "".join(f"{line}\n" for line in lines).encode()


def tsv_source(column: str, read_as: str, wrapper: str, text: str) -> str:
    structure = sql_text(f"n UInt32, {column} {read_as}")
    return f"format(TSVWithNames, {structure}, {sql_text(tsv_body([column], [[text]], wrapper).decode())})"


def judge_tsv(kind: Kind, wrapper: str, text: str) -> Verdict:
    if kind.family != "text" and text.strip(" \t") == "":
        return missing(wrapper).weaker()
    return judge_in_csv(kind, wrapper, text) if wrapper == "Array" else judge_quoted(kind, wrapper, text)


# JSON


def is_bare(text: str) -> bool:
    """Whether a text is a number, true, false or null of JSON."""

    def refuse(name: str) -> None:
        raise ValueError(name)

    try:
        value = json.loads(text, parse_constant=refuse)
    except ValueError:
        return False
    return text == text.strip() and (value is None or isinstance(value, bool | int | float))


def judge_bare_json(kind: Kind, wrapper: str, text: str) -> Verdict:
    if text == "null":
        return REFUSED if wrapper in NESTED else missing(wrapper)
    if text in ("true", "false"):
        if kind.family == "text":
            return may(*kind.judge(text).values)
        return kind.judge(text) if kind.family == "bool" else REFUSED
    match kind.family:
        case "integer":
            found = kind.judge(text)
            if not found.values and judge_float(text, bits=64).values:
                found = whole(kind, text)
        case "float" | "decimal":
            found = kind.judge(text)
        case "text" | "bool":
            found = kind.judge(text).weaker()
        case "day" | "time" | "enum":  # 20240131 is a day also without quotes, and 2 may be a name
            found = kind.judge(text).weaker()
        case _:
            return REFUSED
    return inside(found, kind, wrapper, text)


def whole(kind: Kind, text: str) -> Verdict:
    """Judge ``1.0`` and ``1e2`` in a column of integers: the number may be taken, as it is whole."""
    number = parse_number(text)
    value = exact(number) if number else None
    if value is None or value.denominator != 1:
        return REFUSED
    return kind.judge(str(value)).weaker()


def json_lane(name: str, *, bare: bool) -> Lane:
    def cell(text: str | None, wrapper: str) -> str:
        if text is None:
            return "null"
        inner = text if bare and is_bare(text) else json.dumps(text, ensure_ascii=False)
        return {"Array": f"[{inner}]", "Map": f'{{"k": {inner}}}', "Tuple": f'{{"a": {inner}}}'}.get(wrapper, inner)

    def body(names: Sequence[str], rows: Sequence[Sequence[str | None]], wrapper: str) -> bytes:
        lines = []
        for n, row in enumerate(rows):
            cells = [
                f'"{one}": {cell(text, wrapper)}' for one, text in zip(names, row, strict=True) if text is not None
            ]
            lines.append(f"{{{', '.join([f'{chr(34)}n{chr(34)}: {n}', *cells])}}}\n")
        return "".join(lines).encode()

    def source(column: str, read_as: str, wrapper: str, text: str) -> str:
        structure = sql_text(f"n UInt32, {column} {read_as}")
        return f"format(JSONEachRow, {structure}, {sql_text(body([column], [[text]], wrapper).decode())})"

    return Lane(
        name=name,
        suffix="jsonl",
        wrappers=tuple(WRAPPERS),
        carries=(lambda kind, text: is_bare(text)) if bare else (lambda kind, text: True),
        judge=judge_bare_json if bare else judge_quoted,
        body=body,
        source=source,
        arguments={},
        has_rejects=True,
    )


# Text in typed files, in folders and in expressions

_WRAPPED: dict[str, Callable[[str], object]] = {
    "Array": lambda text: [text],
    "Map": lambda text: [("k", text)],
    "Tuple": lambda text: {"a": text},
}
_ARROW = {
    "Array": pa.list_(pa.string()),
    "Map": pa.map_(pa.string(), pa.string()),
    "Tuple": pa.struct([("a", pa.string())]),
}
_SQL = {"Array": "[{}]", "Map": "map('k', {})", "Tuple": "tuple({})"}


def judge_typed_text(kind: Kind, wrapper: str, text: str) -> Verdict:
    """Judge text of typed files: a list of text need not become a list of something else."""
    found = judge_quoted(kind, wrapper, text)
    return found if wrapper not in NESTED or kind.family == "text" else found.weaker()


def _as_it_is(text: str) -> object:
    return text


def parquet_body(names: Sequence[str], rows: Sequence[Sequence[str | None]], wrapper: str) -> bytes:
    wrap = _WRAPPED.get(wrapper, _as_it_is)
    columns = {"n": pa.array(range(len(rows)), pa.uint32())}
    for at, name in enumerate(names):
        values = [None if (text := row[at]) is None else wrap(text) for row in rows]
        columns[name] = pa.array(values, _ARROW.get(wrapper, pa.string()))
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


def parquet_source(column: str, read_as: str, wrapper: str, text: str) -> str:
    value = _SQL.get(wrapper, "{}").format(sql_text(text))
    # Of constants, ClickHouse also evaluates branches that no row needs.
    return f"(SELECT 1 AS n, CAST(materialize({value}), {sql_text(read_as)}) AS {column})"


def folder_body(names: Sequence[str], rows: Sequence[Sequence[str | None]], wrapper: str) -> bytes:
    return b"n\n0\n"


def folder_source(column: str, read_as: str, wrapper: str, text: str) -> str:
    path = sql_text(f"bucket/in/{column}={quote(text, safe='')}/a.csv")
    return f"(SELECT 1 AS n, materialize({path}) AS _path)"


def carried_by_folder(kind: Kind, text: str) -> bool:
    return text not in ("", ".", "..") and len(quote(text)) < 100


SCALARS = ("", "Nullable", "LowCardinality")
LANES: tuple[Lane, ...] = (
    csv_lane("csv", is_quoted=False, has_header=True, has_rejects=True),
    csv_lane("csv-without-header", is_quoted=False, has_header=False, is_nameless=True),
    csv_lane("csv-quoted", is_quoted=True, has_header=True, has_rejects=True),
    Lane(
        name="tsv",
        suffix="tsv",
        wrappers=(*SCALARS, "Array"),
        carries=lambda kind, text: True,
        judge=judge_tsv,
        body=tsv_body,
        source=tsv_source,
        arguments={"data_format": "TSVWithNames"},
    ),
    json_lane("json-string", bare=False),
    json_lane("json-bare", bare=True),
    Lane(
        name="parquet-string",
        suffix="parquet",
        wrappers=tuple(WRAPPERS),
        carries=lambda kind, text: True,
        judge=judge_typed_text,
        body=parquet_body,
        source=parquet_source,
        arguments={},
    ),
    Lane(
        name="select",
        suffix="parquet",
        wrappers=SCALARS,
        carries=lambda kind, text: True,
        judge=judge_quoted,
        body=parquet_body,
        source=parquet_source,
        arguments={},
        is_selected=True,
    ),
    Lane(
        name="folder",
        suffix="csv",
        wrappers=SCALARS,
        carries=carried_by_folder,
        judge=judge_quoted,
        body=folder_body,
        source=folder_source,
        arguments={"data_format": "CSVWithNames"},
        is_folder=True,
    ),
)
