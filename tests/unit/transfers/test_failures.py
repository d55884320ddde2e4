"""How an error ends a task: what its log shows, and whether Airflow tries again."""

from __future__ import annotations

import logging
import re
import traceback

import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

from airflow_provider_ch_s3.errors import (
    BadValueError,
    CheckFailedError,
    ChS3Error,
    ColumnsDifferError,
    ConfigError,
    ErrorCode,
    LoadError,
    NewColumnsError,
    PlanError,
    ServerError,
    ServerUnreachableError,
    SourceError,
    TargetChangingError,
    TargetError,
)
from airflow_provider_ch_s3.introspection.explain import is_bad_value
from airflow_provider_ch_s3.transfers import failures
from airflow_provider_ch_s3.transfers.failures import fails_plainly

FINAL = [
    ConfigError("a-code", "a"),
    BadValueError("a-code", "a"),
    TargetError("a-code", "a"),
    NewColumnsError("a-code", "a", ["n"]),
    PlanError("a-code", "a"),
    CheckFailedError("a-code", "a", []),
    ServerError("server-error", "a", server_code=ErrorCode.ACCESS_DENIED),
]
PASSING = [
    SourceError("a-code", "a"),
    TargetChangingError("a-code", "a"),
    ColumnsDifferError("a-code", "a"),
    ServerUnreachableError("server-unreachable", "a"),
    ServerError("server-error", "a", server_code=ErrorCode.TIMEOUT_EXCEEDED),
    LoadError("a-code", "a"),
]
CAUSE = LoadError("a-code", "the cause")


class Task:
    """Fails deep down."""

    @fails_plainly
    def execute(self, error: Exception, cause: Exception | None = None) -> None:
        self.go(5, error, cause)

    def go(self, deep: int, error: Exception, cause: Exception | None) -> None:
        if deep:
            self.go(deep - 1, error, cause)
        raise error from cause


def name(error: ChS3Error) -> str:
    return f"{type(error).__name__}-{getattr(error, 'server_code', '')}"


@pytest.mark.parametrize("error", FINAL, ids=name)
def test_airflow_does_not_try_again_what_no_retry_can_change(error: ChS3Error) -> None:
    with pytest.raises(AirflowFailException, match=f"^{re.escape(str(error))}$") as failed:
        Task().execute(error)
    assert failed.value.__context__ is error


@pytest.mark.parametrize("error", PASSING, ids=name)
def test_airflow_tries_again_what_may_pass(error: ChS3Error) -> None:
    with pytest.raises(type(error)) as failed:
        Task().execute(error)
    assert failed.value is error


@pytest.mark.parametrize(
    "error", [LoadError("a-code", "what"), ConfigError("a-code", "what"), AirflowException("what")], ids=type
)
def test_an_error_is_its_message_and_the_way_is_logged_at_debug(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger=failures.__name__)
    with pytest.raises(Exception, match="what") as caught:
        Task().execute(error, CAUSE)
    assert len(traceback.extract_tb(caught.value.__traceback__)) <= 3
    shown = "".join(traceback.format_exception(caught.value))
    assert (shown.count(f"{error}\n"), "the cause" in shown) == (1, False)
    (record,) = caplog.records
    assert record.levelno == logging.DEBUG
    assert "the cause" in caplog.text


def test_what_nobody_expected_keeps_its_traceback() -> None:
    with pytest.raises(ValueError, match="what") as caught:
        Task().execute(ValueError("what"))
    assert len(traceback.extract_tb(caught.value.__traceback__)) > 5


@pytest.mark.parametrize(
    ("message", "of_text", "of_typed"),
    [
        ("Value 300 is out of bounds (VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE)", True, True),
        ("Cannot insert NULL (CANNOT_INSERT_NULL_IN_ORDINARY_COLUMN)", True, True),
        ("at first (CANNOT_CONVERT_TYPE), at last (RECEIVED_ERROR_FROM_REMOTE_IO_SERVER)", False, False),
        ("Cannot parse string 'x' as UInt8 (CANNOT_PARSE_TEXT)", False, True),
        ("Unexpected end of file (INCORRECT_DATA)", False, False),
    ],
)
def test_a_file_that_may_still_be_written_is_tried_again(message: str, of_text: bool, of_typed: bool) -> None:
    assert (is_bad_value(message, is_typed=False), is_bad_value(message, is_typed=True)) == (of_text, of_typed)
