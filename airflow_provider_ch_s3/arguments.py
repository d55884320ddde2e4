"""Arguments of operator and sensor, as a DAG or a template gave them: of the right type, or refused by name."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from airflow_provider_ch_s3.errors import ConfigError


def refuse_argument(name: str, value: object, remedy: str) -> ConfigError:
    """The error of an argument: names it, shows value and type, and says what to give."""
    return ConfigError(f"{name}={value!r} is of the type {type(value).__name__}; {remedy}")


def check_text(name: str, value: object, *, is_optional: bool = False) -> None:
    """See that an argument is a text.

    :param is_optional: None will do, too.
    :raises ConfigError: if it is none.
    """
    if not isinstance(value, str) and not (is_optional and value is None):
        raise refuse_argument(name, value, "give a text, or leave it out" if is_optional else "give a text")


def check_texts(name: str, value: object) -> None:
    """See that an argument is a list of texts, or None.

    :raises ConfigError: if it is none; one text alone is none either.
    """
    if value is None:
        return
    if isinstance(value, str):
        raise refuse_argument(name, value, f"write a list: {name}=[{value!r}]")
    if not isinstance(value, Sequence):
        raise refuse_argument(name, value, "give a list of texts, or leave it out")
    for n, item in enumerate(value):
        check_text(f"{name}[{n}]", item)


def check_flag(name: str, value: object) -> None:
    """See that an argument is True or False: the text "false" would count as true.

    :raises ConfigError: if it is neither.
    """
    if not isinstance(value, bool):
        raise refuse_argument(name, value, "give True or False")


def check_expressions_of(name: str, value: object) -> None:
    """See that an argument maps names to SQL expressions, or is None.

    :raises ConfigError: if it does not.
    """
    for key, expression in _items(name, value, "{'column': 'expression'}"):
        check_text(f"{name}[{key!r}]", expression)


def check_settings(name: str, value: object) -> None:
    """See that an argument maps names to texts and finite numbers, or is None.

    :raises ConfigError: if it does not.
    """
    for key, setting in _items(name, value, "{'max_threads': 4}"):
        if not isinstance(setting, (str, int, float)):
            raise refuse_argument(f"{name}[{key!r}]", setting, "give a text or a number, or leave it out")
        if isinstance(setting, float) and not math.isfinite(setting):
            raise ConfigError(f"{name}[{key!r}]={setting!r} is no finite number; give one, or leave it out")


def check_seconds(name: str, value: object, *, is_positive: bool = False) -> None:
    """See that an argument is a time in seconds.

    :param is_positive: 0 will not do.
    :raises ConfigError: if it is no finite number, or below 0.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise refuse_argument(name, value, "give a number of seconds")
    if not math.isfinite(value) or value < 0 or (is_positive and value == 0):
        bound = "above 0" if is_positive else "of 0 or more"
        raise ConfigError(f"{name}={value!r} is not a time; give a number of seconds {bound}")


def parse_count(name: str, value: object) -> int:
    """Read a whole number that may have come from a template, as text.

    :raises ConfigError: if it is none, or below 0.
    """
    try:
        count = parse_whole(value)
    except ValueError:
        count = -1
    if count < 0:
        raise ConfigError(f"{name}={value!r} is not a number of things; give a whole number, 0 or more")
    return count


def parse_whole(value: object) -> int:
    """Read a whole number, as Python, JSON, a form or a template writes it: ``8``, ``8.0``, ``"8"``.

    :raises ValueError: if it is none.
    """
    match = re.fullmatch(r"(-?\d+)(\.0*)?", str(value).strip())
    if match is None:
        raise ValueError(f"{value!r} is no whole number")
    return int(match[1])


def _items(name: str, value: object, example: str) -> list[tuple[object, object]]:
    if value is None:
        return []
    if not isinstance(value, Mapping):
        raise refuse_argument(name, value, f"give a dict such as {example}, or leave it out")
    for key in value:
        check_text(f"a key of {name}", key)
    return list(value.items())
