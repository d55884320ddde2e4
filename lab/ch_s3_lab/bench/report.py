"""Write the results as JSON, as Markdown tables, and as an HTML page."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from airflow_provider_ch_s3.common.text import MIB
from airflow_provider_ch_s3.trials.measurement import DEFAULTS, OURS
from ch_s3_lab.bench.charts import draw_bars, draw_grid, draw_parts
from ch_s3_lab.bench.pushes import PUSHES
from ch_s3_lab.bench.score import (
    BEST,
    CEILING,
    FORMULA,
    Result,
    best_of_grid,
    format_figure,
    score_results,
)

# "x" is the ratio of the preceding candidate to the plan: 2 means that the plan takes half as long.
SECONDS = (
    "workload",
    "load s: defaults",
    "formula",
    "plan",
    "predicted",
    "x",
    "read ceiling",
    "settled s: defaults",
    "formula",
    "plan",
    "predicted",
    "x",
    "best of grid",
    "x",
    "its settings",
)
RESOURCES = (
    "workload",
    "peak MiB: defaults",
    "plan",
    "predicted",
    "initial parts: defaults",
    "plan",
    "predicted",
    "S3 requests: defaults",
    "plan",
)
PUSHED = ("workload", "pushed with", "load s", "x")


@dataclass(frozen=True)
class Table:
    """A table of figures, with a row for each workload or push."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]

    def __str__(self) -> str:
        """Format the table as Markdown."""
        return "\n".join(map(_line, (self.columns, ("---",) * len(self.columns), *self.rows))) + "\n"


def write_results(directory: Path, results: Sequence[Result], about: Mapping[str, Any]) -> None:
    """Write ``results.json`` and ``tables.md``.

    :param about: machine, versions, conditions.
    """
    directory.mkdir(parents=True, exist_ok=True)
    document = {"about": about, "results": [dataclasses.asdict(result) for result in results]}
    (directory / "results.json").write_text(json.dumps(document, indent=1), "utf-8")
    text = "\n".join(f"{table.title}:\n\n{table}" for table in make_tables(results))
    (directory / "tables.md").write_text(text, "utf-8")


def write_page(directory: Path, results: Sequence[Result], about: Mapping[str, Any]) -> None:
    """Write ``index.html``, and the charts as SVG files; the parameters are the same as of :func:`write_results`."""
    charts = [
        ("load", "Load: the INSERT", draw_bars(results, "load_seconds", "seconds")),
        ("settled", "Settled: load and merges", draw_bars(results, "settled_seconds", "seconds")),
        *((f"grid-{r.workload}", f"{r}: settled seconds over the grid", draw_grid(r)) for r in results if r.grid),
        *((f"parts-{r.workload}", f"{r}: parts over time", draw_parts(r)) for r in results),
    ]
    for name, _, svg in charts:
        (directory / f"{name}.svg").write_text(svg, "utf-8")
    environment = Environment(loader=PackageLoader("ch_s3_lab", "bench"), undefined=StrictUndefined, autoescape=True)
    page = environment.get_template("page.html.jinja").render(
        about=about, score=score_results(results), tables=make_tables(results), charts=charts
    )
    (directory / "index.html").write_text(page, "utf-8")


def make_tables(results: Sequence[Result]) -> list[Table]:
    """Build the tables of seconds, of resources, and of pushes if there were any."""
    pushed = [(r, name) for r in results for name in PUSHES if any(m.candidate == name for m in r.rounds)]
    tables = [
        make_seconds(results),
        Table("Memory, parts, requests", RESOURCES, [_resources(result) for result in results]),
    ]
    if pushed:
        tables.append(Table("Pushed by a worker", PUSHED, [_pushed(result, name) for result, name in pushed]))
    return tables


def make_seconds(results: Sequence[Result]) -> Table:
    """Build the table of seconds; a run also prints the table, line by line."""
    return Table("Seconds", SECONDS, [_seconds(result) for result in results])


def format_row(result: Result) -> str:
    """Format a line of the table of :func:`make_seconds`."""
    return _line(_seconds(result))


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _seconds(result: Result) -> tuple[str, ...]:
    def compare(figure: str) -> list[str]:
        seconds = (result.median(name, figure) for name in (DEFAULTS, FORMULA, OURS))
        return [*map(format_figure, (*seconds, result.predicted[figure], result.ratio(DEFAULTS, figure)))]

    best = best_of_grid(result.grid)
    return (
        str(result),
        *compare("load_seconds"),
        format_figure(result.median(CEILING, "load_seconds")),
        *compare("settled_seconds"),
        format_figure(result.median(BEST, "settled_seconds")),
        format_figure(result.ratio(BEST, "settled_seconds")),
        best.candidate if best else "",
    )


def _resources(result: Result) -> tuple[str, ...]:
    def compare(figure: str, unit: int = 1) -> list[str]:
        return [format_figure(result.median(name, figure) / unit, digits=0) for name in (DEFAULTS, OURS)]

    return (
        str(result),
        *compare("peak_memory_bytes", MIB),
        format_figure(result.predicted["peak_memory_bytes"] / MIB, digits=0),
        *compare("initial_parts"),
        format_figure(result.predicted["initial_parts"], digits=0),
        *compare("requests"),
    )


def _pushed(result: Result, name: str) -> tuple[str, ...]:
    seconds, ratio = result.median(name, "load_seconds"), result.ratio(name, "load_seconds")
    return (str(result), name, format_figure(seconds), format_figure(ratio))
