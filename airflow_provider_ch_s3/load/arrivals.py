"""Which of the listed files are ready to be loaded: they match, are old enough, and the expected files are there."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from airflow_provider_ch_s3.errors import SourceError
from airflow_provider_ch_s3.globs import before_wildcards
from airflow_provider_ch_s3.load.markers import check_markers, is_marker
from airflow_provider_ch_s3.protocols import ObjectStore
from airflow_provider_ch_s3.request import LoadMode, LoadRequest, OnNoFiles
from airflow_provider_ch_s3.source import SourceFile, SourcePattern
from airflow_provider_ch_s3.units import count_of, format_seconds

log = logging.getLogger(__name__)

NO_FILES_REMEDY = (
    "check the address, the date in it, and that the files were delivered; on_no_files='skip' or 'succeed' allows it"
)


@dataclass(frozen=True, kw_only=True)
class Listing:
    """The files that are ready, sorted by key, and how many were left out because they are too young."""

    files: tuple[SourceFile, ...]
    young_count: int = 0


@dataclass(kw_only=True)
class _Found:
    """What a listing contains.

    :param missed: objects that begin like a glob and do not match it, for the message.
    :param folders: folders with matching files; filled only if markers are expected.
    :param markers: keys of the markers.
    """

    ready: list[SourceFile] = field(default_factory=list)
    young_count: int = 0
    young_key: str = ""
    youngest_seconds: float = math.inf
    missed_count: int = 0
    missed_key: str = ""
    folders: set[str] = field(default_factory=set)
    markers: set[str] = field(default_factory=set)

    @property
    def young(self) -> str:
        """Name the young files, for messages."""
        more = f" and {self.young_count - 1} more" if self.young_count > 1 else ""
        return f"{self.young_key!r}{more}"


def list_files(store: ObjectStore, request: LoadRequest, *, is_recorded: bool = True) -> Listing:
    """List the files that match and are ready.

    Empty objects are folder markers and ``_SUCCESS`` files: they contain nothing to load.

    :param is_recorded: the ledger tells later loads which files this one has loaded.
    :raises SourceError: if there are none and ``on_no_files`` does not allow it, if there are fewer than
        ``min_files``, if an expected file is missing, if files are too young and cannot be left out, if ClickHouse
        cannot read one of the keys, or if the store cannot be listed.
    """
    found = _look(store, request)
    check_markers(store, request, folders=found.folders, listed=found.markers)
    if found.young_count:
        _check_may_be_left_out(found, request, is_recorded=is_recorded)
    if not found.ready:
        message = _describe_no_files(found, request)
        if request.on_no_files is OnNoFiles.FAIL:
            raise SourceError(message)
        log.info("%s", message)
        return Listing(files=(), young_count=found.young_count)
    if len(found.ready) < request.min_files:
        old = f" that are old enough ({found.young_count} are not)" if found.young_count else ""
        raise SourceError(
            f"{request.pattern} matches {count_of(len(found.ready), 'file')}{old}, but min_files={request.min_files};"
            " wait for the others to be delivered, or lower min_files"
        )
    if found.young_count:
        log.info(
            "leaving out %s, younger than min_file_age (%s): the next load of this source takes them",
            found.young,
            format_seconds(request.min_file_age_seconds),
        )
    found.ready.sort()
    _check_keys(found.ready, request.pattern)
    return Listing(files=tuple(found.ready), young_count=found.young_count)


def _look(store: ObjectStore, request: LoadRequest) -> _Found:
    pattern, names = request.pattern, request.expected_files
    found = _Found()
    for file, age_seconds in _list_with_ages(store, request):
        key = file.key
        if is_marker(key, names):
            found.markers.add(key)
        elif file.size_bytes == 0:
            continue
        elif not pattern.matches(key):
            if pattern.glob_above(key):
                found.missed_count += 1
                found.missed_key = found.missed_key or key
        else:
            if names:
                found.folders.add(key[: key.rfind("/") + 1])
            if age_seconds >= request.min_file_age_seconds:
                found.ready.append(file)
            else:
                found.young_count += 1
                found.young_key = found.young_key or key
                found.youngest_seconds = min(found.youngest_seconds, age_seconds)
    return found


def _list_with_ages(store: ObjectStore, request: LoadRequest) -> Iterable[tuple[SourceFile, float]]:
    if request.min_file_age_seconds:
        return store.list_ages(request.pattern)
    return ((file, math.inf) for file in store.list_files(request.pattern))


def _check_may_be_left_out(found: _Found, request: LoadRequest, *, is_recorded: bool) -> None:
    """Check that a later load adds the files that this one leaves out, and only those.

    :raises SourceError: if none would.
    """
    if is_recorded and request.skips_loaded:
        return
    if request.load_mode is not LoadMode.APPEND:
        why = f"load_mode={request.load_mode.value!r} would replace rows by those of the other files alone"
    elif not is_recorded:
        why = "with staging=False no later load knows that they are missing"
    else:
        why = "with on_loaded_files='load' a later load would load the others again"
    age = format_seconds(request.min_file_age_seconds)
    left = format_seconds(request.min_file_age_seconds - found.youngest_seconds)
    raise SourceError(
        f"{found.young} of {request.pattern}, younger than min_file_age ({age}), cannot be left out: {why}; load"
        f" again in {left}, e.g. by a retry of the task, or lower min_file_age"
    )


def _describe_no_files(found: _Found, request: LoadRequest) -> str:
    pattern = request.pattern
    if found.young_count:
        return (
            f"no file of {pattern} is old enough: {found.young} changed less than min_file_age"
            f" ({format_seconds(request.min_file_age_seconds)}) ago; load again later, e.g. by a retry of the task"
        )
    if not found.missed_count:
        return f"no file matches {pattern}; {NO_FILES_REMEDY}"
    glob = pattern.glob_above(found.missed_key)
    remedy = NO_FILES_REMEDY
    if before_wildcards(glob) == glob:
        folder = glob.rstrip("/")
        stars = "**" if "/" in found.missed_key.removeprefix(f"{folder}/") else "*"
        remedy = f"to load a folder write 's3://{pattern.bucket}/{folder}/{stars}'"
    begin = "1 object begins" if found.missed_count == 1 else f"{found.missed_count} objects begin"
    return f"no file matches {pattern}, but {begin} like it, such as {found.missed_key!r}; {remedy}"


def _check_keys(files: Iterable[SourceFile], pattern: SourcePattern) -> None:
    """:raises SourceError: if ClickHouse cannot read one of the keys."""
    for key in (file.key for file in files):
        if "//" in key or key.startswith("/"):
            raise SourceError(
                f"ClickHouse cannot read the key {key!r} of bucket {pattern.bucket!r}: it contains an empty"
                " folder name; copy the file to a key without '//'"
            )
