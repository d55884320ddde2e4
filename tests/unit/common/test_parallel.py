"""Calls at once: their results in order, their exceptions, and that they really overlap."""

from __future__ import annotations

import threading

import pytest

from airflow_provider_ch_s3.common.work import map_at_once


def test_results_come_in_the_order_of_the_items() -> None:
    assert map_at_once(lambda number: number * 2, [3, 1, 2]) == [6, 2, 4]


def test_all_calls_run_at_the_same_time() -> None:
    barrier = threading.Barrier(3, timeout=10)
    map_at_once(lambda _: barrier.wait(), [1, 2, 3])


def test_one_item_needs_no_thread() -> None:
    assert map_at_once(lambda _: threading.current_thread(), [1]) == [threading.current_thread()]


def test_an_exception_is_raised_where_the_results_are_taken() -> None:
    with pytest.raises(ZeroDivisionError):
        map_at_once(lambda number: 1 // number, [1, 0])
