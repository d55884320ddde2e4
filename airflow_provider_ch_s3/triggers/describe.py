"""The arguments of a trigger; apart from the pollers, because DAG files import watchers."""

from __future__ import annotations

from inspect import signature
from typing import Any

from airflow.triggers.base import BaseTrigger


def describe(trigger: BaseTrigger) -> tuple[str, dict[str, Any]]:
    """What Airflow re-creates a trigger from: class and arguments; the arguments are attributes of the same names."""
    kind = type(trigger)
    arguments = [name for name in signature(kind.__init__).parameters if name != "self"]
    return f"{kind.__module__}.{kind.__qualname__}", {name: getattr(trigger, name) for name in arguments}
