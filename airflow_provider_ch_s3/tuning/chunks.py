"""How much of a source of any size is loaded at a time."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_provider_ch_s3.tuning.facts import PastLoad
from airflow_provider_ch_s3.units import GIB

# What is lost with a node, or fails, is loaded again; what a chunk costs besides its rows is a few seconds.
CHUNK_SECONDS = 600.0
# Rows of Parquet files take about three times their size in memory, and 6.5 core seconds for each GiB of that.
STORED_CORE_SECONDS_PER_GIB = 20.0


def plan_chunk_bytes(cores: int, past: Iterable[PastLoad]) -> int:
    """Return the stored size of the files that a cluster loads in some minutes.

    :param cores: of all nodes.
    :param past: earlier loads into the table; the slowest counts, since the format of the files is not known yet.
    """
    measured = [load.core_seconds_per_gib * load.volume_ratio for load in past]
    return int(CHUNK_SECONDS * cores / max(measured, default=STORED_CORE_SECONDS_PER_GIB) * GIB)
