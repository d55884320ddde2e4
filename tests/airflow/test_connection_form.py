"""The connection form, in a real browser."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import Page

from airflow_provider_ch_s3.connection_fields import CONNECTION_FIELDS
from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
from tests.airflow.conftest import AirflowApi, wait_for

pytestmark = [pytest.mark.sandbox, pytest.mark.airflow_run]


def test_form_shows_every_field_and_what_it_saves_keeps_tls_verified(
    page: Page, airflow_api: AirflowApi, monkeypatch: pytest.MonkeyPatch
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
    for field in CONNECTION_FIELDS:
        form.get_by_text(field.label, exact=True).wait_for()
        form.get_by_text(field.description, exact=True).wait_for()
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
