"""What a load tells assets, Airflow's own metrics (StatsD or OpenTelemetry), and OpenLineage."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from airflow_provider_ch_s3.files.addresses import SourcePattern
from airflow_provider_ch_s3.load.base import Load
from airflow_provider_ch_s3.report import LoadReport
from airflow_provider_ch_s3.table.row_check import CheckResult
from airflow_provider_ch_s3.table.target import TableName


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
    """

    pattern: SourcePattern
    server: str
    table: TableName
    column_types: Mapping[str, str]
    report: LoadReport
    sql: str

    @classmethod
    def of(cls, load: Load, table: TableName, report: LoadReport, *, sql: str) -> LoadLineage:
        """Collect the facts when a load has ended, because the load's connections are closed later."""
        return cls(
            pattern=load.request.pattern,
            server=load.declaration.host,
            table=table,
            column_types=load.column_types,
            report=report,
            sql=sql,
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
        return f"clickhouse://{self.server}"

    def _inputs(self) -> list[Any]:
        """A data set for each folder in which the wildcards of the source begin."""
        from airflow.providers.common.compat.openlineage.facet import InputDataset

        namespace, checks = self.pattern.address("").rstrip("/"), self._assertions()
        return [
            InputDataset(
                namespace=namespace, name=folder.rstrip("/") or "/", facets=self._version(), inputFacets=checks
            )
            for folder in sorted(self.pattern.folders)
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
            name=f"{self.table.database}.{self.table.table}",
            facets={"schema": SchemaDatasetFacet(fields=fields)},
            outputFacets={"outputStatistics": OutputStatisticsOutputDatasetFacet(rowCount=self.report.rows_added)},
        )
