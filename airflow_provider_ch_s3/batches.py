"""Ask about many items with few statements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

Item = TypeVar("Item")

# A server parses up to 256 KiB of a statement (max_query_size), and the longest table names take some 400 bytes.
MAX_ITEMS = 500


def batches(items: Sequence[Item], size: int = MAX_ITEMS) -> Iterator[Sequence[Item]]:
    """Split items into groups, each small enough for one statement."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
