"""The results as SVG charts."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from operator import attrgetter
from statistics import median
from typing import TYPE_CHECKING

from airflow_provider_ch_s3.common.text import MIB
from airflow_provider_ch_s3.trials.measurement import DEFAULTS, OURS, Measurement
from ch_s3_lab.bench.score import BEST, CEILING, FORMULA, Result, format_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CANDIDATES = (DEFAULTS, FORMULA, OURS, BEST, CEILING)
# A colour per candidate, which colour-blind readers can distinguish (Okabe and Ito).
COLOURS = dict(zip(CANDIDATES, ("#999999", "#E69F00", "#0072B2", "#56B4E9", "#DDDDDD"), strict=True))


def _new_figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _to_svg(figure: Figure) -> str:
    from matplotlib import rc_context

    text = io.StringIO()
    # without time and random names, so that the same results give the same file
    with rc_context({"svg.hashsalt": "ch-s3"}):
        figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue().partition("<!DOCTYPE")[2].partition(">")[2]


def draw_bars(results: Sequence[Result], figure: str, title: str) -> str:
    """Draw the medians of one figure: a group of bars for each workload, a bar for each candidate."""
    measured = [name for name in CANDIDATES if any(m.candidate == name for r in results for m in r.rounds)]
    chart = _new_figure(10, 0.6 + 0.7 * len(results))
    axes = chart.subplots()
    height = 0.8 / len(measured)
    for place, candidate in enumerate(measured):
        values = [result.median(candidate, figure) for result in results]
        shown = [value if math.isfinite(value) else 0.0 for value in values]
        bars = axes.barh(
            [n + place * height for n in range(len(results))],
            shown,
            height,
            label=candidate,
            color=COLOURS[candidate],
        )
        axes.bar_label(bars, [format_figure(value) for value in values], padding=2, fontsize=7)
    axes.set_yticks([n + 0.4 - height / 2 for n in range(len(results))], list(map(str, results)))
    axes.margins(x=0.07, y=0.02)
    axes.invert_yaxis()
    axes.set_xlabel(title)
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    return _to_svg(chart)


def draw_grid(result: Result) -> str:
    """Draw settled seconds over block size and writers, a map for each number of readers; our plan is outlined."""
    readers = sorted({point.settings["max_threads"] for point in result.grid})
    blocks = sorted({point.settings["min_insert_block_size_bytes"] for point in result.grid})
    threads = sorted({point.settings["max_insert_threads"] for point in result.grid})
    known = [point.settled_seconds for point in result.grid if not point.error]
    chart = _new_figure(3.5 * len(readers), 0.9 + 0.5 * len(blocks))
    maps = chart.subplots(1, len(readers), squeeze=False)[0]
    for axes, reader in zip(maps, readers, strict=True):
        cells = [[_at(result.grid, t, b, reader) for t in threads] for b in blocks]
        axes.imshow(cells, cmap="viridis_r", aspect="auto", vmin=min(known), vmax=max(known))
        for row, column in ((r, c) for r in range(len(blocks)) for c in range(len(threads))):
            # on a white background, since cells may be dark or light
            label = axes.text(column, row, format_figure(cells[row][column]), ha="center", va="center", fontsize=8)
            label.set_bbox({"facecolor": "white", "edgecolor": "none", "alpha": 0.7, "pad": 1.5})
        axes.set_xticks(range(len(threads)), [str(t) for t in threads])
        axes.set_yticks(range(len(blocks)), [f"{b // MIB} MiB" for b in blocks])
        axes.set_xlabel("max_insert_threads")
        axes.set_title(f"max_threads = {reader}", fontsize=9)
        _outline_plan(axes, result, threads, blocks, reader)
    return _to_svg(chart)


def draw_parts(result: Result) -> str:
    """Draw active parts over time, from the last round of each candidate."""
    chart = _new_figure(10, 3)
    axes = chart.subplots()
    for candidate in CANDIDATES:
        rounds = [m for m in result.rounds if m.candidate == candidate and m.parts]
        if rounds:
            times, counts = zip(*rounds[-1].parts, strict=True)
            axes.step((0.0, *times), (0, *counts), where="post", label=candidate, color=COLOURS[candidate])
    axes.set_xlabel("seconds since the start of the load")
    axes.set_ylabel("active parts")
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    return _to_svg(chart)


def _at(grid: Sequence[Measurement], threads: int, block: int, readers: int) -> float:
    wanted = (threads, block, readers)
    names = ("max_insert_threads", "min_insert_block_size_bytes", "max_threads")
    found = [m for m in grid if tuple(m.settings[name] for name in names) == wanted and not m.error]
    return median(map(attrgetter("settled_seconds"), found)) if found else math.nan


def _outline_plan(axes: Axes, result: Result, threads: Sequence[int], blocks: Sequence[int], readers: int) -> None:
    """Outline the cell nearest to our plan."""
    from matplotlib.patches import Rectangle

    plan = next(m.settings for m in result.rounds if m.candidate == OURS)
    if plan.get("max_threads", readers) != readers:
        return
    column = min(range(len(threads)), key=lambda n: abs(threads[n] - plan["max_insert_threads"]))
    row = min(range(len(blocks)), key=lambda n: abs(math.log(blocks[n] / plan["min_insert_block_size_bytes"])))
    axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, linewidth=3, edgecolor=COLOURS[OURS]))
