"""The rights that loads need: what is declared, and the statements that need the rights."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import airflow_provider_ch_s3
from airflow_provider_ch_s3.files.access import TableFunction
from airflow_provider_ch_s3.sql.rights import About, Need, Use, all_loads, declare_rights, show_grants

PAGE = Path(__file__).parents[3] / "docs" / "permissions.md"
SQL = Path(airflow_provider_ch_s3.__file__).parent / "sql"
FREE = {"columns", "databases", "formats", "one", "settings", "tables"}
"""Tables of ``system`` that every user may read."""
EXPLAINED = {"distributed_ddl_queue", "named_collections"}
"""The page or a message says what the right to read this table would also show."""


def named(use: Use, need: Need = Need.LOAD) -> set[str]:
    return {f"{right} ON {one.on}" for one in declare_rights(use) if one.need is need for right in one.rights}


def use(**fields: object) -> Use:
    return Use(**{"database": "d", "tables": ["d.t"], "has_cluster": False, "replaces": False, **fields})  # type: ignore[arg-type]


def test_the_page_has_the_block(request: pytest.FixtureRequest) -> None:
    block = show_grants(declare_rights(all_loads("analytics")), "loader")
    head, _, rest = PAGE.read_text().partition("```sql\n")
    if request.config.getoption("--update-golden"):
        PAGE.write_text(f"{head}```sql\n{block}\n```{rest.partition('```')[2]}")
    assert f"```sql\n{block}\n```" in PAGE.read_text()


def test_every_table_of_system_in_a_statement_is_declared() -> None:
    read = {
        table
        for path in (*SQL.glob("*.py"), *SQL.glob("templates/*.jinja"))
        if path.name != "rights.py"
        for table in re.findall(r"\bsystem\.([a-z_]+)", path.read_text())
    }
    declared = {
        one.on.removeprefix("system.")
        for one in declare_rights(use())
        if one.about is About.READING and one.on != "*.*"
    }
    assert read == declared | FREE | EXPLAINED


def test_an_append_removes_nothing_from_the_table() -> None:
    assert "ALTER DELETE ON d.t" not in named(use())
    assert "ALTER DELETE ON d.t" in named(use(replaces=True))
    assert "ALTER DELETE ON d.ch_s3_*" in named(use())


def test_a_direct_load_has_no_tables_of_its_own() -> None:
    assert not {one for one in named(use(is_staged=False)) if "ch_s3_" in one or "ENGINE" in one}


def test_older_servers_take_no_beginnings_of_names() -> None:
    assert "CREATE TABLE ON d.*" in named(use(has_prefixes=False))


def test_on_a_cluster_held_views_are_dropped_like_tables() -> None:
    right = "DROP TABLE ON d.*"
    assert right in named(use(holds=True, has_cluster=True), Need.TOOL)
    assert right in named(use(holds=True), Need.OPTIONAL)
    assert right in named(use(has_cluster=True), Need.OPTIONAL)


def test_without_a_cluster_its_rights_are_for_distributed_tables() -> None:
    right, why = "GRANT REMOTE, CLUSTER ON *.* TO u;", "-- loads into Distributed tables; set the connection's field"
    assert f"{why} cluster, too\n-- {right}" in show_grants(declare_rights(use()), "u")


def test_names_are_quoted() -> None:
    block = show_grants(declare_rights(use(database="it's", collection="a b")), "it's me")
    assert "ON `it's`.ch_s3_*" in block
    assert "NAMED COLLECTION ON `a b`,\n" in block
    assert "\nTO `it's me`;\n" in block


def test_an_administrator_runs_a_single_statement() -> None:
    block = show_grants(declare_rights(all_loads("d")), "u")
    statement, _, rest = block.partition(";\n")
    assert statement.startswith("GRANT\n    -- what loads")
    assert {line[:3] for line in rest.splitlines()} == {"-- "}
    assert ",," not in re.sub(r"\s*--.*\n\s*", "", statement)


@pytest.mark.parametrize(
    ("fields", "right"),
    [
        pytest.param({"function": TableFunction.AZURE}, "AZURE ON *.*", id="azure"),
        pytest.param({"function": TableFunction.URL}, "URL ON *.*", id="http"),
        pytest.param({"has_cluster": True}, "REMOTE ON *.*", id="cluster"),
        pytest.param({"is_replicated": True}, "SELECT ON system.replicas", id="replicas"),
        pytest.param({"settles": True}, "SELECT ON system.merges", id="settle"),
        pytest.param({"has_cluster": True, "on_cluster": True}, "CLUSTER ON *.*", id="on-cluster"),
        pytest.param({"views": ["d.v"]}, "SHOW TABLES ON d.v", id="views"),
        pytest.param({"view_tables": ["d.v"]}, "INSERT ON d.v", id="tables-of-views"),
        pytest.param({"new_tables": ["d.new"]}, "CREATE TABLE ON d.new", id="new-table"),
        pytest.param({"holds": True}, "DROP VIEW ON d.*", id="held"),
        pytest.param({"holds": True, "is_replicated": True}, "DROP TABLE ON d.*", id="held-on-cluster"),
        pytest.param({"adds_columns": True}, "ALTER ADD COLUMN ON d.t", id="new-columns"),
        pytest.param({"ledger": "ops.l"}, "INSERT ON ops.l_files", id="ledger"),
        pytest.param(
            {"engines": ["ReplacingMergeTree"]}, "TABLE ENGINE ON ReplacingMergeTree", id="engine-of-the-table"
        ),
    ],
)
def test_what_a_load_needs_in_addition(fields: dict[str, object], right: str) -> None:
    assert right not in named(use())
    assert right in named(use(**fields))
