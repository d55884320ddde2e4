"""Statements that ask a cluster, or one server alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from inspect import signature
from typing import Any

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.sql.filters import table_name
from airflow_provider_ch_s3.table.target import TableName

CLUSTER = "it's"
_NAME = r"'((?:[^'\\]|\\.)*)'"
AT_BOTH: dict[str, tuple[Statement, Statement]] = {}
"""Each statement on the cluster, and on one server."""


def at_both(name: str, render: Callable[..., Statement], *given: Any, **named: Any) -> dict[str, Statement]:
    """The statement on the cluster, which has a golden file; that on one server differs only in what it asks.

    :param given: the arguments before and after ``cluster``.
    """
    others = [parameter for parameter in signature(render).parameters if parameter != "cluster"]
    values = dict(zip(others, given, strict=False)) | named
    AT_BOTH[name] = render(cluster=CLUSTER, **values), render(cluster=None, **values)
    return {name: AT_BOTH[name][0]}


def without_cluster(text: str) -> str:
    """Take the cluster out of a statement: a table of one server is called by its name."""
    text = text.replace(" ON CLUSTER `it's`", "")
    text = re.sub(r"clusterAllReplicas\('it\\'s', (system\.\w+)\)", r"\1", text)
    return re.sub(rf"(?:FUNCTION )?cluster(?:AllReplicas)?\('it\\'s', {_NAME}, {_NAME}\)", _plain_name, text)


def _plain_name(spread: re.Match[str]) -> str:
    database, table = (re.sub(r"\\(.)", r"\1", name) for name in spread.groups())
    return table_name(TableName(database=database, table=table))
