"""Which errors Airflow tries again after."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_ch_s3.errors import ChS3Error


@contextmanager
def failing_for_good() -> Iterator[None]:
    """Have Airflow not retry after an error that no retry can change.

    :raises AirflowFailException: in its place; it has the error as its cause.
    """
    try:
        yield
    except ChS3Error as error:
        if not error.is_final:
            raise
        raise AirflowFailException(str(error)) from error
