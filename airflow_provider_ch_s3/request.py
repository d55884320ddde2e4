"""What is to be loaded: the arguments of the operators, each declared once."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_provider_ch_s3.arguments import (
    AFTER_LOAD,
    ARRIVALS,
    BAD_ROWS,
    CHECKS,
    CHUNKS,
    COLUMNS,
    Arrivals,
    Checks,
    Chunks,
    Columns,
    Delete,
    Fail,
    Keep,
    Move,
    NoChunks,
    OnMissingColumns,
    OnNewColumns,
    Reject,
    Tag,
)
from airflow_provider_ch_s3.common.declared import (
    EXPRESSIONS,
    FLAG,
    SETTINGS,
    SQL,
    TEXT,
    Kind,
    deciding_fields,
    declared,
)
from airflow_provider_ch_s3.files.addresses import SourcePattern
from airflow_provider_ch_s3.files.data_format import DATA_FORMAT, Csv, Format
from airflow_provider_ch_s3.modes import (
    MODE,
    Append,
    Direct,
    LoadMode,
    Merge,
    Mode,
    OnChangedFiles,
    OnLoadedFiles,
    OnMissingFiles,
    OnPartialPartitions,
    ReplacePartitions,
    ReplaceWhere,
    Views,
)
from airflow_provider_ch_s3.table.merge_rule import MergeRule
from airflow_provider_ch_s3.table.new_table import CREATE_TABLE, CreateTable
from airflow_provider_ch_s3.table.provenance import Provenance, parse_provenance
from airflow_provider_ch_s3.tuning import LoadLimit, SettingValue


def _fingerprint(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:12]


@dataclass(frozen=True, kw_only=True)
class LoadRequest:
    """A request to load files.

    :param table: ``table`` or ``database.table``: a Distributed table, or a local one on every node.
    :param mode: what happens to the rows that the table holds already: ``Append(…)``, ``ReplacePartitions(…)``,
        ``ReplaceWhere(…)``, ``ReplaceTable()``, ``Merge(…)`` or ``Direct()``, or the name of one, such as ``append``.
    :param create_table: if the table does not exist, create it from the files on every node: ``"auto"``, or
        ``CreateTable(order_by=…, …)``. An existing table is never changed by it.
    :param arrivals: which of the files are ready, and what if none is: ``Arrivals(…)``.
    :param data_format: how the files are written: ClickHouse's name of the format, such as ``Parquet``, or
        ``Format(…)``, or ``Csv(delimiter=";", …)``; None: inferred from the file names.
    :param columns: a list of the columns of the table to load, or ``Columns(…)``, which also says what to do with new
        and missing ones; None: all.
    :param select: column of the table → flat SQL expression over the columns of the files, which may name no table.
    :param where: flat SQL condition over the columns of the files; other rows are not loaded.
    :param provenance: column of the table → what the load writes there: ``path``, the file; ``row``, its row there,
        from 1; ``time``, when its server began to load it; ``load``, the query id of the INSERT.
    :param bad_rows: rows of CSV and JSONEachRow files that cannot be parsed, or have a value that does not fit its
        column: ``fail``, or ``Reject(…)``: they are committed to ``<table>_rejected`` together with the others.
    :param checks: name → flat SQL condition that aggregates the columns of the table, such as
        ``countIf(fare < 0) = 0``; or ``Checks(…)``, which also knows a least number of rows.
    :param chunks: with ``Append``, more files than one query takes are loaded chunk by chunk, each committed by
        itself, so that a retry continues with the chunk that failed: ``Chunks(…)``; ``off`` loads all files with one
        query, as the other modes always do.
    :param after_load: what happens to the files when their rows are committed: ``keep``, ``Tag()``, ``Move(folder)``
        or ``Delete()``; only files that this task loaded, and only if they have not changed since.
    :param settle_before_commit: wait until the merges of the staged parts have finished, so that readers never see
        many small parts.
    :param settings: ClickHouse settings; they override those of the connection and the computed ones.
    :param pattern: the files.
    :param connection_settings: settings of the Airflow connection.
    :param timeout_seconds: the task's ``execution_timeout``.
    :param limit: how many loads of this task Airflow may run at once.
    :param sample_files: with ``validate_only``, only so many of the files; 0 for all.
    :param snapshot: of a lake's table, as the user names it; '' of files.
    """

    table: str = declared(TEXT, decides_rows=False)
    mode: Mode = declared(MODE, Append())
    create_table: CreateTable | None = declared(CREATE_TABLE, None, decides_rows=False)
    arrivals: Arrivals = declared(ARRIVALS, Arrivals())
    data_format: Format | Csv = declared(DATA_FORMAT, Format())
    columns: Columns = declared(COLUMNS, Columns())
    select: Mapping[str, str] = declared(EXPRESSIONS, {})
    where: str = declared(SQL, "")
    provenance: Provenance = declared(Kind(parse_provenance), {})
    bad_rows: Fail | Reject = declared(BAD_ROWS, Fail())
    checks: Checks = declared(CHECKS, Checks(), decides_rows=False)
    chunks: Chunks | NoChunks = declared(CHUNKS, Chunks(), decides_rows=False)
    after_load: Keep | Tag | Move | Delete = declared(AFTER_LOAD, Keep(), decides_rows=False)
    settle_before_commit: bool = declared(FLAG, default=False, decides_rows=False)
    settings: Mapping[str, SettingValue] = declared(SETTINGS, {})

    pattern: SourcePattern
    connection_settings: Mapping[str, SettingValue] = field(default_factory=dict)
    timeout_seconds: float | None = None
    limit: LoadLimit = field(default_factory=LoadLimit)
    sample_files: int = 0
    snapshot: str = ""

    @property
    def fingerprints(self) -> dict[str, str]:
        """Argument → a hash of its value, of all that decide which rows are staged and how they are committed."""
        values: dict[str, object] = {
            **dict(deciding_fields(self)),
            "source": str(self.pattern),
            "the connection's settings": self.connection_settings,
            "the number of files": self.sample_files,
            "snapshot": self.snapshot,
        }
        return {name: _fingerprint(value) for name, value in values.items()}

    @property
    def load_mode(self) -> LoadMode:
        """How the rows are committed."""
        return self.mode.commits

    @property
    def append(self) -> Append:
        """What ``append`` does with loaded, changed and missing files; the defaults in the other modes."""
        return self.mode if isinstance(self.mode, Append) else Append()

    @property
    def replace_where(self) -> str:
        """The condition of the rows to be replaced; '' in the other modes."""
        return self.mode.condition if isinstance(self.mode, ReplaceWhere) else ""

    @property
    def merge(self) -> MergeRule | None:
        """How rows are merged by their keys; None in the other modes."""
        return self.mode.rule if isinstance(self.mode, Merge) else None

    @property
    def deleted(self) -> str:
        """The condition of the rows whose keys a merge deletes; '' if it deletes none."""
        return self.mode.deleted if isinstance(self.mode, Merge) else ""

    @property
    def is_direct(self) -> bool:
        """Whether the rows are written straight into the table."""
        return isinstance(self.mode, Direct)

    @property
    def skips_loaded(self) -> bool:
        """Whether files that the table holds already are left out."""
        return isinstance(self.mode, Append) and self.mode.on_loaded is OnLoadedFiles.SKIP

    @property
    def is_incremental(self) -> bool:
        """Whether of a lake's table only what came after the loaded snapshot is taken, if that is possible."""
        return self.skips_loaded or isinstance(self.mode, Merge)

    @property
    def replaces_changed(self) -> bool:
        """Whether a file that changed replaces the rows of its older versions."""
        return self.append.on_changed is OnChangedFiles.REPLACE

    @property
    def removes_missing(self) -> bool:
        """Whether the rows of files that are no longer in the source are removed."""
        return self.append.on_missing is OnMissingFiles.DELETE

    @property
    def replays_views(self) -> bool:
        """Whether materialized views get their rows from the staged ones."""
        return self.append.views is Views.REPLAY

    @property
    def replaces_partial(self) -> bool:
        """Whether a partition that also holds rows from elsewhere may be replaced."""
        return isinstance(self.mode, ReplacePartitions) and self.mode.on_partial is OnPartialPartitions.REPLACE

    @property
    def adds_columns(self) -> bool:
        """Whether columns that the table lacks are added to it."""
        return self.columns.on_new is OnNewColumns.ADD

    @property
    def ignores_new_columns(self) -> bool:
        """Whether columns that the table lacks are left out."""
        return self.columns.on_new is OnNewColumns.IGNORE

    @property
    def takes_all_columns(self) -> bool:
        """Whether no column of the files may go unused."""
        return self.columns.only is None and not self.select and not self.ignores_new_columns

    @property
    def csv(self) -> Csv:
        """How CSV files are written."""
        return self.data_format if isinstance(self.data_format, Csv) else Csv()

    @property
    def rejects(self) -> bool:
        """Whether bad rows are set aside."""
        return isinstance(self.bad_rows, Reject)

    @property
    def may_lack_columns(self) -> bool:
        """Whether files may lack columns of the table."""
        return self.columns.on_missing is OnMissingColumns.DEFAULT

    @property
    def is_chunked(self) -> bool:
        """Whether files that are too many, or too large, for one INSERT are loaded and committed in chunks."""
        return isinstance(self.mode, Append) and isinstance(self.chunks, Chunks) and not self.checks.validate_only
