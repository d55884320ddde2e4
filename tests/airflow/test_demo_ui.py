"""``ch-s3 demo --ui``, as ``make demo-ui`` runs it: what its guide says can be opened, tested and run."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from urllib.request import urlopen

import psutil
import pytest

from ch_s3_lab.demo.ui import format_guide
from ch_s3_lab.sandbox.info import Sandbox
from tests.airflow.conftest import ROOT, AirflowApi, wait_for

pytestmark = [pytest.mark.sandbox, pytest.mark.airflow_run]


def read(address: str) -> str:
    with urlopen(address) as response:
        return str(response.read().decode())


def test_the_guide_has_a_page_for_queries_and_one_of_merges_for_each_node(ch_s3_sandbox: Sandbox) -> None:
    guide = format_guide(ch_s3_sandbox, "http://127.0.0.1:1")
    nodes = dict(re.findall(r"^  (\S+:\d+)  (http\S+)/play  \2/merges$", guide, re.MULTILINE))
    assert {int(name.rpartition(":")[2]) for name in nodes} == set(ch_s3_sandbox.tcp_ports)
    for number, (name, address) in enumerate(nodes.items()):
        # the very node that reports call by this name answers there
        assert read(f"{address}/?query=SELECT+hostName()||':'||tcpPort()").strip() == name, number
        assert "<html" in read(f"{address}/play")
        assert "system.part_log" in read(f"{address}/merges")


@pytest.mark.usefixtures("airflow_api")
def test_airflow_is_in_reach_of_this_machine_only() -> None:
    """The UI, and the logs of the tasks that scheduler and triggerer serve."""

    own = [one for one in psutil.process_iter(["ppid", "cmdline"]) if one.info["ppid"] == os.getpid()]
    (standalone,) = (one for one in own if "standalone" in (one.info["cmdline"] or ()))

    def listening() -> set[tuple[str, int]]:
        parts = {process.pid for process in standalone.children(recursive=True)}
        return {one.laddr for one in psutil.net_connections() if one.status == "LISTEN" and one.pid in parts}

    wait_for(lambda: len(listening()) >= 3, "the servers of Airflow")
    assert {address for address, _ in listening()} == {"127.0.0.1"}


@pytest.fixture
def demo() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "airflow_provider_ch_s3", "demo", "--ui", "--shards", "1"]
    process = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    with process:
        yield process
        process.kill()  # without effect when it has ended; its children end with it


@pytest.mark.thorough
def test_until_ctrl_c_the_connections_are_there_and_work(demo: subprocess.Popen[str]) -> None:
    assert demo.stdout is not None
    lines = []
    for line in demo.stdout:
        lines.append(line)
        if line.startswith("Ctrl-C"):
            break
    said = "".join(lines)
    assert "sandbox: starting 1 ClickHouse node\n" in said
    assert "airflow: starting" in said
    assert "Max Active Runs" in said

    address = re.search(r"^Airflow: (\S+)", said, re.MULTILINE)
    assert address is not None, said
    api = AirflowApi(address[1])
    stored = {one["connection_id"]: one for one in api.call("GET", "connections")["connections"]}
    assert set(stored) == {"clickhouse_s3_default", "aws_default"}
    assert all(one["password"] == "***" for one in stored.values())
    clickhouse = stored["clickhouse_s3_default"]
    fields = {name: clickhouse[name] for name in ("connection_id", "conn_type", "host", "port", "login", "extra")}
    assert api.call("POST", "connections/test", fields)["status"] is True
    assert '"play_url": "http://127.0.0.1:' in clickhouse["extra"]

    env, loads = re.findall(r"^  (\S.*ch-s3 (?:sandbox env|loads).*)$", said, re.MULTILINE)
    done = subprocess.run(["bash", "-euc", f"{env}\n{loads}"], capture_output=True, text=True, check=False)
    said = done.stderr.splitlines()[-1]
    assert said.startswith("ch-s3: there is no ledger sandbox.ch_s3_ledger yet"), done  # so it was asked

    demo.send_signal(signal.SIGINT)
    rest, _ = demo.communicate()
    assert rest.split() == ["airflow:", "stopping", "sandbox:", "stopping"]
    assert demo.returncode == 0
