"""A change of an object that may have become another one in the meantime, or is gone."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Change:
    """What became of a change.

    :param is_done: the object was still the version that was to be changed, or an earlier try has removed it.
    """

    is_done: bool = True


class ChangedError(Exception):
    """The object is another version."""
