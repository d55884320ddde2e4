"""What a load tells assets, Airflow's own metrics (StatsD or OpenTelemetry), and OpenLineage."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_ch_s3.assets.clickhouse import describe_in_events
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import ChS3Error
from airflow_provider_ch_s3.files.addresses import Source
from airflow_provider_ch_s3.introspection.parts import read_partition_keys
from airflow_provider_ch_s3.introspection.table import Located
from airflow_provider_ch_s3.load.base import Load
from airflow_provider_ch_s3.load.lineage import Lineage
from airflow_provider_ch_s3.report import LoadReport
from airflow_provider_ch_s3.table.row_check import CheckResult
from airflow_provider_ch_s3.table.target import TableName

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

log = get_log(__name__)

# An event has an item for each column of each folder of the source, 170 bytes or more.
MAX_INPUT_FIELDS = 5_000


def tell_assets(
    context: Context, outlets: Sequence[Any], table: TableName, report: LoadReport, locate: Callable[[], Located]
) -> None:
    """Tell the events of a table's assets what was loaded.

    :param table: as the user names the table.
    :param locate: locates the table; called only for an outlet that wants partition keys.
    """

    def read_keys() -> Sequence[str]:
        return read_partition_keys(locate(), report.partitions or ())

    describe_in_events(context, outlets, table, event_facts(report), read_keys)


def event_facts(report: LoadReport) -> dict[str, Any]:
    """Tell what was loaded, for the events of assets."""
    return {
        "rows": report.rows_added,
        "files": report.files_read,
        "bytes": report.size_bytes,
        "query_id": report.query_id,
        "partitions": sorted(report.partitions or {}),
        "checks": [asdict(one) for one in report.row_checks],
    }


def emit_metrics(report: LoadReport) -> None:
    """Count rows, bytes, files, parts and checks, and time the INSERT, by table and mode."""
    stats, tags = _stats(), {"table": report.table, "load_mode": report.load_mode}
    stats.incr("ch_s3.load.rows", report.rows_added, tags=tags)
    stats.incr("ch_s3.load.bytes", report.read_bytes, tags=tags)
    stats.incr("ch_s3.load.files", report.files_read, tags=tags)
    stats.incr("ch_s3.load.parts", report.initial_parts, tags=tags)
    stats.timing("ch_s3.load.seconds", datetime.timedelta(seconds=report.seconds), tags=tags)
    emit_check_metrics(report.row_checks, **tags)


def emit_check_metrics(results: Sequence[CheckResult], *, table: str, load_mode: str) -> None:
    """Count the checks of a load by outcome: ``passed``, ``warned`` or ``failed``."""
    for outcome, count in Counter(result.outcome for result in results).items():
        _stats().incr("ch_s3.load.checks", count, tags={"table": table, "load_mode": load_mode, "result": outcome})


def _stats() -> Any:
    try:
        from airflow.sdk.observability.stats import Stats
    except ImportError:  # Airflow 3.1
        from airflow.stats import Stats
    return Stats


@dataclass(frozen=True, kw_only=True)
class LoadLineage:
    """Where a load took the rows from, and where it put them.

    :param server: host of the connection.
    :param sql: the INSERT, without keys; '' if an earlier try submitted the INSERT.
    :param select: column of the table → expression.
    :param read: the files and their columns.
    :param is_held: the load commits nothing (``commit="held"``).
    """

    source: Source
    server: str
    table: TableName
    column_types: Mapping[str, str]
    report: LoadReport
    sql: str
    select: Mapping[str, str]
    read: Lineage
    is_held: bool = False

    @classmethod
    def of(cls, load: Load, table: TableName, report: LoadReport, *, sql: str) -> LoadLineage | None:
        """Collect the facts when a load has ended, because the load's connections are closed later.

        :returns: None if nobody listens.
        """
        if not _is_lineage_wanted():
            return None
        try:
            read = load.read_lineage()
        except ChS3Error as error:  # the load has ended well without it
            log.info("OpenLineage is not told which files %s has loaded: %s", report.table, error)
            read = Lineage()
        return cls(
            source=load.request.source,
            server=load.declaration.host,
            table=table,
            column_types=load.column_types,
            report=report,
            sql=sql,
            select=load.request.select,
            read=read,
            is_held=load.request.holds is not None,
        )

    def build(self) -> Any:
        """Build the facets; called only if the OpenLineage provider is installed."""
        from airflow.providers.common.compat.openlineage.facet import ExternalQueryRunFacet, SQLJobFacet
        from airflow.providers.openlineage.extractors import OperatorLineage

        query = ExternalQueryRunFacet(externalQueryId=self.report.query_id, source=self._namespace)
        return OperatorLineage(
            inputs=self._inputs(),
            outputs=[self._output()],
            run_facets={"externalQuery": query} if self.report.query_id else {},
            job_facets={"sql": SQLJobFacet(query=self.sql)} if self.sql else {},
        )

    @property
    def _namespace(self) -> str:
        return _server_namespace(self.server)

    @property
    def _source_namespace(self) -> str:
        return self.source.address("").rstrip("/")

    @property
    def _source_names(self) -> list[str]:
        """The folders in which the wildcards of the source begin: the same data sets for each load."""
        return [_name(folder) for folder in sorted(self.source.folders)]

    def _inputs(self) -> list[Any]:
        """The folders of the source, with the results of the checks, and the files, or folders with many files."""
        from airflow.providers.common.compat.openlineage.facet import InputDataset
        from openlineage.client.generated.dataset_version_dataset import DatasetVersionDatasetFacet
        from openlineage.client.generated.input_statistics_input_dataset import InputStatisticsInputDatasetFacet

        facets: dict[str, dict[str, Any]] = {name: self._version() for name in self._source_names}
        found = {name: self._assertions() for name in self._source_names}
        if not self.report.snapshot:  # of a lake table, the version says all
            for key, etag in self.read.versions.items():
                facets[key] = {"version": DatasetVersionDatasetFacet(datasetVersion=etag)} if etag else {}
            for folder, files in self.read.folders.items():
                statistics = InputStatisticsInputDatasetFacet(fileCount=files)
                found.setdefault(_name(folder), {})["inputStatistics"] = statistics
        return [
            InputDataset(
                namespace=self._source_namespace,
                name=name,
                facets=facets.get(name, {}),
                inputFacets=found.get(name, {}),
            )
            for name in dict.fromkeys((*facets, *found))
        ]

    def _version(self) -> dict[str, Any]:
        """The snapshot of a lake table that was read; OpenLineage has fields only for the id."""
        if not self.report.snapshot:
            return {}
        from openlineage.client.generated import dataset_version_dataset as version

        facet = version.DatasetVersionDatasetFacet(datasetVersion=self.report.snapshot["id"])
        return {"version": facet.with_additional_properties(snapshot=dict(self.report.snapshot))}

    def _assertions(self) -> dict[str, Any]:
        """What the checks found, as a facet of the checked data: the rows of the files."""
        from openlineage.client.generated import data_quality_assertions_dataset as quality

        assertions = [
            quality.Assertion(assertion=f"{one.name}: {one.expression}", success=bool(one.passed))
            for one in self.report.row_checks
        ]
        facet = "dataQualityAssertions"
        return {facet: quality.DataQualityAssertionsDatasetFacet(assertions=assertions)} if assertions else {}

    def _output(self) -> Any:
        from airflow.providers.common.compat.openlineage.facet import (
            OutputDataset,
            OutputStatisticsOutputDatasetFacet,
            SchemaDatasetFacet,
            SchemaDatasetFacetFields,
        )

        fields = [SchemaDatasetFacetFields(name=name, type=kind) for name, kind in self.column_types.items()]
        return OutputDataset(
            namespace=self._namespace,
            name=_data_set(self.table, is_held=self.is_held),
            facets={"schema": SchemaDatasetFacet(fields=fields), **self._column_lineage()},
            outputFacets={"outputStatistics": OutputStatisticsOutputDatasetFacet(rowCount=self.report.rows_added)},
        )

    def _column_lineage(self) -> dict[str, Any]:
        """From which columns of the files each column of the table is filled; nothing for very many folders."""
        from openlineage.client.generated import column_lineage_dataset as lineage

        fields: dict[str, Any] = {}
        if len(self._source_names) * len(self.read.columns) > MAX_INPUT_FIELDS:
            return fields
        for column, sources in self.read.columns.items():
            expression = self.select.get(column, column)
            kind = "IDENTITY" if sources == [expression.strip().strip('`"')] else "TRANSFORMATION"
            told = lineage.Transformation(type="DIRECT", subtype=kind, description=self.select.get(column))
            inputs = [
                lineage.InputField(namespace=self._source_namespace, name=name, field=one, transformations=[told])
                for name in self._source_names
                for one in sources
            ]
            if inputs:
                fields[column] = lineage.Fields(inputFields=inputs)
        return {"columnLineage": lineage.ColumnLineageDatasetFacet(fields=fields)} if fields else {}


@dataclass(frozen=True, kw_only=True)
class CommitLineage:
    """That held rows were committed: from the data set that the load wrote, into the table.

    :param server: host of the connection.
    :param columns: of the table.
    """

    server: str
    table: TableName
    columns: Collection[str]
    report: LoadReport

    def build(self) -> Any:
        """Build the facets; called only if the OpenLineage provider is installed."""
        from airflow.providers.common.compat.openlineage.facet import (
            InputDataset,
            OutputDataset,
            OutputStatisticsOutputDatasetFacet,
        )
        from airflow.providers.openlineage.extractors import OperatorLineage
        from openlineage.client.generated import column_lineage_dataset as lineage

        server, held = _server_namespace(self.server), _data_set(self.table, is_held=True)
        same = lineage.Transformation(type="DIRECT", subtype="IDENTITY")
        fields = {
            name: lineage.Fields([lineage.InputField(server, held, field=name, transformations=[same])])
            for name in self.columns
        }
        output = OutputDataset(
            namespace=server,
            name=_data_set(self.table),
            facets={"columnLineage": lineage.ColumnLineageDatasetFacet(fields=fields)},
            outputFacets={"outputStatistics": OutputStatisticsOutputDatasetFacet(rowCount=self.report.rows_added)},
        )
        return OperatorLineage(inputs=[InputDataset(namespace=server, name=held)], outputs=[output])


def _server_namespace(server: str) -> str:
    return f"clickhouse://{server}"


def _data_set(table: TableName, *, is_held: bool = False) -> str:
    """The name of a table as a data set; held rows have one name, though each load has a view of its own."""
    return f"{table.database}.{table.table}{'__held' if is_held else ''}"


def _name(folder: str) -> str:
    """The name of a folder as a data set."""
    return folder.rstrip("/") or "/"


def _is_lineage_wanted() -> bool:
    try:
        from airflow.providers.openlineage.conf import is_disabled
    except ImportError:
        return False
    return not is_disabled()
