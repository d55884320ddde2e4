"""What a user asks for, and who asks."""

from __future__ import annotations

import datetime
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from airflow_provider_ch_s3.source import SourcePattern
from airflow_provider_ch_s3.tuning import SettingValue

# Clocks of workers and servers may be that far apart.
CLOCK_MARGIN_SECONDS = 2 * 3600


class LoadMode(Enum):
    """What becomes of the rows that the table holds.

    ``REPLACE_PARTITIONS``: those of each partition that the files have rows for go. ``REPLACE_WHERE``: those that
    a condition holds for go. ``REPLACE_TABLE``: all go.
    """

    APPEND = "append"
    REPLACE_PARTITIONS = "replace_partitions"
    REPLACE_WHERE = "replace_where"
    REPLACE_TABLE = "replace_table"


class OnLoadedFiles(Enum):
    """What to do with a version of a file that the table holds already."""

    SKIP = "skip"
    LOAD = "load"


class OnChangedFiles(Enum):
    """What to do with a file of which the table holds another version."""

    FAIL = "fail"
    LOAD = "load"
    SKIP = "skip"


class OnPartialPartitions(Enum):
    """What to do when a partition to be replaced holds rows that are not from these files."""

    FAIL = "fail"
    REPLACE = "replace"


class MaterializedViews(Enum):
    """What to do with materialized views of the target, which do not see staged rows."""

    REFUSE = "refuse"
    REPLAY = "replay"


@dataclass(frozen=True, kw_only=True)
class LoadRequest:
    """Load these files into this table.

    :param table: ``table`` or ``database.table``, local or Distributed.
    :param data_format: ClickHouse's name; None to tell by the file names.
    :param compression: ClickHouse's name; None to tell by each file name.
    :param structure: ``name Type, …`` of the files; None to ask the files and the table.
    :param columns: the table's columns to load; None for all.
    :param select: table column → flat SQL expression over the columns of the files.
    :param where: flat SQL condition over the columns of the files.
    :param settings: ClickHouse settings that win over everything computed.
    :param connection_settings: those of the Airflow connection.
    :param timeout_seconds: the task's ``execution_timeout``.
    :param replace_where: flat SQL condition over the columns of the table, for ``REPLACE_WHERE``.
    :param min_files: fewer listed files fail.
    :param min_rows: fewer staged rows fail.
    :param settle_before_commit: wait until the parts of the staging table have settled.
    """

    pattern: SourcePattern
    table: str
    data_format: str | None = None
    compression: str | None = None
    structure: str | None = None
    columns: Sequence[str] | None = None
    select: Mapping[str, str] = field(default_factory=dict)
    where: str = ""
    settings: Mapping[str, SettingValue] = field(default_factory=dict)
    connection_settings: Mapping[str, SettingValue] = field(default_factory=dict)
    timeout_seconds: float | None = None
    load_mode: LoadMode = LoadMode.APPEND
    replace_where: str = ""
    on_loaded_files: OnLoadedFiles = OnLoadedFiles.SKIP
    on_changed_files: OnChangedFiles = OnChangedFiles.FAIL
    on_partial_partitions: OnPartialPartitions = OnPartialPartitions.FAIL
    materialized_views: MaterializedViews = MaterializedViews.REFUSE
    min_files: int = 1
    min_rows: int = 1
    settle_before_commit: bool = False

    @property
    def skips_loaded(self) -> bool:
        """Whether files that the table holds are left out."""
        return self.load_mode is LoadMode.APPEND and self.on_loaded_files is OnLoadedFiles.SKIP


@dataclass(frozen=True, kw_only=True)
class Life:
    """The time between two clears of one task in one run.

    :param since: when the run began (Unix time).
    """

    since: float = 0.0
    generation: int = 0
    first_try: int = 1


@dataclass(frozen=True, kw_only=True)
class LoadIdentity:
    """Who loads: the task instance, and which of its lives this is.

    :param map_index: -1 for a task that is not mapped.
    :param generation: another one when the task is cleared, the same over its retries.
    :param first_try: the number of this generation's first try: counted on over clears, as all tries are.
    :param is_last_try: Airflow will not try again by itself.
    :param since: when the DAG run began (UTC), by Airflow's clock; another run of the same name has another one.
    """

    dag_id: str
    task_id: str
    run_id: str
    map_index: int = -1
    table: str
    generation: int = 0
    try_number: int = 1
    first_try: int = 1
    is_last_try: bool = True
    since: datetime.datetime

    @property
    def load_id(self) -> str:
        """The same for all tries and generations; starts every query id of the load."""
        names = json.dumps([self.dag_id, self.task_id, self.run_id, self.map_index, self.table])
        return f"ch-s3-{hashlib.sha256(names.encode()).hexdigest()[:20]}"

    @property
    def generation_prefix(self) -> str:
        """Starts the query ids of this generation, and of no other one."""
        return f"{self.load_id}-{self.generation}-"

    @property
    def age_seconds(self) -> int:
        """How long ago the run began, by the worker's clock."""
        return math.ceil(max(0.0, (datetime.datetime.now(datetime.UTC) - self.since).total_seconds()))

    def query_id(self, attempt: int) -> str:
        """The id of the n-th INSERT of this generation; known before it is submitted."""
        return f"{self.generation_prefix}{attempt}"

    @property
    def is_first_try(self) -> bool:
        """Whether nothing can have been submitted before, in this generation."""
        return self.try_number <= self.first_try

    @property
    def life(self) -> Life:
        """Which run this is, and which of its lives between two clears.

        One number would not tell: where ``retries`` was lowered, a generation comes back after a clear.
        """
        return Life(since=self.since.timestamp(), generation=self.generation, first_try=self.first_try)

    @property
    def rank(self) -> tuple[float, int]:
        """Of two processes of one load the one with the higher rank goes on.

        Tries are counted on over clears. Not so generations: they fall where ``retries`` is lowered.
        """
        return self.since.timestamp(), self.try_number

    @property
    def names(self) -> dict[str, str | int]:
        """Who loads, in the words of Airflow."""
        names: dict[str, str | int] = {"dag": self.dag_id, "task": self.task_id, "run": self.run_id}
        return names | ({"map_index": self.map_index} if self.map_index >= 0 else {})

    def log_comment(self, **numbers: int | None) -> str:
        """JSON for ``system.query_log``: who loads, and what the listing found."""
        return json.dumps({**self.names, "try": self.try_number, **numbers})
