from __future__ import annotations

import pytest

from airflow_provider_ch_s3.exactly_once.modes.append import find_changes
from airflow_provider_ch_s3.table.target import TableColumn

N, M = TableColumn(name="n", type="UInt32"), TableColumn(name="m", type="UInt8")
WIDE = TableColumn(name="m", type="UInt64", default_kind="DEFAULT", default_expression="5")
X = TableColumn(name="x", type="String", default_kind="DEFAULT", default_expression="'a'")


@pytest.mark.parametrize(
    ("target", "changes"),
    [
        pytest.param([N, M], "None", id="nothing"),
        pytest.param([M, N], "None", id="another-order"),
        pytest.param([N, M, X], "ADD COLUMN x String DEFAULT 'a'", id="added"),
        pytest.param([N], "DROP COLUMN m", id="dropped"),
        pytest.param([N, WIDE], "MODIFY COLUMN m UInt64", id="modified"),
        pytest.param([N, WIDE, X], "ADD COLUMN x String DEFAULT 'a', MODIFY COLUMN m UInt64", id="two"),
        pytest.param([N, X], "None", id="renamed"),
    ],
)
def test_changes_of_columns(target: list[TableColumn], changes: str) -> None:
    assert str(find_changes([N, M], target)) == changes
