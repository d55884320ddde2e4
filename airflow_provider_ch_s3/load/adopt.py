"""Record what a table holds that loads have not filled: the rows of files, or of an earlier table.

Others have filled the table: with an INSERT from these files, or with a restore, a copy or an exchange of tables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from airflow_provider_ch_s3.common.text import count_of
from airflow_provider_ch_s3.common.work import batches
from airflow_provider_ch_s3.errors import ConfigError, LoadError, SourceError
from airflow_provider_ch_s3.exactly_once.history import AttemptId
from airflow_provider_ch_s3.exactly_once.ledger import NO_UUID
from airflow_provider_ch_s3.exactly_once.modes import survivors
from airflow_provider_ch_s3.exactly_once.owner import owned
from airflow_provider_ch_s3.exactly_once.records import Committed, Planned
from airflow_provider_ch_s3.exactly_once.target import Target, check_provenance
from airflow_provider_ch_s3.files.source import SourceFile
from airflow_provider_ch_s3.introspection.files import count_rows
from airflow_provider_ch_s3.load.arrivals import ReadyFiles
from airflow_provider_ch_s3.load.base import Load
from airflow_provider_ch_s3.modes import Append
from airflow_provider_ch_s3.report import LoadReport
from airflow_provider_ch_s3.sql import ledger_queries
from airflow_provider_ch_s3.sql.filters import Sql, identifier, literals
from airflow_provider_ch_s3.table.provenance import Origin, names_of
from airflow_provider_ch_s3.table.target import parse_table


def adopt(target: Target, *, source: str = "", is_anew: bool = False) -> str:
    """Record that a table holds the rows of an earlier table, or nothing; return a description of the record.

    :param source: the name under which the earlier table was loaded; '' for the same name.
    :raises ConfigError: if there is nothing to decide, or nothing to adopt.
    """
    ledger, uuids = target.ledger, target.spec.uuids
    if NO_UUID in uuids:
        raise ConfigError(
            "nothing-to-adopt",
            f"{ledger.target} has no UUID, so the ledger knows it by its name alone, and there is nothing to adopt",
        )
    _check_unknown(target)
    if is_anew:
        ledger.write_names()
        return f"{ledger.target} holds no file yet: the next load adds its files to the rows that are there"
    name = parse_table(source or str(ledger.target), ledger.target.database)
    earlier = ledger.of(name).read_earlier_uuids()
    if not earlier:
        raise ConfigError(
            "load-unknown", f"the ledger {ledger.name} knows no load into {name}; correct --from, or use --anew"
        )
    targets = sorted({str(name), *replace(ledger, table_uuids=earlier).names})
    # The names last: until they are there, the table counts as unknown, and this can be repeated.
    target.client.execute(
        ledger_queries.render_adopt_commits(
            ledger.name,
            target.cluster.name,
            targets=targets,
            earlier_uuids=earlier,
            table_uuids=uuids,
            quorum=ledger.quorum,
        )
    )
    ledger.write_names(targets)
    return f"{ledger.target} holds the files that loads into {name} have added until now"


def adopt_files(target: Target, load: Load, *, confirm: Callable[[str], None]) -> str:
    """Record that a table holds the rows of files, as if a load had added them; return a description of the record.

    :param load: names the files.
    :param confirm: called if the files are not known to have as many rows as the table, or if a row has the path of
        another file; raises an error to record nothing.
    :raises ConfigError: if the ledger knows what the table holds.
    :raises SourceError: if there is no file, or a file cannot be read.
    :raises LoadError: if others change the table meanwhile.
    """
    request, local = load.request, target.spec.local
    target.ledger.open(target.cluster.hosts)
    _check_unknown(target)
    files = tuple(ReadyFiles(store=load.store, request=request))
    if not files:
        raise SourceError("no-file-matches", f"no file matches {request.source.with_hint}; correct --source")
    inspection = load.planning.inspection
    counted = count_rows(target.client, load.store.access(), files, inspection, target.cluster.name)
    partitions = target.partition_rows(local)
    rows = sum(partitions.values())
    adopted = f"{local} with {count_of(rows, 'row')} holds {count_of(len(files), 'file')} of {request.source}"
    if counted is None:
        adopted = f"{adopted}, whose rows were not counted: only Parquet files have footers"
    elif counted != rows:
        adopted = f"{adopted}, whose footers count {count_of(counted, 'row')}"
    if elsewhere := _count_elsewhere(target, load, files):
        adopted = f"{adopted}, and {count_of(elsewhere, 'row')} of the table with the path of another file"
    if counted != rows or elsewhere:
        confirm(adopted)
    with owned(target) as owner:
        _check_unknown(target)
        if target.partition_rows(local) != partitions:
            raise LoadError(
                "table-changed-meanwhile",
                f"others changed {local} meanwhile; nothing was recorded: try again when they are done",
            )
        identity = owner.identity
        attempt = AttemptId(load_id=identity.load_id, generation=identity.generation, number=owner.epoch)
        planned = replace(
            Planned.by(identity),
            definition=target.spec.definition,
            table=request.table,
            source=str(request.source),
            load_mode=Append.name,
            files=len(files),
            size_bytes=sum(file.size_bytes for file in files),
            rows=counted,
        )
        report = LoadReport(
            query_id=attempt.query_id,
            table=request.table,
            load_mode=planned.load_mode,
            files_read=len(files),
            rows_written=rows,
            partitions=partitions,
            checks=[adopted],
        )
        committed = Committed(
            load_mode=planned.load_mode, partitions=partitions, table_uuids=target.spec.uuids, report=report
        )
        owner.record(attempt, files, request.source, planned, committed)
    return f"recorded: {adopted}"


def _count_elsewhere(target: Target, load: Load, files: Sequence[SourceFile]) -> int:
    """Count the rows without the path of any of these files; 0 if no column has the path of a row.

    :raises TargetError: if the table lacks the column.
    """
    request, access, spec = load.request, load.store.access(), target.spec
    columns = names_of(request.provenance, Origin.PATH)
    if not columns:
        return 0
    check_provenance(spec, {columns[0]: Origin.PATH})
    rows = inside = 0
    for some in batches(files):
        paths = [access.path(request.source.bucket, file.key) for file in some]
        condition = Sql(f"{identifier(columns[0])} IN ({literals(paths)})")
        rows, outside = survivors.count_rows(target.client, spec.local, target.cluster.name, condition)
        inside += rows - outside
    return rows - inside


def _check_unknown(target: Target) -> None:
    """:raises ConfigError: if the ledger knows what the table holds."""
    ledger = target.ledger
    if ledger.names or (NO_UUID in target.spec.uuids and ledger.read_last_commit()):
        raise ConfigError(
            "nothing-to-adopt",
            f"the ledger {ledger.name} knows what {ledger.target} holds, because it was loaded or adopted before;"
            " there is nothing to decide",
        )
