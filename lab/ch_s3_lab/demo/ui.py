"""The UI of ``ch-s3 demo --ui``: Airflow with a sandbox until Ctrl-C, and a guide that says what to click."""

from __future__ import annotations

import json
import shlex
import signal
import sys
import threading
from pathlib import Path

from airflow_provider_ch_s3.cluster.fields import CONNECTION_FIELDS
from ch_s3_lab.demo.local_airflow import make_airflow, serving_airflow, store_connections
from ch_s3_lab.sandbox.info import Sandbox

GUIDE = """
Airflow: {address}  (no login, everybody is admin)

  1. open the DAG bulk_load_flights, press Trigger, review the form, press Trigger
  2. click the task load, then Load report; and Logs: the plan with its reasons, the SQL, the progress, the report
  3. click the task settled, then Logs: parts and merges until they settled
  4. Admin > Connections: edit clickhouse_s3_default, change one of its Extra Fields, press Save, then Test
  5. unpause nightly_flights, press Trigger > Backfill, and enter the range from 2013-01-01 to 2013-01-05: there
     are four runs, one for each night in between, and each loads a day. Max Active Runs says how many run at once:
     enter 4, since 1 loads one day after the other

ClickHouse: nodes by their names in reports and logs, each with a page for queries and one that draws merges; {login}

{nodes}

Commands: after the first line, `ch-s3 plan` and `ch-s3 loads` in another terminal have the same connections

  {env}
  {loads}

Ctrl-C stops everything.
"""


def serve_ui(sandbox: Sandbox, home: Path, dags: Path) -> int:
    """Run Airflow with the UI until Ctrl-C or SIGTERM."""
    stop = threading.Event()
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, lambda *_: stop.set())
    print("airflow: creating its database", flush=True)
    airflow = store_connections(make_airflow(home, dags, sandbox), example_connections(sandbox))
    print("airflow: starting, which takes 20 s or more", flush=True)
    with serving_airflow(airflow, stop.is_set) as address:
        if not stop.is_set():
            print(format_guide(sandbox, address), flush=True)
        stop.wait()
        print("airflow: stopping", flush=True)
    return 0


def example_connections(sandbox: Sandbox) -> dict[str, str]:
    """Build filled examples of both connections: id → JSON. They hold the passwords.

    Airflow shows only the extra fields of a stored connection, so empty fields are stored, too.
    """
    clickhouse, aws = json.loads(sandbox.airflow_conn_clickhouse), json.loads(sandbox.airflow_conn_aws)
    clickhouse["description"] = "The ClickHouse nodes of the demo"
    empty = {field.name: field.default for field in CONNECTION_FIELDS}
    clickhouse["extra"] = empty | clickhouse["extra"] | {"play_url": f"{sandbox.node_urls[0]}/play"}
    aws["description"] = "The object store of the demo"
    return {"clickhouse_s3_default": json.dumps(clickhouse), "aws_default": json.dumps(aws)}


def format_guide(sandbox: Sandbox, address: str) -> str:
    """Say what can be opened, clicked and run, under the names of nodes in reports and logs."""
    names = [
        sandbox.query("SELECT concat(hostName(), ':', toString(tcpPort())) AS name", node=node)[0]["name"]
        for node in range(sandbox.nodes)
    ]
    directory = f" --dir {shlex.quote(str(sandbox.directory))}" if sandbox.directory else ""
    command = shlex.quote(str(Path(sys.executable).with_name("ch-s3")))
    return GUIDE.format(
        address=address,
        login=f"log in as {sandbox.user}, with the password that `sandbox env` prints"
        if sandbox.has_keeper
        else "no login",
        nodes="\n".join(
            f"  {name}  {url}/play  {url}/merges" for name, url in zip(names, sandbox.node_urls, strict=True)
        ),
        env=f'eval "$({command} sandbox env{directory})"',
        loads=f"{command} loads --database {sandbox.database}",
    )
