"""The sandbox from the point of view of its users: a cluster, an object store, and nothing left behind."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from botocore.client import BaseClient

from airflow_provider_ch_s3.common.timing import REAL_TIME
from airflow_provider_ch_s3.errors import ServerError
from ch_s3_lab.errors import SandboxError
from ch_s3_lab.pytest import Query
from ch_s3_lab.sandbox import Sandbox, SandboxConfig
from ch_s3_lab.sandbox.launch import running_sandbox
from ch_s3_lab.sandbox.lock import lock_owner
from tests.failures import coded
from tests.processes import alive

pytestmark = pytest.mark.sandbox

WAIT_SECONDS = 30


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Wait until a condition holds; the time limit is for failing, not for measuring."""
    assert REAL_TIME.poll(condition, seconds=WAIT_SECONDS, pause_seconds=0.05), f"still waiting for {what}"


def node_pids(directory: Path) -> list[int]:
    return [int(path.read_text()) for path in sorted(directory.glob("node*/pid"))]


def processes_in(directory: Path) -> list[str]:
    """List the command lines that contain the directory."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_bytes().replace(b"\0", b" ").decode())
        except (FileNotFoundError, ProcessLookupError):
            continue
    return [line for line in lines if str(directory) in line]


def ch_s3(*args: object) -> subprocess.CompletedProcess[str]:
    """Run the real command; its output is a pipe, so a daemon that kept it open would hang this."""
    command = [sys.executable, "-m", "airflow_provider_ch_s3", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """A directory for a sandbox, which is stopped after the test if it is still running."""
    path = tmp_path / "sandbox"
    yield path
    if lock_owner(path) is not None:
        ch_s3("sandbox", "down", "--dir", path)


class TestCluster:
    def test_three_distinct_nodes(self, ch_s3_sandbox: Sandbox, ch_s3_query: Query) -> None:
        rows = ch_s3_query(
            "SELECT getMacro('shard') AS shard, getMacro('replica') AS replica, tcpPort() AS port "
            "FROM clusterAllReplicas('sandbox', system.one) ORDER BY shard"
        )
        assert [row["shard"] for row in rows] == ["1", "2", "3"]
        assert [row["replica"] for row in rows] == ["node1", "node2", "node3"]
        assert [row["port"] for row in rows] == list(ch_s3_sandbox.tcp_ports)

    def test_every_node_takes_itself_for_local(self, ch_s3_query: Query) -> None:
        locals_ = [
            ch_s3_query("SELECT shard_num FROM system.clusters WHERE cluster = 'sandbox' AND is_local", node=node)
            for node in range(3)
        ]
        assert locals_ == [[{"shard_num": 1}], [{"shard_num": 2}], [{"shard_num": 3}]]

    def test_databases_are_atomic(self, ch_s3_query: Query, ch_s3_database: str) -> None:
        rows = ch_s3_query(
            "SELECT name, engine FROM clusterAllReplicas('sandbox', system.databases) "
            f"WHERE name IN ('sandbox', '{ch_s3_database}')"
        )
        assert [row["engine"] for row in rows] == ["Atomic"] * 6

    @pytest.mark.parametrize("password", ["guessed", ""])
    def test_wrong_password_is_refused(self, ch_s3_sandbox: Sandbox, password: str) -> None:
        guess = replace(ch_s3_sandbox, password=password)
        with pytest.raises(ServerError, match=coded("server-error", "AUTHENTICATION_FAILED")) as caught:
            guess.query("SELECT 1")
        assert caught.value.server_code == 516

    def test_query_log_and_part_log_are_written(self, ch_s3_query: Query, ch_s3_database: str) -> None:
        ch_s3_query(f"CREATE TABLE {ch_s3_database}.t (x Int64) ENGINE = MergeTree ORDER BY x")
        ch_s3_query(f"INSERT INTO {ch_s3_database}.t SELECT 1", settings={"query_id": ch_s3_database})
        queries = f"system.query_log WHERE query_id = '{ch_s3_database}' AND type = 'QueryFinish'"
        parts = f"system.part_log WHERE database = '{ch_s3_database}' AND event_type = 'NewPart'"

        def are_written() -> bool:
            # the log may be written after the response
            ch_s3_query("SYSTEM FLUSH LOGS")
            return all(ch_s3_query(f"SELECT count() AS n FROM {log}") == [{"n": 1}] for log in (queries, parts))

        wait_for(are_written, "both logs")


class TestObjectStore:
    @pytest.fixture
    def url(self, ch_s3_sandbox: Sandbox, ch_s3_client: BaseClient, ch_s3_bucket: str) -> str:
        """URL of a file with two rows, whose key has characters that signatures must encode."""
        ch_s3_client.put_object(Bucket=ch_s3_bucket, Key="dt=2013-01-01/a,b+c.csv", Body=b"1\n2\n")
        return f"{ch_s3_sandbox.s3_endpoint}/{ch_s3_bucket}/dt=2013-01-01/*.csv"

    def count(self, query: Query, arguments: str) -> int:
        (row,) = query(f"SELECT count() AS n FROM s3Cluster('sandbox', {arguments})")
        return int(row["n"])

    def test_the_keys(self, ch_s3_query: Query, ch_s3_sandbox: Sandbox, url: str) -> None:
        keys = f"'{ch_s3_sandbox.s3_access_key}', '{ch_s3_sandbox.s3_secret_key}'"
        assert self.count(ch_s3_query, f"'{url}', {keys}, 'CSV', 'x Int64'") == 2

    def test_the_servers_own_role(self, ch_s3_query: Query, url: str) -> None:
        assert self.count(ch_s3_query, f"'{url}', 'CSV', 'x Int64'") == 2

    def test_the_named_collection(self, ch_s3_query: Query, url: str) -> None:
        arguments = f"sandbox_s3, url = '{url}', format = 'CSV', structure = 'x Int64'"
        assert self.count(ch_s3_query, arguments) == 2

    def test_wrong_secret_is_refused(self, ch_s3_query: Query, ch_s3_sandbox: Sandbox, url: str) -> None:
        with pytest.raises(ServerError, match=coded("server-error", "SignatureDoesNotMatch")) as caught:
            self.count(ch_s3_query, f"'{url}', '{ch_s3_sandbox.s3_access_key}', 'wrong', 'CSV', 'x Int64'")
        assert caught.value.server_code == 499

    def test_unknown_access_key_is_refused(self, ch_s3_query: Query, url: str) -> None:
        with pytest.raises(ServerError, match=coded("server-error", "InvalidAccessKeyId")):
            self.count(ch_s3_query, f"'{url}', 'AKIAUNKNOWN', 'wrong', 'CSV', 'x Int64'")

    def test_anonymous_reads_are_for_the_public_bucket(
        self, ch_s3_query: Query, ch_s3_sandbox: Sandbox, ch_s3_client: BaseClient, url: str
    ) -> None:
        ch_s3_client.put_object(Bucket="public", Key="test/x.csv", Body=b"7\n")
        public = f"{ch_s3_sandbox.s3_endpoint}/public/test/*.csv"
        assert self.count(ch_s3_query, f"'{public}', NOSIGN, 'CSV', 'x Int64'") == 1
        with pytest.raises(ServerError, match=coded("server-error", "AccessDenied")):
            self.count(ch_s3_query, f"'{url}', NOSIGN, 'CSV', 'x Int64'")

    def test_anonymous_writes_are_refused(self, ch_s3_query: Query, ch_s3_sandbox: Sandbox) -> None:
        url = f"{ch_s3_sandbox.s3_endpoint}/public/w.csv"
        with pytest.raises(ServerError, match=coded("server-error", "Access Denied")):
            ch_s3_query(f"INSERT INTO FUNCTION s3('{url}', NOSIGN, 'CSV', 'x Int64') SELECT 1")

    def test_the_stores_reset_is_not_reachable(self, ch_s3_sandbox: Sandbox) -> None:
        import requests

        assert requests.post(f"{ch_s3_sandbox.s3_endpoint}/moto-api/reset", timeout=10).status_code == 403


class TestLife:
    def test_a_killed_node_comes_back_with_its_data(self, directory: Path) -> None:
        with running_sandbox(SandboxConfig(shards=2, directory=directory)) as sandbox:
            sandbox.query("CREATE TABLE t (x Int64) ENGINE = MergeTree ORDER BY x", node=1)
            sandbox.query("INSERT INTO t VALUES (42)", node=1)
            # Log tables on disk would make the engine fail when it restarts.
            sandbox.query("SYSTEM FLUSH LOGS", node=1)
            killed = node_pids(directory)[1]
            os.kill(killed, signal.SIGKILL)
            wait_for(lambda: node_pids(directory)[1] != killed, "a new process")
            wait_for(lambda: answers(sandbox, node=1), "the node")
            assert sandbox.query("SELECT x FROM t", node=1) == [{"x": 42}]
            sandbox.query("SYSTEM FLUSH LOGS", node=1)
            assert sandbox.query("SELECT count() > 0 AS ok FROM system.query_log", node=1) == [{"ok": 1}]
        assert "node2 was killed by signal 9; restarting it" in (directory / "supervisor.log").read_text()

    def test_nodes_survive_connections_that_are_reset(self, directory: Path) -> None:
        with running_sandbox(SandboxConfig(shards=1, directory=directory)) as sandbox:
            pids = node_pids(directory)
            for port, begun in ((sandbox.http_ports[0], b"GET /ping HT"), (sandbox.tcp_ports[0], b"\x00\x05")):
                for _ in range(20):
                    with socket.create_connection(("127.0.0.1", port)) as client:
                        client.sendall(begun)
                        # closed without lingering, so that the other end reads "connection reset"
                        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            assert answers(sandbox, node=0)
            assert node_pids(directory) == pids
        assert "restarting it" not in (directory / "supervisor.log").read_text()

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
    def test_a_signal_to_the_supervisor_leaves_no_process(self, directory: Path, number: signal.Signals) -> None:
        assert ch_s3("sandbox", "up", "--detach", "--dir", directory, "--shards", 2).returncode == 0
        supervisor = lock_owner(directory)
        assert supervisor is not None
        pids = [supervisor, *node_pids(directory)]
        assert all(alive(pid) for pid in pids)
        os.kill(supervisor, number)
        wait_for(lambda: not any(alive(pid) for pid in pids), "the end of all processes")

    @pytest.mark.thorough
    def test_a_killed_supervisor_is_known_as_gone(self, directory: Path) -> None:
        assert ch_s3("sandbox", "up", "--detach", "--dir", directory, "--shards", 1).returncode == 0
        supervisor = lock_owner(directory)
        assert supervisor is not None
        os.kill(supervisor, signal.SIGKILL)
        wait_for(lambda: not alive(supervisor), "the supervisor's end")
        assert (directory / "sandbox.json").exists()
        for action in ("status", "down", "env"):
            done = ch_s3("sandbox", action, "--dir", directory)
            assert (done.returncode, done.stdout) == (1, "")
            assert f"no sandbox is running in {directory}" in done.stderr

    @pytest.mark.thorough
    def test_tables_survive_down_and_up(self, directory: Path) -> None:
        config = SandboxConfig(shards=1, directory=directory)
        with running_sandbox(config) as sandbox:
            sandbox.query("CREATE TABLE t (x Int64) ENGINE = MergeTree ORDER BY x")
            sandbox.query("INSERT INTO t VALUES (42)")
        with running_sandbox(config) as sandbox:
            assert sandbox.query("SELECT x FROM t") == [{"x": 42}]

    def test_the_block_ends_the_sandbox_on_exceptions_too(self) -> None:
        seen: list[Path] = []
        pids: list[int] = []

        def fail_inside() -> None:
            with running_sandbox(SandboxConfig(shards=1)) as sandbox:
                assert sandbox.directory is not None
                seen.append(sandbox.directory)
                pids.extend(node_pids(sandbox.directory))
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail_inside()
        assert [path.exists() for path in seen] == [False]
        assert [alive(pid) for pid in pids] == [False]

    def test_the_sandbox_ends_with_the_process_that_started_it(self, directory: Path) -> None:
        script = (
            "import os, signal\n"
            "from pathlib import Path\n"
            "from ch_s3_lab.sandbox import SandboxConfig\n"
            "from ch_s3_lab.sandbox.launch import running_sandbox\n"
            f"with running_sandbox(SandboxConfig(shards=1, directory=Path({str(directory)!r}))):\n"
            "    os.kill(os.getpid(), signal.SIGKILL)\n"
        )
        subprocess.run([sys.executable, "-c", script], check=False, timeout=60)
        assert node_pids(directory) != []
        wait_for(lambda: processes_in(directory) == [], "the end of all processes")

    def test_the_callers_credentials_do_not_reach_the_nodes(
        self, directory: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "private")
        with running_sandbox(SandboxConfig(shards=1, directory=directory)):
            (pid,) = node_pids(directory)
            names = {
                entry.split(b"=")[0] for entry in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0") if entry
            }
        assert names == {b"HOME", b"PATH", b"TZ"}


def answers(sandbox: Sandbox, *, node: int) -> bool:
    try:
        return sandbox.query("SELECT 1 AS x", node=node) == [{"x": 1}]
    except OSError:
        return False


class TestFailedStart:
    def test_a_broken_library(self, tmp_path: Path, directory: Path) -> None:
        library = tmp_path / "broken.so"
        library.write_text("not a library")
        config = SandboxConfig(shards=2, directory=directory, library=library)
        with (
            pytest.raises(SandboxError, match=coded("sandbox-not-started", "node")) as caught,
            running_sandbox(config),
        ):
            pass
        assert "broken.so: file too short" in caught.value.sentence
        assert not directory.exists()
        assert processes_in(tmp_path) == []

    def test_the_engines_own_words(self, directory: Path) -> None:
        # A file in place of one of the engine's directories makes the start fail; the sandbox's directory remains,
        # because this start did not create it.
        (directory / "node1" / "data").mkdir(parents=True)
        (directory / "node1" / "data" / "metadata").write_text("a file, not a directory")
        config = SandboxConfig(shards=2, directory=directory)
        with pytest.raises(SandboxError, match=coded("sandbox-not-started")) as caught, running_sandbox(config):
            pass
        assert any(words in caught.value.sentence for words in ("DB::Exception", "filesystem error"))
        assert (directory / "node1" / "data" / "metadata").read_text() == "a file, not a directory"
        assert not (directory / "node2").exists()
        assert processes_in(directory) == []

    def test_no_nodes_at_all(self) -> None:
        done = ch_s3("sandbox", "up", "--shards", 0)
        assert done.returncode == 2
        assert "argument --shards: '0' is not a number of shards; give 1 or more" in done.stderr


class TestCommands:
    @pytest.mark.thorough
    def test_up_status_env_down(self, directory: Path) -> None:
        up = ch_s3("sandbox", "up", "--detach", "--json", "--dir", directory, "--shards", 1)
        assert up.stderr == ""
        sandbox = Sandbox.from_json(up.stdout)
        assert sandbox.query("SELECT 1 AS x") == [{"x": 1}]
        assert (directory / "sandbox.json").stat().st_mode & 0o777 == 0o600
        readable = [path for path in directory.rglob("*") if path.is_file() and path.stat().st_mode & 0o077]
        assert readable == []
        assert (directory / "node1" / "server.log").exists()

        status = ch_s3("sandbox", "status", "--dir", directory)
        assert status.returncode == 0
        assert f"http://127.0.0.1:{sandbox.http_ports[0]}" in status.stdout
        assert sandbox.password not in status.stdout

        env = ch_s3("sandbox", "env", "--dir", directory)
        script = env.stdout + 'echo "$AIRFLOW_CONN_CLICKHOUSE_S3_DEFAULT"; echo "$AIRFLOW_CONN_AWS_DEFAULT"'
        shell = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
        assert shell.stdout == f"{sandbox.airflow_conn_clickhouse}\n{sandbox.airflow_conn_aws}\n"

        answer = ch_s3("sandbox", "query", "--dir", directory, "SELECT 7 AS seven")
        assert ("seven" in answer.stdout, " 7 " in answer.stdout, answer.stderr) == (True, True, "")
        assert ch_s3("sandbox", "query", "--dir", directory, "CREATE TABLE t (n UInt8) ORDER BY n").stdout == ""
        assert "UNKNOWN_TABLE" in ch_s3("sandbox", "query", "--dir", directory, "SELECT 1 FROM nothing").stderr

        again = ch_s3("sandbox", "up", "--dir", directory)
        assert again.returncode == 1
        assert f"another sandbox is running in {directory}" in again.stderr
        assert answers(sandbox, node=0)

        assert ch_s3("sandbox", "down", "--dir", directory).returncode == 0
        assert processes_in(directory) == []
        assert not (directory / "sandbox.json").exists()
        assert ch_s3("sandbox", "status", "--dir", directory).returncode == 1

    def test_ctrl_c_ends_a_foreground_sandbox_and_its_temporary_directory(self) -> None:
        command = [sys.executable, "-m", "airflow_provider_ch_s3", "sandbox", "up", "--json", "--shards", "1"]
        # Its own process group represents the terminal's: Ctrl-C signals the whole group.
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
            assert process.stdout is not None
            sandbox = Sandbox.from_json(process.stdout.readline())
            assert sandbox.directory is not None
            pids = node_pids(sandbox.directory)
            os.killpg(process.pid, signal.SIGINT)
            assert process.wait(WAIT_SECONDS) == 0
        assert not sandbox.directory.exists()
        assert not any(alive(pid) for pid in pids)
