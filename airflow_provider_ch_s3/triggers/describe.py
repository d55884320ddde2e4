"""What all triggers have in common; apart from the pollers, because DAG files import watchers."""

from __future__ import annotations

from inspect import signature
from typing import Any


class Described:
    """A trigger whose arguments, plain values, are attributes of the same names."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what Airflow re-creates the trigger from: class and arguments."""
        kind = type(self)
        arguments = [name for name in signature(kind.__init__).parameters if name != "self"]
        return f"{kind.__module__}.{kind.__qualname__}", {name: getattr(self, name) for name in arguments}
