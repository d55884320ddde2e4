"""Poll the stores of all watchers with few clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

from airflow_provider_ch_s3.files.addresses import NamedStore
from airflow_provider_ch_s3.files.stores import ObjectStore
from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
from airflow_provider_ch_s3.load.watch import PollResult, WatchedSource
from airflow_provider_ch_s3.stores.opening import open_store

# As many as the connections in the pool of a client of ClickHouse; the pool of an S3 client has more.
WATCHES_AT_ONCE = 8


class SharedStore:
    """A store, opened once for all watchers on the same connection."""

    def __init__(self, named: NamedStore) -> None:
        self._named = named
        self._store: ObjectStore | None = None

    def poll(
        self, hook: ClickHouseS3Hook, watches: Sequence[WatchedSource], cluster: str | None
    ) -> Mapping[WatchedSource, PollResult[Any] | Exception]:
        """Look for news: at all sources side by side, and in the ledger where a source has changed."""
        del cluster  # the connection names the cluster of each table
        if self._store is None:
            self._store = open_store(self._named)
            self._store.access()  # connects, and hides the secrets, before several threads use the store
        store, declaration = self._store, hook.declaration
        hook.keep_secret(lambda: store.access().secrets)

        def poll(watch: WatchedSource) -> PollResult[Any] | Exception:
            try:
                return watch.poll(hook, declaration, store)
            except Exception as error:  # whatever it is, it concerns this watcher alone
                return error

        with ThreadPoolExecutor(WATCHES_AT_ONCE) as pool:
            answers = dict(zip(watches, pool.map(poll, watches), strict=True))
        if any(isinstance(answer, Exception) for answer in answers.values()):
            self._store = None  # the next poll reads the connection again: it may have been wrong
        return answers


share_store = cache(SharedStore)
"""Returns the store, the same for all watchers that name the same store."""
