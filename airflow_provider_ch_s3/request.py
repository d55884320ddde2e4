"""What is to be loaded."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import Enum

from airflow_provider_ch_s3.files.addresses import SourcePattern
from airflow_provider_ch_s3.files.csv_dialect import CsvDialect
from airflow_provider_ch_s3.files.source import MAX_LISTED_FILES
from airflow_provider_ch_s3.table.merge_rule import MergeRule
from airflow_provider_ch_s3.table.new_table import CreateTable
from airflow_provider_ch_s3.table.provenance import Provenance
from airflow_provider_ch_s3.table.row_check import Check
from airflow_provider_ch_s3.tuning import LoadLimit, SettingValue


class LoadMode(Enum):
    """What happens to the rows that the table holds already.

    ``REPLACE_PARTITIONS`` removes the rows of each partition that the files have rows for, ``REPLACE_WHERE`` rows for
    which a condition holds, ``REPLACE_TABLE`` all of them; ``MERGE`` the older rows with the keys of the new ones.
    """

    APPEND = "append"
    REPLACE_PARTITIONS = "replace_partitions"
    REPLACE_WHERE = "replace_where"
    REPLACE_TABLE = "replace_table"
    MERGE = "merge"


class OnLoadedFiles(Enum):
    """What to do with a file that the table already holds in this version."""

    SKIP = "skip"
    LOAD = "load"


class OnChangedFiles(Enum):
    """What to do with a file that the table holds in another version."""

    FAIL = "fail"
    LOAD = "load"
    SKIP = "skip"
    REPLACE = "replace"


class OnMissingFiles(Enum):
    """What to do with the rows of files that are no longer in the source."""

    KEEP = "keep"
    DELETE = "delete"


class MergeDuplicates(Enum):
    """What to do with a key of the files that the table holds more than once."""

    REFUSE = "refuse"
    COLLAPSE = "collapse"


class OnNoFiles(Enum):
    """What to do when there is no file to load."""

    FAIL = "fail"
    SKIP = "skip"
    SUCCEED = "succeed"


class OnNewColumns(Enum):
    """What to do with columns of the files that the table lacks."""

    FAIL = "fail"
    IGNORE = "ignore"
    ADD = "add"


class OnMissingColumns(Enum):
    """What to do with columns of the table that files lack."""

    FAIL = "fail"
    DEFAULT = "default"


class OnBadRows(Enum):
    """What to do with rows of text files that cannot be parsed, or whose values do not fit."""

    FAIL = "fail"
    REJECT = "reject"


class AfterLoad(Enum):
    """What to do with the files after the commit."""

    KEEP = "keep"
    TAG = "tag"
    MOVE = "move"
    DELETE = "delete"


class CommitAt(Enum):
    """When the rows of a load of many files become visible: ``CHUNK`` by chunk, or all at its ``END``."""

    CHUNK = "chunk"
    END = "end"


class OnPartialPartitions(Enum):
    """What to do when a partition to be replaced holds rows that are not from these files."""

    FAIL = "fail"
    REPLACE = "replace"


class MaterializedViews(Enum):
    """What to do with materialized views of the target, which do not see staged rows."""

    REFUSE = "refuse"
    REPLAY = "replay"


# Of a request's fields: what each try checks again, and what concerns other rows, the files or the pace.
_DECIDE_NO_ROWS = frozenset(
    {
        *("table", "create_table", "timeout_seconds", "limit", "on_no_files", "min_files", "min_rows"),
        *("max_bad_rows", "max_bad_ratio", "on_partial_partitions", "list_after_loaded", "commit"),
        *("max_files_per_chunk", "max_bytes_per_chunk", "after_load", "move_to", "settle_before_commit", "checks"),
        *("validate_only", "keep_staged_seconds", "max_rewritten_bytes", "on_missing_files"),
    }
)
_ARGUMENTS = {"pattern": "source", "connection_settings": "the connection's settings"}
"""Names of the fields that a user knows under another one."""


def _fingerprint(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:12]


@dataclass(frozen=True, kw_only=True)
class LoadRequest:
    """A request to load files: the arguments of ``FilesToClickHouseOperator``, which describes them, as values.

    :param csv_dialect: how CSV files are written; its settings are among ``settings``.
    :param settings: ClickHouse settings that win over everything computed.
    :param connection_settings: those of the Airflow connection.
    :param timeout_seconds: the task's ``execution_timeout``.
    :param limit: how many loads of this task Airflow may run at once.
    :param expected_files: names of files without which a folder is not complete; these are not loaded.
    :param sample_files: with ``validate_only``, only so many of the files; 0 for all.
    :param commit: for ``APPEND``; the replacing modes always commit at the end.
    :param max_bytes_per_chunk: stored size of a chunk's files; None for as much as the plan says.
    :param move_to: folder of the bucket, with its slash, for ``AfterLoad.MOVE``.
    :param snapshot: which one of a lake's table, as the user names it; '' of files.
    """

    pattern: SourcePattern
    table: str
    create_table: CreateTable | None = None
    data_format: str | None = None
    compression: str | None = None
    csv_dialect: CsvDialect = field(default_factory=CsvDialect)
    structure: str | None = None
    columns: Sequence[str] | None = None
    select: Mapping[str, str] = field(default_factory=dict)
    provenance: Provenance = field(default_factory=dict)
    where: str = ""
    settings: Mapping[str, SettingValue] = field(default_factory=dict)
    connection_settings: Mapping[str, SettingValue] = field(default_factory=dict)
    timeout_seconds: float | None = None
    limit: LoadLimit = field(default_factory=LoadLimit)
    load_mode: LoadMode = LoadMode.APPEND
    replace_where: str = ""
    merge_key: tuple[str, ...] = ()
    merge_version: str = ""
    merge_deleted: str = ""
    merge_duplicates: MergeDuplicates = MergeDuplicates.REFUSE
    max_rewritten_bytes: int | None = None
    on_loaded_files: OnLoadedFiles = OnLoadedFiles.SKIP
    on_changed_files: OnChangedFiles = OnChangedFiles.FAIL
    on_missing_files: OnMissingFiles = OnMissingFiles.KEEP
    on_partial_partitions: OnPartialPartitions = OnPartialPartitions.FAIL
    materialized_views: MaterializedViews = MaterializedViews.REFUSE
    on_new_columns: OnNewColumns = OnNewColumns.FAIL
    on_missing_columns: OnMissingColumns = OnMissingColumns.FAIL
    on_bad_rows: OnBadRows = OnBadRows.FAIL
    max_bad_rows: int | None = None
    max_bad_ratio: float | None = None
    on_no_files: OnNoFiles = OnNoFiles.FAIL
    min_files: int = 1
    min_file_age_seconds: float = 0.0
    expected_files: tuple[str, ...] = ()
    min_rows: int = 1
    checks: Mapping[str, Check] = field(default_factory=dict)
    validate_only: bool = False
    sample_files: int = 0
    keep_staged_seconds: float = 0.0
    list_after_loaded: bool = False
    commit: CommitAt = CommitAt.CHUNK
    max_files_per_chunk: int = MAX_LISTED_FILES
    max_bytes_per_chunk: int | None = None
    after_load: AfterLoad = AfterLoad.KEEP
    move_to: str = ""
    settle_before_commit: bool = False
    snapshot: str = ""

    @property
    def fingerprints(self) -> dict[str, str]:
        """Argument → a hash of its value, of all that decide which rows are staged and how they are committed."""
        values = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in _DECIDE_NO_ROWS}
        values["pattern"] = str(self.pattern)
        return {_ARGUMENTS.get(name, name): _fingerprint(value) for name, value in values.items()}

    @property
    def merge(self) -> MergeRule | None:
        """How rows are merged by their keys; None in the other modes."""
        if self.load_mode is not LoadMode.MERGE:
            return None
        return MergeRule(
            key=self.merge_key,
            version=self.merge_version,
            deleted=self.merge_deleted,
            collapses=self.merge_duplicates is MergeDuplicates.COLLAPSE,
            max_rewritten_bytes=self.max_rewritten_bytes,
        )

    @property
    def skips_loaded(self) -> bool:
        """Whether files that the table holds already are left out."""
        return self.load_mode is LoadMode.APPEND and self.on_loaded_files is OnLoadedFiles.SKIP

    @property
    def goes_on(self) -> bool:
        """Whether of a lake's table only what came after the loaded snapshot is taken, if that is possible."""
        return self.skips_loaded or self.load_mode is LoadMode.MERGE

    @property
    def replaces_changed(self) -> bool:
        """Whether a file that changed replaces the rows of its older versions."""
        return self.on_changed_files is OnChangedFiles.REPLACE

    @property
    def removes_missing(self) -> bool:
        """Whether the rows of files that are no longer in the source are removed."""
        return self.on_missing_files is OnMissingFiles.DELETE

    @property
    def takes_all_columns(self) -> bool:
        """Whether no column of the files may go unused."""
        return self.columns is None and not self.select and self.on_new_columns is not OnNewColumns.IGNORE

    @property
    def rejects(self) -> bool:
        """Whether bad rows are set aside."""
        return self.on_bad_rows is OnBadRows.REJECT

    @property
    def may_lack_columns(self) -> bool:
        """Whether files may lack columns of the table."""
        return self.on_missing_columns is OnMissingColumns.DEFAULT

    @property
    def is_chunked(self) -> bool:
        """Whether files that are too many, or too large, for one INSERT are loaded and committed in chunks."""
        return self.load_mode is LoadMode.APPEND and self.commit is CommitAt.CHUNK and not self.validate_only
