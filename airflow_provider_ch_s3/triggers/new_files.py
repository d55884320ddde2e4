"""The trigger of an asset's watcher: an event names new files, not yet in a table."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import AsyncIterator, Sequence
from typing import Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_provider_ch_s3.arguments import Arrivals
from airflow_provider_ch_s3.cluster.fields import DEFAULT_CONNECTION
from airflow_provider_ch_s3.common.arguments import check_seconds
from airflow_provider_ch_s3.common.declared import CONNECTION, FLAG, SECONDS, TEXT
from airflow_provider_ch_s3.common.text import count_of
from airflow_provider_ch_s3.common.timing import Pace
from airflow_provider_ch_s3.contradictions import check_request
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.files.addresses import AZURE, GCS, S3, SOURCE, find_scheme, parse_source
from airflow_provider_ch_s3.modes import Append, OnChangedFiles
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.triggers.describe import describe

log = get_log(__name__)


class NewFilesTrigger(BaseEventTrigger):  # type: ignore[misc]
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
        poll_interval: float = 15.0,
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
        pattern = parse_source(self.source, find_scheme(self.source[0]) if self.source else S3)
        if not pattern.scheme.lists_folders:
            raise ConfigError(
                "argument-invalid",
                f"source {str(pattern)!r} cannot be watched, because HTTP servers do not list their files; schedule"
                " the load instead",
            )
        return LoadRequest(
            table=self.table,
            pattern=pattern,
            mode=Append(on_changed=OnChangedFiles.LOAD, list_after_loaded=self.list_after_loaded),
            arrivals=Arrivals(min_age=self.min_age),
        )

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the arguments to re-create this trigger: only names and numbers."""
        return describe(self)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Poll, and yield an event for each poll that finds new files; log and repeat a failed poll."""
        # imported here, because DAG files with a watcher import this module
        from airflow_provider_ch_s3.load.watch import Watch
        from airflow_provider_ch_s3.triggers.polling import join_poller
        from airflow_provider_ch_s3.triggers.watching import share_store

        request, pace = self._request, Pace()
        watch, scheme = Watch(request=request, again_after=self.again_after), request.pattern.scheme
        conn_ids = {S3: self.aws_conn_id, GCS: self.hmac_conn_id, AZURE: self.wasb_conn_id}
        store = share_store(scheme, conn_ids[scheme])
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
