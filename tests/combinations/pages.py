"""The generated tables of docs/testing.md and docs/limits.md: the factors, and what cannot go together."""

from __future__ import annotations

from tests.combinations.factors import FACTORS
from tests.combinations.together import APART

FOLLOWING = ("data_format", "create_table")
"""Factors with a single level, which follows from other factors."""


def render_page(text: str) -> str:
    """Replace what is between the marks of a table."""
    for part, table in (("factors", factors_table()), ("together", together_table())):
        start, end = f"<!-- {part}: generated -->", f"<!-- {part}: end -->"
        if start in text:
            before, _, rest = text.partition(start)
            text = f"{before}{start}\n\n{table}\n\n{end}{rest.partition(end)[2]}"
    return text


def factors_table() -> str:
    """Make the table of factors."""
    rows = [(name, "; ".join(levels)) for name, levels in FACTORS.items() if name not in FOLLOWING]
    return "\n".join(["| factor | levels |", "| --- | --- |", *(f"| `{name}` | {shown} |" for name, shown in rows)])


def together_table() -> str:
    """Make the table of what is refused."""
    rows = [f"| {one.what[0]} | {one.what[1]} | {one.reason} |" for one in sorted(APART, key=lambda one: one.what[0])]
    return "\n".join(["| | does not go together with | because |", "| --- | --- | --- |", *rows])
