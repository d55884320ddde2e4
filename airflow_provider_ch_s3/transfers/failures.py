"""How an error ends a task: what the log shows, and whether Airflow tries again."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import ChS3Error

log = get_log(__name__)

Self = TypeVar("Self")
Given = ParamSpec("Given")
Result = TypeVar("Result")


def fails_plainly(
    execute: Callable[Concatenate[Self, Given], Result],
) -> Callable[Concatenate[Self, Given], Result]:
    """Have a method raise errors of this package without a stack trace; the stack trace is logged at DEBUG.

    The message says what is wrong and what to do, and Airflow would log each frame with lines of code. If no retry
    can change the error, ``AirflowFailException`` is raised instead, with the error as context.
    """

    @functools.wraps(execute)
    def plain(self: Self, /, *args: Given.args, **kwargs: Given.kwargs) -> Result:
        short: Exception
        try:
            return execute(self, *args, **kwargs)
        except Exception as error:
            if not isinstance(error, ChS3Error) and not isinstance(error.__cause__, ChS3Error):
                raise
            log.debug("%s", error, exc_info=True)
            short = error.with_traceback(None)
        if isinstance(short, ChS3Error) and short.is_final:
            final = AirflowFailException(str(short))
            final.__context__ = short
            raise final from None
        raise short from None

    return plain
