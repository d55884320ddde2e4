"""List many keys: the keys of a folder together, folders side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from airflow_provider_ch_s3.common.work import batches
from airflow_provider_ch_s3.files.stores import REQUESTS_AT_ONCE

Found = TypeVar("Found")


def list_groups(
    groups: Sequence[Sequence[str]], list_group: Callable[[Sequence[str]], Iterator[Found]]
) -> Iterator[Found]:
    """List groups of prefixes, and yield what is found in the order of the groups.

    A few groups are listed one after the other, page by page: each may have millions of objects. Of many groups,
    nearly all are keys, with an object for each.

    :param list_group: lists what begins with any of the prefixes of a group.
    """
    if len(groups) < REQUESTS_AT_ONCE:
        for group in groups:
            yield from list_group(group)
        return
    with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
        for some in batches(groups, 10 * REQUESTS_AT_ONCE):
            for found in pool.map(lambda group: list(list_group(group)), some):
                yield from found
