"""What commands print: with colours on a terminal, as plain text in a pipe."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import Any

from airflow_provider_ch_s3.discretion import showable

Row = Sequence[str]

_STYLES = {
    "✔": "green",
    "✘": "bold red",
    "-": "dim",
    "committed": "green",
    "running": "cyan",
    "committing": "cyan",
    "abandoned": "yellow",
    "undone": "yellow",
}


@contextmanager
def clean_output() -> Iterator[None]:
    """Keep the standard output for the answer: Airflow logs and warns there from the import on."""
    with redirect_stdout(sys.stderr):
        yield


def print_table(heads: Row, rows: Sequence[Row]) -> None:
    """Print a table."""
    rows = [[showable(text).replace("\n", "\\n") for text in row] for row in rows]
    if not sys.stdout.isatty():
        print(align([[head.upper() for head in heads], *rows]))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    for head in heads:
        table.add_column(head, overflow="fold")
    for row in rows:
        table.add_row(*(Text(text, style=_STYLES.get(text, "")) for text in row))
    Console().print(table)


def print_line(mark: str, text: str) -> None:
    """Print a coloured mark, and a text."""
    text = showable(text)
    if not sys.stdout.isatty():
        print(mark, text, flush=True)
        return
    from rich.console import Console
    from rich.text import Text

    Console().print(Text.assemble((mark, _STYLES.get(mark, "")), f" {text}"), soft_wrap=True)


def print_text(text: str) -> None:
    """Print a text of several lines, with coloured numbers, names and addresses."""
    text = showable(text)
    if not sys.stdout.isatty():
        print(text, flush=True)
        return
    from rich.console import Console

    Console(soft_wrap=True).print(text, markup=False)


def print_sql(sql: str) -> None:
    """Print a statement."""
    if not sys.stdout.isatty():
        print(sql)
        return
    from rich.console import Console
    from rich.syntax import Syntax

    Console().print(Syntax(sql, "sql", background_color="default", word_wrap=True))


def print_json(value: Mapping[str, Any] | Sequence[Any]) -> None:
    """Print a value as JSON."""
    print(json.dumps(value, indent=2))


def align(rows: Sequence[Row]) -> str:
    """Format rows as columns of plain text."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
