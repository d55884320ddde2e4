"""The steps of a load as spans of OpenTelemetry's own SDK; tests/airflow has them under a real task."""

from __future__ import annotations

import time
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import TaskDeferred
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode, Tracer

from airflow_provider_ch_s3.arguments import Checks
from airflow_provider_ch_s3.common import steps
from airflow_provider_ch_s3.errors import LoadError
from airflow_provider_ch_s3.exactly_once.commit import Commit
from tests.failures import coded
from tests.sandbox.conftest import Lab

pytestmark = pytest.mark.sandbox

ROWS = 5
PAUSE_SECONDS = 0.5


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def tracer(exporter: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch) -> Tracer:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("test")
    monkeypatch.setattr(steps, "_tracer", tracer)
    return tracer


@pytest.fixture
def table(lab: Lab) -> str:
    lab.put_parquet("in/a.parquet", {"n": list(range(ROWS))})
    return lab.create("t", "n Int64")


def name(span: ReadableSpan) -> str:
    return span.name.removeprefix("ch_s3.load.")


def about(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


@pytest.mark.thorough
def test_each_step_is_a_child_of_the_task_in_whose_process_it_was(
    lab: Lab, table: str, tracer: Tracer, exporter: InMemorySpanExporter
) -> None:
    operator = lab.operator("in/*.parquet", table, deferrable=True, commit="settled")
    with tracer.start_as_current_span("submits"), pytest.raises(TaskDeferred) as deferred:
        operator.execute(lab.context(operator))
    event = {"status": "ended", "query_id": deferred.value.trigger.query_id, "deadline": None}
    resumed = lab.operator("in/*.parquet", table, deferrable=True, commit="settled")
    with tracer.start_as_current_span("commits"):
        report = resumed.execute_complete(lab.context(resumed), event)
    assert report is not None

    spans = exporter.get_finished_spans()
    parents = {span.context.span_id: span.name for span in spans}
    assert [(name(span), parents.get(span.parent.span_id if span.parent else 0)) for span in spans] == [
        ("plan", "submits"),
        ("submits", None),
        ("insert", "commits"),
        ("settle", "commits"),
        ("verify", "commits"),
        ("prepare", "commits"),
        ("commit", "commits"),
        ("commits", None),
    ]
    found = {name(span): span for span in spans}
    told = {"ch_s3.table": table, "ch_s3.rows": ROWS, "ch_s3.query_id": report["query_id"]}
    for step in ("plan", "insert", "settle", "verify", "prepare", "commit"):
        assert about(found[step]) == told
    insert = found["insert"]
    assert insert.start_time is not None
    assert insert.end_time == int(report["ended"] * 1e9)
    assert insert.end_time - insert.start_time == int(report["seconds"] * 1e9)


@pytest.mark.thorough
def test_a_step_that_fails_says_why_in_words_without_secrets(
    lab: Lab, table: str, tracer: Tracer, exporter: InMemorySpanExporter
) -> None:
    with (
        tracer.start_as_current_span("task"),
        pytest.raises(LoadError, match=coded("rows-too-few", "min_rows")) as caught,
    ):
        lab.load("in/*.parquet", table, checks=Checks(min_rows=ROWS + 1))
    found = {name(span): span for span in exporter.get_finished_spans()}
    assert set(found) == {"plan", "insert", "verify", "task"}
    assert found["verify"].status.status_code is StatusCode.ERROR
    assert found["verify"].status.description == f"LoadError: {caught.value}"
    assert found["verify"].events == ()
    texts = "".join(span.to_json() for span in found.values())
    assert [s for s in (lab.sandbox.password, lab.sandbox.s3_secret_key) if s in texts] == []


def test_the_commit_takes_as_long_as_what_prepares_it_too(
    lab: Lab, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare = Commit.prepare

    def prepare_slowly(commit: Commit) -> None:
        time.sleep(PAUSE_SECONDS)
        prepare(commit)

    monkeypatch.setattr(Commit, "prepare", prepare_slowly)
    assert lab.load("in/*.parquet", table)["commit_seconds"] >= PAUSE_SECONDS
