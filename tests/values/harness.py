"""Load random texts through the planner and the operator, and compare what arrives with the oracle's verdicts.

A load of many rows shows that every value in them is taken right. Texts that have to be refused are tried one by one:
the statement of the load, as the planner makes it, reads a row with the text instead of the files.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

from airflow_provider_ch_s3.arguments import Checks, Reject
from airflow_provider_ch_s3.errors import ChS3Error, ServerError
from airflow_provider_ch_s3.identity import LoadIdentity
from airflow_provider_ch_s3.load.prepare import PreparedLoad
from airflow_provider_ch_s3.load.staged import StagedLoad
from airflow_provider_ch_s3.table.target import TableName
from airflow_provider_ch_s3.transfers.task import identify
from tests.failures import own_errors
from tests.sandbox.conftest import Lab
from tests.values.lanes import LANES, WRAPPERS, Lane, sample, shown
from tests.values.oracle import KINDS, Kind, Verdict
from tests.values.texts import random_text

THREADS = 3
# Enough for names of folders within the 1,024 bytes of a key.
FOLDERS = 8
# How messages name a column.
_NAMED = re.compile(r"column '(c\d+)'|column (c\d+)\b|`(c\d+)`|name: (c\d+),")
_FROM, _SETTINGS = "\nFROM s3(", "\nSETTINGS"


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A text for a column."""

    kind: Kind
    wrapper: str
    text: str
    verdict: Verdict

    @property
    def type(self) -> str:
        return WRAPPERS[self.wrapper].format(self.kind.type)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something that arrived as another value, was loaded though it is no value, or was refused though it is."""

    lane: str
    type: str
    text: str
    expected: str
    happened: str

    def __str__(self) -> str:
        return f"{self.lane}: {self.text!r} for {self.type} {self.expected}; {self.happened}"


@dataclass(kw_only=True)
class Outcome:
    """What a series found."""

    pairs: int = 0
    loaded: int = 0
    refused: int = 0
    findings: list[Finding] = field(default_factory=list)

    def add(self, other: Outcome) -> None:
        self.pairs += other.pairs
        self.loaded += other.loaded
        self.refused += other.refused
        self.findings += other.findings


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Columns that are loaded together: one for each kind, in one lane and one wrapper."""

    lane: Lane
    wrapper: str
    kinds: Sequence[Kind]

    @staticmethod
    def name(kind: Kind) -> str:
        """Return the name of the column for a kind."""
        return f"c{KINDS.index(kind)}"


def is_wrapped(kind: Kind, wrapper: str) -> bool:
    """Whether ClickHouse has the wrapper for a kind."""
    if wrapper == "LowCardinality":
        return not re.match(r"Decimal|DateTime64|Time|Bool|Enum|IPv|.*(128|256)$", kind.type)
    return True


def draw_batches(kinds: Sequence[Kind], lanes: Sequence[Lane], chance: random.Random) -> Iterator[Batch]:
    """List each lane with each of its wrappers; of folders, only some kinds."""
    for lane in lanes:
        for wrapper in lane.wrappers:
            fitting = [kind for kind in kinds if is_wrapped(kind, wrapper)]
            if lane.is_folder:
                fitting = chance.sample(fitting, FOLDERS)
            yield Batch(lane=lane, wrapper=wrapper, kinds=fitting)


def draw_pairs(batch: Batch, count: int, chance: random.Random) -> list[Pair]:
    """Make up pairs for a batch."""
    pairs: dict[tuple[str, str], Pair] = {}
    for _ in range(20 * count):
        if len(pairs) == count:
            break
        kind = chance.choice(batch.kinds)
        text = random_text(kind, chance)
        if batch.lane.carries(kind, text):
            verdict = batch.lane.judge(kind, batch.wrapper, text)
            pairs[kind.type, text] = Pair(kind=kind, wrapper=batch.wrapper, text=text, verdict=verdict)
    return list(pairs.values())


@dataclass(kw_only=True)
class Harness:
    """A lab on one node.

    :param version: of the server.
    :param is_whole: run each load by the operator; otherwise most of them are planned, and their INSERT is run.
    """

    lab: Lab
    version: str
    is_whole: bool = False
    _names: int = 0

    @property
    def kinds(self) -> list[Kind]:
        return [kind for kind in KINDS if kind.since <= self.version]

    def new_name(self, of: str) -> str:
        self._names += 1
        return f"{of}{self._names}"

    def create_table(self, columns: Sequence[str]) -> str:
        """Create a table, and one that keeps nothing, which is called ``<name>_one``; returns the name."""
        name = self.new_name("t")
        settings = {"allow_suspicious_low_cardinality_types": 1}
        if self.version > "25.5":
            settings["enable_time_time64_type"] = 1
        for table, engine in ((name, "MergeTree ORDER BY n"), (f"{name}_one", "Null")):
            statement = f"CREATE TABLE {self.lab.database}.{table} ({', '.join(columns)}) ENGINE = {engine}"
            self.lab.query(statement, settings=settings)
        return name

    def full(self, table: str) -> str:
        return f"{self.lab.database}.{table}"

    def plan(self, glob: str, table: str, **arguments: Any) -> PreparedLoad:
        """Plan a load as the operator does.

        :raises ChS3Error: if it is refused.
        """
        operator = self.lab.operator(glob, self.full(table), **arguments)
        with own_errors(), operator.loading(self.lab.context(operator)) as load:
            assert isinstance(load, StagedLoad)
            return load.preview()

    def load(self, glob: str, table: str, **arguments: Any) -> None:
        """Load files into the emptied table, by the whole operator or by the INSERT of its plan.

        :raises ChS3Error: if that fails.
        """
        self.lab.query(f"TRUNCATE TABLE {self.full(table)}")
        if self.is_whole or "bad_rows" in arguments:
            self.lab.load(glob, self.full(table), **arguments, task_id=self.new_name("load"))
            return
        statement = self.plan(glob, table, **arguments).insert(self.identity(table))
        parameters = {f"param_{name}": text for name, text in statement.parameters.items()}
        self.lab.query(statement.text, settings={**statement.settings, **parameters})

    def identity(self, table: str) -> LoadIdentity:
        full = self.full(table)
        return identify(self.lab.context(self.lab.operator("x", full)), table=full)

    def nowhere(self, table: str) -> TableName:
        """Name the table that keeps nothing."""
        return TableName(database=self.lab.database, table=f"{table}_one")

    def refusal(self, text: str, settings: dict[str, Any]) -> str:
        """Run a statement; returns its error, '' if there is none."""
        try:
            self.lab.query(text, settings=settings)
        except ServerError as error:
            return shorten(str(error))
        return ""

    def arrived(self, insert: str, settings: dict[str, Any]) -> str:
        """Show what the SELECT of an INSERT returns."""
        select = insert[insert.index(")\n") + 2 :]
        try:
            return str(self.lab.query(select, settings={**settings, "default_format": "JSONCompactEachRow"}))
        except (ServerError, ValueError) as error:
            return shorten(str(error))

    def run(self, batch: Batch, pairs: Sequence[Pair]) -> Outcome:
        """Try all pairs of a batch."""
        typed = [f"{batch.name(kind)} {WRAPPERS[batch.wrapper].format(kind.type)}" for kind in batch.kinds]
        return Trial(harness=self, batch=batch, table=self.create_table(["n UInt32", *typed])).run(pairs)


@dataclass(kw_only=True)
class Trial:
    """One batch in one table."""

    harness: Harness
    batch: Batch
    table: str
    outcome: Outcome = field(default_factory=Outcome)

    def run(self, pairs: Sequence[Pair]) -> Outcome:
        self.outcome.pairs += len(pairs)
        for prepared, kinds in self._plan_all(self.batch.kinds, pairs):
            self._run_planned(prepared, kinds, of_kinds(pairs, kinds))
        return self.outcome

    def _run_planned(self, prepared: PreparedLoad, kinds: Sequence[Kind], pairs: Sequence[Pair]) -> None:
        good = [pair for pair in pairs if pair.verdict.must_load]
        others = [pair for pair in pairs if not pair.verdict.must_load]
        good += self._try_others(prepared, others)
        self._load_good(prepared, kinds, good)
        is_plain = self.batch.wrapper == "Nullable" and self.batch.lane.has_rejects
        if is_plain and self.harness.version >= "26.7":
            self._compare_rejects(kinds, pairs, {(pair.kind.type, pair.text) for pair in good})

    def _find(self, pair: Pair, happened: str, *, expected: str = "") -> None:
        self.outcome.findings.append(
            Finding(
                lane=self.batch.lane.name,
                type=pair.type,
                text=pair.text,
                expected=expected or str(pair.verdict),
                happened=happened,
            )
        )

    # Planning

    def _write(self, kinds: Sequence[Kind], rows: Sequence[Sequence[str | None]]) -> str:
        """Write files; returns a glob that matches them."""
        lab, lane = self.harness.lab, self.batch.lane
        folder = self.harness.new_name("in")
        if lane.is_nameless:
            rows = [
                [dict(zip(kinds, row, strict=True)).get(kind, sample(kind)) for kind in self.batch.kinds]
                for row in rows
            ]
            kinds = self.batch.kinds
        names = [self.batch.name(kind) for kind in kinds]
        if not lane.is_folder:
            in_files = [f"t_{name}" for name in names] if lane.is_selected else names
            lab.put(f"{folder}/a.{lane.suffix}", lane.body(in_files, rows, self.batch.wrapper))
            return f"{folder}/**"
        for n, row in enumerate(rows):
            pieces = zip(names, row, strict=True)
            folders = "/".join(f"{name}={quote(text or '', safe='')}" for name, text in pieces)
            lab.put(f"{folder}/{folders}/{n}.csv", f"n\n{n}\n".encode())
        return f"{folder}/**"

    def _arguments(self, kinds: Sequence[Kind]) -> dict[str, Any]:
        if self.batch.lane.is_nameless:
            return dict(self.batch.lane.arguments)
        names = [self.batch.name(kind) for kind in kinds]
        arguments: dict[str, Any] = {**self.batch.lane.arguments, "columns": ["n", *names]}
        if self.batch.lane.is_selected:
            arguments["select"] = {name: f"t_{name}" for name in names}
        return arguments

    def _plan_all(
        self, kinds: Sequence[Kind], pairs: Sequence[Pair]
    ) -> Iterator[tuple[PreparedLoad, Sequence[Kind]]]:
        """Plan loads of a row of plain values: of all columns together, but for those that the planner refuses."""
        rest = list(kinds)
        while rest:
            try:
                glob = self._write(rest, [[sample(kind) for kind in rest]])
                prepared = self.harness.plan(glob, self.table, **self._arguments(rest))
            except ChS3Error as error:
                culprit = self._culprit(error, rest)
                if culprit is None:
                    half = len(rest) // 2
                    yield from self._plan_all(rest[:half], pairs)
                    yield from self._plan_all(rest[half:], pairs)
                    return
                refused = of_kinds(pairs, [culprit])
                self.outcome.refused += len(refused)
                if needed := next((pair for pair in refused if pair.verdict.must_load), None):
                    self._find(needed, f"the plan failed: {shorten(str(error))}")
                rest.remove(culprit)
            else:
                yield prepared, rest
                return

    def _culprit(self, error: ChS3Error, kinds: Sequence[Kind]) -> Kind | None:
        """Return the kind whose column a message names, or the only one."""
        name = culprit_of(error, [self.batch.name(kind) for kind in kinds])
        return next((kind for kind in kinds if self.batch.name(kind) == name), None)

    # One by one

    def _statement(self, prepared: PreparedLoad, pair: Pair) -> tuple[str, dict[str, Any]]:
        """Render the load's statement for one column, reading a row with the text instead of the files."""
        column, lane = self.batch.name(pair.kind), self.batch.lane
        in_files = f"t_{column}" if lane.is_selected else column
        (mapped,) = (one for one in prepared.mapping if one.target == column)
        (read,) = (one for one in prepared.source.columns if one.name == in_files)
        alone = replace(prepared, mapping=(mapped,), source=replace(prepared.source, columns=(read,)))
        statement = alone.insert(self.harness.identity(self.table), into=self.harness.nowhere(self.table))
        start = statement.text.index(_FROM)
        end = statement.text.index(_SETTINGS, start)
        source = lane.source(in_files, read.parsed_type, pair.wrapper, pair.text)
        text = f"{statement.text[:start]}\nFROM {source} AS `ch_s3_files`{statement.text[end:]}"
        return text, dict(statement.settings)

    def _refusals(self, prepared: PreparedLoad, pairs: Sequence[Pair]) -> list[str]:
        """Return the error that each text causes; '' for those that are loaded."""
        with ThreadPoolExecutor(THREADS) as pool:
            return list(pool.map(lambda pair: self.harness.refusal(*self._statement(prepared, pair)), pairs))

    def _try_others(self, prepared: PreparedLoad, pairs: Sequence[Pair]) -> list[Pair]:
        """Try texts that have to be refused, or may be; return those that are loaded and may be."""
        errors = self._refusals(prepared, pairs)
        loaded = [pair for pair, error in zip(pairs, errors, strict=True) if not error]
        self.outcome.refused += len(pairs) - len(loaded)
        for pair in loaded:
            if not pair.verdict.values:
                self._find(pair, f"it was loaded as {self.harness.arrived(*self._statement(prepared, pair))}")
        return [pair for pair in loaded if pair.verdict.values]

    # Together

    def _load_good(self, prepared: PreparedLoad, kinds: Sequence[Kind], pairs: Sequence[Pair]) -> None:
        kinds = [kind for kind in kinds if of_kinds(pairs, [kind])]
        if not kinds:
            return
        try:
            self._load(kinds, pairs)
        except ChS3Error as error:
            culprit = self._culprit(error, kinds)
            suspects = of_kinds(pairs, [culprit]) if culprit else list(pairs)
            errors = self._refusals(prepared, suspects)
            bad = [pair for pair, said in zip(suspects, errors, strict=True) if said]
            for pair, said in zip(suspects, errors, strict=True):
                if said:
                    self._find(pair, f"it was refused: {said}")
            if bad:
                self._load_good(prepared, kinds, [pair for pair in pairs if pair not in bad])
            elif culprit:
                self._find(suspects[0], f"alone it is loaded, with others the load failed: {shorten(str(error))}")
                self._load_good(prepared, kinds, [pair for pair in pairs if pair.kind != culprit])
            else:
                for half in (kinds[: len(kinds) // 2], kinds[len(kinds) // 2 :]):
                    self._load_good(prepared, half, of_kinds(pairs, half))

    def _load(self, kinds: Sequence[Kind], pairs: Sequence[Pair]) -> None:
        """Load all values in one load, and compare what arrives."""
        columns = [of_kinds(pairs, [kind]) for kind in kinds]
        height = max(map(len, columns))
        glob = self._write(kinds, [[column[n % len(column)].text for column in columns] for n in range(height)])
        self.harness.load(glob, self.table, **self._arguments(kinds))
        arrived = self._read(kinds)
        self.outcome.loaded += len(pairs)
        for column in columns:
            for n, pair in enumerate(column):
                self._compare(pair, arrived.get(n, {}).get(self.batch.name(pair.kind), "no such row"))

    def _compare(self, pair: Pair, arrived: str, how: str = "") -> None:
        value = normal(pair.kind, arrived)
        if value not in pair.verdict.values:
            self._find(pair, f"{how}it arrived as {value}")

    def _read(self, kinds: Sequence[Kind]) -> dict[int, dict[str, str]]:
        names = {self.batch.name(kind): kind for kind in kinds}
        items = ", ".join(f"{shown(f'a.{name}', kind, self.batch.wrapper)} AS {name}" for name, kind in names.items())
        found = self.harness.lab.query(f"SELECT n, {items} FROM {self.harness.full(self.table)} AS a")
        return {row["n"]: row for row in found}

    # Bad rows set aside

    def _compare_rejects(self, kinds: Sequence[Kind], pairs: Sequence[Pair], good: set[tuple[str, str]]) -> None:
        """Load all pairs, a row for each, and compare which rows are set aside with what a load refuses."""
        pairs = [pair for pair in pairs if not set(pair.text) & set("\n\r")]
        if not pairs:
            return
        glob = self._write(kinds, [[pair.text if kind == pair.kind else None for kind in kinds] for pair in pairs])
        try:
            self.harness.load(
                glob, self.table, **self._arguments(kinds), bad_rows=Reject(), checks=Checks(min_rows=0)
            )
        except ChS3Error as error:
            culprit = self._culprit(error, kinds)
            suspects = (of_kinds(pairs, [culprit]) if culprit else []) or pairs
            self._find(suspects[0], f"a load that sets bad rows aside failed: {shorten(str(error))}")
            if culprit:
                rest = [kind for kind in kinds if kind != culprit]
                self._compare_rejects(rest, of_kinds(pairs, rest), good)
            return
        arrived = self._read(kinds)
        for n, pair in enumerate(pairs):
            is_good = (pair.kind.type, pair.text) in good
            if n in arrived and not is_good:
                value = arrived[n][self.batch.name(pair.kind)]
                self._find(pair, f"reject mode loads {value}", expected="is refused by a load")
            elif n not in arrived and is_good:
                self._find(pair, "reject mode sets it aside", expected="is taken by a load")
            elif n in arrived:
                self._compare(pair, arrived[n][self.batch.name(pair.kind)], "in reject mode ")


def of_kinds(pairs: Sequence[Pair], kinds: Sequence[Kind]) -> list[Pair]:
    return [pair for pair in pairs if pair.kind in kinds]


def culprit_of(error: ChS3Error, names: Sequence[str]) -> str | None:
    """Return the column that a message names, or the only one."""
    if len(names) == 1:
        return names[0]
    named = {name for match in _NAMED.finditer(str(error)) for name in match.groups() if name}
    found = [name for name in names if name in named]
    return found[0] if len(found) == 1 else None


def shorten(message: str) -> str:
    """Return a message in one line; of a long one, its beginning and its end."""
    line = " ".join(message.split())
    return line if len(line) <= 500 else f"{line[:200]} … {line[-280:]}"


def normal(kind: Kind, arrived: str) -> str:
    """Return a value in the form of the verdicts."""
    try:
        return kind.normal(arrived)
    except ValueError:
        return arrived


def run_series(
    harness: Harness, *, pairs: int, seed: int, lanes: Sequence[Lane] = LANES
) -> Iterator[tuple[str, Outcome]]:
    """Try random pairs of text and type, batch by batch."""
    chance = random.Random(seed)
    planned = list(draw_batches(harness.kinds, lanes, chance))
    for batch in planned:
        found = harness.run(batch, draw_pairs(batch, -(-pairs // len(planned)), chance))
        yield f"{batch.lane.name} {batch.wrapper}".strip(), found
