"""Look for new files when a queue has notifications, instead of listing the source again and again.

The queue only says where to look: what is new follows from the store and the ledger, as without a queue. A message
stays in the queue until the table holds the files of the message, so nothing is lost with the process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from airflow_provider_ch_s3.common.timing import Pace
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import SourceError
from airflow_provider_ch_s3.files.notifications import parse_notification, queue_name
from airflow_provider_ch_s3.load.watch import NewFiles, PollResult, WatchedFiles
from airflow_provider_ch_s3.stores.s3 import S3FileStore
from airflow_provider_ch_s3.stores.sqs import HIDDEN_SECONDS, Message, SqsQueue
from airflow_provider_ch_s3.triggers.polling import in_thread
from airflow_provider_ch_s3.triggers.watcher import Poll

log = get_log(__name__)

LISTING_SECONDS = 600.0
"""Time between two listings of the source: for files without a notification."""

_READERS: dict[tuple[str, str | None], Inbox] = {}
"""Queue and connection → the reader in this process."""

_STORES: dict[str | None, S3FileStore] = {}
"""Connection → the store whose client of SQS all watchers share: a client takes 8 MiB."""


@contextmanager
def polling(queue: str, aws_conn_id: str | None, poll: Poll) -> Iterator[Poll]:
    """Look for new files when the queue has notifications, for the length of a block.

    :param queue: address of the queue.
    :param poll: looks for new files at the next poll.
    """
    inbox = Inbox(queue, aws_conn_id, poll)
    try:
        yield inbox.poll
    finally:
        inbox.close()


class Inbox:
    """The notifications for one watcher.

    :param now: seconds of a clock that never goes back.
    """

    def __init__(
        self, queue: str, aws_conn_id: str | None, poll: Poll, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._name = queue_name(queue)
        self._aws_conn_id = aws_conn_id
        self._place = (self._name, aws_conn_id)
        self._poll = poll
        self._now = now
        self._queue: SqsQueue | None = None
        self._list_at = now()
        self._told: dict[tuple[str, str], float] = {}
        self._logged: set[str] = set()
        self._pace = Pace()

    async def poll(self, watch: WatchedFiles) -> PollResult[NewFiles] | Exception:
        """Wait until messages name files of the source, or until a listing is due; then look for new files."""
        messages = await self._receive(watch)
        self._told = {file: until for file, until in self._told.items() if until > self._now()}
        named = frozenset[str]().union(*messages.values())
        found = await self._poll(replace(watch, named=named, told=frozenset(self._told)))
        if isinstance(found, Exception):
            return found
        until = self._now() + watch.again_after
        self._told |= {
            (watch.request.source.path(file.key), file.etag): until for file in (found.new.files if found.new else ())
        }
        if named:
            settled = [message for message, keys in messages.items() if not keys & found.lacking]
            await in_thread(partial(self._delete, self._open(watch), settled))
        else:
            self._list_at = self._now() + LISTING_SECONDS
        return found

    def close(self) -> None:
        """Leave the queue to other watchers."""
        if _READERS.get(self._place) is self:
            del _READERS[self._place]

    async def _receive(self, watch: WatchedFiles) -> dict[Message, Set[str]]:
        """Wait for messages, and return the keys that each of them names; none if the source is to be listed."""
        while self._now() < self._list_at:
            try:
                named = await in_thread(partial(self._take, self._open(watch), watch))
            except Exception as error:  # whatever it is, the source can be listed
                self._queue = None  # the next try reads the connection again: it may have been wrong
                _STORES.pop(self._aws_conn_id, None)
                if self._pace.is_due(str(error)):
                    log.warning("each poll lists %s for now: %s", watch, error)
                return {}
            if named:
                return named
        return {}

    def _take(self, queue: SqsQueue, watch: WatchedFiles) -> dict[Message, Set[str]]:
        """Take messages out of the queue, and delete the messages that name no file of the source."""
        named = {message: self._keys_in(message, watch) for message in queue.receive()}
        self._delete(queue, [message for message, keys in named.items() if not keys])
        return {message: keys for message, keys in named.items() if keys}

    def _open(self, watch: WatchedFiles) -> SqsQueue:
        """Open the queue, or return the open queue.

        :raises SourceError: if another watcher of this process reads the queue.
        """
        if _READERS.setdefault(self._place, self) is not self:
            raise SourceError(
                "queue-shared",
                f"another watcher reads queue {self._name!r}, and each deletes the messages of the other; give each"
                " watcher a queue, e.g. by an SNS topic with a subscription for each queue",
            )
        if self._queue is None:
            store = _STORES.setdefault(self._aws_conn_id, S3FileStore(aws_conn_id=self._aws_conn_id))
            min_age = watch.request.arrivals.min_age
            self._queue = SqsQueue(self._name, store, hidden_seconds=min_age or HIDDEN_SECONDS)
        return self._queue

    def _keys_in(self, message: Message, watch: WatchedFiles) -> Set[str]:
        """Return the keys of a message that the source selects; if there are none, log the reason once."""
        source = watch.request.source
        try:
            objects = parse_notification(message.body)
        except ValueError as error:
            self._log_deleted("unreadable", f"without a notification of S3 ({message.id}: {error})", watch)
            return frozenset()
        keys = {key for bucket, key in objects if bucket == source.bucket}
        selected = set(filter(source.matches, keys))
        if not objects:
            self._log_deleted("test", "of S3's test of the queue", watch)
        elif not keys:
            self._log_deleted("bucket", f"about the bucket {objects[0][0]!r}", watch)
        elif not selected:
            self._log_deleted("key", f"about keys outside of the source, such as {min(keys)!r}", watch)
        return selected

    def _log_deleted(self, kind: str, what: str, watch: WatchedFiles) -> None:
        if kind not in self._logged:
            self._logged.add(kind)
            log.warning("queue %r has messages %s: the watcher of %s deletes them", self._name, what, watch)

    def _delete(self, queue: SqsQueue, messages: Sequence[Message]) -> None:
        """Delete messages; if this fails, the messages are received again."""
        try:
            queue.delete(messages)
        except Exception as error:  # whatever it is, the messages can stay
            if self._pace.is_due(str(error)):
                log.warning("messages stay in the queue for now: %s", error)
