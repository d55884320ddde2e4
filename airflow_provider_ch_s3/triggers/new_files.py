"""The trigger of an asset's watcher: an event names new files, not yet in a table."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from airflow_provider_ch_s3.arguments import Arrivals
from airflow_provider_ch_s3.cluster.fields import DEFAULT_CONNECTION
from airflow_provider_ch_s3.common.declared import CONNECTION, FLAG, SECONDS, TEXT
from airflow_provider_ch_s3.contradictions import check_request
from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.files.addresses import (
    AZURE,
    GCS,
    S3,
    SOURCE,
    NamedStore,
    find_host,
    find_scheme,
    parse_source,
)
from airflow_provider_ch_s3.files.notifications import QUEUE
from airflow_provider_ch_s3.modes import Append, OnChangedFiles
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.triggers.watcher import Poll, WatcherTrigger

if TYPE_CHECKING:
    from airflow_provider_ch_s3.load.watch import WatchedSource


class NewFilesTrigger(WatcherTrigger):
    """Wake DAGs when a source has files not yet in a table; for the ``AssetWatcher`` of an asset.

    The trigger lists the source, asks the ledger, and keeps nothing: it may be restarted at any time and anywhere.
    An event tells of all ready files missing in the table and planned by no load; the payload has ``source``
    (a list of addresses), ``table``, ``files``, ``bytes``, ``first_key`` and ``last_key``.

    :param source: address of the files in S3, Google Cloud Storage or Azure, or a list of addresses in one bucket; as
        for the operator, but without templates.
    :param table: ``table`` or ``database.table``, as for the operator.
    :param min_age: seconds (or a ``timedelta``) for which files must not have changed, by the store's own clock.
    :param list_after_loaded: for keys sorted by time: list only the keys after the last key of this source in the
        table, instead of years of keys. A file with an earlier key is not found later, so an event also tells of
        files that a load has planned.
    :param again_after: seconds (or a ``timedelta``) until a further event for files still missing in the table,
        because their load failed, or did not begin. Longer than a load takes with all its retries.
    :param poll_interval: seconds between two polls.
    :param notifications: ``sqs://queue``: look at the files that S3's event notifications in this queue name, and
        list the source every ten minutes only. Queue, account and region are those of ``aws_conn_id``.
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
        poll_interval: float = 30.0,
        notifications: str | None = None,
        clickhouse_conn_id: str = DEFAULT_CONNECTION,
        aws_conn_id: str | None = "aws_default",
        hmac_conn_id: str | None = "google_cloud_hmac",
        wasb_conn_id: str = "wasb_default",
    ) -> None:
        super().__init__(
            table=table,
            again_after=again_after,
            poll_interval=poll_interval,
            clickhouse_conn_id=clickhouse_conn_id,
        )
        self.source: list[str] = SOURCE.parse("source", source)
        self.min_age: float = SECONDS.parse("min_age", min_age)
        self.list_after_loaded: bool = FLAG.parse("list_after_loaded", list_after_loaded)
        self.notifications: str | None = QUEUE.parse("notifications", notifications)
        self.aws_conn_id: str | None = CONNECTION.parse("aws_conn_id", aws_conn_id)
        self.hmac_conn_id: str | None = CONNECTION.parse("hmac_conn_id", hmac_conn_id)
        self.wasb_conn_id: str | None = TEXT.parse("wasb_conn_id", wasb_conn_id)
        check_request(self._request)

    @property
    def _request(self) -> LoadRequest:
        """The load to look for files with; a changed file is new, whatever the real load does with the file.

        :raises ConfigError: if the source is wrong, or cannot be watched.
        """
        if templates := [address for address in self.source if "{{" in address]:
            raise ConfigError(
                "argument-invalid",
                f"source has the template {templates[0]!r}, and nothing renders the templates of a watcher, which"
                " belongs to no run; use wildcards",
            )
        source = parse_source(self.source, find_scheme(self.source[0]) if self.source else S3)
        if not source.scheme.lists_folders:
            raise ConfigError(
                "argument-invalid",
                f"source {str(source)!r} cannot be watched, because HTTP servers do not list their files; schedule"
                " the load instead",
            )
        if self.notifications and source.scheme is not S3:
            raise ConfigError(
                "arguments-contradict",
                f"notifications={self.notifications!r} is for sources in S3, and the source is in"
                f" {source.scheme.store}; leave it out: then each poll lists the source",
            )
        return LoadRequest(
            table=self.table,
            source=source,
            mode=Append(on_changed=OnChangedFiles.LOAD, list_after_loaded=self.list_after_loaded),
            arrivals=Arrivals(min_age=self.min_age),
        )

    def watch(self) -> WatchedSource:
        """Return the source to compare with the table."""
        from airflow_provider_ch_s3.load.watch import WatchedFiles  # here, because DAG files import this module

        return WatchedFiles(request=self._request, again_after=self.again_after)

    def polling(self, poll: Poll) -> AbstractContextManager[Poll]:
        """Look when a poll is due, or when the queue has notifications."""
        if not self.notifications:
            return super().polling(poll)
        from airflow_provider_ch_s3.triggers.notifications import polling

        return polling(self.notifications, self.aws_conn_id, poll)

    def store(self) -> NamedStore:
        """Return the store of the source."""
        scheme = self._request.source.scheme
        argument = {S3: "aws_conn_id", GCS: "hmac_conn_id", AZURE: "wasb_conn_id"}[scheme]
        host = find_host(self.source, scheme)
        return NamedStore(scheme=scheme, conn_id=getattr(self, argument), argument=argument, host=host)
