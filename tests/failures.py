"""What failed a task that Airflow does not try again, and the codes of errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_ch_s3.errors import ChS3Error


@contextmanager
def own_errors() -> Iterator[None]:
    """Raise the error that is behind Airflow's, since that is what a test looks at."""
    failed = None
    try:
        yield
    except AirflowFailException as error:
        failed = error.__context__
    if failed:
        assert isinstance(failed, ChS3Error)
        assert failed.is_final
        raise failed


def coded(code: str, *values: str) -> str:
    """Return the pattern for ``match=`` of an error with a code.

    :param values: what the sentence has to name, in this order; the words around the values do not count.
    """
    return "(?s)" + "".join(f"{re.escape(value)}.*" for value in values) + rf" \[{code}\]$"
