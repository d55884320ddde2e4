"""The trigger of an asset's watcher: an event tells of files that a table does not hold yet."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any, TypeVar

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_provider_ch_s3.cluster.fields import DEFAULT_CONNECTION
from airflow_provider_ch_s3.common.arguments import check_seconds
from airflow_provider_ch_s3.common.declared import CONNECTION, FLAG, SECONDS, TEXT
from airflow_provider_ch_s3.common.text import count_of
from airflow_provider_ch_s3.common.timing import Pace
from airflow_provider_ch_s3.contradictions import check_request
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.files.addresses import AZURE, GCS, S3, SOURCE, Scheme, find_scheme, parse_source
from airflow_provider_ch_s3.files.stores import REQUESTS_AT_ONCE, ObjectStore
from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
from airflow_provider_ch_s3.load.watch import Found, Watch, find_new_files, has_news
from airflow_provider_ch_s3.triggers.polling import describe, join_poller

log = get_log(__name__)

Result = TypeVar("Result")


class NewFilesTrigger(BaseEventTrigger):  # type: ignore[misc]
    """Wake DAGs when a source has files that a table does not hold yet; for the ``AssetWatcher`` of an asset.

    The trigger lists the source, asks the ledger, and keeps nothing: it may be restarted at any time and anywhere.
    An event tells of all ready files that the table lacks and that no load has planned; its payload has ``source``
    (a list of addresses), ``table``, ``files``, ``bytes``, ``first_key`` and ``last_key``.

    :param source: address of the files in S3, Google Cloud Storage or Azure, or a list of addresses in one bucket; as
        for the operator, but without templates.
    :param table: ``table`` or ``database.table``, as for the operator.
    :param min_age: seconds (or a ``timedelta``) for which files must not have changed, by the store's own clock.
    :param list_after_loaded: for keys that sort by time: list only the keys after the last key of this source in the
        table, instead of years of keys. A file that arrives later with an earlier key is not found.
    :param again_after: seconds (or a ``timedelta``) after which there is another event for files that the table still
        lacks, because their load failed, or did not begin. Longer than a load takes with all its retries.
    :param poll_interval: seconds between two polls.
    :param clickhouse_conn_id: connection of type ``clickhouse_s3`` (or ``clickhouse``).
    :param aws_conn_id: connection for a source in S3; None: the triggerer's own role.
    :param hmac_conn_id: connection for a source in Google Cloud Storage; None: the bucket is public.
    :param wasb_conn_id: connection for a source in Azure Blob Storage.
    """

    def __init__(
        self,
        *,
        source: str | Sequence[str],
        table: str,
        min_age: float | datetime.timedelta = 0.0,
        list_after_loaded: bool = False,
        again_after: float | datetime.timedelta = 3600.0,
        poll_interval: float = 10.0,
        clickhouse_conn_id: str = DEFAULT_CONNECTION,
        aws_conn_id: str | None = "aws_default",
        hmac_conn_id: str | None = "google_cloud_hmac",
        wasb_conn_id: str = "wasb_default",
    ) -> None:
        super().__init__()
        self.source: list[str] = SOURCE.parse("source", source)
        self.table: str = TEXT.parse("table", table)
        self.min_age: float = SECONDS.parse("min_age", min_age)
        self.list_after_loaded: bool = FLAG.parse("list_after_loaded", list_after_loaded)
        self.again_after: float = SECONDS.parse("again_after", again_after)
        self.poll_interval = poll_interval
        self.clickhouse_conn_id: str = TEXT.parse("clickhouse_conn_id", clickhouse_conn_id)
        self.aws_conn_id: str | None = CONNECTION.parse("aws_conn_id", aws_conn_id)
        self.hmac_conn_id: str | None = CONNECTION.parse("hmac_conn_id", hmac_conn_id)
        self.wasb_conn_id: str | None = TEXT.parse("wasb_conn_id", wasb_conn_id)
        check_seconds("poll_interval", poll_interval, is_positive=True)
        self._watch = self._parse_watch()

    def _parse_watch(self) -> Watch:
        """:raises ConfigError: if the source is wrong, or cannot be watched."""
        if templates := [address for address in self.source if "{{" in address]:
            raise ConfigError(
                "argument-invalid",
                f"source has the template {templates[0]!r}, and nothing renders the templates of a watcher, which"
                " belongs to no run; use wildcards",
            )
        pattern = parse_source(self.source, find_scheme(self.source[0]) if self.source else S3)
        if not pattern.scheme.lists_folders:
            raise ConfigError(
                "argument-invalid",
                f"source {str(pattern)!r} cannot be watched, because HTTP servers do not list their files; schedule"
                " the load instead",
            )
        watch = Watch(
            pattern=pattern,
            table=self.table,
            min_age=self.min_age,
            list_after_loaded=self.list_after_loaded,
            again_after=self.again_after,
        )
        check_request(watch.request())
        return watch

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the arguments to re-create this trigger: only names and numbers."""
        return describe(self)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Poll, and yield an event for each poll that finds new files; log and repeat a poll that fails."""
        watch, pace = self._watch, Pace()
        conn_ids = {S3: self.aws_conn_id, GCS: self.hmac_conn_id, AZURE: self.wasb_conn_id}
        store = _share_store(watch.pattern.scheme, conn_ids[watch.pattern.scheme])
        async with join_poller(self.clickhouse_conn_id, None, store.poll) as poller:
            while True:
                found = await poller.poll(watch, self.poll_interval)
                if isinstance(found, Exception):
                    if pace.is_due(str(found)):
                        log.warning("cannot look for new files of %s now, retrying: %s", watch, found)
                    continue
                watch = dataclasses.replace(watch, position=found.position)
                if found.new.count:
                    log.info("%s: %s", watch, count_of(found.new.count, "new file"))
                    yield TriggerEvent(found.new.describe(watch))


class _SharedStore:
    """A store, opened once for all watchers on the same connection."""

    def __init__(self, scheme: Scheme, conn_id: str | None) -> None:
        self._scheme = scheme
        self._conn_id = conn_id
        self._store: ObjectStore | None = None

    def poll(
        self, hook: ClickHouseS3Hook, watches: Sequence[Watch], cluster: str | None
    ) -> Mapping[Watch, Found | Exception]:
        """Look for new files: list all sources side by side, then read the ledger where a listing has changed."""
        del cluster  # the connection names the cluster of each table
        if self._store is None:
            self._store = _open_store(self._scheme, self._conn_id)
            self._store.access()  # connects, and hides the secrets, before several threads use the store
        store = self._store
        hook.keep_secret(lambda: store.access().secrets)
        with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
            are_changed = list(pool.map(partial(_try, partial(has_news, store)), watches))
        answers: dict[Watch, Found | Exception] = {}
        for watch, is_changed in zip(watches, are_changed, strict=True):
            if is_changed is True:
                answers[watch] = _try(partial(find_new_files, hook, hook.declaration, store), watch)
            else:
                answers[watch] = is_changed or Found(position=watch.position)
        if any(isinstance(answer, Exception) for answer in answers.values()):
            self._store = None  # the next poll reads the connection again: it may have been wrong
        return answers


@cache
def _share_store(scheme: Scheme, conn_id: str | None) -> _SharedStore:
    return _SharedStore(scheme, conn_id)


def _open_store(scheme: Scheme, conn_id: str | None) -> ObjectStore:
    """Open a store; import the module of just this store."""
    if scheme is GCS:
        from airflow_provider_ch_s3.stores.gcs import GCSFileStore

        return GCSFileStore(hmac_conn_id=conn_id)
    if scheme is AZURE:
        from airflow_provider_ch_s3.stores.azure import AzureBlobFileStore

        return AzureBlobFileStore(wasb_conn_id=str(conn_id))
    from airflow_provider_ch_s3.stores.s3 import S3FileStore

    return S3FileStore(aws_conn_id=conn_id)


def _try(look: Callable[[Watch], Result], watch: Watch) -> Result | Exception:
    try:
        return look(watch)
    except Exception as error:  # whatever it is, it concerns this watcher alone
        return error
