"""Each way to get access to the bucket; none of them reveals a secret."""

from __future__ import annotations

import datetime
import json
import logging
import os
import signal
import traceback
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.amazon.aws.hooks.s3 import S3Hook
from botocore.credentials import RefreshableCredentials

from airflow_provider_ch_s3.arguments import NamedCollection, Role
from airflow_provider_ch_s3.cli import main
from airflow_provider_ch_s3.clickhouse.expressions import parse_expression
from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.errors import ChS3Error, ConfigError, ServerError, SourceError
from airflow_provider_ch_s3.files import access
from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
from airflow_provider_ch_s3.modes import Append
from airflow_provider_ch_s3.operators.s3_query import S3QueryOperator
from airflow_provider_ch_s3.transfers.clickhouse_to_s3 import ClickHouseToS3Operator
from tests.failures import coded, own_errors
from tests.sandbox.conftest import ROWS, SLOW, WAIT_SECONDS, Lab, bag, put_slow_files, start_worker, wait_until

pytestmark = pytest.mark.sandbox

WRONG = "wr0ng+s3cret/"
TOKEN = "t3mporary+token/=="
# The categories of invisible characters: control and format characters, and separators
INVISIBLE = frozenset({"Cc", "Cf", "Zs", "Zl", "Zp"})
SERVER_ROLE = "s3_allow_server_credentials_in_user_queries"
NO_KEYS: dict[str, Any] = {"login": None, "password": None}


@pytest.fixture
def table(lab: Lab) -> str:
    lab.put("in/a.csv", b"n\n1\n")
    return lab.create("t", "n UInt8")


def texts_of(lab: Lab, report: dict[str, Any]) -> set[str]:
    """Read the statement from every node's log, without white space."""
    lab.everywhere("SYSTEM FLUSH LOGS query_log")
    sql = f"SELECT query FROM system.query_log WHERE query_id = '{report['query_id']}'"
    return {"".join(row["query"].split()) for row in lab.everywhere(sql)}


def only_text(lab: Lab, report: dict[str, Any]) -> str:
    (text,) = texts_of(lab, report)
    return text


def test_keys_travel_as_parameters(lab: Lab, table: str) -> None:
    report = lab.load("in/*", table)
    assert lab.rows(table) == [{"n": 1}]
    # the log shows the values that the server substituted for the parameters
    assert "'[HIDDEN]','CSVWithNames'" in only_text(lab, report)


@pytest.mark.thorough
def test_a_session_token_travels_with_them(lab: Lab, table: str) -> None:
    # the sandbox's store takes any token, but checks that the request is signed with it
    lab.connect_aws({"aws_session_token": TOKEN})
    report = lab.load("in/*", table)
    assert lab.rows(table) == [{"n": 1}]
    text = only_text(lab, report)
    assert TOKEN not in text
    assert text.count("'[HIDDEN]'") == 2


@pytest.mark.thorough
def test_the_roles_of_worker_and_servers(lab: Lab, table: str) -> None:
    lab.monkeypatch.setenv("AWS_ACCESS_KEY_ID", lab.sandbox.s3_access_key)
    lab.monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", lab.sandbox.s3_secret_key)
    lab.monkeypatch.setenv("AWS_ENDPOINT_URL", lab.sandbox.s3_endpoint)
    lab.monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    report = lab.load("in/*", table, aws_conn_id=None)
    assert lab.rows(table) == [{"n": 1}]
    text = only_text(lab, report)
    assert "/in/a.csv','CSVWithNames'" in text
    assert f"{SERVER_ROLE}=1," in text
    assert SERVER_ROLE not in only_text(lab, lab.load("in/*", table, mode=Append(on_loaded="load"), task_id="other"))


@pytest.mark.thorough
def test_a_named_collection(lab: Lab, table: str) -> None:
    report = lab.load("in/*", table, credentials=NamedCollection("sandbox_s3"))
    assert lab.rows(table) == [{"n": 1}]
    text = only_text(lab, report)
    assert "s3Cluster('sandbox',`sandbox_s3`,url='http" in text
    assert "HIDDEN" not in text


def test_a_role_that_the_servers_assume(lab: Lab, table: str) -> None:
    """There is no service here that would grant the role; with their own role the servers could read the file."""
    with pytest.raises(SourceError, match=coded("files-unreadable", "S3_ERROR", "credentials")):
        lab.load("in/*", table, credentials=Role("arn:aws:iam::123456789012:role/reader"))
    assert lab.rows(table) == []


def test_an_external_id_goes_with_the_role(lab: Lab, table: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(SourceError, match=coded("files-unreadable", "S3_ERROR")) as caught:
        lab.load("in/*", table, credentials=Role("arn:aws:iam::123456789012:role/reader", external_id=WRONG))
    assert WRONG not in f"{caught.value}{caplog.text}"
    lab.query("SYSTEM FLUSH LOGS query_log")
    address = f"{lab.sandbox.s3_endpoint}/{lab.bucket}/"
    sql = f"SELECT DISTINCT query FROM system.query_log WHERE position(query, 's3(\\'{address}')"
    texts = [row["query"] for row in lab.query(sql)]
    hidden = "extra_credentials(role_arn = 'arn:aws:iam::123456789012:role/reader', external_id = '[HIDDEN]')"
    assert texts
    assert all(hidden in text for text in texts)


@pytest.mark.parametrize(("minutes", "is_long_enough"), [(20, False), (6000, True)])
def test_a_token_has_to_live_as_long_as_the_load(lab: Lab, table: str, minutes: int, is_long_enough: bool) -> None:
    """Airflow assumes a role for the connection, whose token expires; the load is predicted to take an hour."""
    expiry = datetime.datetime.now(datetime.UTC) + datetime.timedelta(minutes=minutes)
    keys = RefreshableCredentials(
        lab.sandbox.s3_access_key, lab.sandbox.s3_secret_key, TOKEN, expiry, refresh_using=dict, method="sts"
    )
    real = S3Hook.get_session

    def get_session(hook: S3Hook, *given: Any, **named: Any) -> Any:
        session = real(hook, *given, **named)
        session._session._credentials = keys
        return session

    lab.monkeypatch.setattr(S3Hook, "get_session", get_session)
    lab.put("in/a.csv", b"n\n" + b"1\n" * 10_000)
    lab.connect_clickhouse({"calibration": {"core_seconds_per_gib": 3e9}})
    if is_long_enough:
        lab.load("in/*", table)
        assert len(lab.rows(table)) == 10_000
        return
    with pytest.raises(SourceError, match=coded("token-expires-early", " min", "role")):
        lab.load("in/*", table)
    assert lab.left_overs() == []
    assert lab.rows(table) == []


@pytest.mark.thorough
def test_a_reader_who_pays(lab: Lab, table: str) -> None:
    report = lab.load("in/*", table, requester_pays=True)
    assert lab.rows(table) == [{"n": 1}]
    assert ",headers('x-amz-request-payer'=" in only_text(lab, report)


@pytest.mark.thorough
def test_servers_that_are_too_old_for_roles(lab: Lab, table: str) -> None:
    """As 24.8 is, whose exports with a role fail after they have begun."""
    lab.monkeypatch.setattr(access, "ROLES_SINCE", (99, 1))
    given: dict[str, Any] = {"clickhouse_conn_id": "ch", "aws_conn_id": "aws", "credentials": Role("arn:x")}
    folder = lab.uri("out/")
    for operator in (
        lab.operator("in/*", table, **given),
        ClickHouseToS3Operator(task_id="export", destination=folder, query="SELECT 1 AS n", **given),
        S3QueryOperator(task_id="query", sql="SELECT * FROM {files}", source=lab.uri("in/*"), **given),
    ):
        refused = pytest.raises(ConfigError, match=coded("server-too-old", "Role('arn:x')", "99.1", "26.7"))
        with refused, own_errors():
            operator.execute(lab.context(operator))
    assert lab.inserts() == []
    assert lab.rows(table) == []


@pytest.fixture
def public_prefix(lab: Lab) -> Iterator[str]:
    key = f"{lab.database}/a.csv"
    lab.s3.put_object(Bucket="public", Key=key, Body=b"n\n5\n")
    yield lab.database
    lab.s3.delete_object(Bucket="public", Key=key)


@pytest.mark.thorough
def test_a_public_bucket_without_signature(lab: Lab, table: str, public_prefix: str) -> None:
    lab.bucket = "public"
    lab.connect_aws({"config_kwargs": {"signature_version": "unsigned"}}, **NO_KEYS)
    report = lab.load(f"{public_prefix}/*", table)
    assert lab.rows(table) == [{"n": 5}]
    assert "/a.csv',NOSIGN,'CSVWithNames'" in only_text(lab, report)


@pytest.mark.thorough
def test_the_url_of_a_public_bucket_without_a_connection(lab: Lab, table: str, public_prefix: str) -> None:
    lab.monkeypatch.setenv("AWS_ENDPOINT_URL", lab.sandbox.s3_endpoint)
    lab.monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    operator = lab.operator("in/*", table, aws_conn_id="aws_default")
    operator.source = f"https://public.s3.eu-west-3.amazonaws.com/{public_prefix}/*"
    report = operator.execute(lab.context(operator))
    assert lab.rows(table) == [{"n": 5}]
    assert "/a.csv',NOSIGN,'CSVWithNames'" in only_text(lab, report or {})
    operator = lab.operator("in/*", table, aws_conn_id=None, task_id="private")
    operator.source = f"https://s3.amazonaws.com/{lab.bucket}/in/*"
    refused = pytest.raises(
        SourceError, match=coded("bucket-not-listed", "no credentials", "AccessDenied", "not public")
    )
    with refused, own_errors():
        operator.execute(lab.context(operator))


def test_a_private_bucket_without_signature(lab: Lab, table: str) -> None:
    lab.connect_aws({"config_kwargs": {"signature_version": "unsigned"}}, **NO_KEYS)
    with pytest.raises(ChS3Error, match=coded("bucket-not-listed", "AccessDenied")):
        lab.load("in/*", table)
    assert lab.rows(table) == []


class Shown:
    """Everything that a run makes visible."""

    def __init__(self, lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
        self.lab = lab
        self.caplog = caplog
        self.shown: list[str] = []
        # other tests of the same server may have used its password as a name: only what is new counts
        self.begins = {log: log.stat().st_size for log in self.server_logs()}

    def server_logs(self) -> list[Path]:
        assert self.lab.sandbox.directory is not None
        return sorted(self.lab.sandbox.directory.glob("node*/server.log"))

    def load(self, table: str, **arguments: Any) -> None:
        operator = self.lab.operator("in/*", table, **arguments)
        try:
            with own_errors():
                self.shown.append(json.dumps(operator.execute(self.lab.context(operator))))
        except ChS3Error as error:
            self.shown += traceback.format_exception(error)
            self.shown.append(repr(error))
        self.shown += [repr(operator), repr(operator._load)]
        self.shown += [str(getattr(operator, name)) for name in operator.template_fields]

    def find(self, *secrets: str) -> list[str]:
        lab = self.lab
        lab.everywhere("SYSTEM FLUSH LOGS")
        columns = "query, exception, toString(Settings) AS settings, log_comment"
        logged = lab.everywhere(f"SELECT {columns} FROM system.query_log WHERE position(query, '{lab.database}') > 0")
        assert len(logged) > 3
        shown = [*self.shown, self.caplog.text, json.dumps(logged, ensure_ascii=False)]
        assert len(self.begins) > 0
        for log in self.server_logs():
            shown.append(log.read_bytes()[self.begins.get(log, 0) :].decode(errors="replace"))
        lines = [line for text in shown for line in text.splitlines()]
        return [line for line in lines if any(secret in line for secret in secrets)]


@pytest.fixture
def watch(lab: Lab, caplog: pytest.LogCaptureFixture) -> Shown:
    # includes botocore's log: at this level it has the requests
    caplog.set_level(logging.DEBUG)
    for name in ("botocore", "botocore.endpoint"):
        caplog.set_level(logging.DEBUG, logger=name)
    return Shown(lab, caplog)


def test_no_expression_reaches_a_parameter(lab: Lab) -> None:
    skipped = []
    for character in (chr(code) for code in range(0x10000) if unicodedata.category(chr(code)) in INVISIBLE):
        hidden = f"{{{character}secret{character}:String}}"
        try:
            assert lab.sandbox.query(f"SELECT {hidden} AS x", settings={"param_secret": "x"}) == [{"x": "x"}]
        except ServerError:
            continue
        skipped.append(character)
        with pytest.raises(ConfigError, match=coded("expression-invalid")):
            parse_expression(hidden)
    assert {" ", "\n", "\u200b", "\ufeff", "\u180e"} <= set(skipped)


@pytest.mark.parametrize(
    "expression",
    ["n IN system.one", "n IN (system.one)", "in(n, system.one)", "`in`(n, `system`.one)", "(VALUES (0)) = n"],
)
def test_what_reads_another_table_reads_it_in_clickhouse_and_is_refused(lab: Lab, expression: str) -> None:
    hook = ClickHouseS3Hook(clickhouse_conn_id="ch")
    assert hook.query(Statement(text=f"SELECT {expression} AS x FROM (SELECT 0 AS n)")) == [{"x": 1}]
    with pytest.raises(ConfigError):
        parse_expression(expression)


@pytest.mark.thorough
@pytest.mark.parametrize("key", ["", "n"])
def test_a_load_shows_no_secret(lab: Lab, table: str, watch: Shown, key: str) -> None:
    lab.connect_aws({"aws_session_token": TOKEN})
    watch.load(lab.distribute(table, key) if key else table)
    assert lab.rows(table) == [{"n": 1}]
    assert "submitting ch-s3-" in watch.caplog.text
    assert watch.find(lab.sandbox.password, lab.sandbox.s3_secret_key, TOKEN) == []


def test_a_look_at_every_node_shows_no_secret(
    lab: Lab, table: str, watch: Shown, capsys: pytest.CaptureFixture[str]
) -> None:
    lab.connect_aws({"aws_session_token": TOKEN})
    assert main(["doctor", *lab.arguments(table)]) == 0
    watch.shown.append(capsys.readouterr().out)
    assert "3 nodes can read" in watch.shown[-1]
    assert watch.find(lab.sandbox.password, lab.sandbox.s3_secret_key, TOKEN) == []


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param({"where": "throwIf(n = 1) = 0"}, id="insert"),
        pytest.param({"where": "n +"}, id="syntax"),
        pytest.param({"select": {"n": "nope"}}, id="sample"),
        pytest.param({"data_format": "Parquet"}, id="describe"),
        pytest.param({"credentials": NamedCollection("nope")}, id="collection"),
    ],
)
def test_a_failing_load_shows_no_secret(lab: Lab, table: str, watch: Shown, arguments: dict[str, Any]) -> None:
    lab.connect_one_node()
    watch.load(table, **arguments)
    assert any("Error" in text for text in watch.shown)
    assert lab.rows(table) == []
    assert watch.find(lab.sandbox.password, lab.sandbox.s3_secret_key) == []


def test_a_kill_during_the_insert_shows_no_secret(lab: Lab, watch: Shown) -> None:
    """Neither in the log of the worker that was killed, nor in the ledger, nor in what the next try finds of it."""
    put_slow_files(lab)
    table = lab.create("slow", "n UInt32")
    lab.connect_aws({"aws_session_token": TOKEN})
    loud = "import logging; logging.basicConfig(level=logging.DEBUG)"
    with start_worker(lab, table, max_tries=1, before=loud, **SLOW) as worker:
        wait_until(lab.running, "the INSERT")
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait(WAIT_SECONDS)
        watch.shown.append(worker.errors())
    assert "submitting ch-s3-" in watch.shown[-1]
    watch.shown.append(json.dumps(lab.load("in/*.csv", table, try_number=2, max_tries=1, **SLOW)))
    assert bag(lab.rows(table)) == bag(ROWS)
    for ledger in ("ch_s3_ledger", "ch_s3_ledger_files"):
        watch.shown.append(json.dumps(lab.everywhere(f"SELECT * FROM {lab.database}.{ledger}"), default=str))
    assert watch.find(lab.sandbox.password, lab.sandbox.s3_secret_key, TOKEN) == []


def test_wrong_secrets_are_not_shown_either(lab: Lab, table: str, watch: Shown) -> None:
    lab.connect_aws(password=WRONG)
    watch.load(table)
    lab.connect_clickhouse(password=WRONG)
    watch.load(table)
    assert any("SignatureDoesNotMatch" in text for text in watch.shown)
    assert any("AUTHENTICATION_FAILED" in text for text in watch.shown)
    lab.connect_clickhouse()
    assert watch.find(WRONG) == []
