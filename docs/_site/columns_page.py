"""The generated parts of docs/columns.md: each between two comments with the part's name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from airflow_provider_ch_s3.clickhouse.text_grammar import GRAMMARS
from airflow_provider_ch_s3.clickhouse.type_table import TABLE, Kind, Rule


def render_types() -> str:
    """Render the table of types, and explain the rules."""
    rules = {rule.name: rule.meaning for cells in TABLE.values() for rule in cells.values() if rule.name}
    rows = [
        f"| `{source.value}` | {_cells(cells)} |" for source, cells in TABLE.items() if source is not Kind.NOTHING
    ]
    meanings = [f"| {name} | {meaning} |" for name, meaning in rules.items()]
    return "\n".join(
        [
            "| values of the type | become values of |",
            "| --- | --- |",
            *rows,
            "",
            "| rule | meaning |",
            "| --- | --- |",
            *meanings,
        ]
    )


def _cells(cells: Mapping[Kind, Rule]) -> str:
    by_rule: dict[str, list[str]] = {}
    for target, rule in cells.items():
        if rule.name:
            by_rule.setdefault(rule.name, []).append(f"`{target.value}`")
    return "; ".join(f"{', '.join(targets)}: {name}" for name, targets in by_rule.items())


def render_texts() -> str:
    """Render the grammar of text."""

    def shown(texts: Iterable[str]) -> str:
        return ", ".join(f"`{text}`" if text else "nothing" for text in texts)

    return "\n".join(
        [
            "| type | forms that are values | for example | not a value |",
            "| --- | --- | --- | --- |",
            *(f"| `{one.types}` | {one.forms} | {shown(one.values)} | {shown(one.refused)} |" for one in GRAMMARS),
        ]
    )


PARTS: Mapping[str, Callable[[], str]] = {"texts": render_texts, "types": render_types}


def render_page(text: str) -> str:
    """Return the page with up-to-date generated parts.

    :param text: the present page.
    """
    for name, render in PARTS.items():
        begin, end = f"<!-- {name}: generated -->", f"<!-- {name}: end -->"
        made = f"{begin}\n\n{render()}\n\n{end}"
        text = re.sub(rf"{re.escape(begin)}.*?{re.escape(end)}", lambda _, made=made: made, text, flags=re.DOTALL)
    return text
