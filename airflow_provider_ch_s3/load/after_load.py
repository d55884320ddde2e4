"""What happens to the files of a load after its commit: they are tagged, moved or deleted, if users want that.

Only files of the load's manifests are touched, and only while they still have the ETag that was loaded. Each step can
be repeated: a retry finds the load committed, and continues here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from airflow_provider_ch_s3.common.text import count_of
from airflow_provider_ch_s3.common.work import batches
from airflow_provider_ch_s3.exactly_once.history import Attempt, AttemptId
from airflow_provider_ch_s3.exactly_once.ledger import Ledger
from airflow_provider_ch_s3.files.addresses import SourcePattern
from airflow_provider_ch_s3.files.source import SourceFile
from airflow_provider_ch_s3.files.stores import REQUESTS_AT_ONCE, WritableStore
from airflow_provider_ch_s3.load.arrivals import is_marker, line_up_to
from airflow_provider_ch_s3.request import AfterLoad, LoadRequest

log = logging.getLogger(__name__)

LOAD_TAG = "ch-s3-load"
_DID = {AfterLoad.TAG: "tagged", AfterLoad.MOVE: "moved", AfterLoad.DELETE: "deleted"}


def dispose_of_files(
    store: WritableStore, ledger: Ledger, request: LoadRequest, committed: Sequence[Attempt]
) -> None:
    """Do with the files of committed attempts what the request says.

    :raises SourceError: if the store refuses.
    """
    folders: set[str] = set()
    for attempt in committed:
        files = _read_files(ledger, request.pattern, attempt.id)
        act = _action(store, request, attempt.id)
        done, left = 0, []
        with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
            for some in batches(files):
                for (key, _), is_done in zip(some, pool.map(act, *zip(*some, strict=True)), strict=True):
                    done += is_done
                    left += [] if is_done else [key]
        log.info("%s %s%s", _DID[request.after_load], count_of(done, "file"), _describe_place(request, attempt.id))
        folders.update(key[: key.rfind("/") + 1] for key, _ in files)
        if left:
            more = f" and {len(left) - 1} more" if len(left) > 1 else ""
            log.warning("%r%s: no longer what the load read, so left alone", left[0], more)
    if committed and request.expected_files and request.after_load is not AfterLoad.TAG:
        act = _action(store, request, committed[-1].id)
        for marker in _markers_of_empty(store, request, folders):
            act(marker.key, marker.etag)


def _markers_of_empty(store: WritableStore, request: LoadRequest, folders: Collection[str]) -> Iterator[SourceFile]:
    """Yield the markers of folders without any other file left: one that stays would complete the next files there.

    :param folders: those whose files were disposed of.
    """
    pattern, roots = request.pattern, tuple(request.pattern.folders)
    # A retry may name another source than the try that committed.
    within = [folder for folder in folders if folder.startswith(roots)]
    above = {line for folder in within for line in line_up_to(folder, roots)}
    for folder in sorted(above):
        markers = []
        for file in store.list_files(replace(pattern, globs=(f"{folder}**",))):
            if is_marker(file.key, request.expected_files):
                markers += [file] if file.key[: file.key.rfind("/") + 1] == folder else []
            elif file.size_bytes and not (request.move_to and file.key.startswith(request.move_to)):
                break
        else:
            yield from markers


def _action(store: WritableStore, request: LoadRequest, attempt: AttemptId) -> Callable[[str, str], bool]:
    bucket = request.pattern.bucket

    def act(key: str, etag: str) -> bool:
        match request.after_load:
            case AfterLoad.TAG:
                return store.tag(bucket, key, etag, {LOAD_TAG: attempt.query_id})
            case AfterLoad.MOVE:
                return store.move(bucket, key, etag, to=f"{_folder(request, attempt)}{key}")
            case _:
                return store.delete(bucket, key, etag)

    return act


def _folder(request: LoadRequest, attempt: AttemptId) -> str:
    """The folder of an attempt's files: its own, so that no file ever replaces another one."""
    return f"{request.move_to}{attempt.query_id}/"


def _describe_place(request: LoadRequest, attempt: AttemptId) -> str:
    return f" to {_folder(request, attempt)!r}" if request.after_load is AfterLoad.MOVE else ""


def _read_files(ledger: Ledger, pattern: SourcePattern, attempt: AttemptId) -> list[tuple[str, str]]:
    start = pattern.path("")
    return [(path.removeprefix(start), etag) for path, etag in ledger.read_manifest(attempt).items()]
