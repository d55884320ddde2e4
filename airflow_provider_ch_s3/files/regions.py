"""Where clusters and stores are, as far as their host names, or a bucket itself, tell."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

_HOSTS = tuple(
    (cloud, re.compile(pattern))
    for cloud, pattern in (
        ("AWS", r"\.(?P<region>[a-z0-9-]+)\.aws\.clickhouse\.cloud$"),
        ("Google Cloud", r"\.(?P<region>[a-z0-9-]+)\.gcp\.clickhouse\.cloud$"),
        ("Azure", r"\.(?P<region>[a-z0-9-]+)\.azure\.clickhouse\.cloud$"),
        ("AWS", r"\.(?P<region>[a-z]+(-[a-z]+)+-\d)\.compute\.(internal|amazonaws\.com)$"),
        ("AWS", r"^s3(-fips)?[.-](dualstack\.)?(?P<region>[a-z]+(-[a-z]+)+-\d)\.amazonaws\.com(\.cn)?$"),
        ("AWS", r"\.amazonaws\.com(\.cn)?(?P<region>)$"),
        ("Google Cloud", r"^storage\.googleapis\.com(?P<region>)$"),
        ("Google Cloud", r"\.(?P<region>[a-z]+-[a-z]+\d)-[a-z]\.c\.[a-z0-9-]+\.internal$"),
        ("Azure", r"\.blob\.core\.windows\.net(?P<region>)$"),
    )
)


@dataclass(frozen=True, kw_only=True)
class Region:
    """A region of a cloud; the name is '' if unknown."""

    cloud: str
    name: str

    def __str__(self) -> str:
        return f"{self.cloud} {self.name}" if self.name else self.cloud


def find_region(host: str) -> Region | None:
    """Find the region in a host name; None for names without a region."""
    for cloud, pattern in _HOSTS:
        if match := pattern.search(host.casefold()):
            return Region(cloud=cloud, name=match["region"])
    return None


def find_apart(
    hosts: Iterable[str], store: str, ask_bucket: Callable[[], str] = lambda: ""
) -> tuple[Region, Region] | None:
    """Find the regions of a cluster and of a store, if these are known to differ; None otherwise.

    :param hosts: host names of the cluster; ``store``: host name of the store.
    :param ask_bucket: asks AWS for the region of the bucket, which may differ from the region of the address; '' if
        unknown.
    """
    here, there = next(filter(None, map(find_region, hosts)), None), find_region(store)
    if here is None or there is None:
        return None
    if there.cloud == "AWS":
        there = replace(there, name=ask_bucket() or there.name)
    is_same = here.cloud == there.cloud and (here.name == there.name or not (here.name and there.name))
    return None if is_same else (here, there)
