"""Find what an interrupted MOVE PARTITION has moved.

MOVE has two steps: ClickHouse first clones the parts into the target, part by part, and then retires the parts of the
source. A node that dies in between has rows in both tables. An ALTER moves partition by partition: earlier partitions
are then in the target, and later partitions are still staged. A clone has two marks: the hash of the files equals the
hash of the staged part, and the block number is greater than any number in the target before. Merges and mutations
hide clones, but ClickHouse lists the replaced parts for some more minutes.

Where merges keep all rows, the numbers of rows have to agree, unless somebody has deleted or updated rows meanwhile.
If parts and numbers do not tell, the rows do: if the target has gained no row equal to a staged row, nothing has
arrived. Once somebody has changed rows, only the sorting keys are compared, because nobody can update a key; then
equal keys prove nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_ch_s3.common.text import count_of, format_count
from airflow_provider_ch_s3.errors import UnknownStateError

DIGEST_LENGTH = 8
"""How much of a hash the ledger keeps."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of a table, in one partition of one node.

    :param first_block: with ``last_block`` the range of inserts in the part; an unmerged part holds a single insert.
    :param digest: hash of the part's files; a clone has the same hash.
    :param is_active: False if something has replaced the part.
    :param is_fresh: as written by an insert: neither merged nor mutated since.
    :param version: increases with mutations.
    """

    name: str
    rows: int
    first_block: int
    last_block: int
    digest: str
    is_active: bool = True
    is_fresh: bool = True
    version: int = 0

    @property
    def is_merged(self) -> bool:
        return self.first_block != self.last_block


def parse_part(row: Mapping[str, Any]) -> Part:
    """Parse a row of ``read_parts``."""
    return Part(
        name=row["name"],
        rows=row["rows"],
        first_block=row["first_block"],
        last_block=row["last_block"],
        digest=row["digest"],
        is_active=bool(row["active"]),
        is_fresh=bool(row["fresh"]),
        version=row["version"],
    )


@dataclass(frozen=True, kw_only=True)
class Before:
    """A partition of a node, right before parts are moved there, or the partition is replaced.

    :param last_block: greatest block number of any part, active or not; -1 without parts.
    :param rows: rows in the target.
    :param staged_rows: rows to be moved.
    :param version: greatest version of an active part; None if an older release did not record the version.
    :param digests: the beginning of the hash of each active part, for a partition to be replaced.
    """

    last_block: int = -1
    rows: int = 0
    staged_rows: int = 0
    version: int | None = None
    digests: Sequence[str] = ()


def find_moved(
    staged: Sequence[Part],
    target: Iterable[Part],
    before: Before,
    *,
    keeps_all_rows: bool,
    is_patched: bool,
    count_same_rows: Callable[[bool], int | None],
) -> tuple[str, ...]:
    """Find the names of the staged parts whose rows are already in the target.

    :param staged: active parts of the staging table; no merge has touched them since ``before``.
    :param target: all parts of the target, active or not.
    :param keeps_all_rows: merges of the target leave every row unchanged, so rows can be counted there.
    :param is_patched: the target has lightweight updates.
    :param count_same_rows: counts the rows that the target has gained, and that equal a staged row; with the
        argument True, rows with the same sorting key are equal. None if unknown.
    :raises UnknownStateError: if this cannot be determined.
    """
    target = tuple(target)
    new = new_parts(target, before)
    if not new or not staged:
        return ()
    matched = _match(staged, new)
    moved = tuple(part.name for part in matched)
    digests = {part.digest for part in staged}
    staged_rows = _count(staged)
    gained_rows = _count(part for part in target if part.is_active) - before.rows
    if not keeps_all_rows:
        if len(matched) == len(staged) or shows_all(new, digests):
            return moved
    else:
        both_rows = gained_rows + staged_rows - before.staged_rows
        foreign_rows = _count(part for part in new if _is_insert(part) and part.digest not in digests)
        # An earlier owner may have dropped the staged parts of clones; else as many rows went as came.
        is_retired = staged_rows < before.staged_rows
        is_changed = is_patched or _is_changed(target, before)
        is_counted = not is_changed and (both_rows != 0 or is_retired)
        is_agreed = _count(matched) in (both_rows, both_rows - foreign_rows)
        if is_agreed and (is_counted or _shows_each_insert(new, digests, before)):
            return moved
        if is_counted and not both_rows:
            return ()  # the clones are those of staged parts that are gone
        same_rows = count_same_rows(is_changed)
        if same_rows == 0 and not matched:
            return ()
        # Of equal parts, one that somebody detached and attached again may be listed twice.
        if same_rows and len(matched) == len(staged) == len(digests) and not is_retired:
            return moved
        # Others may have written rows with the same keys, and deleted as many.
        if both_rows == staged_rows and not is_changed and (same_rows is None or same_rows >= staged_rows):
            return tuple(part.name for part in staged)  # merged, and no longer listed
    raise UnknownStateError(
        "partition-state-unknown",
        f"of {count_of(before.staged_rows, 'row')} to be moved {format_count(staged_rows)} are still staged, and the"
        f" target has gained {format_count(gained_rows)}",
    )


def count_lost(staged: Iterable[Part], target: Iterable[Part], before: Before) -> int:
    """Count the rows neither staged any more nor arrived, if merges of the target keep all rows.

    A node killed while removing a moved part from an S3 disk may break the clone, too: both have the same files of
    metadata (https://github.com/ClickHouse/ClickHouse/issues/113179).

    :param staged: active parts of the staging table; ``target``: all parts of the target, active or not.
    """
    moved_rows = before.staged_rows - _count(staged)
    gained_rows = _count(part for part in target if part.is_active) - before.rows
    return max(0, moved_rows - max(0, gained_rows))


def new_parts(target: Iterable[Part], before: Before) -> list[Part]:
    """Find the parts, active or not, with rows that came later."""
    return [part for part in target if part.last_block > before.last_block]


def _is_changed(target: Iterable[Part], before: Before) -> bool:
    """Whether somebody has deleted or updated rows since: the version of an unchanged part is its first block."""
    known = -1 if before.version is None else before.version
    return any(part.is_active and part.version > max(part.first_block, known) for part in target)


def _is_insert(part: Part) -> bool:
    return part.is_fresh and not part.is_merged


def _shows_each_insert(new: Iterable[Part], digests: set[str], before: Before) -> bool:
    """Whether each insert since is listed, merged and mutated or not."""
    inserts = _inserted_blocks(new, digests)

    def is_shown(part: Part) -> bool:
        first = max(part.first_block, before.last_block + 1)
        return sum(first <= block <= part.last_block for block in inserts) == part.last_block - first + 1

    return all(is_shown(part) for part in new if part.is_active)


def _count(parts: Iterable[Part]) -> int:
    return sum(part.rows for part in parts)


def _match(staged: Iterable[Part], new: Sequence[Part]) -> list[Part]:
    """Find the staged parts with a clone in an active part: a failed MOVE leaves other clones behind."""
    active = [part for part in new if part.is_active]
    # Identical parts may have been staged more than once, since files may be identical. A mutation may copy a part.
    arrived = {(part.first_block, part.digest) for part in new if not part.is_merged and is_covered(part, active)}
    clones = Counter(digest for _, digest in arrived)
    matched = []
    for part in staged:
        if clones[part.digest] > 0:
            clones[part.digest] -= 1
            matched.append(part)
    return matched


def is_covered(part: Part, active: Iterable[Part]) -> bool:
    """Whether a part is active, or was merged or mutated into an active one."""
    return any(a.first_block <= part.first_block <= a.last_block for a in active)


def shows_all(parts: Sequence[Part], digests: set[str]) -> bool:
    """Whether all the parts that these were merged or mutated from are listed among them.

    ClickHouse removes the sources of a merge all at once, so the last one stands for the others.

    :param digests: those of clones.
    """
    leaves = _inserted_blocks(parts, digests)
    return all(part.last_block in leaves for part in parts)


def _inserted_blocks(parts: Iterable[Part], digests: set[str]) -> set[int]:
    return {part.first_block for part in parts if not part.is_merged and (part.is_fresh or part.digest in digests)}
