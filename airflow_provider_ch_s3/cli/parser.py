"""The parser of all commands, with errors of a single line, and the kinds of numbers for options."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any, NoReturn, TypeAlias

Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""What a command adds a parser to; a string, since only type checkers know that this class is generic."""

USAGE_ERROR = 2
"""The exit code of a wrongly called command."""


class CommandParser(argparse.ArgumentParser):
    """A parser that says in a line what is wrong; descriptions are docstrings, without their back-quotes."""

    def __init__(self, *, description: str | None = None, **options: Any) -> None:
        super().__init__(description=description and description.replace("``", ""), **options)

    def error(self, message: str) -> NoReturn:
        """End with the message, and without the synopsis."""
        self.exit(USAGE_ERROR, f"{self.prog}: {message} (`{self.prog} --help` lists the options)\n")


def count_of_some(what: str) -> Callable[[str], int]:
    """Return the type of an option for a count of things."""

    def parse(text: str) -> int:
        if not text.isdecimal() or int(text) == 0:
            raise argparse.ArgumentTypeError(f"{text!r} is not {what}; give 1 or more")
        return int(text)

    return parse


def amount_of(what: str, *, lowest: float = 0) -> Callable[[str], float]:
    """Return the type of an option for a number, with or without fraction."""

    def parse(text: str) -> float:
        try:
            amount = float(text)
        except ValueError:
            amount = math.nan
        if not lowest <= amount < math.inf:
            raise argparse.ArgumentTypeError(f"{text!r} is not {what}; give {lowest:g} or more")
        return amount

    return parse
