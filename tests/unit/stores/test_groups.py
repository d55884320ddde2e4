"""Sources that name thousands of keys: how many requests, and how much work, a listing of them takes."""

from __future__ import annotations

import random
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import count, islice, takewhile
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ch_s3.common.work import batches
from airflow_provider_ch_s3.files.addresses import Source, parse_source
from airflow_provider_ch_s3.files.stores import ObjectStore
from airflow_provider_ch_s3.load.arrivals import ReadyFiles
from airflow_provider_ch_s3.stores.s3 import S3FileStore
from tests.load_requests import load_request


class Bucket:
    """boto3; counts the requests.

    :param is_sorted: the store lists in the order of the keys.
    :param has_start: the store begins a listing where asked to.
    """

    meta = SimpleNamespace(endpoint_url="http://s3")

    def __init__(self, *keys: str, page_size: int = 1_000, is_sorted: bool = True, has_start: bool = True) -> None:
        self.keys = sorted(keys) if is_sorted else keys
        self.page_size = page_size
        self.is_sorted = is_sorted
        self.has_start = has_start
        self.requests: list[str] = []

    def get_paginator(self, _: str) -> Bucket:
        return self

    def paginate(self, *, Bucket: str, Prefix: str, StartAfter: str = "") -> Iterator[dict[str, Any]]:  # noqa: N803
        after = StartAfter if self.has_start else ""
        begin = bisect_left(self.keys, max(Prefix, after)) if self.is_sorted else 0
        there = islice(self.keys, begin, None)
        if self.is_sorted:
            there = takewhile(lambda key: key <= after or key.startswith(Prefix), there)
        found = [key for key in there if key.startswith(Prefix) and key > after]
        pages = list(batches(found, self.page_size)) or [()]
        for n, page in enumerate(pages, start=1):
            self.requests.append(Prefix)
            contents = [{"Key": key, "ETag": '"e"', "Size": 1} for key in page]
            yield {"IsTruncated": n < len(pages), **({"Contents": contents} if contents else {})}


@pytest.fixture
def open_s3(monkeypatch: pytest.MonkeyPatch) -> Callable[[Bucket], S3FileStore]:
    def open_bucket(bucket: Bucket) -> S3FileStore:
        monkeypatch.setattr(S3FileStore, "_client", bucket)
        return S3FileStore(aws_conn_id=None)

    return open_bucket


def of_keys(*globs: str) -> Source:
    return Source(bucket="b", globs=globs)


def listed(store: ObjectStore, source: Source, after: str = "") -> list[str]:
    return [file.key for file in store.list_files(source, after=after)]


ORDERS = [f"orders/2026/{n:07}.json" for n in range(20_000)]


@pytest.mark.parametrize(
    ("wanted", "most"),
    [
        pytest.param(ORDERS[10_000:15_000], 10, id="neighbours"),
        pytest.param(ORDERS[::4], 20 + 10, id="spread-each-page-once"),
        pytest.param(ORDERS[::2_000], 10, id="far-apart-one-request-each"),
        pytest.param(ORDERS[-1:], 1, id="one"),
        pytest.param([f"{key}/missing" for key in ORDERS[:5_000]], 5_000, id="each-in-a-folder"),
    ],
)
def test_keys_of_a_folder_take_few_requests(
    open_s3: Callable[[Bucket], S3FileStore], wanted: list[str], most: int
) -> None:
    bucket = Bucket(*ORDERS)
    found = listed(open_s3(bucket), of_keys(*wanted))
    assert found == sorted(set(wanted) & set(ORDERS))
    assert len(bucket.requests) <= most


def test_the_work_grows_with_the_keys_and_no_faster(open_s3: Callable[[Bucket], S3FileStore]) -> None:
    def count_calls(size: int) -> int:
        store, addresses, calls = open_s3(Bucket(*ORDERS)), [f"s3://b/{key}" for key in ORDERS[:size]], count()
        sys.setprofile(lambda *_: next(calls) and None)
        try:
            files = list(ReadyFiles(store=store, request=load_request(parse_source(addresses))))
        finally:
            sys.setprofile(None)
        assert len(files) == size
        return next(calls)

    assert count_calls(5_000) < 6 * count_calls(1_000)


PARTS = ("a", "b", "ab", "a/", "b/", "/", "é", "0")


def random_keys(rng: random.Random, count: int) -> list[str]:
    return list({"".join(rng.choices(PARTS, k=rng.randint(1, 5))).strip("/") or "x" for _ in range(count)})


@pytest.mark.parametrize("seed", range(200))
def test_whatever_the_source_names_is_listed_and_nothing_else(
    open_s3: Callable[[Bucket], S3FileStore], seed: int
) -> None:
    rng = random.Random(seed)
    keys, named = random_keys(rng, 60), random_keys(rng, 30)
    globs = [f"{name}*" if rng.random() < 0.1 else name for name in named]
    is_sorted, has_start = rng.random() < 0.7, rng.random() < 0.7
    after = rng.choice(["", *keys]) if is_sorted and has_start else ""
    page_size = rng.randint(1, 5) if is_sorted else 25
    bucket = Bucket(*keys, page_size=page_size, is_sorted=is_sorted, has_start=has_start)
    source = of_keys(*globs)
    found = listed(open_s3(bucket), source, after)
    expected = [key for key in bucket.keys if key.startswith(source.prefixes) and key > after]
    assert sorted(found) == sorted(expected)
    assert found == expected or not is_sorted
