"""The parser of all commands, with errors of a single line, and the kinds of numbers for options."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, NoReturn, TypeAlias

from airflow_provider_ch_s3.common.text import find_nearest

Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""What a command adds a parser to; a string, since only type checkers know that this class is generic."""

USAGE_ERROR = 2
"""The exit code of a wrongly called command."""


class CommandParser(argparse.ArgumentParser):
    """A parser that says in a line what is wrong; descriptions are docstrings, without their back-quotes.

    :param examples: commands that the help ends with.
    """

    def __init__(self, *, description: str | None = None, examples: Sequence[str] = (), **options: Any) -> None:
        super().__init__(description=description and description.replace("``", ""), **options)
        self.examples = tuple(examples)

    def format_help(self) -> str:
        """Add the examples."""
        examples = "".join(f"  {example}\n" for example in self.examples)
        return f"{super().format_help()}\nexamples:\n{examples}" if examples else super().format_help()

    def error(self, message: str) -> NoReturn:
        """End with the message, and without the synopsis."""
        listed = "commands" if self._subparsers else "options"
        self.exit(USAGE_ERROR, f"{self.prog}: {message} (`{self.prog} --help` lists the {listed})\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuse an unknown option here: the parser of the command knows the nearest option."""
        found, unknown = super().parse_known_args(args, namespace)
        for option in unknown:
            if option.startswith("-"):
                near = find_nearest(option.partition("=")[0], self._option_string_actions)
                self.error(f"there is no option {option}" + (f"; did you mean {near}?" if near else ""))
        return found, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Name the nearest choice; Python does the same from 3.14 on."""
        near = find_nearest(str(value), map(str, action.choices or ()))
        if not near or value in (action.choices or ()):
            super()._check_value(action, value)
            return
        what = None if isinstance(action, argparse._SubParsersAction) else action
        choice = "invalid choice" if what else f"there is no {str(action.metavar).lower()}"
        raise argparse.ArgumentError(what, f"{choice} {value!r}; did you mean {near}?")


def parse_time(text: str) -> datetime:
    """Parse a day or a time, in UTC unless the text says otherwise.

    :raises ValueError: if the text is neither.
    """
    time = datetime.fromisoformat(text)
    return time if time.tzinfo else time.replace(tzinfo=UTC)


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
