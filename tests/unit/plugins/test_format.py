"""Numbers and times as the pages show them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.plugins.conftest import Scripts


@pytest.mark.parametrize(
    ("function", "arguments", "text"),
    [
        ("formatCount", [336_776], "336,776"),
        ("formatCount", [0.5], "1"),
        ("countOf", [1, "row"], "1 row"),
        ("countOf", [1.4, "row"], "1 row"),
        ("countOf", [0, "row"], "0 rows"),
        ("countOf", [1_200, "file"], "1,200 files"),
        ("formatBytes", [0], "0 B"),
        ("formatBytes", [1_023], "1023 B"),
        ("formatBytes", [1_024], "1.0 KiB"),
        ("formatBytes", [1_536 * 1_024], "1.5 MiB"),
        ("formatBytes", [5 * 1_024**3], "5.0 GiB"),
        ("formatBytes", [2_048 * 1_024**4], "2048.0 TiB"),
        ("formatSetting", ["min_insert_block_size_bytes", 67_108_864], "64 MiB"),
        ("formatSetting", ["max_memory_usage", "1610612736"], "1.5 GiB"),
        ("formatSetting", ["max_threads_min_free_memory_per_thread", 26_214_400], "25 MiB"),
        ("formatSetting", ["max_block_size", 65_409], "65,409"),
        ("formatSetting", ["http_receive_timeout", 30], "30 s"),
        ("formatSetting", ["s3_retry_backoff_ms", 5_000], "5,000 ms"),
        ("formatSetting", ["max_memory_usage", 0], "0"),
        ("formatSetting", ["log_comment", ""], ""),
        ("formatSetting", ["async_insert", False], "false"),
        ("formatSetting", ["local_filesystem_read_method", "pread"], "pread"),
        ("formatSeconds", [0], "0.00 s"),
        ("formatSeconds", [9.994], "9.99 s"),
        ("formatSeconds", [9.995], "10.0 s"),
        ("formatSeconds", [59.94], "59.9 s"),
        ("formatSeconds", [59.95], "1 min 00 s"),
        ("formatSeconds", [245], "4 min 05 s"),
        ("formatSeconds", [3_599.6], "1 h 00 min"),
        ("formatSeconds", [7_380], "2 h 03 min"),
        ("formatAge", [172_799], "47 h 59 min"),
        ("formatAge", [172_800], "2 days"),
        ("formatTime", [1_700_000_000.75], "2023-11-14 22:13:20"),
        ("formatTime", [1_700_000_000.75, "Asia/Kolkata"], "2023-11-15 03:43:20"),
        ("zoneName", [], "UTC"),
    ],
)
def test_numbers_for_people(scripts: Scripts, function: str, arguments: list[Any], text: str) -> None:
    assert scripts.call("format.js", function, *arguments) == text
