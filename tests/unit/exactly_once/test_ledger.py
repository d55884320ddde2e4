"""The ledger's tables: where they are, and whether they are ours."""

from __future__ import annotations

import pytest

from airflow_provider_ch_s3.errors import ConfigError, TargetError
from airflow_provider_ch_s3.exactly_once.ledger import check_schema, ledger_name
from airflow_provider_ch_s3.table.target import TableName
from tests.failures import coded

LEDGER = TableName(database="ops", table="ledger")


@pytest.mark.parametrize(
    ("text", "database", "table"),
    [
        pytest.param(None, "analytics", "ch_s3_ledger", id="beside-the-target"),
        pytest.param("", "analytics", "ch_s3_ledger", id="an-empty-field"),
        pytest.param("loads", "analytics", "loads", id="another-name"),
        pytest.param("ops.loads", "ops", "loads", id="another-database"),
        pytest.param("`o.ps`.`lo``ads`", "", "", id="refused"),
        pytest.param("`o.ps`.loads", "o.ps", "loads", id="quoted"),
    ],
)
def test_ledger_name(text: str | None, database: str, table: str) -> None:
    if not table:
        with pytest.raises(ConfigError, match=coded("name-invalid")):
            ledger_name(text, "analytics")
    else:
        assert ledger_name(text, "analytics") == TableName(database=database, table=table)


@pytest.mark.parametrize("name", ["ledger", "ledger_files"])
def test_a_ledger_of_this_version(name: str) -> None:
    check_schema(LEDGER, name, "airflow-provider-ch-s3: what its loads did, schema 1")


@pytest.mark.parametrize(
    "comment",
    [
        pytest.param("", id="no-comment"),
        pytest.param("our own table", id="another-comment"),
        pytest.param("airflow-provider-ch-s3: what its loads did, schema ", id="no-version"),
        pytest.param("airflow-provider-ch-s3: what its loads did, schema one", id="no-number"),
        pytest.param("airflow-provider-ch-s3: what its loads did, schema 1 (old)", id="more-behind-it"),
        pytest.param("x airflow-provider-ch-s3: what its loads did, schema 1", id="more-before-it"),
    ],
)
def test_another_table_of_that_name_is_left_alone(comment: str) -> None:
    with pytest.raises(TargetError) as caught:
        check_schema(LEDGER, "ledger_files", comment)
    assert caught.value.sentence == (
        "ops.ledger_files is not a ledger of this package; rename it, or name another table in the connection's field"
        " ledger_table"
    )


@pytest.mark.parametrize("version", [2, 10])
def test_a_ledger_of_a_later_version_is_not_written_to(version: int) -> None:
    with pytest.raises(ConfigError) as caught:
        check_schema(LEDGER, "ledger", f"airflow-provider-ch-s3: what its loads did, schema {version}")
    assert caught.value.sentence == (
        f"ops.ledger has schema {version}, and this version of airflow-provider-ch-s3 supports up to 1; upgrade it on"
        " this worker"
    )
