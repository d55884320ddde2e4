"""Find which partitions an interrupted REPLACE PARTITION has replaced, and what others have changed since.

A REPLACE drops the parts up to a block number, and adds clones with greater numbers. So if a part with rows begins at
or below the greatest number from before, the REPLACE did not run, however parts were merged since. If all these parts
are gone, somebody may have dropped them instead: only a clone, or the log of the parts added by the REPLACE, shows
that the REPLACE ran. A clone is recognized as in :mod:`.moved`. Parts from before that somebody detached and attached
again have greater numbers, too: their hashes, and no new clone, show that the REPLACE did not run. Without replicas,
the numbers of dropped parts come again after a restart: the hash of a new part is unknown.

A server runs a REPLACE as a whole or not at all, unless the server is killed meanwhile: then clones may stand next to
old parts after the restart. Replicas repeat an interrupted REPLACE by themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from enum import Enum

from airflow_provider_ch_s3.exactly_once.moved import DIGEST_LENGTH, Before, Part, is_covered, shows_all


class Replacement(Enum):
    """How far the replacement of one partition of one node is.

    ``OWED``: the replacement did not begin, and nobody has changed the partition since the commit was prepared.
    ``TOUCHED``: the replacement did not begin, and somebody has changed the partition.
    ``HALF``: the node was killed meanwhile; nobody has changed the partition, so the REPLACE may be repeated.
    ``DONE``: the partition holds the result, or what others have made of the result since.
    """

    OWED = "owed"
    TOUCHED = "touched"
    HALF = "half"
    DONE = "done"
    UNKNOWN = "unknown"


def find_replacement(
    coming: Iterable[Part], held: Iterable[Part], before: Before, *, is_whole: bool, is_logged: bool | None = None
) -> Replacement:
    """Find how far the replacement of a partition is.

    :param coming: the new parts, active or not; none with rows if the partition is emptied.
    :param held: all parts of the target, active or not.
    :param is_whole: the REPLACE ran as a whole or not at all: the node is a replica, or was not restarted since.
    :param is_logged: whether the server has logged parts added by the REPLACE; None if the log does not tell.
    """
    held = tuple(held)
    staged = [part for part in coming if part.is_active]
    digests = {part.digest for part in staged if part.rows}
    parts = _Parts.of(held, digests, before)
    # A REPLACE adds greater numbers: if the log has the REPLACE, and no part has new rows, numbers have begun again.
    is_gone = is_logged and not any(_has_new(part, before) for part in parts.active)
    if not is_gone and any(_has_old(part, before) for part in parts.active):
        if is_whole or not digests or (not parts.clones and shows_all(parts.new, digests)):
            return _not_begun(parts.active, before)
        return _half_or_unknown(staged, held, parts, before)
    # What was there is gone, or has new numbers: replaced, dropped, or detached and attached again by somebody.
    if is_logged or (is_logged is None and parts.has_all(staged) and parts.has_clone_besides(before)):
        return Replacement.DONE
    if any(_begins(part) in before.digests and part.digest not in digests for part in parts.came):
        # Attached again; or after a REPLACE, somebody has inserted equal rows.
        is_unknown = is_logged is None and parts.has_clone_besides(before)
        return Replacement.UNKNOWN if is_unknown else _not_begun(parts.active, before)
    if parts.has_all(staged):
        return Replacement.DONE
    if is_logged is False:
        return _not_begun(parts.active, before)
    if parts.arrived:
        # One part alone may be an equal one that somebody has inserted again.
        is_half = not is_whole and not before.rows and _adds_only(parts.arrived, parts.new, parts.active, before, 0)
        return Replacement.HALF if is_half else Replacement.UNKNOWN
    # What somebody has dropped after the REPLACE leaves only parts without rows.
    if not before.rows and not parts.later:
        return Replacement.OWED
    # As long as parts from before are listed, so are clones.
    listed = [part for part in held if not before.rows or not _has_new(part, before)]
    if listed and not parts.clones and shows_all(parts.later, digests):
        return _not_begun(parts.active, before)
    return Replacement.UNKNOWN


def _begins(part: Part) -> str:
    return part.digest[:DIGEST_LENGTH]


def _has_old(part: Part, before: Before) -> bool:
    """Whether a part has rows from before the preparation of the commit."""
    return part.first_block <= before.last_block and not _is_numbered_anew(part, before)


def _has_new(part: Part, before: Before) -> bool:
    """Whether a part has rows from after the preparation of the commit."""
    return part.last_block > before.last_block or _is_numbered_anew(part, before)


def _is_numbered_anew(part: Part, before: Before) -> bool:
    return part.is_active and part.is_fresh and _begins(part) not in before.digests


@dataclass(frozen=True, kw_only=True)
class _Parts:
    """The parts in a partition of the target, where a REPLACE may have run.

    :param active: active parts with rows.
    :param later: parts that contain rows from after the preparation of the commit, or did; ``new``: those with rows.
    :param clones: parts with only new rows and the content of a part to come, as the REPLACE adds them.
    :param came: parts with only new rows that are active, or were merged into an active part.
    :param arrived: the clones among them.
    :param covers: active parts that other parts may have been merged into.
    """

    active: Sequence[Part]
    later: Sequence[Part]
    new: Sequence[Part]
    clones: Sequence[Part]
    came: Sequence[Part]
    arrived: Sequence[Part]
    covers: Sequence[Part]

    @classmethod
    def of(cls, held: Sequence[Part], digests: Set[str], before: Before) -> _Parts:
        later = [part for part in held if _has_new(part, before)]
        new = [part for part in later if part.rows]
        # No part covers what a REPLACE adds that fails, or what was dropped; one covers what a mutation has emptied.
        covers = [part for part in held if part.is_active and (part.rows or part.first_block > before.last_block)]
        whole = [part for part in new if not _has_old(part, before)]
        came = [part for part in whole if is_covered(part, covers)]
        return cls(
            active=[part for part in held if part.is_active and part.rows],
            later=later,
            new=new,
            clones=[part for part in whole if part.digest in digests],
            came=came,
            arrived=[part for part in came if part.digest in digests],
            covers=covers,
        )

    def has_clone_besides(self, before: Before) -> bool:
        """Whether a clone has arrived that somebody did not attach again: its hash is new."""
        return any(_begins(clone) not in before.digests for clone in self.arrived)

    def has_all(self, staged: Sequence[Part]) -> bool:
        """Whether each part to come has arrived. Equal files give equal parts, and a mutation may copy a part."""
        wanted = Counter(part.digest for part in staged if part.rows)
        arrived = {(part.first_block, part.last_block, part.digest) for part in self.arrived}
        return wanted <= Counter(digest for _, _, digest in arrived)


def _half_or_unknown(staged: Sequence[Part], held: Sequence[Part], parts: _Parts, before: Before) -> Replacement:
    """Find whether a REPLACE explains all changes, if its node was killed while old parts were still there."""
    # Once all clones are there, a REPLACE drops what was there before, part by part.
    is_dropping = parts.has_all(staged)
    gone = [part for part in held if not part.is_active and part.last_block <= before.last_block]
    dropped_rows = sum(part.rows for part in gone if is_dropping and not is_covered(part, parts.covers))
    empty = {part.digest for part in staged if not part.rows}
    emptied = [part for part in held if part.first_block > before.last_block and part.digest in empty]
    is_half = _adds_only([*parts.arrived, *emptied], [*parts.new, *emptied], parts.active, before, dropped_rows)
    return Replacement.HALF if is_half else Replacement.UNKNOWN


def find_foreign(coming: Iterable[Part], held: Iterable[Part], before: Before) -> list[Part]:
    """Find active parts with rows that somebody else has written since the commit was prepared."""
    digests = {part.digest for part in coming if part.is_active and part.rows}
    return [
        part
        for part in held
        if part.is_active and part.rows and _has_new(part, before) and part.digest not in digests
    ]


def _not_begun(active: Sequence[Part], before: Before) -> Replacement:
    is_same = (
        sum(part.rows for part in active) == before.rows
        and not any(_has_new(part, before) for part in active)
        # What an older release wrote does not say which changes the parts had.
        and (before.version is None or max((part.version for part in active), default=-1) <= before.version)
    )
    return Replacement.OWED if is_same else Replacement.TOUCHED


def _adds_only(
    clones: Sequence[Part], new: Sequence[Part], active: Sequence[Part], before: Before, dropped_rows: int
) -> bool:
    """Whether only clones were added, and only merges have run since.

    :param new: all parts with blocks after the last block from before; ``active``: all active parts.
    :param dropped_rows: rows from before that the REPLACE may have dropped.
    """
    digests = {clone.digest for clone in clones}
    added = [part for part in new if not part.is_merged]
    known = max((part.version for part in clones), default=-1)
    missing_rows = before.rows + sum(clone.rows for clone in clones) - sum(part.rows for part in active)
    return (
        bool(clones)
        and shows_all(new, digests)
        and all(part.digest in digests for part in added)
        and 0 <= missing_rows <= dropped_rows
        and all(part.version <= max(known, before.version or known) for part in active)
    )
