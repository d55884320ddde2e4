"""The results as JSON, as a Markdown table, and as one HTML page."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from airflow_provider_ch_s3.bench.charts import draw_bars, draw_grid, draw_parts
from airflow_provider_ch_s3.bench.score import (
    BEST,
    CEILING,
    DEFAULTS,
    FORMULA,
    OURS,
    Result,
    score_results,
)
from airflow_provider_ch_s3.units import MIB

COLUMNS = (
    "workload",
    "load s: defaults",
    "formula",
    "ours",
    "best of grid",
    "read ceiling",
    "settled s: defaults",
    "formula",
    "ours",
    "best of grid",
    "peak MiB: defaults",
    "ours",
    "predicted",
    "initial parts: defaults",
    "ours",
    "predicted",
)


def write_results(directory: Path, results: Sequence[Result], about: Mapping[str, Any]) -> None:
    """Write ``results.json`` and ``table.md``.

    :param about: machine, versions, conditions.
    """
    directory.mkdir(parents=True, exist_ok=True)
    document = {"about": about, "results": [dataclasses.asdict(result) for result in results]}
    (directory / "results.json").write_text(json.dumps(document, indent=1), "utf-8")
    (directory / "table.md").write_text(format_table(results), "utf-8")


def write_page(directory: Path, results: Sequence[Result], about: Mapping[str, Any]) -> None:
    """Write ``index.html``, and its charts as SVG files; takes what :func:`write_results` takes."""
    charts = [
        ("load", "Load: the INSERT", draw_bars(results, "load_seconds", "seconds")),
        ("settled", "Settled: load and merges", draw_bars(results, "settled_seconds", "seconds")),
        *(
            (f"grid-{r.workload}", f"{r.workload} {r.title}: settled seconds over the grid", draw_grid(r))
            for r in results
            if r.grid
        ),
        *((f"parts-{r.workload}", f"{r.workload} {r.title}: parts over time", draw_parts(r)) for r in results),
    ]
    for name, _, svg in charts:
        (directory / f"{name}.svg").write_text(svg, "utf-8")
    environment = Environment(
        loader=PackageLoader("airflow_provider_ch_s3", "bench"), undefined=StrictUndefined, autoescape=True
    )
    page = environment.get_template("page.html.jinja").render(
        about=about, score=score_results(results), columns=COLUMNS, rows=[_row(r) for r in results], charts=charts
    )
    (directory / "index.html").write_text(page, "utf-8")


def format_table(results: Sequence[Result]) -> str:
    """A Markdown table, one row for each workload."""
    lines = [_line(COLUMNS), _line(("---",) * len(COLUMNS)), *map(format_row, results)]
    return "\n".join(lines) + "\n"


def format_row(result: Result) -> str:
    """One line of the table."""
    return _line(_row(result))


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _row(result: Result) -> tuple[str, ...]:
    settled = (DEFAULTS, FORMULA, OURS, BEST)
    return (
        f"{result.workload} {result.title}",
        *(_number(result.median(name, "load_seconds")) for name in (*settled, CEILING)),
        *(_number(result.median(name, "settled_seconds")) for name in settled),
        *(_number(result.median(name, "peak_memory_bytes") / MIB, digits=0) for name in (DEFAULTS, OURS)),
        _number(result.predicted["peak_memory_bytes"] / MIB, digits=0),
        *(_number(result.median(name, "initial_parts"), digits=0) for name in (DEFAULTS, OURS)),
        _number(result.predicted["initial_parts"], digits=0),
    )


def _number(value: float, *, digits: int = 2) -> str:
    if math.isnan(value):
        return ""
    return "failed" if math.isinf(value) else f"{value:.{digits}f}"
