"""Tag, move or delete the files of a load after the commit, if users want that.

Only files loaded by this task, in this or an earlier run, are touched, and only while they still have the ETag that
was loaded. Each step can be repeated: a retry finds the load committed, and continues here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from airflow_provider_ch_s3.arguments import Delete, Move, Tag
from airflow_provider_ch_s3.common.text import count_of, name_first
from airflow_provider_ch_s3.common.work import batches
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.exactly_once.history import Attempt, AttemptId
from airflow_provider_ch_s3.exactly_once.holdings import IDS_PER_STATEMENT
from airflow_provider_ch_s3.exactly_once.ledger import FILES_PER_STATEMENT
from airflow_provider_ch_s3.exactly_once.target import Target
from airflow_provider_ch_s3.files.globs import folder_of
from airflow_provider_ch_s3.files.source import SourceFile
from airflow_provider_ch_s3.files.stores import REQUESTS_AT_ONCE, WritableStore
from airflow_provider_ch_s3.identity import LoadIdentity
from airflow_provider_ch_s3.load.arrivals import ReadyFiles, line_up_to
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.sql import staging_queries

log = get_log(__name__)

LOAD_TAG = "ch-s3-load"
LoadedFile = tuple[AttemptId, str, str]
"""The attempt that loaded the file, the file's key, and its ETag."""

_DID = {Tag: "tagged", Move: "moved", Delete: "deleted"}


def dispose_of_files(
    store: WritableStore,
    target: Target,
    request: LoadRequest,
    identity: LoadIdentity,
    committed: Sequence[Attempt],
) -> None:
    """Dispose of the files of committed attempts as requested, and of files left by earlier attempts.

    :raises SourceError: if the store refuses.
    """
    folders: set[str] = set()
    start = request.source.path("")
    last = None
    for attempt in committed:
        manifest = target.ledger.read_manifest(attempt.id)
        files = [(attempt.id, path.removeprefix(start), etag) for path, etag in manifest.items()]
        where = f" to {_folder(move, attempt.id)!r}" if isinstance(move := request.after_load, Move) else ""
        left = _dispose(store, request, files, where)
        if left:
            log.warning("%s: changed since the load; left in place", name_first(left[0], len(left)))
        folders.update(folder_of(key) for _, key, _ in files)
        last = attempt.id
    for some in _find_left_behind(store, target, request, identity):
        _dispose(store, request, some, ", which earlier loads of this task have loaded")
        folders.update(folder_of(key) for _, key, _ in some)
        last = some[-1][0]
    if last and request.arrivals.expected and not isinstance(request.after_load, Tag):
        for marker in _markers_of_empty(store, request, folders):
            _act(store, request, (last, marker.key, marker.etag))


def _dispose(store: WritableStore, request: LoadRequest, files: Sequence[LoadedFile], where: str) -> list[str]:
    """Dispose of some files as requested; return the keys of files with a new version since."""
    act, left = partial(_act, store, request), []
    with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
        for some in batches(files):
            for (_, key, _), is_done in zip(some, pool.map(act, some), strict=True):
                left += [] if is_done else [key]
    log.info("%s %s%s", _DID[type(request.after_load)], count_of(len(files) - len(left), "file"), where)
    return left


def _find_left_behind(
    store: WritableStore, target: Target, request: LoadRequest, identity: LoadIdentity
) -> Iterator[list[LoadedFile]]:
    """Find listed files skipped by this load, because this task has loaded them before.

    Their disposal failed or never came, or they were delivered again. A listing has no tags, so each load would tag
    all files again: to avoid that, only files of this run are tagged again, as the task may have been cleared.
    """
    if not request.mode.skips_loaded:
        return
    for group in batches(ReadyFiles(store=store, request=request), FILES_PER_STATEMENT):
        etags = {request.source.path(file.key): file.etag for file in group}
        loaders = target.holdings.loaders(
            etags, dag=identity.dag_id, task=identity.task_id, find_whole=partial(_find_whole, target)
        )
        found = [
            (attempt, file.key, file.etag)
            for file in group
            if (attempt := loaders.get(request.source.path(file.key)))
            and (not isinstance(request.after_load, Tag) or attempt.load_id == identity.load_id)
        ]
        if found:
            yield found


def _find_whole(target: Target, added: Mapping[str, int]) -> set[str]:
    """Find the partitions where readers see as many rows as loads have added; if merges fold rows, any at all."""
    found: set[str] = set()
    for some in batches(sorted(added), IDS_PER_STATEMENT):
        statement = staging_queries.render_count_seen(target.spec.local, target.cluster.name, partitions=some)
        seen = {row["partition_id"]: row["rows"] for row in target.client.query(statement)}
        needed = {one: added[one] if target.spec.keeps_all_rows else min(added[one], 1) for one in some}
        found.update(one for one, rows in needed.items() if seen.get(one, 0) >= rows)
    return found


def _markers_of_empty(store: WritableStore, request: LoadRequest, folders: Collection[str]) -> Iterator[SourceFile]:
    """Yield the markers of folders without any file left: a marker would make the next files there look complete.

    :param folders: the folders of the files that were disposed of.
    """
    source, roots = request.source, tuple(request.source.folders)
    # A retry may name another source than the try that committed.
    within = [folder for folder in folders if folder.startswith(roots)]
    above = {line for folder in within for line in line_up_to(folder, roots)}
    moved_to = request.after_load.folder if isinstance(request.after_load, Move) else ""
    for folder in sorted(above):
        markers = []
        for file in store.list_files(replace(source, globs=(f"{folder}**",))):
            if request.arrivals.is_marker(file.key):
                markers += [file] if folder_of(file.key) == folder else []
            elif file.size_bytes and not (moved_to and file.key.startswith(moved_to)):
                break
        else:
            yield from markers


def _act(store: WritableStore, request: LoadRequest, file: LoadedFile) -> bool:
    """Dispose of a file as requested; return whether the file still was the loaded version."""
    attempt, key, etag = file
    bucket = request.source.bucket
    match request.after_load:
        case Tag():
            return store.tag(bucket, key, etag, {LOAD_TAG: attempt.query_id})
        case Move() as move:
            return store.move(bucket, key, etag, to=f"{_folder(move, attempt)}{key}")
        case _:
            return store.delete(bucket, key, etag)


def _folder(move: Move, attempt: AttemptId) -> str:
    """The folder for an attempt's files: each attempt has its own, so that no file ever replaces another."""
    return f"{move.folder}{attempt.query_id}/"
