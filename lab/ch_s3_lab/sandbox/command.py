"""``ch-s3 sandbox``: a ClickHouse cluster and an object store on this machine."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import threading
from pathlib import Path

from airflow_provider_ch_s3.cli.parser import Subparsers, count_of_some
from airflow_provider_ch_s3.cli.screen import print_text
from airflow_provider_ch_s3.common.text import count_of
from ch_s3_lab.sandbox.config import SandboxConfig
from ch_s3_lab.sandbox.given import given_sandbox
from ch_s3_lab.sandbox.info import GIVEN_VARIABLE, Sandbox
from ch_s3_lab.sandbox.topology import add_topology, read_topology


def add_parser(subparsers: Subparsers) -> None:
    """Register ``sandbox`` and its actions."""
    parser = subparsers.add_parser(
        "sandbox",
        help="run a ClickHouse cluster and an object store on this machine",
        description=__doc__,
        examples=(
            "ch-s3 sandbox up --detach --dir /tmp/sandbox",
            "ch-s3 sandbox status --dir /tmp/sandbox",
        ),
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)

    up = actions.add_parser(
        "up",
        help="start a sandbox; Ctrl-C stops it",
        examples=(
            "ch-s3 sandbox up --detach --dir /tmp/sandbox",
            "ch-s3 sandbox up --shards 2 --replicas 2",
        ),
    )
    add_topology(up)
    up.add_argument(
        "--dir",
        type=Path,
        help="directory that keeps the tables between runs, but no objects of the object store (default: a temporary"
        " one, removed at the end)",
    )
    up.add_argument("--json", action="store_true", help="print ports and credentials as one line of JSON")
    up.add_argument("--library", type=Path, help="shared library of the engine (default: the pinned one)")
    up.add_argument(
        "--memory-bytes-per-node",
        type=count_of_some("a number of bytes"),
        help="default: 60%% of the available memory, shared",
    )
    up.add_argument(
        "--cores",
        type=count_of_some("a number of cores"),
        help="that each node counts, with the merge pools of a server; needs a C compiler (default: the machine's)",
    )
    end = up.add_mutually_exclusive_group()
    end.add_argument("--detach", action="store_true", help="return when it is ready; ch-s3 sandbox down stops it")
    end.add_argument("--until-eof", action="store_true", help="also stop it when standard input ends")
    up.set_defaults(run=run_up)

    for name, run, text, example in (
        ("status", run_status, "show whether a sandbox is running in a directory", "{}"),
        ("down", run_down, "stop the sandbox of a directory", "{}"),
        ("env", run_env, "print the Airflow connections of a running sandbox, for eval", 'eval "$({})"'),
        ("query", run_query, "send a statement to the first node, and print the answer", "{} 'SHOW TABLES'"),
    ):
        command = f"ch-s3 sandbox {name} --dir /tmp/sandbox"
        action = actions.add_parser(name, help=text, examples=(example.format(command),))
        action.add_argument(
            "--dir",
            type=Path,
            required=GIVEN_VARIABLE not in os.environ,
            help=f"the directory given to up, or printed by it; not needed with {GIVEN_VARIABLE}",
        )
        action.set_defaults(run=run)
    action.add_argument("sql", metavar="SQL", help="the statement")


def run_up(args: argparse.Namespace) -> int:
    """Run a sandbox in the foreground, or start a sandbox in the background; a cluster that is given runs already."""
    config = SandboxConfig(
        **read_topology(args),
        directory=args.dir,
        library=args.library,
        memory_bytes_per_node=args.memory_bytes_per_node,
        cores=args.cores,
    )

    def announce(sandbox: Sandbox) -> None:
        print(sandbox.to_json() if args.json else _summary(sandbox), flush=True)

    if given := given_sandbox():
        announce(given)
        return 0

    if args.detach:
        from ch_s3_lab.sandbox.launch import start_detached

        announce(start_detached(config))
        return 0

    from ch_s3_lab.sandbox.supervisor import supervise

    if args.until_eof:
        threading.Thread(target=_stop_at_eof, daemon=True).start()
    supervise(config, on_ready=announce)
    return 0


def run_status(args: argparse.Namespace) -> int:
    """Describe the running sandbox of a directory."""
    print_text(_summary(_find(args.dir)))
    return 0


def run_down(args: argparse.Namespace) -> int:
    """Stop the sandbox of a directory."""
    if given_sandbox():
        print(f"{GIVEN_VARIABLE} describes the cluster, so `ch-s3 sandbox down` stops nothing.")
        return 0
    from ch_s3_lab.sandbox.launch import stop_sandbox

    stop_sandbox(args.dir)
    print(f"The sandbox in {args.dir} has stopped. Its tables are kept there, its objects are gone.")
    return 0


def run_env(args: argparse.Namespace) -> int:
    """Print the connections as shell exports, including the passwords."""
    sandbox = _find(args.dir)
    print(f"export AIRFLOW_CONN_CLICKHOUSE_S3_DEFAULT={shlex.quote(sandbox.airflow_conn_clickhouse)}")
    print(f"export AIRFLOW_CONN_AWS_DEFAULT={shlex.quote(sandbox.airflow_conn_aws)}")
    return 0


def run_query(args: argparse.Namespace) -> int:
    """Run a statement on the first node."""
    answer = _find(args.dir).ask(args.sql, settings={"default_format": "PrettyCompactMonoBlock"})
    if answer:
        print(answer.rstrip("\n"))
    return 0


def _find(directory: Path) -> Sandbox:
    from ch_s3_lab.sandbox.launch import find_sandbox

    return given_sandbox() or find_sandbox(directory)


def _summary(sandbox: Sandbox) -> str:
    directory = f" --dir {shlex.quote(str(sandbox.directory))}" if sandbox.directory else ""
    stop = f"Stop it: ch-s3 sandbox down{directory}" if sandbox.directory else f"{GIVEN_VARIABLE} describes it."
    return (
        f"A ClickHouse cluster of {count_of(sandbox.nodes, 'node')} is running: {', '.join(sandbox.node_urls)}\n"
        f"An object store is running: {sandbox.s3_endpoint}\n"
        f'Use it from Airflow: eval "$(ch-s3 sandbox env{directory})"\n{stop}'
    )


def _stop_at_eof() -> None:
    # Not sys.stdin: its lock would disturb the interpreter's shutdown while this thread is still reading.
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
