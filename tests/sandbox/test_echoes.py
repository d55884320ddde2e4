"""Stores that answer ClickHouse's servers with the request: nothing that this package shows has a secret of it."""

from __future__ import annotations

import itertools
import json
import logging
import re
import traceback
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_ch_s3.cli import main
from airflow_provider_ch_s3.errors import ChS3Error
from airflow_provider_ch_s3.transfers.azure_blob_to_clickhouse import AzureBlobStorageToClickHouseOperator
from airflow_provider_ch_s3.transfers.files_to_clickhouse import FilesToClickHouseOperator
from tests.echo import Echo, finds, running_echo
from tests.sandbox.conftest import Lab
from tests.sandbox.other_stores import running_azurite

pytestmark = [pytest.mark.sandbox, pytest.mark.every_case]

TOKEN = "t3mporary+token/&very=long=="
XML = "<?xml version='1.0'?><Error><Code>AccessDenied</Code><Message>{}</Message></Error>"


@pytest.fixture
def echo() -> Iterator[Echo]:
    with running_echo() as made:
        made.status, made.wrap = 403, XML.format
        yield made


class Made:
    """A load through the echo, with what its store gets to know.

    :param arguments: which files, as a command is told.
    """

    def __init__(
        self, lab: Lab, operator: FilesToClickHouseOperator, arguments: Sequence[str], *secrets: str
    ) -> None:
        self.lab, self.operator, self.arguments, self.secrets = lab, operator, arguments, secrets
        self.shown: list[str] = []

    def run(self) -> None:
        operator = self.operator
        try:
            self.shown.append(json.dumps(operator.execute(self.lab.context(operator))))
        except (ChS3Error, AirflowFailException) as error:
            self.shown += [str(error), *traceback.format_exception(error)]
        self.shown += [str(getattr(operator, name)) for name in operator.template_fields]


@pytest.fixture
def s3(lab: Lab, echo: Echo) -> Made:
    echo.behind = urlsplit(lab.sandbox.s3_endpoint).netloc
    lab.put("in/a.csv", b"n\n1\n")
    lab.connect_aws({"aws_session_token": TOKEN, "endpoint_url": echo.url})
    table = f"{lab.database}.t"
    return Made(lab, lab.operator("in/*", table), lab.arguments(table), TOKEN, lab.sandbox.s3_secret_key)


@pytest.fixture
def azure(lab: Lab, echo: Echo) -> Iterator[Made]:
    from azure.storage.blob import BlobServiceClient

    with running_azurite() as azurite:
        client = BlobServiceClient.from_connection_string(azurite.connection_string)
        client.create_container(lab.bucket).upload_blob("in/a.csv", b"n\n1\n")
        echo.behind, token = urlsplit(azurite.url).netloc, azurite.sas_token()
        connection = {"conn_type": "wasb", "host": f"{echo.url}/{azurite.account}", "login": azurite.account}
        lab.monkeypatch.setenv("AIRFLOW_CONN_WASB", json.dumps({**connection, "extra": {"sas_token": token}}))
        files = {"source": f"az://{lab.bucket}/in/*", "table": f"{lab.database}.t", "wasb_conn_id": "wasb"}
        operator = AzureBlobStorageToClickHouseOperator(task_id="load", clickhouse_conn_id="ch", **files)
        operator.timing = lab.timing
        arguments = [f"--source={files['source']}", f"--table={files['table']}", "--argument=wasb_conn_id=wasb"]
        yield Made(lab, operator, ["--conn-id=ch", *arguments], re.findall(r"sig=([^&]+)", token)[0])


@pytest.mark.thorough
@pytest.mark.parametrize("store", ["s3", "azure"])
def test_what_the_servers_are_answered(
    lab: Lab,
    echo: Echo,
    store: str,
    request: pytest.FixtureRequest,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """They are answered as they should be a few times, and then with what they sent; at last always well."""
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, logger="airflow_provider_ch_s3")
    made: Made = request.getfixturevalue(store)
    table, left = lab.create("t", "n UInt8"), 0

    def is_echoed(agent: str) -> bool:
        nonlocal left
        if is_worker := agent.startswith(("Boto", "azsdk-python")):
            return not is_worker
        left -= 1
        return left < 0

    echo.is_echoed = is_echoed
    tries = itertools.count()
    while not lab.rows(table):
        left = next(tries)
        made.run()
    assert next(tries) > 2
    for command in ("doctor", "plan"):
        left = 0
        assert main([command, *made.arguments]) == 1
    printed = "".join(capsys.readouterr())
    assert finds("\n".join(echo.asked), made.secrets[0])
    ledger = lab.everywhere(f"SELECT * FROM {lab.database}.ch_s3_ledger")
    assert "ABANDONED" in str(ledger).upper()
    text = "\n".join([*made.shown, caplog.text, printed, json.dumps(ledger, default=str)])
    assert text.count("***") > 3
    assert [line for secret in (*made.secrets, lab.sandbox.password) for line in finds(text, secret)] == []
