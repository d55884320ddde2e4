"""What the log of a task shows of an error."""

from __future__ import annotations

import logging
import traceback

import pytest
from airflow.providers.common.compat.sdk import AirflowException

from airflow_provider_ch_s3.errors import CheckFailedError, LoadError
from airflow_provider_ch_s3.transfers.failures import fails_briefly


class Task:
    """Fails deep down, with a cause."""

    @fails_briefly
    def execute(self, error: type[Exception]) -> None:
        self.go(5, error)

    def go(self, deep: int, error: type[Exception]) -> None:
        if deep:
            self.go(deep - 1, error)
        try:
            raise CheckFailedError("the cause")
        except CheckFailedError as cause:
            if issubclass(error, ValueError):
                raise error("what") from None
            raise error("what") from cause


@pytest.mark.parametrize("error", [LoadError, AirflowException])
def test_an_error_is_its_message_and_the_way_is_logged_at_debug(
    error: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(error, match="what") as caught:
        Task().execute(error)
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert len(frames) <= 3
    assert (caught.value.__cause__, caught.value.__suppress_context__) == (None, True)
    (record,) = caplog.records
    assert record.levelno == logging.DEBUG
    assert "the cause" in caplog.text


def test_what_nobody_expected_keeps_its_traceback() -> None:
    with pytest.raises(ValueError, match="what") as caught:
        Task().execute(ValueError)
    assert len(traceback.extract_tb(caught.value.__traceback__)) > 5
