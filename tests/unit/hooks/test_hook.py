"""The hook without a server: connections, errors, and where DDL is sent."""

from __future__ import annotations

import json
import logging
import socket
import struct
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from clickhouse_connect.driver.exceptions import DatabaseError, OperationalError, ProgrammingError
from sqlalchemy.engine import make_url

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.cluster.spec import ClusterDeclaration, ClusterSpec, DdlMode, NodeSpec
from airflow_provider_ch_s3.discretion import scrub
from airflow_provider_ch_s3.errors import ChS3Error, ClusterError, ConfigError, ServerError, ServerUnreachableError
from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
from airflow_provider_ch_s3.hooks.driver_errors import explain
from airflow_provider_ch_s3.sql.nodes import on_cluster
from tests.failures import coded

PASSWORD = "h1dden w'ord+/\\"
PARAMETER = "p4rameter"
THREE = ["127.0.0.1:8001", "127.0.0.1:8002", "127.0.0.1:8003"]
MakeHook = Callable[..., ClickHouseS3Hook]

ALL_RIGHTS = "`ch-s3 doctor --grants` prints all rights that a load needs"


@pytest.fixture(name="make_hook")
def make_hook_fixture(monkeypatch: pytest.MonkeyPatch) -> MakeHook:
    def make(
        extra: dict[str, Any] | None = None, *, hook: type = ClickHouseS3Hook, **fields: Any
    ) -> ClickHouseS3Hook:
        connection = {
            "conn_type": "clickhouse_s3",
            "host": "127.0.0.1",
            "port": 1,  # nothing listens there
            "login": "loader",
            "password": PASSWORD,
            "extra": extra or {},
        }
        monkeypatch.setenv("AIRFLOW_CONN_UNIT", json.dumps({**connection, **fields}))
        made = hook(clickhouse_conn_id="unit")
        assert isinstance(made, ClickHouseS3Hook)
        return made

    return make


def test_fields_left_empty_by_the_form_keep_their_defaults(make_hook: MakeHook) -> None:
    hook = make_hook({"verify": None, "secure": None, "connect_timeout": None, "compress": "", "client_name": None})
    kwargs = hook._get_client_kwargs()
    assert kwargs["verify"] is True
    assert kwargs["secure"] is False
    assert {"connect_timeout", "compress"}.isdisjoint(kwargs)
    assert hook.get_uri().endswith("@127.0.0.1:1/default")


def test_texts_of_a_uri_become_values(monkeypatch: pytest.MonkeyPatch) -> None:
    uri = "clickhouse-s3://loader:pass@ch1:8443/db?secure=true&verify=false&connect_timeout=3&node_count=2&cluster=c"
    monkeypatch.setenv("AIRFLOW_CONN_UNIT", uri)
    hook = ClickHouseS3Hook(clickhouse_conn_id="unit")
    kwargs = hook._get_client_kwargs()
    assert (kwargs["secure"], kwargs["verify"], kwargs["connect_timeout"]) == (True, False, 3)
    assert hook.get_uri() == "clickhousedb://loader:pass@ch1:8443/db?secure=true&verify=false&connect_timeout=3"
    assert hook.declaration.node_count == 2


def test_secure_false_as_text_is_no_tls(make_hook: MakeHook) -> None:
    hook = make_hook({"secure": "false", "verify": "false"})
    assert hook._get_client_kwargs()["secure"] is False
    assert hook._get_client_kwargs()["verify"] is False
    assert "secure" not in hook.get_uri()


def test_a_wrong_driver_field_is_named(make_hook: MakeHook) -> None:
    with pytest.raises(
        ConfigError,
        match=coded("connection-invalid", "'unit'", "connect_timeout", "'soon'", "set it to a whole number"),
    ):
        make_hook({"connect_timeout": "soon"})._get_client_kwargs()


def test_a_connection_of_the_official_type_is_accepted(make_hook: MakeHook) -> None:
    hook = make_hook({"cluster": "c", "http_endpoints": THREE}, conn_type="clickhouse")
    assert hook.declaration == ClusterDeclaration(host="127.0.0.1", cluster="c", http_endpoints=tuple(THREE))


def test_a_connection_of_another_type_is_refused(make_hook: MakeHook) -> None:
    with pytest.raises(ConfigError) as caught:
        make_hook(conn_type="postgres").query(Statement(text="SELECT 1"))
    assert caught.value.sentence == (
        "connection 'unit' is of type 'postgres'; use a connection of type 'clickhouse_s3' or 'clickhouse',"
        " to ClickHouse's HTTP interface"
    )


@pytest.mark.parametrize("host", ["", " ", None])
def test_a_connection_without_a_host_is_refused(make_hook: MakeHook, host: str | None) -> None:
    with pytest.raises(ConfigError, match=coded("connection-invalid", "'unit'", "host")):
        make_hook(host=host).query(Statement(text="SELECT 1"))


@pytest.mark.parametrize(
    "host",
    [
        "h/?query=DROP TABLE t#",
        "u:hunter2@h",
        "h\r\nX: y",
        "h h",
        "h:8123",
        "u:hunter2@h/x?q",
        "[::1",
        "h%0d",
    ],
)
def test_a_host_that_is_no_name_of_a_server_is_refused(make_hook: MakeHook, host: str) -> None:
    hook = make_hook(host=host)
    with pytest.raises(ConfigError, match=coded("connection-invalid", "has the host")) as caught:
        hook.query(Statement(text="SELECT 1"))
    works, said = hook.test_connection()
    assert not works
    for text in (caught.value.sentence, said):
        assert "hunter2" not in text
        assert "\r" not in text


@pytest.mark.parametrize(
    "host", ["ch-1.example.com", "ch_1", " h ", "10.0.0.1", "::1", "[fe80::1%eth0]", "b\u00fcro.example"]
)
def test_names_and_addresses_are_hosts(make_hook: MakeHook, host: str) -> None:
    assert make_hook(host=host).declaration.host == host.strip()


@pytest.mark.parametrize("extra", ["{'cluster': 'main'}", "cluster=main", '["main"]', '"main"', "3"])
def test_an_extra_that_is_no_json_object_is_refused_and_not_shown(make_hook: MakeHook, extra: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make_hook(extra=extra).declaration  # noqa: B018
    assert caught.value.sentence == (
        "connection 'unit': the extra is not a JSON object, so its fields cannot be read; write it as"
        ' {"cluster": "…"}, or leave it empty'
    )


@pytest.mark.parametrize(
    ("key", "remedy"),
    [
        pytest.param("clustr", "did you mean 'cluster'?", id="typo"),
        pytest.param("Cluster", "did you mean 'cluster'?", id="capitals"),
        pytest.param("http_endpoint", "did you mean 'http_endpoints'?", id="singular"),
        pytest.param("qqq", "use ca_cert, calibration, client_cert, client_cert_key,", id="nothing-like-it"),
    ],
)
def test_an_unknown_key_of_the_extra_is_refused(make_hook: MakeHook, key: str, remedy: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make_hook({key: "x"}).declaration  # noqa: B018
    assert caught.value.sentence.startswith(f"connection 'unit': the extra has the unknown key {key!r}; {remedy}")


def test_what_forms_save_and_airflow_reads_is_no_unknown_key(make_hook: MakeHook) -> None:
    hook = make_hook({"of_another_form": None, "another": "", "placeholder": "%s", "escape_column_names": True})
    assert hook.declaration.cluster is None
    assert hook.placeholder == "%s"


class LoggingServerHook(ClickHouseS3Hook):
    """Its server's log quotes a secret that this process never sent."""

    QUOTED = "Code: 395. Value 'k3y of an earlier+process' and k3y%20of%20an%20earlier%2Bprocess"

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        return [{"query_id": "a k3y", "exception": self.QUOTED}]


def test_what_a_log_of_the_server_says_is_scrubbed(make_hook: MakeHook) -> None:
    hook = make_hook(hook=LoggingServerHook)
    hook.keep_secret(lambda: ["k3y of an earlier+process"])
    assert hook.query(Statement(text="")) == [{"query_id": "a k3y", "exception": "Code: 395. Value '***' and ***"}]


def test_what_a_log_of_the_server_says_is_not_shown_when_the_secrets_are_not_known(make_hook: MakeHook) -> None:
    def fail() -> list[str]:
        raise OSError("no credentials")

    hook = make_hook(hook=LoggingServerHook)
    hook.keep_secret(fail)
    assert hook.query(Statement(text=""))[0]["exception"] == "(not shown, because it may quote secrets)"


def test_settings_and_driver_arguments_are_kept(make_hook: MakeHook) -> None:
    hook = make_hook({"session_settings": '{"max_threads": 4}', "client_kwargs": {"query_limit": 7}})
    kwargs = hook._get_client_kwargs()
    assert (kwargs["settings"], kwargs["query_limit"]) == ({"max_threads": 4}, 7)


def test_uri_keeps_a_login_that_needs_quoting(make_hook: MakeHook) -> None:
    url = make_url(make_hook(login="me@example.com/x:y", password="p@ss/w:rd").get_uri())
    assert (url.username, url.password, url.host) == ("me@example.com/x:y", "p@ss/w:rd", "127.0.0.1")


class RecordingHook(ClickHouseS3Hook):
    """Writes down what would be sent where."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.sent: list[tuple[str | None, str]] = []

    def query(self, statement: Statement, *, query_id: str | None = None) -> list[dict[str, Any]]:
        return [
            {
                "database": "default",
                "engines": {"default": "Atomic"},
                "macros": {},
                "has_keeper": False,
                "members": [],
            }
        ]

    def _execute_at(self, address: str | None, statement: Statement, **_: Any) -> None:
        self.sent.append((address, statement.text))


def sent_by(hook: ClickHouseS3Hook) -> list[tuple[str | None, str]]:
    assert isinstance(hook, RecordingHook)
    return hook.sent


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        pytest.param({}, [(None, "DROP TABLE t")], id="single"),
        pytest.param(
            {"cluster": "my c", "ddl_mode": "on_cluster"},
            [(None, "DROP TABLE t ON CLUSTER `my c`")],
            id="on_cluster",
        ),
        pytest.param(
            {"cluster": "c", "http_endpoints": THREE},
            [(address, "DROP TABLE t") for address in THREE],
            id="per_host",
        ),
    ],
)
def test_execute_everywhere(make_hook: MakeHook, extra: dict[str, Any], expected: list[tuple[Any, str]]) -> None:
    hook = make_hook(extra, hook=RecordingHook)
    hook.execute_everywhere(lambda cluster: Statement(text=f"DROP TABLE t{on_cluster(cluster)}"))
    assert sent_by(hook) == expected


class AskingHook(ClickHouseS3Hook):
    """Three nodes, each at a host of its own; writes down what they are asked and told."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.sent: Counter[str] = Counter()

    def _query_at(self, address: str | None, statement: Statement, **_: Any) -> list[dict[str, Any]]:
        self.sent[statement.name] += 1
        if statement.name == "read_node":
            return [{"node": f"{(address or '127.0.0.1').partition(':')[0]}:9000"}]
        members = [("c", shard, f"127.0.0.{shard}", 9000, shard == 1, True) for shard in (1, 2, 3)]
        return [{"database": "d", "engines": {}, "macros": {}, "has_keeper": False, "members": members}]

    def _execute_at(self, address: str | None, statement: Statement, **_: Any) -> None:
        self.sent[statement.text] += 1


def test_what_is_known_of_a_cluster_is_not_asked_again(make_hook: MakeHook) -> None:
    hook = make_hook({"cluster": "c"}, hook=AskingHook)
    nodes = tuple(NodeSpec(host=f"127.0.0.{n}:9000", shard=n, vcpus=1, memory_bytes=1) for n in (1, 2, 3))
    cluster = ClusterSpec(name="c", nodes=nodes, server_version=(26, 7), ingest_memory_ratio=0.5)
    inside = hook.within(hook.declaration, DdlMode.PER_HOST, cluster)
    for _ in range(2):
        inside.execute_everywhere(lambda _: Statement(text="DROP TABLE t"))
        inside.broadcast(lambda _: Statement(text="SYSTEM FLUSH LOGS"))
    assert isinstance(hook, AskingHook)
    assert hook.sent == {"read_server": 1, "read_node": 3, "DROP TABLE t": 6, "SYSTEM FLUSH LOGS": 6}


def test_run_ddl_replaces_the_token(make_hook: MakeHook) -> None:
    hook = make_hook({"cluster": "c", "ddl_mode": "on_cluster"}, hook=RecordingHook)
    hook.run_ddl("CREATE TABLE t {on_cluster} (a Int8)", "DROP TABLE t {on_cluster}")
    assert [text for _, text in sent_by(hook)] == [
        "CREATE TABLE t ON CLUSTER `c` (a Int8)",
        "DROP TABLE t ON CLUSTER `c`",
    ]
    hook = make_hook({}, hook=RecordingHook)
    hook.run_ddl("CREATE TABLE t {on_cluster} (a Int8)")
    assert sent_by(hook) == [(None, "CREATE TABLE t  (a Int8)")]


def test_run_ddl_refuses_a_statement_for_one_node_and_runs_none(make_hook: MakeHook) -> None:
    hook = make_hook({"cluster": "c", "ddl_mode": "on_cluster"}, hook=RecordingHook)
    with pytest.raises(ConfigError, match=coded("on-cluster-missing", "'DROP TABLE u'", "{on_cluster}")):
        hook.run_ddl("DROP TABLE t {on_cluster}", "DROP TABLE u")
    assert sent_by(hook) == []


class NoKeeperHook(RecordingHook):
    """Its server knows no DDL for a whole cluster."""

    code = 392

    def _execute_at(self, address: str | None, statement: Statement, **_: Any) -> None:
        raise ServerError(
            "server-error", "Code: 392. DB::Exception: Replicated DDL queries are disabled.", server_code=self.code
        )


def test_a_cluster_without_keeper_says_what_to_do(make_hook: MakeHook, monkeypatch: pytest.MonkeyPatch) -> None:
    hook = make_hook({"cluster": "c", "ddl_mode": "on_cluster"}, hook=NoKeeperHook)
    with pytest.raises(ClusterError) as caught:
        hook.run_ddl("DROP TABLE t {on_cluster}")
    assert caught.value.sentence == (
        "ON CLUSTER needs Keeper, but the cluster 'c' has none: Code: 392. DB::Exception: Replicated DDL queries are"
        " disabled.; list the host:port of each node's HTTP interface in http_endpoints of the connection 'unit',"
        " and set ddl_mode to per_host; or set up Keeper and <distributed_ddl> on the servers"
    )
    monkeypatch.setattr(NoKeeperHook, "code", 60)
    with pytest.raises(ServerError):
        hook.run_ddl("DROP TABLE t {on_cluster}")


class HalfDeadHook(RecordingHook):
    """The first of its nodes is away."""

    def _execute_at(self, address: str | None, statement: Statement, **_: Any) -> None:
        super()._execute_at(address, statement)
        if address == THREE[0]:
            raise ServerUnreachableError("server-unreachable", f"no answer from {address}")


def test_a_node_that_is_away_is_named_and_the_others_get_their_turn(make_hook: MakeHook) -> None:
    hook = make_hook({"cluster": "c", "http_endpoints": THREE}, hook=HalfDeadHook)
    with pytest.raises(ServerUnreachableError, match=coded("server-unreachable", "127.0.0.1:8001")):
        hook.run_ddl("KILL QUERY WHERE query_id = 'x' SYNC")
    assert [address for address, _ in sent_by(hook)] == THREE


@pytest.mark.parametrize(
    ("error", "kind", "code", "message"),
    [
        pytest.param(
            DatabaseError(
                "Received ClickHouse exception, code: 60, server response: Code: 60. DB::Exception: "
                "Unknown table t. (UNKNOWN_TABLE) (version 26.7.2.1 (official build)) (for url http://ch1:8123)",
                code=60,
            ),
            ServerError,
            60,
            "ClickHouse at ch1:8123: Code: 60. DB::Exception: Unknown table t. (UNKNOWN_TABLE)",
            id="version-and-url-are-cut",
        ),
        pytest.param(
            OperationalError(
                "Code: 241. DB::Exception: Memory limit\nexceeded. (MEMORY_LIMIT), Stack trace (when "
                "copying this message, always include the lines below):\n\n0. DB::Exception::Exception"
            ),
            ServerError,
            241,
            "ClickHouse at ch1:8123: Code: 241. DB::Exception: Memory limit exceeded. (MEMORY_LIMIT)",
            id="stack-trace-is-cut-and-code-read-from-text",
        ),
        pytest.param(
            DatabaseError(
                "Code: 6. DB::Exception: Received from n2:9000. DB::Exception: Cannot parse. Stack trace:\n\n0. a()\n"
                ": While executing Remote. (CANNOT_PARSE_TEXT) (version 26.7.2.1 (official build))",
                code=6,
            ),
            ServerError,
            6,
            "ClickHouse at ch1:8123: Code: 6. DB::Exception: Received from n2:9000. DB::Exception: Cannot parse."
            " (CANNOT_PARSE_TEXT)",
            id="name-behind-another-nodes-stack-trace-is-kept",
        ),
        pytest.param(
            DatabaseError("Code: 62. DB::Exception: failed at 'top\nsecret' and 'top\\nsecret'", code=62),
            ServerError,
            62,
            "ClickHouse at ch1:8123: Code: 62. DB::Exception: failed at '***' and '***'",
            id="echoed-parameters-are-masked",
        ),
        pytest.param(
            DatabaseError(
                "Code: 516. DB::Exception: loader: Authentication failed. (AUTHENTICATION_FAILED)", code=516
            ),
            ServerError,
            516,
            "ClickHouse at ch1:8123 rejects the login: Code: 516. DB::Exception: loader: Authentication failed. "
            "(AUTHENTICATION_FAILED); correct login and password of the connection 'unit'",
            id="wrong-password",
        ),
        pytest.param(
            DatabaseError(
                "Code: 497. DB::Exception: loader: Not enough privileges. To execute this query, it's necessary to "
                "have the grant SELECT(a, b) ON d.t. (ACCESS_DENIED) (version 26.7.2.1)",
                code=497,
            ),
            ServerError,
            497,
            "ClickHouse at ch1:8123: user 'loader' lacks the right SELECT(a, b) ON d.t (ACCESS_DENIED); have an"
            f" administrator run GRANT SELECT(a, b) ON d.t TO loader on every node ({ALL_RIGHTS})",
            id="missing-grant",
        ),
        pytest.param(
            DatabaseError(
                "Code: 497. DB::Exception: Received from ch2:9000. DB::Exception: it's me: Not enough privileges. "
                "To execute this query, it's necessary to have the grant INSERT(n) ON d.t. (Missing permissions: "
                "INSERT(n) ON d.t). (ACCESS_DENIED)",
                code=497,
            ),
            ServerError,
            497,
            'ClickHouse at ch1:8123: user "it\'s me" lacks the right INSERT(n) ON d.t (ACCESS_DENIED); have an'
            f" administrator run GRANT INSERT(n) ON d.t TO `it's me` on every node ({ALL_RIGHTS})",
            id="missing-grant-on-another-node",
        ),
        pytest.param(
            ProgrammingError("Unsupported compression method zip"),
            ConfigError,
            None,
            "the driver rejects the connection 'unit': Unsupported compression method zip; correct the "
            "connection's extra",
            id="driver-refuses",
        ),
        pytest.param(
            DatabaseError("HTTP driver received HTTP status 404, server response: nginx (for url http://ch1:8123)"),
            ServerUnreachableError,
            None,
            "no answer from ClickHouse at ch1:8123: HTTP driver received HTTP status 404, server response: "
            "nginx; check that it is running, that host and port of the connection 'unit' are those of its HTTP "
            "interface, and that secure is set if, and only if, that port uses TLS",
            id="another-server-answers",
        ),
    ],
)
def test_errors_of_the_driver(error: Exception, kind: type[ChS3Error], code: int | None, message: str) -> None:
    explained = explain(error, address="ch1:8123", conn_id="unit", secrets=["top\nsecret"])
    assert type(explained) is kind
    assert explained.sentence == message
    assert getattr(explained, "server_code", None) == code


def test_a_statement_in_a_message_is_cut_and_no_secret_with_it() -> None:
    keys = ",".join(f"dt={day}" for day in range(1000))
    error = DatabaseError(f"Code: 47. Unknown x in SELECT 1 FROM s3('{keys}', 'tops3cret', '{keys}'). Maybe y?")
    message = explain(error, address="ch1:8123", conn_id="unit", secrets=["tops3cret"]).sentence
    assert message.startswith("ClickHouse at ch1:8123: Code: 47. Unknown x in SELECT 1 FROM s3('dt=0,")
    assert message.endswith("'). Maybe y?")
    assert "characters" in message
    assert len(message) < 900
    assert "tops3" not in message


@pytest.mark.parametrize("form", ["a'b c+", "a\\'b c+", "a%27b%20c%2B", "a%27b+c%2B", "A'B C+"])
def test_scrub_knows_how_a_secret_may_be_written(form: str) -> None:
    assert scrub(f"<{form}>", ["a'b c+"]) == "<***>"


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({}, id="refused"),
        pytest.param({"extra": {"secure": True}}, id="refused-tls"),
        pytest.param({"host": "no-such-host.invalid"}, id="no-such-host"),
    ],
)
def test_the_password_appears_nowhere(
    make_hook: MakeHook, caplog: pytest.LogCaptureFixture, fields: dict[str, Any]
) -> None:
    caplog.set_level(logging.DEBUG)
    hook = make_hook(**fields)
    with pytest.raises(ServerUnreachableError) as caught:
        hook.execute(Statement(text="SELECT {s:String}", parameters={"s": PARAMETER}))
    assert caught.value.__context__ is None
    shown = [
        "".join(traceback.format_exception(caught.value)),
        repr(hook),
        repr(vars(hook).get("_clients")),
        hook.test_connection()[1],
        caplog.text,
    ]
    with pytest.raises(Exception) as raw:  # noqa: PT011 - what the official hook raises, as it is
        hook.run("SELECT 1")
    shown.append("".join(traceback.format_exception(raw.value)))
    for text in shown:
        assert PASSWORD not in text
        assert "h1dden" not in text
        assert PARAMETER not in text
    assert hook.test_connection()[0] is False
    assert f"{fields.get('host', '127.0.0.1')}:1" in caught.value.sentence


def test_test_connection_answers_even_without_a_connection() -> None:
    ok, message = ClickHouseS3Hook(clickhouse_conn_id="not_there").test_connection()
    assert (ok, "not_there" in message) == (False, True)


class FaultyServer(ThreadingHTTPServer):
    """Answers the driver's first questions as ClickHouse, and an INSERT with a fault.

    A stand-in, as the real engine cannot be made to answer 503 or to reset a connection at a given request.
    """

    daemon_threads = True

    def __init__(self, fault: Callable[[BaseHTTPRequestHandler], None]) -> None:
        super().__init__(("127.0.0.1", 0), FaultyHandler)
        self.fault = fault
        self.insert_count = 0


class FaultyHandler(BaseHTTPRequestHandler):
    server: FaultyServer
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if b"INSERT" in body:
            self.server.insert_count += 1
            self.server.fault(self)
        else:
            answer_with(self, 200, b"26.7.2.1\tUTC\n" if b"version()" in body else b"")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def answer_with(handler: BaseHTTPRequestHandler, status: int, body: bytes) -> None:
    handler.send_response(status)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def reset(handler: BaseHTTPRequestHandler) -> None:
    handler.close_connection = True
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    # the file objects over the socket keep it open
    handler.rfile.close()
    handler.connection.close()


@pytest.fixture(name="faulty_server")
def faulty_server_fixture(request: pytest.FixtureRequest) -> Iterator[FaultyServer]:
    with FaultyServer(request.param) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join(timeout=10)


@pytest.mark.parametrize(
    "faulty_server",
    [
        pytest.param(lambda handler: answer_with(handler, 429, b"too many"), id="429"),
        pytest.param(lambda handler: answer_with(handler, 503, b"unavailable"), id="503"),
        pytest.param(lambda handler: answer_with(handler, 504, b"gateway timeout"), id="504"),
        pytest.param(reset, id="reset"),
    ],
    indirect=True,
)
@pytest.mark.parametrize(
    "parameters", [pytest.param({}, id="in-the-body"), pytest.param({"key": PARAMETER}, id="in-a-form")]
)
def test_an_insert_is_never_sent_twice(
    make_hook: MakeHook, faulty_server: FaultyServer, parameters: dict[str, str]
) -> None:
    hook = make_hook(port=faulty_server.server_port)
    with pytest.raises(ServerUnreachableError, match=coded("server-unreachable")):
        hook.execute(Statement(text="INSERT INTO t SELECT 1", parameters=parameters), query_id="ch-s3-1")
    assert faulty_server.insert_count == 1


@pytest.mark.parametrize(("extra", "port"), [({}, 8123), ({"secure": True}, 8443)])
def test_the_default_port_is_that_of_the_protocol(make_hook: MakeHook, extra: dict[str, Any], port: int) -> None:
    assert make_hook(extra, port=None)._get_client_kwargs()["port"] == port


def test_a_password_beside_a_client_certificate_is_the_login(make_hook: MakeHook, tmp_path: Path) -> None:
    certificate = tmp_path / "client.crt"
    certificate.touch()
    extra = {"secure": True, "client_cert": str(certificate)}
    assert make_hook(extra)._get_client_kwargs()["tls_mode"] == "strict"
    assert "tls_mode" not in make_hook(extra, password="")._get_client_kwargs()
