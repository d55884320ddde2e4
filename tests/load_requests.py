"""Requests of loads, from arguments as a DAG gives them."""

from __future__ import annotations

from typing import Any

from airflow_provider_ch_s3.common.declared import declared_fields, parse_field
from airflow_provider_ch_s3.files.addresses import Source
from airflow_provider_ch_s3.modes import Append, Direct, Merge, Mode, ReplacePartitions, ReplaceTable, ReplaceWhere
from airflow_provider_ch_s3.request import LoadRequest

REPLACING: tuple[Mode, ...] = (ReplacePartitions(), ReplaceWhere("n > 0"), ReplaceTable(), Merge(key=["n"]))
MODES: tuple[Mode, ...] = (Append(), *REPLACING, Direct())
"""One of each kind."""


def load_request(source: Source, **arguments: Any) -> LoadRequest:
    """Parse arguments as an operator does."""
    fields = declared_fields(LoadRequest)
    given = {"table": "t", **arguments}
    parsed = {name: parse_field(name, field, given.pop(name, None)) for name, field in fields.items()}
    return LoadRequest(source=source, **parsed, **given)
