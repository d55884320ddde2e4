"""What a load without staging says when it fails; tests/sandbox/test_load.py has such loads."""

from __future__ import annotations

import pytest

from airflow_provider_ch_s3.errors import BadValueError, ChS3Error, LoadError
from airflow_provider_ch_s3.load.direct import with_rows_left


def denied() -> LoadError:
    error = LoadError("a-code", "no")
    error.is_final = True
    return error


@pytest.mark.parametrize(
    ("error", "is_final"),
    [
        pytest.param(LoadError("a-code", "no"), False, id="retried"),
        pytest.param(denied(), True, id="grant"),
        pytest.param(BadValueError("a-code", "no"), True, id="value"),
    ],
)
def test_what_may_be_left_is_said_and_a_final_error_stays_one(error: ChS3Error, is_final: bool) -> None:
    told = with_rows_left(error)
    assert str(told).startswith("no; rows written by then stay in the table (this load is at least once)")
    assert (type(told), told.is_final) == (type(error), is_final)
