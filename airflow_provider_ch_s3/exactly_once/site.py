"""The place of a load: what the load works with, from the first look at the files to the commit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from airflow_provider_ch_s3.exactly_once.target import Target
from airflow_provider_ch_s3.exactly_once.views import View, read_views
from airflow_provider_ch_s3.files.stores import ObjectStore
from airflow_provider_ch_s3.identity import LoadIdentity
from airflow_provider_ch_s3.monitoring.monitor import QueryMonitor
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.table.bad_rows import bad_row_table


@dataclass(frozen=True, kw_only=True)
class Site:
    """The values that stay the same while a process works on a load, until the process reads the table again.

    :param monitor: submits the INSERTs, and waits for them.
    """

    target: Target
    store: ObjectStore
    request: LoadRequest
    identity: LoadIdentity
    monitor: QueryMonitor

    @cached_property
    def views(self) -> tuple[View, ...]:
        """The views that the target feeds; bad rows are committed like the rows of a view."""
        spec = self.target.spec
        if self.request.keeps_bad_rows:
            rejected = bad_row_table(spec.local)
            return (View(name=rejected, table=rejected, select=""),)
        return read_views(self.target.client, spec, self.target.cluster.name)
