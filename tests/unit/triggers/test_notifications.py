"""What a watcher makes of the messages of a queue, without a server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from airflow_provider_ch_s3.errors import SourceError
from airflow_provider_ch_s3.files.source import SourceFile
from airflow_provider_ch_s3.load.watch import NewFiles, PollResult, Position, WatchedFiles
from airflow_provider_ch_s3.stores.sqs import Message
from airflow_provider_ch_s3.triggers import notifications
from airflow_provider_ch_s3.triggers.new_files import NewFilesTrigger
from airflow_provider_ch_s3.triggers.notifications import LISTING_SECONDS, Inbox, polling


def message(*keys: str, bucket: str = "shop") -> Message:
    records = [{"s3": {"bucket": {"name": bucket}, "object": {"key": key}}} for key in keys]
    return Message(id=" ".join(keys), body=json.dumps({"Records": records}), handle="h")


class Queue:
    """A queue: each call returns the next messages, or raises the next error; at last a listing is due."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    def receive(self) -> Sequence[Message]:
        if not self.scene.coming:
            self.scene.seconds += LISTING_SECONDS
            return []
        coming = self.scene.coming.pop(0)
        if isinstance(coming, Exception):
            raise coming
        return coming

    def delete(self, messages: Sequence[Message]) -> None:
        self.scene.deleted += [one.id for one in messages]
        if self.scene.refuses:
            raise SourceError("queue-not-read", "cannot delete")


class Scene:
    """A watcher whose queue and store do what a test says.

    :ivar coming: of the queue.
    :ivar lacking: the files that the table lacks.
    """

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.coming: list[Any] = []
        self.lacking: list[str] = []
        self.deleted: list[str] = []
        self.looked: list[set[str]] = []
        self.told: list[set[str]] = []
        self.fails = self.refuses = False
        request = NewFilesTrigger(source="s3://shop/in/*", table="orders", again_after=60)._request
        self.watch = WatchedFiles(request=request, again_after=60.0)
        self.inbox = Inbox("sqs://orders", "aws", self._poll, now=lambda: self.seconds)

    async def _poll(self, watch: WatchedFiles) -> PollResult[Any] | Exception:
        self.looked.append(set(watch.named))
        self.told.append({path for path, _ in watch.told})
        if self.fails:
            return SourceError("bucket-not-listed", "the store is away")
        new = NewFiles()
        new.add([SourceFile(key=key, etag="e", size_bytes=1) for key in self.lacking])
        return PollResult(position=Position(), new=new, lacking=watch.named & set(self.lacking))

    def poll(self, *coming: Any) -> set[str]:
        """Look once; return the keys that were looked at, none for a listing."""
        self.coming += coming
        asyncio.run(self.inbox.poll(self.watch))
        return self.looked[-1]


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    made = Scene()
    monkeypatch.setattr(notifications, "_READERS", {})
    monkeypatch.setattr(notifications, "SqsQueue", lambda *_, **__: Queue(made))
    made.poll()
    return made


def test_a_watcher_begins_with_a_listing_and_lists_again_after_a_while(scene: Scene) -> None:
    assert scene.poll([message("in/a")], [message("in/b")]) == {"in/a"}
    assert [scene.poll(), scene.poll()] == [{"in/b"}, set()]
    assert scene.poll([message("in/c")]) == {"in/c"}


def test_a_message_is_deleted_when_the_table_lacks_none_of_its_files(scene: Scene) -> None:
    scene.lacking = ["in/b"]
    scene.poll([message("in/a", "in/b"), message("in/c", "other/d"), message("in/b", bucket="else")])
    assert scene.deleted == ["in/b", "in/c other/d"]  # the first is of the other bucket
    scene.lacking = []
    scene.poll([message("in/a", "in/b")])
    assert scene.deleted[2:] == ["in/a in/b"]


def test_messages_that_name_nothing_wake_nobody(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    junk = Message(id="junk", body="[" * 10**6, handle="h")
    assert scene.poll([junk, message()], [junk, message(), message("out/a")], [message("in/a")]) == {"in/a"}
    assert scene.deleted[:-1] == ["junk", "", "junk", "", "out/a"]
    assert len(caplog.messages) == 3


def test_a_failed_look_deletes_nothing_and_the_source_is_listed_as_soon_as_it_can_be(scene: Scene) -> None:
    scene.fails = True
    assert scene.poll([message("in/a")]) == {"in/a"}
    assert [scene.poll(), scene.poll(), scene.poll()] == [set(), set(), set()]
    assert scene.deleted == []
    scene.fails = False
    assert [scene.poll([message("in/a")]), scene.poll()] == [set(), {"in/a"}]  # first what failed


def test_a_queue_that_cannot_be_read_is_tried_at_each_poll(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    away = SourceError("queue-not-read", "the queue is away")
    assert scene.poll(away, away, [message("in/a")]) == set()
    assert [scene.poll(), scene.poll()] == [set(), {"in/a"}]
    assert [line for line in caplog.messages if "queue-not-read" in line] == [
        "each poll lists s3://shop/in/* for orders for now: the queue is away [queue-not-read]"
    ]


def test_messages_that_cannot_be_deleted_stop_nothing(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.refuses = True
    assert scene.poll([message("out/a")], [message("in/a")]) == {"in/a"}
    assert "messages stay in the queue for now: cannot delete" in caplog.text


def test_an_event_tells_of_a_file_once_until_a_while_has_passed(scene: Scene) -> None:
    scene.lacking = ["in/a"]
    scene.poll([message("in/a")])
    scene.poll([message("in/a")])
    scene.seconds += 61
    scene.poll([message("in/a")])
    assert scene.told == [set(), set(), {"shop/in/a"}, set()]


def test_a_queue_has_one_reader_until_the_reader_ends(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    other = Scene()
    with polling("sqs://orders", "other", other._poll) as poll:
        assert poll != other._poll
    trigger = NewFilesTrigger(source="s3://b/in/*", table="t")
    with trigger.polling(other._poll) as at_each_poll:
        assert at_each_poll == other._poll
    scene.poll([message("in/a")])
    assert [other.poll(), other.poll()] == [set(), set()]
    assert "another watcher reads queue 'orders'" in caplog.text
    scene.inbox.close()
    other.inbox.close()
    scene.coming = [[message("in/b")]]
    assert other.poll() == {"in/b"}
    other.inbox.close()
    assert notifications._READERS == {}
