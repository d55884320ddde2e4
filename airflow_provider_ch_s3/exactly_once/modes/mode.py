"""What a load mode decides: each mode is a class in a file of its own, which :mod:`.registry` names."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from typing import ClassVar

from airflow_provider_ch_s3.exactly_once.commit import Commit
from airflow_provider_ch_s3.exactly_once.holdings import Effect


@dataclass(frozen=True)
class CommitMode(ABC):
    """One load mode.

    :param name: as the ledger records it.
    :cvar commit: carries the commit out, and completes it after a break.
    :cvar effect: what the commit leaves of earlier loads.
    """

    commit: ClassVar[type[Commit]]
    effect: ClassVar[Effect]
    name: str
