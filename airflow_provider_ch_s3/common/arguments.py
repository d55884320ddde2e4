"""Check the arguments of operator and sensor, as given by a DAG or a template."""

from __future__ import annotations

import dataclasses
import datetime
import math
import numbers
import os
import re
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_provider_ch_s3.common.text import did_you_mean
from airflow_provider_ch_s3.errors import ConfigError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Choice = TypeVar("Choice", bound=Enum)
Value = TypeVar("Value", bound="DataclassInstance")


def refuse_argument(name: str, value: object, remedy: str) -> ConfigError:
    """Return the error for an argument of a wrong type: name, value, type, and what to give instead."""
    return ConfigError("argument-invalid", f"{name}={value!r} is of type {type(value).__name__}; {remedy}")


def check_text(name: str, value: object) -> None:
    """Check that an argument is a string.

    :raises ConfigError: for anything else.
    """
    if not isinstance(value, str):
        raise refuse_argument(name, value, "give a string")


def parse_text(name: str, value: object) -> str:
    """Parse a string. A template may have made a number of digits, so a whole number becomes its digits again.

    :raises ConfigError: for anything else.
    """
    if not isinstance(value, bool) and isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, os.PathLike):
        value = str(value)
    check_text(name, value)
    return str(value)


def parse_name(name: str, value: object) -> str:
    """Parse a string that names something.

    :raises ConfigError: for anything else, also for an empty string, such as a template without a value.
    """
    text = parse_text(name, value)
    if not text:
        raise ConfigError("argument-invalid", f"{name}={value!r} is empty; give a name")
    return text


def parse_texts(name: str, value: object) -> tuple[str, ...]:
    """Parse a list of strings.

    :raises ConfigError: for anything else, also for a single string.
    """
    if isinstance(value, str):
        raise refuse_argument(name, value, f"write a list: [{value!r}]")
    if not isinstance(value, Sequence):
        raise refuse_argument(name, value, "give a list of strings, or leave it out")
    return tuple(parse_text(f"{name}[{n}]", item) for n, item in enumerate(value))


def check_flag(name: str, value: object) -> None:
    """Check that an argument is True or False: the string "false" would count as true.

    :raises ConfigError: for anything else.
    """
    if not isinstance(value, bool):
        raise refuse_argument(name, value, "give True or False")


def parse_flag(name: str, value: object) -> bool:
    """Parse True or False; a template may have rendered the flag as a word.

    :raises ConfigError: for anything else.
    """
    if isinstance(value, str) and (word := value.strip().lower()) in ("true", "false"):
        return word == "true"
    check_flag(name, value)
    return bool(value)


def parse_expressions(name: str, value: object) -> dict[str, str]:
    """Parse a mapping of names to SQL expressions.

    :raises ConfigError: for anything else.
    """
    given = parse_items(name, value, "{'column': 'expression'}")
    return {key: parse_text(f"{name}[{key!r}]", expression) for key, expression in given}


def parse_settings(name: str, value: object) -> dict[str, str | int | float]:
    """Parse a mapping of names to strings and finite numbers.

    :raises ConfigError: for anything else.
    """
    found = {}
    for key, setting in parse_items(name, value, "{'max_threads': 4}"):
        if not isinstance(setting, (str, int, float, numbers.Integral)):
            raise refuse_argument(f"{name}[{key!r}]", setting, "give a string or a number, or leave it out")
        if isinstance(setting, float) and not math.isfinite(setting):
            raise ConfigError(
                "argument-invalid", f"{name}[{key!r}]={setting!r} is not a finite number; give one, or leave it out"
            )
        found[key] = int(setting) if isinstance(setting, numbers.Integral) else setting
    return found


def check_seconds(name: str, value: object, *, is_positive: bool = False) -> None:
    """Check that an argument is a duration in seconds.

    :param is_positive: 0 is not accepted.
    :raises ConfigError: if the value is not a finite number, or is below 0.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise refuse_argument(name, value, "give a number of seconds")
    if not math.isfinite(value) or value < 0 or (is_positive and value == 0):
        bound = "above 0" if is_positive else "of 0 or more"
        raise ConfigError("argument-invalid", f"{name}={value!r} is not a duration; give a number of seconds {bound}")


def parse_seconds(name: str, value: object) -> float:
    """Parse a duration, given as a number of seconds or a ``timedelta``.

    :raises ConfigError: for anything else, or a duration below 0.
    """
    seconds = value.total_seconds() if isinstance(value, datetime.timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise refuse_argument(name, value, "give a number of seconds, or a timedelta")
    check_seconds(name, seconds)
    return float(seconds)


def parse_file_names(name: str, value: object) -> tuple[str, ...]:
    """Parse the name of a file, or a list of names; None for no name.

    :raises ConfigError: for anything else, and for a name that a folder cannot have: empty, an address, a glob.
    """
    if value is None:
        return ()
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, Sequence):
        raise refuse_argument(name, value, "give a file name such as '_SUCCESS', a list of them, or leave it out")
    for n, item in enumerate(names):
        check_text(f"{name}[{n}]", item)
        if not item or item.startswith("/") or "//" in item or re.search(r"[*?{]", item):
            raise ConfigError(
                "argument-invalid",
                f"{name}={value!r} contains {item!r}, which is not a file name; give the name of a file in the"
                " folders of the source, such as '_SUCCESS', without address and wildcards",
            )
    return tuple(names)


def parse_count(name: str, value: object, *, least: int = 0, most: int | None = None) -> int:
    """Parse a whole number; a template may have rendered the number as a string.

    :raises ConfigError: if the value is not a whole number, or is below ``least`` or above ``most``.
    """
    try:
        count = parse_whole(value)
    except ValueError:
        count = least - 1
    if count < least or (most is not None and count > most):
        span = f"{least} or more" if most is None else f"from {least} to {most}"
        raise ConfigError("argument-invalid", f"{name}={value!r} must be a whole number, {span}")
    return count


def parse_ratio(name: str, value: object) -> float:
    """Parse a share; a template may have rendered the share as a string.

    :raises ConfigError: if the value is not a number from 0 to 1.
    """
    try:
        ratio = float(str(value))
    except ValueError:
        ratio = -1.0
    if not 0 <= ratio <= 1 or isinstance(value, bool):
        raise ConfigError(
            "argument-invalid", f"{name}={value!r} must be a number from 0 to 1, such as 0.01 for one percent"
        )
    return ratio


def parse_choice(name: str, value: object, kind: type[Choice]) -> Choice:
    """Parse a member of an enumeration by its value.

    :raises ConfigError: if no member has the value.
    """
    try:
        return kind(value)
    except ValueError as error:
        known = [str(member.value) for member in kind]
        remedy = did_you_mean(str(value), known, otherwise=f"use one of {', '.join(map(repr, known))}")
        raise ConfigError("argument-invalid", f"{name}={value!r} is unknown; {remedy}") from error


def parse_whole(value: object) -> int:
    """Parse a whole number as written by Python, JSON, a form or a template: ``8``, ``8.0``, ``"8"``.

    :raises ValueError: if the value is not a whole number.
    """
    match = re.fullmatch(r"(-?\d+)(\.0*)?", str(value).strip())
    if match is None:
        raise ValueError(f"{value!r} is not a whole number")
    return int(match[1])


def parse_items(name: str, value: object, example: str) -> list[tuple[str, Any]]:
    """Parse a mapping of names to anything; None for an empty mapping.

    :param example: of a mapping, for the error.
    :raises ConfigError: for anything else.
    """
    if value is None:
        return []
    if not isinstance(value, Mapping):
        raise refuse_argument(name, value, f"give a dict such as {example}, or leave it out")
    for key in value:
        check_text(f"a key of {name}", key)
    return list(value.items())


def build_value(name: str, kind: type[Value], given: Mapping[str, Any]) -> Value:
    """Build a dataclass from a mapping of field names to values.

    :raises ConfigError: if a given field does not exist, or a required field is missing.
    """
    known = [field.name for field in dataclasses.fields(kind)]
    if unknown := sorted(set(given) - set(known), key=str):
        remedy = did_you_mean(str(unknown[0]), known, otherwise=f"it has {', '.join(known)}")
        raise ConfigError("argument-invalid", f"{name} has no field {unknown[0]!r}; {remedy}")
    if missing := [field for field in required_fields(kind) if field not in given]:
        raise ConfigError("argument-missing", f"{name}={dict(given)!r} lacks {missing[0]!r}; give it")
    return kind(**given)


def required_fields(kind: type[Value]) -> list[str]:
    """Return the names of the fields of a dataclass without a default."""
    fields = dataclasses.fields(kind)
    return [field.name for field in fields if field.default is field.default_factory is dataclasses.MISSING]
