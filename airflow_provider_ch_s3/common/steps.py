"""The steps of a load: how long each step takes, and a span of the step for OpenTelemetry.

Airflow sets tracing up and opens a span for each task: the steps are children of this span. Without tracing,
OpenTelemetry's calls do nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from opentelemetry.trace import Span, get_tracer

_tracer = get_tracer("airflow_provider_ch_s3")

Fact = str | int | None
NANOSECONDS = 1_000_000_000


@dataclass(kw_only=True)
class TimedStep:
    """A step under way."""

    _span: Span
    _began: float

    @property
    def seconds(self) -> float:
        """The duration so far."""
        return round(time.monotonic() - self._began, 3)

    def tell(self, **facts: Fact) -> None:
        """Add facts to the span once they are known."""
        self._span.set_attributes(_attributes(facts))


@contextmanager
def timed_step(name: str, **facts: Fact) -> Iterator[TimedStep]:
    """Measure a step; an error that ends the step becomes the status of the span.

    :param name: such as ``plan``.
    :param facts: what is known of the step: table, rows, query id; None is left out.
    """
    # Not the exception itself: its stack trace has the causes, whose texts nobody has looked through for secrets.
    with _tracer.start_as_current_span(_full(name), attributes=_attributes(facts), record_exception=False) as span:
        yield TimedStep(_span=span, _began=time.monotonic())


def record_step(name: str, *, ended: float, seconds: float, **facts: Fact) -> None:
    """Record a step that another process has carried out and measured.

    :param name: as for :func:`timed_step`.
    :param ended: Unix time.
    :param facts: as for :func:`timed_step`.
    """
    end, duration = int(ended * NANOSECONDS), int(seconds * NANOSECONDS)
    span = _tracer.start_span(_full(name), attributes=_attributes(facts), start_time=end - duration)
    span.end(end)


def _full(name: str) -> str:
    return f"ch_s3.load.{name}"


def _attributes(facts: Mapping[str, Fact]) -> dict[str, str | int]:
    return {f"ch_s3.{name}": value for name, value in facts.items() if value is not None}
