"""All load modes, by their names in the ledger."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_ch_s3.errors import LoadError
from airflow_provider_ch_s3.exactly_once.holdings import Effect
from airflow_provider_ch_s3.exactly_once.modes.append import Append
from airflow_provider_ch_s3.exactly_once.modes.merge import Merge
from airflow_provider_ch_s3.exactly_once.modes.mode import CommitMode
from airflow_provider_ch_s3.exactly_once.modes.replace_files import ReplaceFiles
from airflow_provider_ch_s3.exactly_once.modes.replace_partitions import ReplacePartitions
from airflow_provider_ch_s3.exactly_once.modes.replace_table import ReplaceTable
from airflow_provider_ch_s3.exactly_once.modes.replace_where import ReplaceWhere
from airflow_provider_ch_s3.exactly_once.modes.undo import Undo
from airflow_provider_ch_s3.modes import LoadMode
from airflow_provider_ch_s3.request import LoadRequest

_MODES: Mapping[LoadMode, type[CommitMode]] = {
    LoadMode.APPEND: Append,
    LoadMode.REPLACE_PARTITIONS: ReplacePartitions,
    LoadMode.REPLACE_WHERE: ReplaceWhere,
    LoadMode.REPLACE_TABLE: ReplaceTable,
    LoadMode.MERGE: Merge,
    LoadMode.REPLACE_FILES: ReplaceFiles,
    LoadMode.UNDO: Undo,
}

UNDO = Undo(LoadMode.UNDO.value)
EFFECTS: Mapping[str, Effect] = {mode.value: kind.effect for mode, kind in _MODES.items()}
"""Load mode → what its commits leave of earlier loads."""


def mode_of(name: str) -> CommitMode:
    """Look up a mode by the name in the ledger.

    :raises LoadError: if only a later release has it.
    """
    if name not in EFFECTS:
        raise LoadError(
            "provider-version-differs",
            f"the ledger records a commit with mode={name!r}, which this version of airflow-provider-ch-s3 does not"
            " support; upgrade it on this worker",
        )
    return _MODES[LoadMode(name)](name)


def mode_for(request: LoadRequest) -> CommitMode:
    """Look up the mode of a request."""
    return mode_of(request.mode.commits.value)
