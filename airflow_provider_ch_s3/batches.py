"""Ask about many items with few statements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")

# A server parses up to 256 KiB of a statement (max_query_size), and the longest table names take some 400 bytes.
MAX_ITEMS = 500


def batches(items: Iterable[Item], size: int = MAX_ITEMS) -> Iterator[Sequence[Item]]:
    """Split items into groups, each small enough for one statement."""
    iterator = iter(items)
    while group := tuple(islice(iterator, size)):
        yield group
