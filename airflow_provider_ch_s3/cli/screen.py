"""What commands print: with colours on a terminal, as plain text in a pipe."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import Any

from airflow_provider_ch_s3.discretion import log_of_command, showable
from airflow_provider_ch_s3.errors import ConfigError

Row = Sequence[str]

LOG_LEVEL = "AIRFLOW__LOGGING__LOGGING_LEVEL"
"""The level that Airflow sets for all loggers when Airflow is imported."""
_INDENT = "  "
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
def clean_output(*, shows_steps: bool = False) -> Iterator[None]:
    """Keep the standard output for the answer: Airflow logs and warns there from the import on.

    :param shows_steps: the log shows the steps, and not only warnings; a level in the environment stays.
    """
    before = os.environ.get(LOG_LEVEL)
    if before is None and not shows_steps:
        os.environ[LOG_LEVEL] = "WARNING"
    try:
        with redirect_stdout(sys.stderr), log_of_command():
            yield
    finally:
        if before is None:
            os.environ.pop(LOG_LEVEL, None)


def confirm(planned: str, question: str, *, otherwise: str, is_sure: bool = False) -> None:
    """Show what is about to be done, and ask, unless the user is sure.

    :raises ConfigError: if the answer is not yes, or there is no terminal to ask on.
    """
    if is_sure:
        return
    if not sys.stdin.isatty():
        raise ConfigError("not-confirmed", f"{planned}; {otherwise}: give --yes, as there is no terminal to ask on")
    if input(f"{showable(planned)}\n{question} [y/N] ").strip().lower() not in ("y", "yes"):
        raise ConfigError("not-confirmed", f"{otherwise}, as the answer was not yes")


def print_table(heads: Row, rows: Sequence[Row], *, important: Row = (), note: str = "") -> None:
    """Print a table; on a terminal, leave out columns that do not fit, but break no value.

    :param important: heads of columns to keep on a narrow terminal, the most important first.
    :param note: head of a column that a terminal shows below the row.
    """
    rows = [[showable(text) for text in row] for row in rows]
    if not sys.stdout.isatty():
        print(align([[head.upper() for head in heads], *([_in_one_line(text) for text in row] for row in rows)]))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(soft_wrap=True)
    values = [dict(zip(heads, row, strict=True)) for row in rows]
    notes = [row.pop(note, "") for row in values]
    values = [{head: _in_one_line(text) for head, text in row.items()} for row in values]
    widths = {head: max(map(len, [head, *(row[head] for row in values)])) for head in heads if head != note}
    shown = fit_columns(widths, important, console.width)

    def print_row(row: Mapping[str, str], style: str = "") -> None:
        cells = [Text(f"{row[head]:<{widths[head]}}", style=style or _STYLES.get(row[head], "")) for head in shown]
        console.print(Text(" ").join(cells))

    print_row({head: head for head in shown}, style="bold")
    for row, text in zip(values, notes, strict=True):
        print_row(row)
        if text:
            width = console.width - len(_INDENT)
            lines = [line for one in text.splitlines() for line in textwrap.wrap(one, width)]
            console.print(Text(textwrap.indent("\n".join(lines), _INDENT), style="red"))
    if left_out := [head for head in widths if head not in shown]:
        console.print(Text(f"not shown: {', '.join(left_out)}; a wider terminal or a pipe shows them", style="dim"))


def _in_one_line(text: str) -> str:
    return text.replace("\n", "\\n")


def fit_columns(widths: Mapping[str, int], important: Row, width: int) -> list[str]:
    """Choose the columns that fit side by side: the first in any case, then the most important.

    :param widths: head → characters of the widest value, in the order of the columns.
    :param width: characters of the screen.
    """
    chosen, left = set(), width + 1
    first, *others = sorted(widths, key=lambda head: important.index(head) if head in important else len(important))
    for head in (first, *others):
        if head == first or widths[head] + 1 <= left:
            chosen.add(head)
            left -= widths[head] + 1
    return [head for head in widths if head in chosen]


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
