"""Load random values of typed files, and compare what arrives with the oracle's verdicts."""

from __future__ import annotations

import io
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq

from airflow_provider_ch_s3.errors import ChS3Error, TargetError
from airflow_provider_ch_s3.files.source import SourceFile
from airflow_provider_ch_s3.load.prepare import PreparedLoad
from airflow_provider_ch_s3.table.mapping import map_columns
from tests.values.harness import THREADS, Finding, Harness, Outcome, culprit_of, normal, shorten
from tests.values.lanes import WRAPPERS, shown
from tests.values.oracle import Kind, Verdict
from tests.values.typed_oracle import SHAPES, SOURCES, WRAPPER_OF, Source, is_compared, judge_value, nest

FORMATS = ("parquet", "parquet", "arrow", "orc")
COLUMNS = 60
NULLS = 0.07


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of the files, and the one of the table that takes it."""

    name: str
    source: Source
    shape: str
    kind: Kind
    wrapper: str

    @property
    def type(self) -> str:
        return WRAPPERS[self.wrapper].format(self.kind.type)

    @property
    def in_file(self) -> str:
        return f"{self.shape} of {self.source.type}" if self.shape else str(self.source.type)

    def array(self, values: Sequence[Any]) -> pa.Array:
        return nest(self.source.build(list(values), self.source.type), self.shape)


@dataclass(frozen=True, kw_only=True)
class Value:
    """A value for a column."""

    column: Column
    value: Any
    verdict: Verdict


@dataclass(frozen=True, kw_only=True)
class Tried:
    """A value in a file of its own row."""

    value: Value
    key: str


def draw_columns(harness: Harness, data_format: str, chance: random.Random) -> list[Column]:
    """Choose pairs of types: half of them of one kind, as far as the kinds of the table tell."""
    sources = [one for one in SOURCES if data_format in one.formats and one.since <= harness.version]
    columns: list[Column] = []
    while len(columns) < COLUMNS:
        source, kind = chance.choice(sources), chance.choice(harness.kinds)
        is_related = bool(judge_value(source, source.plain, kind, "").values)
        if not is_compared(source, kind) or (not is_related and chance.random() < 0.8):
            continue
        shape = chance.choice(SHAPES)
        wrapper = WRAPPER_OF.get(shape) or chance.choice(("", "", "Nullable"))
        columns.append(Column(name=f"c{len(columns)}", source=source, shape=shape, kind=kind, wrapper=wrapper))
    return columns


def draw_values(columns: Sequence[Column], count: int, chance: random.Random) -> list[Value]:
    found = []
    for _ in range(count):
        column = chance.choice(columns)
        value = None if chance.random() < NULLS else column.source.draw(chance)
        verdict = judge_value(column.source, value, column.kind, column.wrapper)
        found.append(Value(column=column, value=value, verdict=verdict))
    return found


def file_of(columns: Sequence[Column], values: Sequence[Sequence[Any]], height: int, data_format: str) -> bytes:
    """Write a file of a column ``n`` and others."""
    arrays = {"n": pa.array(range(height), pa.int32())}
    arrays |= {column.name: column.array(one) for column, one in zip(columns, values, strict=True)}
    table, file = pa.table(arrays), io.BytesIO()
    match data_format:
        case "parquet":
            pq.write_table(table, file)
        case "orc":
            orc.write_table(table, file)
        case _:
            with pa.ipc.new_file(file, table.schema) as writer:
                writer.write_table(table)
    return file.getvalue()


@dataclass(kw_only=True)
class TypedTrial:
    """Some columns in one table."""

    harness: Harness
    data_format: str
    columns: Sequence[Column]
    table: str = ""
    outcome: Outcome = field(default_factory=Outcome)

    def run(self, values: Sequence[Value]) -> Outcome:
        self.outcome.pairs += len(values)
        self.table = self.harness.create_table(["n UInt32", *(f"{one.name} {one.type}" for one in self.columns)])
        plain = [[column.source.plain] for column in self.columns]
        glob = self._put(f"{self.table}/plain", file_of(self.columns, plain, 1, self.data_format))
        whole = self.harness.plan(glob, self.table, columns=["n"])
        taken = []
        for column in self.columns:
            if message := not_mapped(whole, column):
                self._refuse([value for value in values if value.column == column], message)
            else:
                taken.append(column)
        for prepared, columns in self._plan_all(glob, taken, values):
            self._run_planned(prepared, columns, [value for value in values if value.column in columns])
        return self.outcome

    def _put(self, path: str, body: bytes) -> str:
        key = f"{path}.{self.data_format}"
        self.harness.lab.put(key, body)
        return key

    def _find(self, value: Value, happened: str) -> None:
        column = value.column
        self.outcome.findings.append(
            Finding(
                lane=f"{self.data_format} {column.in_file}",
                type=column.type,
                text=str(value.value),
                expected=str(value.verdict),
                happened=happened,
            )
        )

    def _refuse(self, values: Sequence[Value], message: str) -> None:
        self.outcome.refused += len(values)
        if needed := next((value for value in values if value.verdict.must_load), None):
            self._find(needed, f"the plan failed: {shorten(message)}")

    def _plan_all(
        self, glob: str, columns: Sequence[Column], values: Sequence[Value]
    ) -> Iterator[tuple[PreparedLoad, Sequence[Column]]]:
        """Plan loads of all columns that the mapping takes, of as many as possible together."""
        rest = list(columns)
        while rest:
            try:
                prepared = self.harness.plan(glob, self.table, columns=["n", *(one.name for one in rest)])
            except ChS3Error as error:
                culprit = find_culprit(error, rest)
                if culprit is None:
                    half = len(rest) // 2
                    yield from self._plan_all(glob, rest[:half], values)
                    yield from self._plan_all(glob, rest[half:], values)
                    return
                self._refuse([value for value in values if value.column == culprit], str(error))
                rest.remove(culprit)
            else:
                yield prepared, rest
                return

    def _run_planned(self, prepared: PreparedLoad, columns: Sequence[Column], values: Sequence[Value]) -> None:
        good = [value for value in values if value.verdict.must_load]
        others = [value for value in values if not value.verdict.must_load]
        tried, errors = self._try_each(prepared, columns, others)
        for one, error in zip(tried, errors, strict=True):
            if error:
                self.outcome.refused += 1
            elif one.value.verdict.values:
                good.append(one.value)
            else:
                self._find(one.value, f"it was loaded as {self.harness.arrived(*self._statement(prepared, one))}")
        self._load_good(prepared, columns, good)

    # One by one

    def _rows(self, columns: Sequence[Column], values: Sequence[Value]) -> tuple[list[list[Any]], int]:
        by_column = [[value.value for value in values if value.column == column] for column in columns]
        height = max(map(len, by_column), default=0)
        filled = [
            one + [column.source.plain] * (height - len(one)) for column, one in zip(columns, by_column, strict=True)
        ]
        return filled, height

    def _try_each(
        self, prepared: PreparedLoad, columns: Sequence[Column], values: Sequence[Value]
    ) -> tuple[list[Tried], list[str]]:
        """Try values one by one, in files of one row; returns the error of each, '' for those that are loaded."""
        filled, height = self._rows(columns, values)
        folder = self.harness.new_name("rows")
        keys = [
            self._put(f"{folder}/{row}", file_of(columns, [[one[row]] for one in filled], 1, self.data_format))
            for row in range(height)
        ]
        at: Counter[str] = Counter()
        tried = []
        for value in values:
            tried.append(Tried(value=value, key=keys[at[value.column.name]]))
            at[value.column.name] += 1
        with ThreadPoolExecutor(THREADS) as pool:
            errors = pool.map(lambda one: self.harness.refusal(*self._statement(prepared, one)), tried)
            return tried, list(errors)

    def _statement(self, prepared: PreparedLoad, tried: Tried) -> tuple[str, dict[str, Any]]:
        """Render the load's statement for one column of one file."""
        name = tried.value.column.name
        alone = replace(
            prepared,
            mapping=tuple(one for one in prepared.mapping if one.target == name),
            source=replace(
                prepared.source,
                columns=tuple(one for one in prepared.source.columns if one.name == name),
                files=(SourceFile(key=tried.key, etag="", size_bytes=1),),
            ),
        )
        statement = alone.insert(self.harness.identity(self.table), into=self.harness.nowhere(self.table))
        parameters = {f"param_{name}": text for name, text in statement.parameters.items()}
        return statement.text, {**statement.settings, **parameters}

    # Together

    def _load_good(self, prepared: PreparedLoad, columns: Sequence[Column], values: Sequence[Value]) -> None:
        columns = [column for column in columns if any(value.column == column for value in values)]
        if not columns:
            return
        try:
            self._load(columns, values)
        except ChS3Error as error:
            culprit = find_culprit(error, columns)
            suspects = [value for value in values if culprit in (None, value.column)]
            tried, errors = self._try_each(prepared, columns, suspects)
            bad = [one.value for one, said in zip(tried, errors, strict=True) if said]
            for one, said in zip(tried, errors, strict=True):
                if said:
                    self._find(one.value, f"it was refused: {said}")
            if bad:
                # Values may be NaN, which equals nothing.
                self._load_good(
                    prepared, columns, [value for value in values if not any(value is one for one in bad)]
                )
            elif culprit:
                self._find(suspects[0], f"alone it is loaded, with others the load failed: {shorten(str(error))}")
                self._load_good(prepared, columns, [value for value in values if value.column != culprit])
            else:
                for half in (columns[: len(columns) // 2], columns[len(columns) // 2 :]):
                    self._load_good(prepared, half, [value for value in values if value.column in half])

    def _load(self, columns: Sequence[Column], values: Sequence[Value]) -> None:
        filled, height = self._rows(columns, values)
        glob = self._put(f"{self.harness.new_name('in')}/a", file_of(columns, filled, height, self.data_format))
        self.harness.load(glob, self.table, columns=["n", *(column.name for column in columns)])
        items = ", ".join(f"{shown(f'a.{one.name}', one.kind, one.wrapper)} AS {one.name}" for one in columns)
        found = self.harness.lab.query(f"SELECT n, {items} FROM {self.harness.full(self.table)} AS a")
        arrived = {row["n"]: row for row in found}
        self.outcome.loaded += len(values)
        at: Counter[str] = Counter()
        for value in values:
            name = value.column.name
            came = normal(value.column.kind, arrived.get(at[name], {}).get(name, "no such row"))
            at[name] += 1
            if came not in value.verdict.values:
                self._find(value, f"it arrived as {came}")


def not_mapped(whole: PreparedLoad, column: Column) -> str:
    """Return why the planner's mapping refuses a column, which it tells without asking the server."""
    try:
        map_columns(whole.source.columns, whole.target, columns=[column.name])
    except TargetError as error:
        return str(error)
    return ""


def find_culprit(error: ChS3Error, columns: Sequence[Column]) -> Column | None:
    name = culprit_of(error, [column.name for column in columns])
    return next((column for column in columns if column.name == name), None)


def run_typed(harness: Harness, *, pairs: int, seed: int) -> Iterator[tuple[str, Outcome]]:
    """Try random values of typed files, some columns after the other."""
    chance = random.Random(seed)
    left, number = pairs, 0
    while left > 0:
        data_format = FORMATS[number % len(FORMATS)]
        columns = draw_columns(harness, data_format, chance)
        values = draw_values(columns, min(left, 10 * COLUMNS), chance)
        left, number = left - len(values), number + 1
        yield data_format, TypedTrial(harness=harness, data_format=data_format, columns=columns).run(values)
