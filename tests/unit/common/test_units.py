"""Numbers, printed for people."""

from __future__ import annotations

import pytest

from airflow_provider_ch_s3.common.text import count_of, format_bytes, format_count, format_estimate, format_seconds


@pytest.mark.parametrize(
    ("size_bytes", "expected"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (1_048_576, "1.0 MiB"),
        (2_863_311_530, "2.7 GiB"),
        (68_719_476_736, "64.0 GiB"),
        (2_199_023_255_552, "2.0 TiB"),
        (-1536, "-1.5 KiB"),
    ],
)
def test_format_bytes(size_bytes: float, expected: str) -> None:
    assert format_bytes(size_bytes) == expected


@pytest.mark.parametrize(("count", "expected"), [(0, "0"), (999, "999"), (336776, "336,776"), (1e6, "1,000,000")])
def test_format_count(count: float, expected: str) -> None:
    assert format_count(count) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, "0.0 s"),
        (3.24, "3.2 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min 00 s"),
        (60, "1 min 00 s"),
        (245, "4 min 05 s"),
        (3599.4, "59 min 59 s"),
        (3599.6, "1 h 00 min"),
        (7380, "2 h 03 min"),
        (100_000, "27 h 46 min"),
    ],
)
def test_format_seconds(seconds: float, expected: str) -> None:
    assert format_seconds(seconds) == expected


@pytest.mark.parametrize(
    ("count", "noun", "expected"),
    [
        (0, "file", "0 files"),
        (1, "file", "1 file"),
        (2, "initial part", "2 initial parts"),
        (1200, "ETag", "1,200 ETags"),
        (1.0, "row", "1 row"),
        (1.4, "row", "1 row"),
    ],
)
def test_count_of(count: float, noun: str, expected: str) -> None:
    assert count_of(count, noun) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0, "under a second"), (0.99, "under a second"), (1.0, "1.0 s"), (245, "4 min 05 s")],
)
def test_format_estimate(seconds: float, expected: str) -> None:
    assert format_estimate(seconds) == expected
