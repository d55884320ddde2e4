"""What to load: the arguments of the operators, each declared once."""

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
    COMMIT,
    Arrivals,
    AtOnce,
    Checks,
    Chunks,
    Columns,
    Delete,
    Fail,
    Held,
    Keep,
    Move,
    NoChunks,
    OnMissingColumns,
    OnNewColumns,
    Reject,
    Settled,
    Tag,
)
from airflow_provider_ch_s3.common.declared import (
    EXPRESSIONS,
    SETTINGS,
    SQL,
    Kind,
    deciding_fields,
    declared,
)
from airflow_provider_ch_s3.files.addresses import Source
from airflow_provider_ch_s3.files.data_format import DATA_FORMAT, Csv, Format
from airflow_provider_ch_s3.modes import (
    MODE,
    Append,
    Mode,
)
from airflow_provider_ch_s3.table.new_table import CREATE_TABLE, CreateTable
from airflow_provider_ch_s3.table.provenance import Provenance, parse_provenance
from airflow_provider_ch_s3.table.target import TABLE
from airflow_provider_ch_s3.tuning import LoadLimit, SettingValue


@dataclass(frozen=True, kw_only=True)
class LoadRequest:
    """A request to load files.

    :param table: ``table`` or ``database.table``: a Distributed table, or a local table on every node.
    :param mode: what happens to the rows already in the table: ``Append(…)``, ``ReplacePartitions(…)``,
        ``ReplaceWhere(…)``, ``ReplaceTable()``, ``Merge(…)`` or ``Direct()``, or a name, such as ``append``.
    :param create_table: if the table does not exist, create the table from the files on every node: ``"auto"``, or
        ``CreateTable(order_by=…, …)``. An existing table is never changed.
    :param arrivals: which files are ready, and what to do if no file is: ``Arrivals(…)``.
    :param data_format: how the files are written: ClickHouse's name of the format, such as ``Parquet``, or
        ``Format(…)``, or ``Csv(delimiter=";", …)``; None: inferred from the file names.
    :param columns: a list of the columns of the table to load, or ``Columns(…)``, which also says what to do with new
        and missing columns; None: all.
    :param select: column of the table → flat SQL expression over the columns of the files; the expression may name no
        table.
    :param where: flat SQL condition over the columns of the files; only rows that fulfil the condition are loaded.
    :param provenance: column of the table → what the load writes there: ``path``, the file; ``row``, the number of
        the row in the file, from 1; ``time``, when the server began to load the row; ``load``, the query id of the
        INSERT.
    :param bad_rows: rows of CSV and JSONEachRow files that cannot be parsed, or have a value that does not fit the
        column: ``fail``, or ``Reject(…)``: bad rows are committed to ``<table>_rejected`` together with the good
        rows.
    :param checks: name → flat SQL condition that aggregates the columns of the table, such as
        ``countIf(fare < 0) = 0``; or ``Checks(…)``, which also has a least number of rows.
    :param chunks: with ``Append``, more files than one query takes are loaded chunk by chunk. Each chunk is committed
        separately, so that a retry continues with the failed chunk: ``Chunks(…)``; ``off`` loads all files with one
        query, as the other modes always do.
    :param commit: when the rows are committed: ``at_once``; ``settled``: when the merges of the staged parts have
        finished, so that readers never see many small parts; or ``held``: the rows stay staged, for a person to look
        at, until ``ClickHouseCommitHeldOperator`` commits the rows, ``ClickHouseDropHeldOperator`` drops the rows, or
        the time of ``Held(hold_seconds=…)`` is over.
    :param after_load: what happens to the files when their rows are committed: ``keep``, ``Tag()``, ``Move(folder)``
        or ``Delete()``; only files loaded by this task, and only if the files have not changed since.
    :param settings: ClickHouse settings; they override the connection's settings and computed settings.
    :param source: addresses of the files.
    :param connection_settings: settings of the Airflow connection.
    :param timeout_seconds: the task's ``execution_timeout``.
    :param limit: how many loads of this task Airflow may run at once.
    :param sample_files: with ``validate_only``, only so many files; 0 for all.
    :param snapshot: of a lake table, as the user names the snapshot; '' for files.
    """

    table: str = declared(TABLE, decides_rows=False)
    mode: Mode = declared(MODE, Append())
    create_table: CreateTable | None = declared(CREATE_TABLE, None, decides_rows=False)
    arrivals: Arrivals = declared(ARRIVALS, Arrivals())
    data_format: Format | Csv = declared(DATA_FORMAT, Format(), is_of_folders=True)
    columns: Columns = declared(COLUMNS, Columns())
    select: Mapping[str, str] = declared(EXPRESSIONS, {})
    where: str = declared(SQL, "")
    provenance: Provenance = declared(Kind(parse_provenance), {})
    bad_rows: Fail | Reject = declared(BAD_ROWS, Fail(), is_of_folders=True)
    checks: Checks = declared(CHECKS, Checks(), decides_rows=False)
    chunks: Chunks | NoChunks = declared(CHUNKS, Chunks(), decides_rows=False)
    commit: AtOnce | Settled | Held = declared(COMMIT, AtOnce(), decides_rows=False)
    after_load: Keep | Tag | Move | Delete = declared(AFTER_LOAD, Keep(), decides_rows=False, is_of_folders=True)
    settings: Mapping[str, SettingValue] = declared(SETTINGS, {})

    source: Source
    connection_settings: Mapping[str, SettingValue] = field(default_factory=dict)
    timeout_seconds: float | None = None
    limit: LoadLimit = field(default_factory=LoadLimit)
    sample_files: int = 0
    snapshot: str = ""

    @property
    def fingerprints(self) -> dict[str, str]:
        """Argument → a hash of the value; only arguments that decide which rows are staged, or how to commit them."""
        values: dict[str, object] = {
            **dict(deciding_fields(self)),
            "source": ", ".join(self.source.addresses),
            "the connection's settings": self.connection_settings,
            "the number of files": self.sample_files,
            "snapshot": self.snapshot,
        }
        return {name: hashlib.sha256(repr(value).encode()).hexdigest()[:12] for name, value in values.items()}

    @property
    def adds_columns(self) -> bool:
        """Whether columns missing in the table are added."""
        return self.columns.on_new is OnNewColumns.ADD

    @property
    def ignores_new_columns(self) -> bool:
        """Whether columns missing in the table are left out."""
        return self.columns.on_new is OnNewColumns.IGNORE

    @property
    def takes_all_columns(self) -> bool:
        """Whether no column of the files may go unused."""
        may_leave = not self.adds_columns and (bool(self.select) or self.ignores_new_columns)
        return self.columns.only is None and not may_leave

    @property
    def csv(self) -> Csv:
        """How CSV files are written."""
        return self.data_format if isinstance(self.data_format, Csv) else Csv()

    @property
    def unnamed_format(self) -> str:
        """The format of files whose names tell no format; '' if unknown."""
        return "CSV" if isinstance(self.data_format, Csv) else ""

    @property
    def keeps_bad_rows(self) -> bool:
        """Whether bad rows go to a table of their own."""
        return isinstance(self.bad_rows, Reject)

    @property
    def holds(self) -> Held | None:
        """How the rows are held back; None if the load commits them."""
        return self.commit if isinstance(self.commit, Held) else None

    @property
    def settles(self) -> bool:
        """Whether the staged parts settle before the commit."""
        return isinstance(self.commit, Settled)

    @property
    def may_lack_columns(self) -> bool:
        """Whether files may lack columns of the table."""
        return self.columns.on_missing is OnMissingColumns.DEFAULT
