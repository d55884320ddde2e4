"""A sandbox from the point of view of those who must not get in: another Unix user, and a web page."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import pytest

from ch_s3_lab.errors import SandboxError
from ch_s3_lab.sandbox import Sandbox, SandboxConfig
from ch_s3_lab.sandbox.supervisor import supervise
from tests.failures import coded

pytestmark = pytest.mark.sandbox

NOBODY = 65534
DENIED = ("497", "516")  # no such right, no such login
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")

ATTACKS = (
    "SELECT * FROM file('/etc/shadow', 'LineAsString')",
    "SELECT * FROM file('{directory}/sandbox.json', 'LineAsString')",
    "SELECT * FROM file('{directory}/node1/config.xml', 'LineAsString')",
    "INSERT INTO FUNCTION file('{directory}/written', 'LineAsString') SELECT 'by somebody'",
    "SELECT * FROM url('http://127.0.0.1:{port}/ping', 'LineAsString')",
    "SELECT * FROM s3('{store}/public/*', NOSIGN, 'LineAsString')",
    "SELECT * FROM remote('127.0.0.1:{port}', system.one)",
    "SELECT * FROM executable('id', 'TSV', 'line String')",
    "SELECT * FROM cluster('{cluster}', system.one)",
    "SELECT * FROM system.named_collections",
    "SELECT * FROM system.clusters",
    "SELECT * FROM system.processes",
    "CREATE TABLE {database}.intruder (a UInt8) ENGINE = Memory",
    "CREATE DATABASE intruder",
    "DROP DATABASE {database}",
    "CREATE USER intruder",
    "KILL QUERY WHERE 1",
    "SYSTEM SHUTDOWN",
    "SYSTEM KILL",
    "BACKUP DATABASE {database} TO File('{directory}/backup')",
)


def ask(sandbox: Sandbox, statement: str, headers: Mapping[str, str]) -> str:
    with closing(HTTPConnection("127.0.0.1", sandbox.http_ports[0], timeout=30)) as connection:
        connection.request("POST", "/", body=statement.encode(), headers=dict(headers))
        response = connection.getresponse()
        said = response.read().decode(errors="replace")
    return f"{response.headers.get('X-ClickHouse-Exception-Code')} {said}"


def ask_as_nobody(sandbox: Sandbox, statements: Sequence[str], headers: Mapping[str, str]) -> list[str]:
    """Ask in a child process that has become another Unix user."""
    assert ask(sandbox, "SELECT 1", {"X-ClickHouse-User": "nobody"}).startswith("516")  # imports what it needs
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            answers = "\0".join(ask(sandbox, statement, headers) for statement in statements)
            with os.fdopen(writer, "w") as pipe:
                pipe.write(answers)
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        answers = pipe.read().split("\0")
    os.waitpid(child, 0)
    return answers


@as_root
@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({}, id="another-user"),
        pytest.param({"Origin": "http://evil.example", "Host": "evil.example"}, id="a-web-page"),
        pytest.param({"X-ClickHouse-User": "default"}, id="by-name"),
        pytest.param({"X-ClickHouse-User": "loader"}, id="without-the-password"),
    ],
)
def test_nobody_gets_in_without_the_password(ch_s3_sandbox: Sandbox, headers: Mapping[str, str]) -> None:
    sandbox = ch_s3_sandbox
    statements = [
        attack.format(
            directory=sandbox.directory,
            port=sandbox.http_ports[0],
            store=sandbox.s3_endpoint,
            cluster=sandbox.cluster,
            database=sandbox.database,
        )
        for attack in ATTACKS
    ]
    got_in = {
        statement: answer[:200]
        for statement, answer in zip(statements, ask_as_nobody(sandbox, statements, headers), strict=True)
        if not answer.startswith(DENIED)
    }
    assert got_in == {}
    assert sandbox.directory is not None
    assert not (sandbox.directory / "written").exists()


@as_root
@pytest.mark.parametrize(("owner", "mode"), [(NOBODY, 0o700), (0, 0o777), (0, 0o720)])
def test_a_directory_of_somebody_else_is_refused(tmp_path: Path, owner: int, mode: int) -> None:
    directory = tmp_path / "sandbox"
    directory.mkdir()
    os.chown(directory, owner, -1)
    directory.chmod(mode)
    config = SandboxConfig(shards=1, directory=directory, library=Path("/nonexistent"))
    with pytest.raises(SandboxError, match=coded("directory-unusable")):
        supervise(config, on_ready=lambda _: None)
