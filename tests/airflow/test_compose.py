"""``compose.yaml`` without Docker: servers with the configuration in the file, which a demo takes for a sandbox."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from airflow_provider_ch_s3.errors import ConfigError
from ch_s3_lab.bench.store import VERSITYGW_VERSION, ensure_versitygw
from ch_s3_lab.errors import SandboxError
from ch_s3_lab.sandbox import Sandbox, node_main
from ch_s3_lab.sandbox.bound import bound_command
from ch_s3_lab.sandbox.engine import ensure_library, package_of
from ch_s3_lab.sandbox.given import given_sandbox
from ch_s3_lab.sandbox.info import GIVEN_VARIABLE
from ch_s3_lab.sandbox.launch import end_process
from ch_s3_lab.sandbox.object_store import start_object_store
from ch_s3_lab.sandbox.ports import free_ports
from ch_s3_lab.sandbox.process import SandboxProcess, answers_ping
from tests.airflow.conftest import ROOT, wait_for
from tests.failures import coded

COMPOSE = ROOT / "compose.yaml"
FOLDERS = {"/var/lib/clickhouse/": "data/", "/etc/ch-s3/": ""}
"""Folders of a container, with the folders of a test in their place."""


def services(compose: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(compose.read_text())["services"]
    return found


def test_images_have_versions_and_digests() -> None:
    images = [service["image"] for service in services(COMPOSE).values()]
    assert all(re.fullmatch(r"\w+/[\w-]+:v?\d+(\.\d+)+@sha256:[0-9a-f]{64}", image) for image in images)
    assert f"versity/versitygw:{VERSITYGW_VERSION}@" in images[0]


def test_every_port_is_open_on_this_machine_alone() -> None:
    sandbox = describe(COMPOSE)
    opened = {port for service in services(COMPOSE).values() for port in service.get("ports", ())}
    store = sandbox.s3_endpoint.rpartition(":")[2]
    http, tcp = (f"{ports[0]}-{ports[-1]}" for ports in (sandbox.http_ports, sandbox.tcp_ports))
    assert opened == {f"127.0.0.1:{ports}:{ports}" for ports in (store, http, tcp)}


def describe(compose: Path) -> Sandbox:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(GIVEN_VARIABLE, str(compose))
        described = given_sandbox()
    assert described is not None
    return described


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param(None, SandboxError, id="no-file"),
        pytest.param("services: {}", SandboxError, id="another-compose-file"),
        pytest.param("a: [", SandboxError, id="no-yaml"),
        pytest.param("x-sandbox: {password: hidden}", ConfigError, id="incomplete"),
    ],
)
def test_a_file_that_describes_no_cluster(
    text: str | None, error: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "compose.yaml"
    if text is not None:
        path.write_text(text)
    monkeypatch.setenv(GIVEN_VARIABLE, str(path))
    with pytest.raises(error, match=coded("sandbox-description-invalid")) as caught:
        given_sandbox()
    assert "hidden" not in str(caught.value)


class ComposedNode(SandboxProcess):
    """A server as a service of the compose file describes it."""

    def __init__(self, directory: Path, *, environment: Mapping[str, Any], config: str) -> None:
        super().__init__(directory)
        self.variables = {name: str(value) for name, value in environment.items()}
        self.text = config

    @property
    def environment(self) -> dict[str, str]:
        return self.variables

    def prepare(self) -> Sequence[str]:
        for container, here in FOLDERS.items():
            self.text = self.text.replace(container, f"{self.directory}/{here}")
        path = self.directory / Path(self.variables["CLICKHOUSE_CONFIG"]).name
        path.write_text(self.text)
        library = str(ensure_library(package_of("25.8")))
        program = (sys.executable, "-I", "-S", node_main.__file__)
        return [*program, "server", library, "server", f"--config-file={path}"]

    def is_answering(self) -> bool:
        return answers_ping(int(self.variables["HTTP_PORT"]))


@contextmanager
def composed_store(compose: Path, folder: Path, *, is_real: bool) -> Iterator[None]:
    """Run the program of the image with the image's command, or the sandbox's own store."""
    sandbox, service = describe(compose), services(compose)["store"]
    if not is_real:
        port = int(sandbox.s3_endpoint.rpartition(":")[2])
        start_object_store(port=port, access_key=sandbox.s3_access_key, secret_key=sandbox.s3_secret_key)
        yield
        return
    program = ensure_versitygw()
    if program is None:
        pytest.skip("no Go, which builds versitygw")
    folder.mkdir()
    command = [str(folder) if word == "/data" else word for word in service["command"]]
    process = subprocess.Popen(
        bound_command([str(program), *command]),
        env={**service["environment"], "PATH": os.defpath},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        end_process(process)


@pytest.fixture
def composed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """The compose file with ports that are free here, while its servers are running."""
    text = COMPOSE.read_text()
    ports = sorted(set(re.findall(r"\b2[89]\d{3}\b", text)))
    for port, free in zip(ports, free_ports(len(ports)), strict=True):
        text = re.sub(rf"\b{port}\b", str(free), text)
    path = tmp_path / "compose.yaml"
    path.write_text(text)
    config = yaml.safe_load(text)["configs"]["node"]["content"]
    nodes = [
        ComposedNode(tmp_path / name, environment=service["environment"], config=config)
        for name, service in services(path).items()
        if name != "store"
    ]
    with composed_store(path, tmp_path / "objects", is_real=request.param):
        try:
            for node in nodes:
                node.start()
            wait_for(lambda: all(node.is_ready() for node in nodes), "the servers of the compose file")
            yield path
        finally:
            for node in nodes:
                node.close()
            for node in nodes:
                node.wait(20)


@pytest.mark.sandbox
@pytest.mark.airflow_run
@pytest.mark.thorough  # each push has the demo on a sandbox
@pytest.mark.parametrize(
    "composed", [pytest.param(False, id="own-store"), pytest.param(True, id="versitygw")], indirect=True
)
def test_the_demo_takes_servers_that_it_has_not_started(composed: Path, tmp_path: Path) -> None:
    environment = {**os.environ, GIVEN_VARIABLE: str(composed)}

    def ch_s3(*arguments: str) -> str:
        command = [sys.executable, "-m", "airflow_provider_ch_s3", *arguments]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert "demo: OK rows=336776 nodes=3 " in ch_s3("demo", "--report", str(tmp_path / "report.json"))
    sandbox = describe(composed)
    assert sandbox.airflow_conn_clickhouse in ch_s3("sandbox", "env")
    assert "stops nothing" in ch_s3("sandbox", "down")
    for node in range(3):
        rows = sandbox.query("SELECT name FROM system.databases WHERE startsWith(name, 'demo')", node=node)
        assert rows == []
