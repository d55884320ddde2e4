"""What the driver adds to a statement that other nodes answer, too."""

from __future__ import annotations

import dataclasses

import pytest

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.hooks.driver import whole_text
from airflow_provider_ch_s3.sql.load_queries import render_read_settings, render_read_user, render_running_queries
from airflow_provider_ch_s3.tuning.rules import WHOLE_ANSWERS

QUERY = "SELECT 1\nFROM clusterAllReplicas('c', system.one)\nSETTINGS "


def test_other_nodes_are_told_what_keeps_answers_whole() -> None:
    statement = render_running_queries("ch-s3-", "c")
    text = whole_text(statement)
    clause = text.rpartition("\nSETTINGS ")[2]
    assert clause.endswith(" skip_unavailable_shards = 0")
    assert [one.partition(" = ")[0] for one in clause.split(", ")].count("skip_unavailable_shards") == 1
    names = {one.partition(" = ")[0] for one in clause.split(", ")}
    assert names == WHOLE_ANSWERS.keys() - {"force_data_skipping_indices"}
    assert text.startswith(statement.text.rpartition("\n")[0])


@pytest.mark.parametrize(
    "statement",
    [
        pytest.param(render_running_queries("ch-s3-", None), id="one-server"),
        pytest.param(render_read_user(), id="without-settings"),
        pytest.param(render_read_settings("c", nodes=3), id="reads-profiles"),
        pytest.param(
            Statement(text="INSERT INTO FUNCTION cluster('c', 'd', 't')\nSELECT 1\nSETTINGS max_threads = 1"),
            id="load",
        ),
    ],
)
def test_other_statements_stay_as_they_are(statement: Statement) -> None:
    assert whole_text(statement) == statement.text


def test_what_a_statement_says_itself_stays() -> None:
    statement = Statement(text=f"{QUERY}apply_deleted_mask = 0")
    assert whole_text(statement).endswith(" apply_deleted_mask = 0")
    assert whole_text(statement).count("apply_deleted_mask") == 1
    assert " final = 0," in whole_text(statement)
    assert " final = 0," not in whole_text(dataclasses.replace(statement, keeps_final=True))
