"""Stop a staged load from any process: its own, or that of a trigger."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from airflow_provider_ch_s3.cluster import ClusterDeclaration
from airflow_provider_ch_s3.errors import ChS3Error
from airflow_provider_ch_s3.load.context import find_context
from airflow_provider_ch_s3.load.killed import describe_end, describe_kill
from airflow_provider_ch_s3.protocols import ClickHouseClient
from airflow_provider_ch_s3.query.state import Submission, kill_queries
from airflow_provider_ch_s3.request import LoadIdentity

log = logging.getLogger(__name__)


def kill_load(
    client: ClickHouseClient,
    declaration: ClusterDeclaration,
    identity: LoadIdentity,
    *,
    submission: Submission | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Stop a task's load: kill its queries on all nodes, drop its staging tables, finish an interrupted commit.

    :param submission: a statement that may still be on its way to a server.
    :raises LoadError: if something may still be running.
    """
    client = client.within(declaration)
    nodes = kill_queries(client, declaration.cluster, identity.generation_prefix, submission=submission, sleep=sleep)
    try:
        context = find_context(client, declaration, identity, sleep=sleep)
        attempts = context.ledger.read_if_there().of_load(identity.load_id)
        if any(attempt.is_open for attempt in attempts):
            with context.locking.hold(is_urgent=True) as locked:
                for attempt in attempts:
                    if attempt.rank <= identity.rank:
                        locked.abandon(attempt.id)
            attempts = locked.history.of_load(identity.load_id)
    except ChS3Error as error:
        log.warning("%s; leaving staged rows for the next load to remove: %s", describe_end(nodes), error)
        return
    own = [attempt for attempt in attempts if attempt.id.generation == identity.generation]
    log.info("%s", describe_kill(nodes, identity.table, own))
