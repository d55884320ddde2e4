"""What a load has planned, as the ledger of a sandbox has recorded."""

from __future__ import annotations

import json
from typing import Any

from airflow_provider_ch_s3.exactly_once.history import AttemptId
from ch_s3_lab.sandbox import Sandbox


def read_settings(sandbox: Sandbox, ledger: str, query_id: str) -> dict[str, dict[str, Any]]:
    """Read the settings of an INSERT: setting → ``value``, ``origin``, ``reason``.

    :param ledger: ``database.table``.
    """
    attempt = AttemptId.parse(query_id)
    where = f"load_id = '{attempt.load_id}' AND attempt = {attempt.number} AND event = 'planned'"
    found = [
        row["detail"]
        for node in range(sandbox.nodes)
        for row in sandbox.query(f"SELECT detail FROM {ledger} WHERE {where}", node=node)
    ]
    settings: dict[str, dict[str, Any]] = json.loads(found[0])["settings"]
    return settings
