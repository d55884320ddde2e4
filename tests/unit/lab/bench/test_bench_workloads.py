"""The workloads of the benchmark are the same for everybody."""

from __future__ import annotations

from ch_s3_lab.bench.workloads import workloads


def test_there_are_fifteen() -> None:
    assert list(workloads()) == [f"W{number}" for number in range(1, 16)]


def test_files_share_the_rows_without_a_gap() -> None:
    dataset = workloads(scale=0.00001)["W1"].dataset
    assert (dataset.row_count, dataset.file_count) == (120, 48)
    assert [dataset.first_row(n) for n in (0, 1, 2, 3, 48)] == [0, 2, 5, 7, 120]


def test_another_recipe_has_another_prefix() -> None:
    # so that files of an earlier version in the cache are never taken for these
    prefixes = {workload.dataset.prefix for scale in (1, 0.5) for workload in workloads(scale=scale).values()}
    assert len(prefixes) == 16
    assert workloads()["W1"].dataset.prefix == workloads()["W6"].dataset.prefix


def test_the_wide_table_has_a_hundred_columns() -> None:
    assert len(workloads()["W7"].columns) == 100
