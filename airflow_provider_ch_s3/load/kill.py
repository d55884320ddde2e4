"""Stop a staged load from the task's or a trigger's process, and describe the outcome for the task's log."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.cluster.spec import ClusterDeclaration
from airflow_provider_ch_s3.common.text import count_of
from airflow_provider_ch_s3.common.timing import REAL_TIME, Timing
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import ChS3Error
from airflow_provider_ch_s3.exactly_once.history import Attempt, EventKind
from airflow_provider_ch_s3.exactly_once.owner import owned
from airflow_provider_ch_s3.exactly_once.target import Target
from airflow_provider_ch_s3.identity import LoadIdentity
from airflow_provider_ch_s3.load.wiring import find_target
from airflow_provider_ch_s3.monitoring.state import Submission, kill_queries

log = get_log(__name__)

NOTHING_STAGED = "nothing had been staged"


def kill_load(
    client: ClickHouseClient,
    declaration: ClusterDeclaration,
    identity: LoadIdentity,
    *,
    submission: Submission | None = None,
    timing: Timing = REAL_TIME,
    find_target: Callable[..., Target] = find_target,
) -> None:
    """Stop a task's load: kill the queries on all nodes, drop the staging tables, finish an interrupted commit.

    :param submission: a statement that may not have reached a server yet.
    :param find_target: wires the table.
    :raises LoadError: if something may still be running.
    """
    client = client.within(declaration)
    nodes = kill_queries(
        client, declaration.cluster, identity.generation_prefix, submission=submission, timing=timing
    )
    try:
        target = find_target(client, declaration, identity, timing=timing)
        attempts = target.ledger.read_if_there().of_load(identity.load_id)
        # A process that died may have recorded that it gives up, and no more: then its tables are still there.
        if any(attempt.is_open for attempt in attempts) or target.staging.has_any_of(identity.load_id):
            with owned(target, is_urgent=True) as owner:
                for attempt in attempts:
                    if attempt.rank <= identity.rank:
                        owner.abandon(attempt.id)
            attempts = owner.history.of_load(identity.load_id)
    except ChS3Error as error:
        if error.code == "table-missing" and not nodes:
            log.info("%s; the table %s does not exist: %s", describe_end(nodes), identity.table, NOTHING_STAGED)
            return
        log.warning("%s; leaving staged rows for the next load to remove: %s", describe_end(nodes), error)
        return
    own = [attempt for attempt in attempts if attempt.id.generation == identity.generation]
    log.info("%s", describe_kill(nodes, identity.table, own))


def describe_end(nodes: Collection[str]) -> str:
    """Describe where the queries of a load were killed.

    :param nodes: the nodes where the queries ran.
    """
    if not nodes:
        return "killed: none of its queries is running"
    return f"killed on {count_of(len(nodes), 'node')}"


def describe_kill(nodes: Collection[str], table: str, attempts: Sequence[Attempt]) -> str:
    """Describe where the queries of a load were killed, and what the table holds now.

    :param nodes: as for :func:`describe_end`.
    :param attempts: attempts of this generation of the task, as read from the ledger after the kill; none if the load
        was not staged, or had not begun.
    """
    if attempts:
        found = _describe_commit(table, attempts)
    elif nodes:
        found = f"rows that it had written stay in {table} (mode='direct')"
    else:
        found = NOTHING_STAGED
    return f"{describe_end(nodes)}; {found}"


def _describe_commit(table: str, attempts: Sequence[Attempt]) -> str:
    if any(attempt.abandoned.is_broken for attempt in attempts):
        return f"its commit had begun and cannot be finished: {table} may hold some of its rows"
    committed = [attempt for attempt in attempts if attempt.state is EventKind.COMMITTED]
    if committed and committed[-1].planned.chunk.is_last:
        return f"its commit had begun and was finished: {table} holds all of its rows"
    if committed:
        return f"{table} holds the rows of its first chunks ({len(committed):,} committed)"
    return f"{table} was not changed"
