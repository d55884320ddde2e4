"""The files that must be there before a folder is loaded, such as Spark's ``_SUCCESS``.

A job writes its marker into the folder that it was told to write: into each day's folder if each day is a job of its
own, or above all of them if one job wrote them (``partitionBy``). So a folder is complete if the marker is in it, or
in a folder above it, but not above the one that the source names: a marker there belongs to something else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import cache

from airflow_provider_ch_s3.addresses import SourcePattern
from airflow_provider_ch_s3.errors import SourceError
from airflow_provider_ch_s3.protocols import ObjectStore
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.units import count_of


def is_marker(key: str, names: Sequence[str]) -> bool:
    """Whether an object is one of the expected files, of any folder: these are never loaded."""
    return any(key == name or key.endswith(f"/{name}") for name in names)


def check_markers(
    store: ObjectStore, request: LoadRequest, *, folders: Collection[str], listed: Collection[str], after: str = ""
) -> None:
    """Check that each expected file is there, for each folder with files and for each address without any.

    :param folders: folders with matching files, each with its slash.
    :param listed: keys of all markers in the listing.
    :param after: the key after which the listing began.
    :raises SourceError: if one is missing.
    """
    pattern = request.pattern
    roots = pattern.folders

    @cache
    def exists(key: str) -> bool:
        if key in listed or (pattern.scheme.lists_folders and key.startswith(pattern.prefixes) and key > after):
            return key in listed
        # The listing begins with `dt=2013-`, say, and the marker lies beside such folders, or after another key.
        return any(file.key == key for file in store.list_files(replace(pattern, globs=(key,))))

    lines = {folder: list(_line_up_to(folder, roots)) for folder in sorted(folders)}
    found_in = {folder for line in lines.values() for folder in line}
    lines |= {root: [root] for root in sorted(roots) if root not in found_in}
    for name in request.expected_files:
        lacking = [folder for folder, line in lines.items() if not any(exists(f"{above}{name}") for above in line)]
        if lacking:
            raise _is_missing(name, lacking, lines[lacking[0]][-1], len(lines), pattern)


def _line_up_to(folder: str, roots: Collection[str]) -> Iterator[str]:
    """Yield a folder and those above it, up to the highest one that the source names."""
    line = [folder]
    while folder:
        folder = folder[: folder[:-1].rfind("/") + 1]
        line.append(folder)
    highest = max(n for n, above in enumerate(line) if above in roots)
    yield from line[: highest + 1]


def _is_missing(name: str, lacking: Sequence[str], root: str, count: int, pattern: SourcePattern) -> SourceError:
    where = pattern.address(lacking[0])
    if len(lacking) > 1:
        where += f" and {len(lacking) - 1} more of {count_of(count, 'folder')}"
    above = f", nor above, up to {pattern.address(root)}" if lacking[0] != root else ""
    return SourceError(
        f"expected file {name!r} is missing in {where}{above}, so the files may not be complete; load again when"
        " their writer has finished, e.g. by a retry of the task, or correct expected_files"
    )
