"""Which errors Airflow does not try again after."""

from __future__ import annotations

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_ch_s3.errors import (
    CheckFailedError,
    ChS3Error,
    ColumnsDifferError,
    ConfigError,
    ErrorCode,
    LoadError,
    MisfitError,
    NewColumnsError,
    PlanError,
    ServerError,
    ServerUnreachableError,
    SourceError,
    TargetChangingError,
    TargetError,
)
from airflow_provider_ch_s3.inspect.explain import is_misfit
from airflow_provider_ch_s3.transfers.failures import failing_for_good

FINAL = [
    ConfigError("a"),
    MisfitError("a"),
    TargetError("a"),
    NewColumnsError("a", ["n"]),
    PlanError("a"),
    CheckFailedError("a", []),
    ServerError("a", code=ErrorCode.ACCESS_DENIED),
]
PASSING = [
    SourceError("a"),
    TargetChangingError("a"),
    ColumnsDifferError("a"),
    ServerUnreachableError("a"),
    ServerError("a", code=ErrorCode.TIMEOUT_EXCEEDED),
    LoadError("a"),
]


def name(error: ChS3Error) -> str:
    return f"{type(error).__name__}-{getattr(error, 'code', '')}"


@pytest.mark.parametrize("error", FINAL, ids=name)
def test_airflow_does_not_try_again_what_no_retry_can_change(error: ChS3Error) -> None:
    with pytest.raises(AirflowFailException, match=r"^a$") as failed, failing_for_good():
        raise error
    assert failed.value.__cause__ is error


@pytest.mark.parametrize("error", PASSING, ids=name)
def test_airflow_tries_again_what_may_pass(error: ChS3Error) -> None:
    with pytest.raises(type(error)) as failed, failing_for_good():
        raise error
    assert failed.value is error


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
    assert (is_misfit(message, is_typed=False), is_misfit(message, is_typed=True)) == (of_text, of_typed)
