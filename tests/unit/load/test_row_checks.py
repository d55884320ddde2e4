"""Checks that a server refuses to compute; tests/sandbox/test_checks.py tests the others."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ch_s3.arguments import Checks
from airflow_provider_ch_s3.errors import CheckFailedError, ConfigError, ErrorCode, ServerError
from airflow_provider_ch_s3.load.row_checks import run_checks, try_checks
from airflow_provider_ch_s3.modes import ReplaceTable
from airflow_provider_ch_s3.table.row_check import BoundCheck, Check
from airflow_provider_ch_s3.table.target import TableName
from tests.failures import coded

TABLE, STAGED = TableName(database="d", table="t"), TableName(database="d", table="ch_s3_stage_t")
UNREADABLE = (
    "HTTP 400: Code: 6. DB::Exception: Cannot parse string 'abc' as Int32: while executing 'x'. (CANNOT_PARSE_TEXT)"
)
DIVIDED = "Code: 153. DB::Exception: Division by zero: while executing 'FUNCTION intDiv'. (ILLEGAL_DIVISION)"
NESTED = "Code: 184. DB::Exception: Aggregate function avg(n) is found inside another one. (ILLEGAL_AGGREGATION)"


@dataclasses.dataclass
class Client:
    """A server that answers as a function says."""

    answer: Callable[[str], dict[str, Any]]
    asked: list[str] = dataclasses.field(default_factory=list)

    def query(self, statement: Any) -> list[dict[str, Any]]:
        self.asked.append(statement.text)
        return [self.answer(statement.text)]


def target_of(client: Client) -> Any:
    spec = SimpleNamespace(name=TABLE, local=TABLE, readable_columns=["n", "s"])
    return SimpleNamespace(
        client=client, spec=spec, cluster=SimpleNamespace(name=None), check_all_seen=lambda *_, **__: None
    )


def run(answer: Callable[[str], dict[str, Any]], **checks: Check) -> list[Any]:
    bound = [BoundCheck(name=name, check=check, condition=check.expression) for name, check in checks.items()]
    return run_checks(target_of(Client(answer)), STAGED, bound, rows=3, paths=["a.csv"])


def compute(text: str) -> dict[str, Any]:
    if "toInt32(s)" in text:
        raise ServerError("server-error", UNREADABLE, server_code=6)
    return {"ch_s3_rows": 3, "ch_s3_result_1": 1}


def test_one_statement_computes_all_checks() -> None:
    client = Client(lambda text: {"ch_s3_rows": 3, **{f"ch_s3_result_{number}": 1 for number in range(1, 51)}})
    bound = [BoundCheck(name=f"c{n}", check=Check(f"max(n) > {n}"), condition=f"max(n) > {n}") for n in range(50)]
    found = run_checks(target_of(client), STAGED, bound, rows=3, paths=["a.csv"])
    assert [one.passed for one in found] == [True] * 50
    assert len(client.asked) == 1


NUMBERS = "max(toInt32(s)) > 0"
REASON = "could not be computed: Cannot parse string 'abc' as Int32 (CANNOT_PARSE_TEXT)"


def test_a_check_that_cannot_be_computed_fails_by_its_name() -> None:
    with pytest.raises(CheckFailedError) as failed:
        run(compute, sane=Check("count() > 0"), numbers=Check(NUMBERS))
    assert "1 check of the 3 rows staged for d.t failed" in failed.value.sentence
    assert f"'numbers': {NUMBERS} {REASON}; correct the files" in failed.value.sentence
    assert [(one.name, one.passed) for one in failed.value.results] == [("sane", True), ("numbers", None)]


def test_a_warning_that_cannot_be_computed_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    (found,) = run(compute, numbers=Check(NUMBERS, on_failure="warn"))
    assert (found.outcome, found.error) == ("warned", REASON.partition(": ")[2])
    assert f"check 'numbers' not fulfilled, a warning: {NUMBERS} {REASON}" in caplog.text


def test_a_server_that_is_at_fault_is_asked_again_by_a_retry() -> None:
    def lack(text: str) -> dict[str, Any]:
        raise ServerError(
            "server-error", "Code: 241. DB::Exception: memory limit exceeded (MEMORY_LIMIT_EXCEEDED)", server_code=241
        )

    with pytest.raises(ServerError, match=coded("server-error", "checks 'numbers'")) as failed:
        run(lack, numbers=Check(NUMBERS, on_failure="warn"))
    assert not failed.value.is_final


def attempt(answer: Callable[[str], dict[str, Any]], expression: str) -> Client:
    client = Client(answer)
    request: Any = SimpleNamespace(checks=Checks({"c": Check(expression)}), mode=ReplaceTable())
    try_checks(target_of(client), request)
    return client


@pytest.mark.parametrize(
    ("kind", "expression"), [("Int64", "intDiv(sum(n), count())"), ("UInt8", "intDiv(1, count()) = 1")]
)
def test_a_quotient_of_no_rows_has_a_type(kind: str, expression: str) -> None:
    def divide(text: str) -> dict[str, Any]:
        if not text.startswith("DESCRIBE"):
            raise ServerError("server-error", DIVIDED, server_code=153)
        return {"name": "ch_s3_result", "type": kind}

    if kind == "UInt8":
        attempt(divide, expression)
    else:
        with pytest.raises(ConfigError, match=coded("argument-invalid", "Int64", "condition")):
            attempt(divide, expression)


def test_an_old_value_may_stand_within_an_aggregate() -> None:
    def nest(text: str) -> dict[str, Any]:
        if "countIf(n < avg(n))" in text:
            raise ServerError("server-error", NESTED, server_code=ErrorCode.ILLEGAL_AGGREGATION)
        return {"ch_s3_type": "Float64" if "countIf" not in text else "UInt8"}

    client = attempt(nest, "countIf(n < old.avg(n)) = 0")
    assert "countIf(n < materialize(defaultValueOfTypeName('Float64'))) = 0" in client.asked[-1]


def test_an_aggregate_of_an_aggregate_is_refused() -> None:
    def nest(text: str) -> dict[str, Any]:
        raise ServerError("server-error", NESTED, server_code=ErrorCode.ILLEGAL_AGGREGATION)

    with pytest.raises(ConfigError, match=coded("expression-invalid", "checks['c']='countIf(n < avg(n)) = 0'")):
        attempt(nest, "countIf(n < avg(n)) = 0")


def test_examples_are_found_with_the_values_that_were_compared() -> None:
    def compare(text: str) -> dict[str, Any]:
        if "LIMIT 5" not in text:
            return {"ch_s3_rows": 3, "ch_s3_result_1": 0}
        assert "old." not in text
        return {"n": -1, "s": "abc"}

    bound = BoundCheck(
        name="c", check=Check("countIf(n < old.min(n)) = 0"), condition="countIf(n < CAST('0', 'Int32')) = 0"
    )
    with pytest.raises(CheckFailedError, match=coded("check-failed", "for example (n=-1, s=abc) in a.csv")):
        run_checks(target_of(Client(compare)), STAGED, [bound], rows=3, paths=["a.csv"])
