"""The connection form, in a real browser."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from airflow_provider_ch_s3.cluster.fields import CONNECTION_FIELDS, RARE, USUAL
from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
from ch_s3_lab.sandbox.info import Sandbox
from tests.airflow.conftest import AirflowApi, Look, wait_for

pytestmark = [pytest.mark.sandbox, pytest.mark.airflow_run]


def test_form_shows_every_field_and_what_it_saves_keeps_tls_verified(
    page: Page, look: Look, airflow_api: AirflowApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    page.goto(f"{airflow_api.address}/connections")
    page.get_by_role("button", name="Add Connection").click()
    form = page.get_by_role("dialog")
    form.get_by_role("combobox").first.click()
    page.keyboard.type("ClickHouse S3")
    page.keyboard.press("Enter")
    form.locator('input[name="connection_id"]').fill("from_the_form")
    form.locator('input[name="host"]').fill("ch.example.com")
    form.get_by_text("Extra Fields", exact=True).click()
    usual = [field for field in CONNECTION_FIELDS if field.name in USUAL]
    for shown, hidden in ((usual, "Ledger table"), (set(CONNECTION_FIELDS).difference(usual), "CA file")):
        for field in shown:
            form.get_by_text(field.label, exact=True).wait_for()
            form.get_by_text(field.help, exact=True).wait_for()
        expect(form.get_by_text(hidden, exact=True)).to_be_hidden()
        look(f"connection-form-{len(shown)}")
        form.get_by_text(RARE, exact=True).click()
    form.get_by_role("button", name="Save").click()

    saved: dict[str, Any] = wait_for(
        lambda: next(
            (
                c
                for c in airflow_api.call("GET", "connections")["connections"]
                if c["connection_id"] == "from_the_form"
            ),
            None,
        ),
        "the connection",
    )
    extra = json.loads(saved["extra"])
    assert extra["cluster"] is None  # untouched fields are saved as null, which the hook has to accept
    connection = {"conn_type": saved["conn_type"], "host": saved["host"], "extra": extra | {"verify": None}}
    monkeypatch.setenv("AIRFLOW_CONN_FROM_THE_FORM", json.dumps(connection))
    hook = ClickHouseS3Hook(clickhouse_conn_id="from_the_form")
    assert hook._get_client_kwargs()["verify"] is True
    assert "verify=false" not in hook.get_uri()


@pytest.mark.thorough
def test_a_number_is_a_text_that_the_form_does_not_change_and_the_test_button_checks(
    page: Page, look: Look, airflow_api: AirflowApi, flights_sandbox: Sandbox
) -> None:
    connection = json.loads(flights_sandbox.airflow_conn_clickhouse)
    numbers = {"node_count": flights_sandbox.nodes, "ingest_memory_ratio": 0.5}  # as earlier releases stored them
    stored = connection | {"connection_id": "numbers", "extra": json.dumps(connection["extra"] | numbers)}
    airflow_api.call("POST", "connections", stored)
    page.goto(f"{airflow_api.address}/connections")
    row = page.locator("tr", has_text="numbers")
    row.get_by_role("button", name="Test Connection").click()
    page.get_by_text("Test Connection Successful").wait_for()
    row.get_by_role("button", name="Edit Connection").click()
    form = page.get_by_role("dialog")
    form.get_by_text("Extra Fields", exact=True).click()
    form.get_by_text(RARE, exact=True).click()
    expect(form.locator('[name="element_node_count"]')).to_have_value(str(flights_sandbox.nodes))
    ratio = form.locator('[name="element_ingest_memory_ratio"]')
    expect(ratio).to_have_value("0.5")
    ratio.fill("0,7")
    look("connection-form")
    form.get_by_role("button", name="Save").click()
    form.wait_for(state="hidden")
    row.get_by_role("button", name="Test Connection").click()
    page.get_by_text(
        f"connection to {connection['host']}:{connection['port']}: ingest_memory_ratio is '0,7'; set it to a number"
        " from 0.01 to 1, or leave it empty"
    ).wait_for()
    look("connection-test")
    saved = json.loads(airflow_api.call("GET", "connections/numbers")["extra"])
    assert {name: saved[name] for name in numbers} == {**numbers, "ingest_memory_ratio": "0,7"}
    airflow_api.call("DELETE", "connections/numbers")
