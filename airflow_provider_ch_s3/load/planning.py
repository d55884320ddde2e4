"""Inspect the files of a load, and plan; with what the files and the connection say, and without writing anything."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from urllib.parse import urlsplit

from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.cluster.spec import ClusterDeclaration, ClusterSpec
from airflow_provider_ch_s3.common.text import format_bytes
from airflow_provider_ch_s3.common.work import log_folded
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import ChS3Error, LoadError
from airflow_provider_ch_s3.files.access import StoreAccess, warn_if_plain
from airflow_provider_ch_s3.files.regions import Region, find_apart
from airflow_provider_ch_s3.files.snapshots import Layout
from airflow_provider_ch_s3.files.source import SourceFile, SourceSpec
from airflow_provider_ch_s3.files.stores import ObjectStore, RegionalStore, SnapshotStore
from airflow_provider_ch_s3.identity import LoadIdentity
from airflow_provider_ch_s3.introspection.bad_values import explain_bad_value
from airflow_provider_ch_s3.introspection.explain import build_failure, explain, explain_timeout, read_bad_value
from airflow_provider_ch_s3.load.measure import read_sharing
from airflow_provider_ch_s3.load.plan_text import log_plan
from airflow_provider_ch_s3.load.prepare import PreparedLoad, plan_inspection, prepare_load, read_server_settings
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.table.target import TableName, TargetSpec
from airflow_provider_ch_s3.tuning import PastLoad, Reduction, check_given_settings

log = get_log(__name__)


@dataclass(frozen=True, kw_only=True)
class Planning:
    """What a load plans with.

    :param client: of the connected server.
    :param prepare_load: inspects, checks and plans.
    """

    client: ClickHouseClient
    store: ObjectStore
    declaration: ClusterDeclaration
    request: LoadRequest
    identity: LoadIdentity
    prepare_load: Callable[..., PreparedLoad] = prepare_load

    @property
    def inspection(self) -> LoadRequest:
        """The request with the settings for looking at the files without loading them."""
        settings = plan_inspection(read_server_settings(self.client), self.store.access(), self.request.settings)
        return dataclasses.replace(self.request, settings=settings)

    def read_layout(self) -> Layout:
        """Read how the rows are laid out, if known."""
        return self.store.read_layout() if isinstance(self.store, SnapshotStore) else Layout()

    def _read_folder_types(self) -> Mapping[str, str]:
        """Read the types of the values that folders have, if they are known."""
        return self.read_layout().types if self.request.source.scheme.has_path_columns else {}

    def prepare(
        self,
        cluster: ClusterSpec,
        target: TargetSpec,
        files: tuple[SourceFile, ...],
        *,
        ledger: TableName | None = None,
        past: Mapping[str, PastLoad] = MappingProxyType({}),
        reduction: Reduction | None = None,
        waits_for_replicas: bool = False,
        may_list: bool = False,
    ) -> PreparedLoad:
        """Inspect, check and plan, as :func:`prepare_load` does.

        :param ledger: where loads announce their part of the memory; None to count only what runs.
        """
        return self.prepare_load(
            self.client,
            self.request,
            cluster,
            target,
            access=self.store.access(),
            files=files,
            read_sharing=partial(read_sharing, self.client, cluster, self.request.limit, self.identity, ledger),
            past=past,
            reduction=reduction,
            waits_for_replicas=waits_for_replicas,
            folder_types=self._read_folder_types(),
            may_list=may_list,
        )

    def check_settings(self) -> None:
        """Check the given settings, for a load that has nothing to plan.

        :raises ConfigError: for the first mistake in those of the operator or of the connection.
        """
        operator, connection = self.request.settings, self.request.connection_settings
        if operator or connection:
            check_given_settings(read_server_settings(self.client), operator=operator, connection=connection)

    def log_plan(self, prepared: PreparedLoad) -> None:
        """Log a plan, and what about the source makes the load slow or costly."""
        log_plan(prepared)
        if prepared.chunk.number == 1:
            self._warn_if_far(prepared.source)
            warn_if_plain(prepared.source.access)

    def explain_failure(
        self, failure: str, message: str, column_types: Mapping[str, str], prepare: Callable[[], PreparedLoad]
    ) -> ChS3Error:
        """Build the error for an INSERT that failed; if a value is to blame, look for the first one.

        :param failure: what failed.
        :param message: the server's.
        :param column_types: of the table.
        :param prepare: returns the load as it was planned, by whatever process; raises ChS3Error if the files have
            changed since.
        """
        if stopped := explain_timeout(
            message,
            settings=self.request.settings,
            connection_settings=self.request.connection_settings,
            timeout_seconds=self.request.timeout_seconds,
        ):
            return LoadError("execution-timeout", f"{failure}: {stopped}")
        bad_value, is_typed, is_whole = read_bad_value(message, column_types), False, False
        if bad_value is None:
            text = f"{failure}: {explain(message, column_types)}"
        else:
            log_folded(log, f"{failure}: what ClickHouse says of the value", message)
            try:
                prepared = prepare()
            except ChS3Error as error:
                log.info("cannot look for the value that does not fit: %s", error)
                text = str(bad_value.somewhere_in(self.request.source))
            else:
                is_typed, is_whole = prepared.source.format.is_typed, self.request.source.scheme.is_reliable
                text = explain_bad_value(
                    self.client,
                    dataclasses.replace(prepared.source, settings=prepared.plan.sent),
                    prepared.mapping,
                    prepared.target,
                    bad_value,
                    message,
                    where=prepared.where,
                )
        return build_failure(LoadError, "query-failed", text, message, is_typed=is_typed, is_whole=is_whole)

    def find_distance(self, access: StoreAccess) -> tuple[Region, Region] | None:
        """Find the regions of the cluster and of the files, if these are known to differ; None otherwise."""
        nodes = (urlsplit(f"//{endpoint}").hostname or "" for endpoint in self.declaration.http_endpoints)
        return find_apart(
            [self.declaration.host, *nodes],
            urlsplit(access.endpoint_url).hostname or "",
            lambda: self.store.region_of(self.request.source.bucket) if isinstance(self.store, RegionalStore) else "",
        )

    def _warn_if_far(self, source: SourceSpec) -> None:
        if regions := self.find_distance(source.access):
            log.warning(
                "the cluster is in %s and the files are in %s: the provider charges for the %s that leave its region"
                " (about 0.01 to 0.12 USD per GB), and the distance slows the load down; copy the bucket to the"
                " cluster's region if you load from it often",
                *regions,
                format_bytes(source.size_bytes),
            )
