"""The page "ClickHouse loads" in a real browser, and its routes on a real API server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

import pytest
from playwright.sync_api import Locator, Page

from airflow_provider_ch_s3.arguments import Checks
from airflow_provider_ch_s3.errors import LoadError
from airflow_provider_ch_s3.exactly_once.ledger import Ledger
from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
from airflow_provider_ch_s3.table.target import TableName
from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from ch_s3_lab.demo.local_airflow import LocalAirflow
from ch_s3_lab.sandbox.info import Sandbox
from ch_s3_lab.sandbox.ports import free_ports
from tests.airflow.conftest import ROOT, AirflowApi, take_pictures, wait_for
from tests.airflow.recording_secrets import RecordingBackend
from tests.sandbox import gates as gates_module
from tests.sandbox.gates import Gate, watch_statements

MODULE_SECONDS = 900
"""For as long as the tests need their load that stands still."""

pytestmark = [pytest.mark.sandbox, pytest.mark.airflow_run, pytest.mark.timeout(MODULE_SECONDS)]

DAG = "loads_page"
DATABASE = "listed"
TABLE = f"{DATABASE}.flights"
LEDGER = f"{DATABASE}.ch_s3_ledger"
MANY = f"{DATABASE}_many"
"""A database whose ledger has the load of the DAG 250 times."""

COPIES = 250
CANARY = "canary-fe1f7c0b52"
CLOSED_PORT = 1009
DOWN = "clickhouse_down"
OTHER_TYPE = "not_clickhouse"
QUOTED = "clickhouse_quotes_its_password"
WRONG = "clickhouse_with_a_wrong_number_of_cores"
ASKED = "asked.txt"
"""A file of the ids for which the secrets backend of ``strict_address`` was asked."""


@pytest.fixture(scope="module")
def run_id(airflow_api: AirflowApi, flights_sandbox: Sandbox) -> Iterator[str]:
    """A finished load by a DAG, a failed one, and one that stands still while it holds the lock."""
    for node in range(flights_sandbox.nodes):
        for database in (DATABASE, MANY):
            flights_sandbox.create_database(database, node=node)
        columns = "dt Date, carrier String, flight UInt16, distance UInt16"
        flights_sandbox.query(f"CREATE TABLE {TABLE} ({columns}) ENGINE MergeTree ORDER BY flight", node=node)
    connection = json.loads(flights_sandbox.airflow_conn_clickhouse)
    for conn_id, changed in (
        (DOWN, {"host": "127.0.0.1", "port": CLOSED_PORT, "password": CANARY, "extra": "{}"}),
        (OTHER_TYPE, {"conn_type": "http", "password": CANARY, "extra": "{}"}),
        # the log quotes the name of the database, which is the password here
        (QUOTED, {"schema": connection["password"], "extra": json.dumps(connection["extra"])}),
        (WRONG, {"extra": json.dumps({**connection["extra"], "vcpus_per_node": CANARY})}),
    ):
        airflow_api.call("POST", "connections", {**connection, **changed, "connection_id": conn_id})
    run_id = airflow_api.trigger(DAG, {"table": TABLE})
    wait_for(lambda: airflow_api.task(DAG, run_id, "load")["state"] == "success", "the load")
    copy_ledger(flights_sandbox)
    with pytest.raises(LoadError):
        load("fails", "s3://flights/dt=2013-02-01/*.parquet", flights_sandbox, checks=Checks(min_rows=1_000_000))
    gate, gates = Gate("create_staging"), {}
    with pytest.MonkeyPatch.context() as monkeypatch, ThreadPoolExecutor(1) as pool:
        monkeypatch.setattr(gates_module, "GATE_SECONDS", MODULE_SECONDS)
        watch_statements(monkeypatch, gates)

        def stay() -> None:
            gates[threading.get_ident()] = gate
            load("stays", "s3://flights/dt=2013-03-01/*.parquet", flights_sandbox)

        gate.task = pool.submit(stay)
        try:
            wait_for(lambda: gate.reached.is_set() or gate.task.done(), "a load that holds the lock")
            yield run_id
        finally:
            gate.opened.set()
    for conn_id in (DOWN, OTHER_TYPE, QUOTED, WRONG):
        airflow_api.call("DELETE", f"connections/{conn_id}")
    for node in range(flights_sandbox.nodes):
        for database in (DATABASE, MANY):
            flights_sandbox.drop_database(database, node=node)


def load(task_id: str, source: str, sandbox: Sandbox, **arguments: Any) -> None:
    columns = ["dt", "carrier", "flight", "distance"]
    operator = S3ToClickHouseOperator(task_id=task_id, source=source, table=TABLE, columns=columns, **arguments)
    ti = SimpleNamespace(dag_id=DAG, task_id=task_id, run_id="by hand", map_index=-1, try_number=1, max_tries=0)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_S3_DEFAULT", sandbox.airflow_conn_clickhouse)
        monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", sandbox.airflow_conn_aws)
        operator.execute({"ti": ti, "dag_run": SimpleNamespace(start_date=datetime.now(UTC)), "task": operator})


def copy_ledger(sandbox: Sandbox) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("AIRFLOW_CONN_CH", sandbox.airflow_conn_clickhouse)
        hook = ClickHouseS3Hook(clickhouse_conn_id="ch")
        name = TableName(database=MANY, table="ch_s3_ledger")
        target = TableName(database=DATABASE, table="flights")
        given: dict[str, Any] = {"name": name, "target": target, "load_id": "", "database_engine": "Atomic"}
        ledger = Ledger(client=hook, cluster=sandbox.cluster, **given)
        ledger.open([node.host for node in hook.cluster_spec.nodes])
        hook.close()
    sandbox.query(
        f"INSERT INTO {MANY}.ch_s3_ledger SELECT real.* REPLACE (concat(load_id, toString(number)) AS load_id,"
        " attempt + 10 * number AS attempt,"
        f" epoch + 10 * number AS epoch, time - INTERVAL number MINUTE AS time) FROM"
        f" clusterAllReplicas('{sandbox.cluster}', '{DATABASE}', 'ch_s3_ledger') AS real"
        f" CROSS JOIN numbers({COPIES}) AS copies"
        " WHERE event IN ('planned', 'committing', 'committed')"
    )


@pytest.fixture(scope="module")
def strict_address(served_airflow: LocalAirflow) -> Iterator[str]:
    """An API server beside the other one, with a secrets backend, for which users log in; there is one viewer."""
    (port,) = free_ports(1)
    environment = {
        **served_airflow.environment,
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "somebody:viewer",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(served_airflow.home / "passwords.json"),
        "AIRFLOW__SECRETS__BACKEND": f"{RecordingBackend.__module__}.RecordingBackend",
        "AIRFLOW__SECRETS__BACKEND_KWARGS": json.dumps({"path": str(served_airflow.home / ASKED)}),
    }
    (served_airflow.home / "passwords.json").write_text('{"somebody": "their password"}')
    command = served_airflow.command("api-server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1")
    with (served_airflow.home / "api-server.log").open("w") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        address = f"http://127.0.0.1:{port}"
        wait_for(lambda: process.poll() is not None or is_there(f"{address}/api/v2/version"), "an API server", 240)
        yield address
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def is_there(address: str) -> bool:
    try:
        with urlopen(address):
            return True
    except OSError:
        return False


def ask(address: str, route: str, *, token: str = "", **values: str) -> tuple[int, str]:
    """Ask a route; returns the status and the text of the answer."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = Request(f"{address}/ch-s3/api/{route}?{urlencode(values)}", headers=headers)
    try:
        with urlopen(request) as response:
            return response.status, response.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def log_in(address: str) -> str:
    """Log in as a viewer, who may read no connection; returns the token."""
    login = json.dumps({"username": "somebody", "password": "their password"}).encode()
    with urlopen(Request(f"{address}/auth/token", login, {"Content-Type": "application/json"})) as response:
        return str(json.load(response)["access_token"])


def open_page(page: Page, api: AirflowApi, **filters: str) -> Locator:
    page.goto(f"{api.address}/plugin/clickhouse_loads?{urlencode(filters)}")
    shown = page.locator(".ch-s3-loads[aria-busy=false]")
    shown.wait_for()
    return shown


@pytest.mark.usefixtures("run_id")
@pytest.mark.thorough
def test_every_route_needs_a_login(strict_address: str) -> None:
    routes = {
        "loads": {},
        "load_files": {"load": "x"},
        "load_settings": {"load": "x"},
        "table_files": {"table": TABLE},
    }
    for route, values in routes.items():
        status, text = ask(strict_address, route, ledger=LEDGER, **values)
        assert (status, json.loads(text)) == (401, {"detail": "Not authenticated"})
    assert ask(strict_address, "loads", token="no token", ledger=LEDGER)[0] == 403
    assert ask(strict_address, "openapi.json")[0] == 404
    status, text = ask(strict_address, "loads", token=log_in(strict_address), ledger=LEDGER)
    assert (status, "loads_page" in text) == (200, True)


@pytest.mark.usefixtures("run_id")
@pytest.mark.thorough
def test_no_secrets_backend_is_asked_for_what_a_viewer_may_not_see(
    strict_address: str, served_airflow: LocalAirflow
) -> None:
    token = log_in(strict_address)
    for conn_id in ("made_up", DOWN):  # the second one is there, and no load has used it
        status, text = ask(strict_address, "loads", token=token, conn_id=conn_id)
        sentence = f"no load has used a connection '{conn_id}' to ClickHouse, and you may not read one of this id"
        assert (status, sentence in text) == (404, True), text
    assert ask(strict_address, "loads", token=token, ledger=LEDGER)[0] == 200
    assert set((served_airflow.home / ASKED).read_text().split()) == {"clickhouse_s3_default"}


@pytest.mark.usefixtures("run_id")
@pytest.mark.thorough
def test_a_viewer_reads_no_view_that_calls_itself_a_ledger(strict_address: str, flights_sandbox: Sandbox) -> None:
    """Whoever may create a view would have it read with the rights of the connection's user."""
    (row,) = flights_sandbox.query(
        f"SELECT comment FROM system.tables WHERE concat(database, '.', name) = '{LEDGER}'"
    )
    comment = row["comment"]
    for node in range(flights_sandbox.nodes):
        flights_sandbox.create_database("att", node=node)
        for statement in (
            f"CREATE VIEW att.evil AS SELECT * REPLACE ('{CANARY}' AS load_id) FROM {LEDGER} COMMENT '{comment}'",
            f"CREATE VIEW att.evil_files AS SELECT * REPLACE ('{CANARY}' AS path) FROM {LEDGER}_files"
            f" COMMENT '{comment}'",
        ):
            flights_sandbox.query(statement, node=node)
    token = log_in(strict_address)
    routes = {"loads": {}, "load_files": {"load": CANARY}, "table_files": {"table": TABLE}}
    answers = [
        ask(strict_address, route, token=token, ledger="att.evil", **values) for route, values in routes.items()
    ]
    for node in range(flights_sandbox.nodes):
        flights_sandbox.drop_database("att", node=node)
    for status, text in answers:
        assert (status, "there is no ledger att.evil" in text, CANARY in text) == (404, True, False), text


@pytest.mark.thorough
@pytest.mark.usefixtures("run_id")
def test_what_prevents_an_answer_is_a_sentence_that_gives_nothing_away(
    airflow_api: AirflowApi, flights_sandbox: Sandbox
) -> None:
    connection = json.loads(flights_sandbox.airflow_conn_clickhouse)
    where = [connection[name] for name in ("host", "port", "login")]
    for values, status, sentence in (
        ({"conn_id": "nothing"}, 404, "no load has used a connection 'nothing' to ClickHouse"),
        ({"conn_id": OTHER_TYPE}, 404, f"no load has used a connection '{OTHER_TYPE}' to ClickHouse"),
        ({"conn_id": DOWN}, 502, f"there is no answer from ClickHouse through the connection '{DOWN}'"),
        ({"conn_id": QUOTED}, 404, f"the connection '{QUOTED}' is wrong; the log of Airflow's API server says why"),
        ({"conn_id": WRONG}, 404, f"the connection '{WRONG}' is wrong; the log of Airflow's API server says why"),
        ({"ledger": "listed.flights"}, 404, "there is no ledger listed.flights on the server of the connection"),
        ({"ledger": LEDGER, "after": "0"}, 404, "'0' is not a valid page token"),
    ):
        answered, text = ask(airflow_api.address, "loads", **values)
        detail = json.loads(text)["detail"].replace("`", "")  # the server quotes some passwords, but not all
        assert (answered, sentence in detail) == (status, True), text
        assert not [value for value in (CANARY, flights_sandbox.password, CLOSED_PORT, *where) if str(value) in text]
    assert ask(airflow_api.address, "loads", state="broken")[0] == 422
    assert ask(airflow_api.address, "load_files", ledger=LEDGER, load="ch-s3-nothing")[0] == 404


def test_the_page_shows_loads_locks_and_files(
    page: Page, airflow_api: AirflowApi, run_id: str, flights_sandbox: Sandbox
) -> None:
    asked: list[str] = []
    ours: list[dict[str, str]] = []
    complaints: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("response", lambda answer: ours.append(answer.headers) if "/ch-s3/" in answer.url else None)
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.goto(airflow_api.address)
    page.get_by_role("button", name="Browse").click()
    page.get_by_role("menuitem", name="ClickHouse loads").click()
    shown = page.locator(".ch-s3-loads[aria-busy=false]")
    shown.wait_for()
    shown.get_by_label("Ledger").select_option(LEDGER)
    loads = shown.get_by_role("region", name="Loads", exact=True)
    loads.get_by_text("loads_page.load").wait_for()
    page.wait_for_url("**/plugin/clickhouse_loads?ledger=listed.ch_s3_ledger")
    states = loads.locator("tbody .state").all_inner_texts()
    assert states == ["running", "abandoned", "committed"]
    loads.get_by_text("fewer than min_rows=1000000").wait_for()
    cells = loads.locator("tbody tr").last.locator("td").all_inner_texts()
    assert (cells[0], cells[2:6]) == (TABLE, ["append", "committed", "9", "7,900"])
    shown.get_by_role("region", name="Running loads").get_by_text("loads_page.stays").wait_for()
    shown.get_by_role("region", name="Locks").get_by_text("loads_page.stays of run by hand").wait_for()
    with page.expect_request("**/api/loads?*", timeout=10_000):
        pass  # while a load is running, the page looks again by itself
    take_pictures(page, shown, "loads")

    shown.get_by_label("State").select_option("committed")
    loads.locator("tbody tr").first.wait_for()
    shown.wait_for()
    assert loads.locator("tbody .state").all_inner_texts() == ["committed"]
    loads.get_by_role("button", name="9 Files of ch-s3-").focus()
    page.keyboard.press("Enter")
    files = shown.get_by_role("region", name="Files of a load")
    files.get_by_text("flights/dt=2013-01-09/flights.parquet").wait_for()
    assert files.locator("tbody tr").count() == 9
    take_pictures(page, shown, "loads-files")
    shown.get_by_role("button", name=f"Files in {TABLE}").click()
    held = shown.get_by_role("region", name=f"Files in {TABLE}")
    held.get_by_text("flights/dt=2013-01-01/flights.parquet").wait_for()
    assert held.locator("tbody tr").count() == 9
    shown.get_by_label("Path begins with").fill("flights/dt=2013-01-02")
    page.keyboard.press("Enter")
    held.get_by_text("flights/dt=2013-01-01/flights.parquet").wait_for(state="detached")
    assert held.locator("tbody tr").count() == 1

    secrets = (flights_sandbox.password, flights_sandbox.s3_secret_key, CANARY)
    assert not [secret for secret in secrets if secret in page.content()]
    answers = [
        ask(airflow_api.address, "loads", ledger=LEDGER),
        ask(airflow_api.address, "table_files", table=TABLE, ledger=LEDGER),
    ]
    assert [status for status, _ in answers] == [200, 200]
    assert not [secret for secret in secrets if secret in json.dumps(answers)]
    assert {url.split("/")[2] for url in asked if url.startswith("http")} == {airflow_api.address.split("/")[2]}
    assert len(ours) > 3
    assert all(headers["x-content-type-options"] == "nosniff" for headers in ours)
    assert all(headers["content-security-policy"].startswith("default-src 'none'") for headers in ours)
    assert not [text for text in complaints if "Security Policy" in text or "MIME" in text]
    loads.get_by_role("link", name="loads_page.load").click()
    page.wait_for_url(f"**/dags/{DAG}/runs/{quote(run_id)}/tasks/load/plugin/load_report")
    page.locator(".ch-s3-report").get_by_text("7,900 rows from 9 files").wait_for()


@pytest.mark.usefixtures("run_id")
@pytest.mark.thorough
def test_many_loads_come_page_by_page(page: Page, airflow_api: AirflowApi) -> None:
    shown = open_page(page, airflow_api, ledger=f"{MANY}.ch_s3_ledger")
    loads = shown.get_by_role("region", name="Loads", exact=True)
    older, newer = (shown.get_by_role("button", name=name) for name in ("Older", "Newer"))
    seen: list[str] = []
    for number, count in ((1, 100), (2, 100), (3, COPIES - 200)):
        if number > 1:
            older.click()
            shown.get_by_text(f"page {number}", exact=True).wait_for()
            shown.wait_for()
        times = loads.locator("tbody th").all_inner_texts()
        assert len(times) == count
        seen += times
    assert seen == sorted(seen, reverse=True)
    assert len(set(seen)) == COPIES
    assert older.is_disabled()
    newer.click()
    newer.click()
    shown.get_by_text("the newest first").wait_for()


@pytest.mark.usefixtures("run_id")
@pytest.mark.thorough
def test_a_page_without_a_ledger_says_why(page: Page, airflow_api: AirflowApi) -> None:
    shown = open_page(page, airflow_api, conn_id=DOWN)
    shown.get_by_role("alert").get_by_text("there is no answer from ClickHouse through the connection").wait_for()
    assert CANARY not in page.content()
    take_pictures(page, shown, "loads-down")
    shown.get_by_role("textbox", name="Connection").fill("clickhouse_s3_default")
    page.keyboard.press("Enter")
    shown.get_by_label("Ledger").get_by_text(LEDGER).wait_for(state="attached")
