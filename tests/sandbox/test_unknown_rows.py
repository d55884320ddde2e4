"""The first append into a table that others have filled: refused, adopted, or loaded all the same."""

from __future__ import annotations

import json
import re

import pytest

from airflow_provider_ch_s3.cli import main
from airflow_provider_ch_s3.errors import LoadError, TargetError
from airflow_provider_ch_s3.modes import Append, OnUnknown, ReplacePartitions, ReplaceWhere
from tests.failures import coded
from tests.sandbox.conftest import Lab
from tests.sandbox.few import EVEN_AND_ODD, is_clean
from tests.sandbox.topologies import only_on, topologies

pytestmark = pytest.mark.sandbox


def numbers(lab: Lab, table: str) -> list[int]:
    return sorted(row["n"] for row in lab.rows(table))


def fill(lab: Lab) -> str:
    """Put two files into the store, and their rows into a table, without a load."""
    table = lab.create("t", "n UInt32", EVEN_AND_ODD)
    lab.put_parquet("in/a.parquet", {"n": [1, 2]})
    lab.put_parquet("in/b.parquet", {"n": [3]})
    lab.query(f"INSERT INTO {table} VALUES (1), (2), (3)")
    return table


def unknown(lab: Lab, rows: int) -> str:
    return coded("rows-unknown", f"{lab.database}.t holds {rows} rows", "has no load into it", "loads adopt")


def test_adopted_files_are_loaded_already(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    table = fill(lab)
    command = f"`ch-s3 loads adopt {table} --source '{lab.uri('in/*')}'`"
    with pytest.raises(TargetError, match=coded("rows-unknown", command)):
        lab.load("in/*", table)
    assert numbers(lab, table) == [1, 2, 3]
    adopt = ("adopt", table, "--source", lab.uri("in/*"), "--aws-conn-id", "aws")
    assert lab.loads(*adopt) == 0
    assert capsys.readouterr().out.splitlines()[-1] == (
        f"recorded: {table} with 3 rows holds 2 files of {lab.uri('in/*')}"
    )
    lab.put_parquet("in/c.parquet", {"n": [4]})
    report = lab.load("in/*", table)
    assert (report["files_listed"], report["files_skipped"]) == (1, 2)
    assert numbers(lab, table) == [1, 2, 3, 4]
    assert lab.loads(*adopt) == 1
    assert "nothing-to-adopt" in capsys.readouterr().err
    assert lab.loads() == 0
    listed = capsys.readouterr().out
    assert "adopt" in listed
    # the rows count as rows of these loads
    lab.load("in/*", table, mode="replace_partitions", task_id="replace")
    assert numbers(lab, table) == [1, 2, 3, 4]
    assert is_clean(lab)


@pytest.mark.parametrize("has_ledger", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_plan_and_doctor_say_so_before_the_load(
    lab: Lab, has_ledger: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    table = fill(lab)
    if has_ledger:
        lab.load("in/*", lab.create("other", "n UInt32"))

    def ask(*mode: str) -> tuple[str, dict[str, tuple[str, str]]]:
        capsys.readouterr()
        code = main(["plan", *lab.arguments(table, *mode)])
        said = capsys.readouterr().err
        assert code == int("rows-unknown" in said)
        assert main(["doctor", *lab.arguments(table, *mode), "--json"]) == code
        return said, {one["check"]: (one["state"], one["text"]) for one in json.loads(capsys.readouterr().out)}

    for mode in ((), ("--mode", '{"append": {"on_changed": "load"}}')):
        said, found = ask(*mode)
        for text in (said, found["rows"][1]):
            assert re.search(unknown(lab, 3), text)
        assert {check for check, (state, _) in found.items() if state == "failed"} == {"rows"}
    for other in ('{"append": {"on_unknown_rows": "keep"}}', "replace_table", "direct"):
        _, found = ask("--mode", other)
        assert {state for state, _ in found.values()} == ({"ok", "skipped"} if other == "direct" else {"ok"})
    lab.everywhere(f"TRUNCATE TABLE {table}")
    _, found = ask()
    assert found["rows"] == ("ok", "none in the table that the load would refuse")


def adopt_days(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    table = lab.create("t", "dt Date, n UInt32", "MergeTree PARTITION BY dt ORDER BY n")
    for day in (1, 2):
        lab.put_parquet(f"in/dt=2026-01-0{day}/a.parquet", {"n": [day]})
        lab.query(f"INSERT INTO {table} VALUES ('2026-01-0{day}', {day})")
    lab.sync(table)
    assert lab.loads("adopt", table, "--source", lab.uri("in/**/*"), "--aws-conn-id", "aws") == 0
    assert f"recorded: {table} with 2 rows holds 2 files" in capsys.readouterr().out
    lab.put_parquet("in/dt=2026-01-02/a.parquet", {"n": [3]})
    day = ("in/dt=2026-01-02/*", table)
    with pytest.raises(LoadError, match=coded("partition-holds-others", "perhaps rows of", "dt=2026-01-01")):
        lab.load(*day, mode="replace_partitions")
    lab.load(*day, mode=ReplaceWhere("dt = '2026-01-02'"), task_id="where")
    assert numbers(lab, table) == [1, 3]
    lab.load(*day, mode=ReplacePartitions(on_partial="replace"), task_id="partition")
    assert numbers(lab, table) == [1, 3]


def test_files_in_folders_of_days_are_adopted_and_replaced(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    lab.connect_one_node()
    adopt_days(lab, capsys)


@pytest.mark.thorough
@only_on("on-cluster", "old")
def test_files_in_folders_of_days_on_replicas(replicated_lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    """Their servers take a folder's value for a LowCardinality(Date), a type that 25.8 refuses to send to a node."""
    adopt_days(replicated_lab, capsys)


def test_other_numbers_of_rows_need_a_yes(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    table = fill(lab)
    lab.put_parquet("in/c.parquet", {"n": [4, 5]})
    adopt = ("adopt", table, "--source", lab.uri("in/*"), "--aws-conn-id", "aws")
    assert lab.loads(*adopt) == 1
    said = capsys.readouterr().err
    assert f"{table} with 3 rows holds 3 files of {lab.uri('in/*')}, whose footers count 5 rows" in said
    assert "nothing was recorded" in said
    with pytest.raises(TargetError, match=unknown(lab, 3)):
        lab.load("in/*", table)
    assert lab.loads(*adopt, "--yes") == 0
    assert lab.load("in/*", table)["files_skipped"] == 3


@pytest.mark.thorough
def test_a_row_with_the_path_of_another_file_needs_a_yes(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    table = lab.create("t", "n UInt32, source_file String")
    lab.put_parquet("in/a.parquet", {"n": [1, 2]})
    lab.put_parquet("in/b.parquet", {"n": [3]})
    first, other = (lab.uri(f"in/{name}.parquet").removeprefix("s3://") for name in "ac")
    lab.query(f"INSERT INTO {table} VALUES (1, '{first}'), (2, '{first}'), (3, '{other}')")
    named = ("--aws-conn-id", "aws", "--argument", 'provenance={"source_file": "path"}')
    adopt = ("adopt", table, "--source", lab.uri("in/*"), *named)
    assert lab.loads(*adopt) == 1
    said = capsys.readouterr().err
    assert f"holds 2 files of {lab.uri('in/*')}, and 1 row of the table with the path of another file" in said
    lab.put_parquet("in/c.parquet", {"n": [3]})
    sources = (part for name in "ac" for part in ("--source", lab.uri(f"in/{name}.parquet")))
    assert lab.loads("adopt", table, *sources, *named) == 0
    lacking = ("--aws-conn-id", "aws", "--argument", 'provenance={"origin": "path"}')
    other_table = lab.create("u", "n UInt32")
    lab.query(f"INSERT INTO {other_table} VALUES (1), (2), (3)")
    assert lab.loads("adopt", other_table, "--source", lab.uri("in/*"), *lacking) == 1
    assert "provenance-columns-missing" in capsys.readouterr().err


@pytest.mark.thorough
def test_text_has_no_footers(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    table = lab.create("t", "n UInt32")
    lab.put("in/a.csv", b"1\n2\n")
    lab.query(f"INSERT INTO {table} VALUES (1), (2)")
    adopt = ("adopt", table, "--source", lab.uri("in/*"), "--aws-conn-id", "aws")
    assert lab.loads(*adopt) == 1
    assert "whose rows were not counted" in capsys.readouterr().err
    assert lab.loads(*adopt, "--yes") == 0
    lab.load("in/*", table)
    assert numbers(lab, table) == [1, 2]


@pytest.mark.thorough
def test_rows_that_are_kept(lab: Lab) -> None:
    table = fill(lab)
    lab.load("in/a.parquet", table, mode=Append(on_unknown_rows=OnUnknown.KEEP))
    assert numbers(lab, table) == [1, 1, 2, 2, 3]
    lab.load("in/*", table, task_id="later")  # by now there is a load into the table
    assert numbers(lab, table) == [1, 1, 2, 2, 3, 3]


@pytest.mark.thorough
def test_an_empty_table_takes_all_files(lab: Lab) -> None:
    table = fill(lab)
    lab.everywhere(f"TRUNCATE TABLE {table}")
    lab.load("in/*", table)
    assert numbers(lab, table) == [1, 2, 3]


@pytest.mark.thorough
def test_the_ledger_knows_nothing_of_direct_loads(lab: Lab) -> None:
    table = lab.create("t", "n UInt32", EVEN_AND_ODD)
    lab.put_parquet("in/a.parquet", {"n": [1, 2]})
    lab.load("in/*", table, mode="direct")
    with pytest.raises(TargetError, match=unknown(lab, 2)):
        lab.load("in/*", table, task_id="append")


@pytest.mark.thorough
@pytest.mark.parametrize("mode", ["replace_table", ReplacePartitions(on_partial="replace")], ids=str)
def test_an_append_skips_the_files_of_a_load_that_replaced(
    lab: Lab, mode: object, caplog: pytest.LogCaptureFixture
) -> None:
    """In the place of all rows of these files that others have put in."""
    table = fill(lab)
    lab.load("in/*", table, mode=mode)
    assert ("would add the rows of their files again" in caplog.text) == (mode != "replace_table")
    lab.put_parquet("in/c.parquet", {"n": [4]})
    report = lab.load("in/*", table, task_id="append")
    assert (report["files_skipped"], numbers(lab, table)) == (2, [1, 2, 3, 4])


@pytest.mark.thorough
def test_a_load_that_replaces_some_rows_is_a_load(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    table = fill(lab)
    lab.load("in/b.parquet", table, mode=ReplacePartitions(on_partial="replace"))
    assert f"{table} holds 3 rows, and the ledger {lab.database}.ch_s3_ledger has no load into it" in caplog.text
    assert numbers(lab, table) == [2, 3]
    lab.load("in/a.parquet", table, task_id="append")
    assert numbers(lab, table) == [1, 2, 2, 3]
    renamed = f"{table}_renamed"
    lab.ddl(f"RENAME TABLE {table} TO {renamed} {{on_cluster}}")
    lab.put_parquet("in/c.parquet", {"n": [7]})
    lab.load("in/c.parquet", renamed, task_id="renamed")
    assert numbers(lab, renamed) == [1, 2, 2, 3, 7]


@pytest.mark.thorough
@topologies("on-cluster")
@pytest.mark.push
def test_replicas_and_a_distributed_table(replicated_lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    lab = replicated_lab
    table = fill(lab)
    lab.sync(table)
    everywhere = lab.distribute(table, "rand()")
    with pytest.raises(TargetError, match=unknown(lab, 3)):
        lab.load("in/*", everywhere)
    assert lab.loads("adopt", everywhere, "--source", lab.uri("in/*"), "--aws-conn-id", "aws") == 0
    assert "with 3 rows holds 2 files" in capsys.readouterr().out
    lab.put_parquet("in/c.parquet", {"n": [4]})
    lab.load("in/*", everywhere)
    assert numbers(lab, table) == [1, 2, 3, 4]
