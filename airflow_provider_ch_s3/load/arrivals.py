"""Find the listed files ready to be loaded: they match, are old enough, and the expected files are there.

A job with a marker, such as Spark's ``_SUCCESS``, writes the marker into the job's output folder: the folder of each
day if each day is a separate job, or the folder above all days if a single job wrote them (``partitionBy``). So a
folder is complete if the marker is in the folder, or in a folder above, up to the folder that the source names:
objects further up belong to something else.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from airflow_provider_ch_s3.arguments import Keep, OnNothing, Tag
from airflow_provider_ch_s3.common.text import count_of, format_seconds, name_first
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import SourceError, StoreAnswerError
from airflow_provider_ch_s3.files.addresses import Source
from airflow_provider_ch_s3.files.globs import before_wildcards, folder_of
from airflow_provider_ch_s3.files.source import SourceFile
from airflow_provider_ch_s3.files.stores import ObjectStore, list_ages
from airflow_provider_ch_s3.request import LoadRequest

log = get_log(__name__)

# What XML has no form for, and what its readers take for a line feed.
_UNREADABLE = re.compile(r"[\0\r]")


def find_file(store: ObjectStore, source: Source, key: str) -> SourceFile | None:
    """Find an object of a source's bucket by key; None if there is none."""
    return next((file for file in store.list_files(replace(source, globs=(key,))) if file.key == key), None)


def check_markers(
    store: ObjectStore, request: LoadRequest, *, folders: Collection[str], listed: Collection[str], after: str
) -> None:
    """Check that each expected file is there, for each folder with files and for each address without any.

    :param folders: folders with matching files, each with a slash at the end.
    :param listed: keys of all markers in the listing.
    :param after: the key after which the listing began.
    :raises SourceError: if an expected file is missing.
    """
    source = request.source
    roots = source.folders

    @cache
    def exists(key: str) -> bool:
        if key in listed or (source.scheme.lists_folders and key.startswith(source.prefixes) and key > after):
            return key in listed
        # The listing begins with `dt=2013-`, say, and the marker is next to such folders, or after another key.
        return find_file(store, source, key) is not None

    lines = {folder: list(line_up_to(folder, roots)) for folder in sorted(folders)}
    found_in = {folder for line in lines.values() for folder in line}
    lines |= {root: [root] for root in sorted(roots) if root not in found_in}
    for name in request.arrivals.expected:
        lacking = [folder for folder, line in lines.items() if not any(exists(f"{above}{name}") for above in line)]
        if lacking:
            raise _is_missing(name, lacking, lines[lacking[0]][-1], len(lines), source)


def line_up_to(folder: str, roots: Collection[str]) -> Iterator[str]:
    """Yield a folder and the folders above, up to the highest folder that the source names."""
    line = [folder]
    while folder:
        folder = folder_of(folder[:-1])
        line.append(folder)
    highest = max(n for n, above in enumerate(line) if above in roots)
    yield from line[: highest + 1]


def _is_missing(name: str, lacking: Sequence[str], root: str, count: int, source: Source) -> SourceError:
    where = source.address(lacking[0])
    if len(lacking) > 1:
        where += f" and {len(lacking) - 1} more of {count_of(count, 'folder')}"
    above = f", nor above, up to {source.address(root)}" if lacking[0] != root else ""
    return SourceError(
        "expected-file-missing",
        f"expected file {name!r} is missing in {where}{above}, so the files may not be complete; load again when"
        " their writer has finished, e.g. by a retry of the task, or correct Arrivals(expected=…)",
    )


NO_FILES_REMEDY = (
    "check the address, the date in it, and that the files were delivered; arrivals=Arrivals(on_none='skip') accepts"
    " an empty source"
)
LEFT_OUT_REMEDY = (
    "wildcards select no names that begin with _ or ., which jobs give to unfinished files, nor checksums (.crc) and"
    " folders; to load such files, name the _ or . in the source"
)


@dataclass(kw_only=True)
class ReadyFiles:
    """Goes through a listing: yields the matching, ready files in the store's order, and notes the rest.

    Empty objects contain nothing to load. Objects other than data files are left out.

    :param after: the listing begins after this key; '' for the whole listing.
    :param is_incremental: the listing begins after the loaded files, so an empty listing means no new files.
    :param is_recorded: the ledger tells later loads about the files of this load.
    :param is_sorted: whether the keys have come in order so far.
    :param missed_count: objects that begin like a glob but do not match it, for the message.
    :param left_out_count: objects that match a glob and are no data files, such as ``_temporary/0/part-0.csv``.
    :param folders: folders with matching files; filled only if markers are expected.
    :param markers: keys of the markers.
    """

    store: ObjectStore
    request: LoadRequest
    after: str = ""
    is_incremental: bool = False
    is_recorded: bool = True
    is_sorted: bool = field(default=True, init=False)
    ready_count: int = field(default=0, init=False)
    young_count: int = field(default=0, init=False)
    young_key: str = field(default="", init=False)
    youngest_seconds: float = field(default=math.inf, init=False)
    missed_count: int = field(default=0, init=False)
    missed_key: str = field(default="", init=False)
    left_out_count: int = field(default=0, init=False)
    left_out_key: str = field(default="", init=False)
    empty_count: int = field(default=0, init=False)
    empty_key: str = field(default="", init=False)
    folders: set[str] = field(default_factory=set, init=False)
    markers: set[str] = field(default_factory=set, init=False)

    def __iter__(self) -> Iterator[SourceFile]:
        """:raises SourceError: if ClickHouse cannot read one of the keys, or if the store cannot be listed."""
        source, names = self.request.source, self.request.arrivals.expected
        key_before = self.after
        min_age = self.request.arrivals.min_age
        for file, age_seconds in list_ages(self.store, source, min_age=min_age, after=self.after):
            key = file.key
            if key <= self.after:
                continue  # a store that cannot begin a listing after a key
            self.is_sorted = self.is_sorted and key > key_before
            key_before = key
            if self.request.arrivals.is_marker(key):
                self.markers.add(key)
                continue
            if not source.matches(key):
                self._note_unselected(file)
            elif file.size_bytes:
                if names:
                    self.folders.add(folder_of(key))
                if age_seconds < min_age:
                    self.young_count += 1
                    self.young_key = self.young_key or key
                    self.youngest_seconds = min(self.youngest_seconds, age_seconds)
                    if self.request.mode.list_after_loaded:
                        return  # the next load lists what is after the last key of this one
                    continue
                check_key(key, source)
                self.ready_count += 1
                yield file
            else:
                self.empty_count += 1
                self.empty_key = self.empty_key or key

    def _note_unselected(self, file: SourceFile) -> None:
        source, key = self.request.source, file.key
        is_empty = file.size_bytes == 0
        if source.leaves_out(key) and not (is_empty and key.endswith("/")):
            self.left_out_count += 1
            self.left_out_key = self.left_out_key or key
        elif not is_empty and source.glob_above(key):
            self.missed_count += 1
            self.missed_key = self.missed_key or key

    def check(self) -> None:
        """Check a listing read to the end. An incremental listing without files means no new files.

        :raises SourceError: if no file is ready and ``Arrivals(on_none=…)`` does not allow it, if there are fewer
            than ``min_files``, if an expected file is missing, or if files are too young and cannot be left out.
        """
        request = self.request
        if self.left_out_count:
            log.info("leaving out %s, because %s", self.left_out, LEFT_OUT_REMEDY)
        if self.empty_count:
            log.info("leaving out %s without content", name_first(self.empty_key, self.empty_count))
        if (self.after or self.is_incremental) and not (self.ready_count or self.young_count):
            return
        if self.folders or isinstance(request.after_load, (Keep, Tag)):
            check_markers(self.store, request, folders=self.folders, listed=self.markers, after=self.after)
        # else an earlier load has taken the last files away, and their markers with them
        self.check_young()
        if not self.ready_count:
            message = _describe_no_files(self, request)
            if request.arrivals.on_none is OnNothing.FAIL:
                raise SourceError("no-file-matches", message)
            log.info("%s", message)
            return
        if self.ready_count < request.arrivals.min_files:
            old = f" that are old enough ({self.young_count} are not)" if self.young_count else ""
            raise SourceError(
                "files-too-few",
                f"{request.source} matches {count_of(self.ready_count, 'file')}{old}, but"
                f" min_files={request.arrivals.min_files}; wait for the others to be delivered, or lower min_files",
            )
        if self.young_count:
            log.info(
                "leaving out %s, younger than min_age (%s): the next load of this source takes them",
                self.young,
                format_seconds(request.arrivals.min_age),
            )

    def check_young(self) -> None:
        """Check that a later load adds exactly the files left out by this load.

        :raises SourceError: if no later load would.
        """
        request = self.request
        if not self.young_count or (self.is_recorded and request.mode.skips_loaded):
            return
        if not self.is_recorded:
            why = "with mode='direct' no later load knows that they are missing"
        elif request.mode.is_additive:
            why = "with Append(on_loaded='load') a later load would load the others again"
        else:
            why = f"mode={request.mode.name!r} would replace rows by those of the other files alone"
        age = format_seconds(request.arrivals.min_age)
        left = format_seconds(request.arrivals.min_age - self.youngest_seconds)
        raise SourceError(
            "files-too-young",
            f"{self.young} of {request.source}, younger than min_age ({age}), cannot be left out: {why}; load"
            f" again in {left}, e.g. by a retry of the task, or lower min_age",
        )

    @property
    def left_out(self) -> str:
        """Name the objects other than data files, for messages."""
        return f"{count_of(self.left_out_count, 'object')} ({name_first(self.left_out_key, self.left_out_count)})"

    @property
    def young(self) -> str:
        """Name the young files, for messages."""
        return name_first(self.young_key, self.young_count)


def list_files(store: ObjectStore, request: LoadRequest, *, is_recorded: bool = True) -> tuple[SourceFile, ...]:
    """List all matching, ready files, sorted by key.

    :param is_recorded: as for :class:`ReadyFiles`.
    :raises SourceError: as :meth:`ReadyFiles.check`, if ClickHouse cannot read one of the keys, or if the store
        cannot be listed.
    """
    arrivals = ReadyFiles(store=store, request=request, is_recorded=is_recorded)
    files = tuple(sorted(arrivals))
    arrivals.check()
    return files


def _describe_no_files(found: ReadyFiles, request: LoadRequest) -> str:
    source = request.source
    if found.young_count:
        return (
            f"no file of {source} is old enough: {found.young} changed less than min_age"
            f" ({format_seconds(request.arrivals.min_age)}) ago; load again later, e.g. by a retry of the task"
        )
    if request.snapshot:
        return f"{describe_empty(request)}; arrivals=Arrivals(on_none='skip') accepts an empty source"
    if found.left_out_count:
        return f"no data file matches {source}, but {found.left_out}: {LEFT_OUT_REMEDY}"
    if found.empty_count:
        empty = name_first(found.empty_key, found.empty_count)
        return (
            f"no file of {source} has content: {empty} of 0 bytes; check how the files are written;"
            " Arrivals(on_none='succeed') accepts such files, and Append(on_changed='replace') then removes the rows"
            " of earlier versions"
        )
    if not found.missed_count:
        return f"no file matches {source.with_hint}; {NO_FILES_REMEDY}"
    glob = source.glob_above(found.missed_key)
    remedy = NO_FILES_REMEDY
    if before_wildcards(glob) == glob:
        folder = glob.rstrip("/")
        stars = "**" if "/" in found.missed_key.removeprefix(f"{folder}/") else "*"
        remedy = f"to load a folder write '{source.address(folder)}/{stars}'"
    begin = "1 object begins" if found.missed_count == 1 else f"{found.missed_count} objects begin"
    return f"no file matches {source.with_hint}, but {begin} like it, such as {found.missed_key!r}; {remedy}"


def describe_empty(request: LoadRequest) -> str:
    """Say what to do about a snapshot of a lake table without data files."""
    return (
        f"snapshot {request.snapshot!r} of {request.source} has no rows, so there is nothing to load; load again"
        " once it has some; if all of its rows were deleted, TRUNCATE the ClickHouse table as well, and load with"
        " mode='replace_table' then, after which 'append' goes on from there"
    )


def check_key(key: str, source: Source) -> None:
    """:raises SourceError: if ClickHouse cannot read the key."""
    if _UNREADABLE.search(key):
        raise StoreAnswerError(
            "key-unreadable",
            f"ClickHouse cannot read the key {key!r} of bucket {source.bucket!r}: listings, which are XML, do not"
            " carry NUL and carriage returns; copy the file to a key without them",
        )
    if "//" in key or key.startswith("/"):
        raise SourceError(
            "key-unreadable",
            f"ClickHouse cannot read the key {key!r} of bucket {source.bucket!r}: it contains an empty folder name;"
            " copy the file to a key without '//'",
        )
