"""The partitions that a sensor waits for, as a load's report or a template gives them."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence

from airflow_provider_ch_s3.common.arguments import refuse_argument
from airflow_provider_ch_s3.errors import ConfigError

REMEDY = (
    "give the partitions of a load's report, \"{{ ti.xcom_pull(task_ids='load')['partitions'] }}\", or a list of"
    " partition ids (partition_id in system.parts), or leave it out to wait for the whole table"
)


def parse_partitions(value: object) -> tuple[str, ...] | None:
    """Parse a list of partition ids, a mapping partition → rows, a list of mappings, or what a template made of it.

    :returns: the ids, each once; None for the whole table.
    :raises ConfigError: if it is something else.
    """
    given = _read_text(value) if isinstance(value, str) else value
    if given is None:
        return None
    items = [given] if isinstance(given, Mapping) else given
    if not isinstance(items, Sequence) or isinstance(items, str):
        raise refuse_argument("partitions", value, REMEDY)
    found: set[str] = set()
    for item in items:
        if item is None:
            return None  # one of several loads was without staging, and does not know its partitions
        found.update(_ids(item, value))
    return tuple(sorted(found))


def _read_text(text: str) -> object:
    """Read what Jinja makes of a value: Python's own notation, which for these is also JSON's."""
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError) as error:
        raise ConfigError(f"partitions={text!r} is neither a list nor a mapping; {REMEDY}") from error


def _ids(item: object, value: object) -> list[str]:
    if isinstance(item, Mapping) and all(isinstance(rows, int) for rows in item.values()):
        ids = list(item)
    elif isinstance(item, Mapping):
        raise ConfigError(f"partitions={value!r} does not map partition ids to numbers of rows; {REMEDY}")
    else:
        ids = [item]
    for partition in ids:
        if not isinstance(partition, str) or not re.fullmatch(r"[\w-]+", partition, re.ASCII):
            raise ConfigError(f"partitions={value!r} contains {partition!r}, which is not a partition id; {REMEDY}")
    return ids
