"""Medians, ratios and the closing figures of the benchmark."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest

from airflow_provider_ch_s3.cluster.spec import NodeSpec
from airflow_provider_ch_s3.trials.measurement import DEFAULTS, OURS, Measurement
from ch_s3_lab.bench.charts import draw_bars
from ch_s3_lab.bench.compare import published_formula
from ch_s3_lab.bench.report import make_seconds
from ch_s3_lab.bench.score import BEST, Result, best_of_grid, score_results


def measured(candidate: str, load: float, settled: float, **more: object) -> Measurement:
    return Measurement(candidate=candidate, load_seconds=load, settled_seconds=settled, **more)  # type: ignore[arg-type]


def result(*rounds: Measurement) -> Result:
    return Result(workload="W1", title="files", rounds=rounds)


# load: 4 / 2 = 2, settled: 6 / 3 = 2; best of grid 2.7 / 3 = 0.9
TWICE = result(measured(DEFAULTS, 4, 6), measured(OURS, 2, 3), measured(BEST, 2, 2.7))
# load: 8 / 1 = 8, settled: 4.5 / 9 = 0.5; best of grid 9 / 9 = 1
MIXED = result(measured(DEFAULTS, 8, 4.5), measured(OURS, 1, 9), measured(BEST, 2, 9))


def test_a_slow_round_does_not_move_the_median() -> None:
    rounds = result(measured(OURS, 2, 3), measured(OURS, 60, 70), measured(OURS, 1, 4))
    assert rounds.median(OURS, "load_seconds") == 2
    assert rounds.median(OURS, "settled_seconds") == 4


def test_the_closing_figures_are_geometric_means() -> None:
    score = score_results([TWICE, MIXED])
    assert score.load_x == pytest.approx(4.0)
    assert score.settled_x == pytest.approx(1.0)
    assert score.worst == pytest.approx(0.5)
    assert score.grid == pytest.approx(math.sqrt(0.9))
    assert score.grid_worst == pytest.approx(0.9)
    assert str(score) == "bench: load_x=4.00 settled_x=1.00 worst=0.50 grid=0.95"
    assert not score.is_good
    assert score_results([TWICE]).is_good


def test_a_load_that_the_defaults_cannot_do_counts_in_no_mean() -> None:
    only_ours = result(Measurement(candidate=DEFAULTS, error="out of memory"), measured(OURS, 1, 1))
    score = score_results([TWICE, only_ours])
    assert score.load_x == pytest.approx(2.0)
    assert score.worst == pytest.approx(2.0)


def test_a_load_that_our_plan_cannot_do_is_the_worst() -> None:
    failed = Measurement(candidate=OURS, error="out of memory")
    broken = result(measured(DEFAULTS, 1, 1), measured(OURS, 1, 1), failed)
    score = score_results([TWICE, broken])
    assert (score.load_x, score.worst) == (0.0, 0.0)
    assert not score.is_good


def test_without_a_grid_there_is_no_figure_for_it() -> None:
    score = score_results([result(measured(DEFAULTS, 2, 2), measured(OURS, 1, 1))])
    assert math.isnan(score.grid)
    assert str(score) == "bench: load_x=2.00 settled_x=2.00 worst=2.00 grid=nan"


def test_the_best_point_is_the_one_that_settles_first() -> None:
    slow, fast = measured("a", 1, 9), measured("b", 2, 5)
    assert best_of_grid([slow, fast, Measurement(candidate="c", error="out of memory")]) is fast
    assert best_of_grid([Measurement(candidate="c", error="out of memory")]) is None


@pytest.mark.parametrize(
    ("vcpus", "memory_bytes", "threads", "block_bytes"),
    [
        pytest.param(8, 34_359_738_368, 4, 2_863_311_530, id="published-32-gib-8-vcpu"),
        pytest.param(16, 68_719_476_736, 8, 2_863_311_530, id="published-64-gib-16-vcpu"),
        pytest.param(1, 12_000, 1, 4_000, id="a-third-for-one-thread"),
    ],
)
def test_the_published_formula(vcpus: int, memory_bytes: int, threads: int, block_bytes: int) -> None:
    node = NodeSpec(host="n1:9000", shard=1, vcpus=vcpus, memory_bytes=memory_bytes)
    settings = published_formula(node)
    assert (settings["max_insert_threads"], settings["min_insert_block_size_bytes"]) == (threads, block_bytes)


def test_the_same_results_give_the_same_chart() -> None:
    assert draw_bars([TWICE], "load_seconds", "seconds") == draw_bars([TWICE], "load_seconds", "seconds")


def test_the_predicted_seconds_stand_beside_the_plans() -> None:
    predicted = {"load_seconds": 1.5, "settled_seconds": 2.5}
    table = make_seconds([replace(TWICE, predicted=predicted)])
    cells = list(zip(table.columns, table.rows[0], strict=True))
    pairs = [(plan, next_to) for plan, next_to in pairwise(cells) if plan[0] == "plan"]
    assert pairs == [
        (("plan", "2.00"), ("predicted", "1.50")),
        (("plan", "3.00"), ("predicted", "2.50")),
    ]
