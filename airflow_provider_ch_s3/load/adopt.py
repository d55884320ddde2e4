"""Record what a table with the name of an earlier table holds: after a restore, a copy or an exchange."""

from __future__ import annotations

from dataclasses import replace

from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.exactly_once.ledger import NO_UUID
from airflow_provider_ch_s3.exactly_once.target import Target
from airflow_provider_ch_s3.sql import ledger_queries
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
    if ledger.names:
        raise ConfigError(
            "nothing-to-adopt",
            f"the ledger {ledger.name} knows what {ledger.target} holds, because it was loaded or adopted before;"
            " there is nothing to decide",
        )
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
