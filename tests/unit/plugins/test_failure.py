"""Why a load failed, as the pages take it apart: the messages are the real ones."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ch_s3.errors import ChS3Error
from airflow_provider_ch_s3.introspection.explain import BadValue
from tests.unit.plugins.conftest import Scripts
from tests.unit.plugins.test_load_report_tab import text_of

ADDRESS = "s3://b/a b.csv.gz"
REASON = "Cannot parse string (CANNOT_PARSE_TEXT)"
SERVER = "Code: 243. DB::Exception: Cannot reserve 1.00 MiB; not enough space. (NOT_ENOUGH_SPACE)"


def failed(code: str, text: object) -> str:
    return str(ChS3Error(code, str(text)))


def bad_value(**known: Any) -> str:
    return failed("value-does-not-fit", BadValue(reason=REASON, **known))


WIDEN = "widen the column, convert the value with select={'amount': '…'}, or leave such rows out with where"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param(
            bad_value(
                column="amount", type="Decimal(9, 2)", value="12,50", place=f"row 778 below the header of {ADDRESS}"
            ),
            {
                "headline": "column amount: '12,50' is not a valid Decimal(9, 2)",
                "column": "amount",
                "value": "'12,50'",
                "row": "778 below the header",
                "file": ADDRESS,
                "remedy": "say what the text means with select={'amount': \"replaceOne(amount, ',', '.')\"}",
                "server": REASON,
                "code": "value-does-not-fit",
            },
            id="a-value",
        ),
        pytest.param(
            bad_value(column="a b", type="UInt8", value="it's", place="in a file of s3://b/*"),
            {"column": "a b", "value": '"it\'s"', "row": None, "file": "s3://b/*"},
            id="quotes-and-no-row",
        ),
        pytest.param(
            bad_value(is_null=True, column="n", place=f"in {ADDRESS}"), {"column": "n", "file": ADDRESS}, id="null"
        ),
        pytest.param(
            failed("query-failed", f"the INSERT failed: {SERVER}; free some space"),
            {"headline": "the INSERT failed", "server": SERVER, "remedy": "free some space", "code": "query-failed"},
            id="the-server-s-words",
        ),
        pytest.param(
            failed("no-files", "no file matches s3://b/*; correct the source, or wait; then clear the task"),
            {
                "headline": "no file matches s3://b/*",
                "remedy": "correct the source, or wait; then clear the task",
                "server": None,
            },
            id="a-sentence",
        ),
        pytest.param("KeyError: 'x'", {"headline": "KeyError: 'x'", "code": ""}, id="not-ours"),
    ],
)
def test_a_message_is_taken_apart(scripts: Scripts, text: str, found: dict[str, Any]) -> None:
    shown = scripts.call("failure.js", "readFailure", text)
    assert {name: shown.get(name) for name in found} == found


def test_what_the_server_says_is_folded(scripts: Scripts) -> None:
    html = scripts.call(
        "failure.js", "LoadFailure", {"text": bad_value(column="n", type="UInt8", value="x", place="row 2 of b")}
    )
    assert "<details><summary>What ClickHouse says</summary>" in html
    shown = text_of(html)
    assert (
        "column n: 'x' is not a valid UInt8 value-does-not-fit Column n Value 'x' Row 2 File b What to do: widen"
        in shown
    )
