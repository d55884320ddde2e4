"""The partitions of a table as partition keys of Airflow's asset events."""

from __future__ import annotations

import re

from airflow_provider_ch_s3.clickhouse.expressions import split_expressions
from airflow_provider_ch_s3.clickhouse.tokens import tokenize
from airflow_provider_ch_s3.table.target import unquoted

# Airflow's ProductMapper splits a key there.
DELIMITER = "|"


def key_of_partition(expression: str, value: str) -> str:
    """Return the partition key of a partition, with dates and times as Airflow's partition mappers write them.

    ``toYYYYMM(day)`` with ``202611`` has the key ``2026-11``; ``(day, region)`` with ``('2026-11-26','eu')`` has the
    key ``2026-11-26|eu``.

    :param expression: of ``PARTITION BY``, as in ``system.tables``.
    :param value: as in ``system.parts.partition``.
    """
    expressions = _elements(expression)
    values = _elements(value) if len(expressions) > 1 else [value]
    return DELIMITER.join(map(_as_iso, expressions, values))


def _elements(text: str) -> list[str]:
    outside = [token for token in tokenize(text) if not token.depth]
    if [token.text for token in outside] not in (["(", ")"], ["tuple", "(", ")"]):
        return [text]
    return [unquoted(element) for element in split_expressions(text[outside[-2].start + 1 : outside[-1].start])]


def _as_iso(expression: str, value: str) -> str:
    if expression.startswith(("toYYYYMM(", "toYYYYMMDD(")):
        return "-".join(filter(None, (value[:4], value[4:6], value[6:])))
    return re.sub(r"^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)", r"\1T\2", value)
