"""A user with exactly the rights that ``ch-s3 doctor --grants`` prints."""

from __future__ import annotations

import logging
import re
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ch_s3.arguments import Columns
from airflow_provider_ch_s3.cli import main
from airflow_provider_ch_s3.errors import ChS3Error, TargetError
from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
from airflow_provider_ch_s3.modes import Merge, ReplacePartitions, ReplaceWhere
from airflow_provider_ch_s3.sensors.parts_settled import ClickHousePartsSettledSensor
from tests.failures import coded, own_errors
from tests.sandbox.conftest import Lab, bag
from tests.sandbox.few import EVEN_AND_ODD, is_clean, put_numbers
from tests.sandbox.topologies import only_on, topologies

pytestmark = [pytest.mark.sandbox, pytest.mark.every_case]

PAGE = Path(__file__).parents[2] / "docs" / "permissions.md"
OPTIONAL = "SYSTEM FLUSH LOGS ON *.*"
UNTOLD = ("S3", "REMOTE")
"""Rights to read from elsewhere: the servers tell of none of them in the same words, or not at all."""
OF_LAGS = ("system.replicated_fetches",)
"""Read only while a replica is behind."""
ROWS = [{"n": n} for n in range(24)]
MODES: dict[str, dict[str, Any]] = {
    "append": {"mode": "append"},
    "replace_partitions": {"mode": ReplacePartitions(on_partial="replace")},
    "replace_table": {"mode": "replace_table"},
    "replace_where": {"mode": ReplaceWhere("n < 1000")},
    "merge": {"mode": Merge(key=["n"])},
}


@pytest.fixture
def table(replicated_lab: Lab) -> str:
    return replicated_lab.create("t", "n UInt32", EVEN_AND_ODD)


@pytest.fixture
def sharded(replicated_lab: Lab, table: str) -> str:
    return replicated_lab.distribute(table, "n")


@pytest.fixture
def grants(replicated_lab: Lab, table: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The printed GRANT statements, for a user of this test, as whom the lab loads from now on."""
    lab = replicated_lab
    user = f"least_{lab.database}"
    lab.query(f"CREATE USER {user} ON CLUSTER {lab.sandbox.cluster} IDENTIFIED BY 'secret of {user}'")
    lab.connect_clickhouse(login=user, password=f"secret of {user}")
    # these servers ask for no grant of an engine
    found = [f"{one} TO {user}" for one in print_grants(capsys) if not one.startswith("TABLE ENGINE")]
    for grant in (*found, f"{OPTIONAL} TO {user}"):
        lab.query(f"GRANT ON CLUSTER {lab.sandbox.cluster} {grant}")
    for number in range(3):
        put_numbers(lab, f"in/{number}.csv", ROWS[number::3])
    return found


def print_grants(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    """The printed rights that are not optional, as parts of GRANT statements."""
    capsys.readouterr()
    assert main(["doctor", "--conn-id", "ch", "--grants", *arguments]) == 0
    needed = re.sub("--.*", "", capsys.readouterr().out.partition("-- optional:")[0])
    statements = re.findall(r"GRANT\s+(.+?)\s+TO \w+;", needed, re.DOTALL)
    return [one.strip() for grant in statements for one in grant.split(",\n")]


@pytest.mark.thorough  # each push has test_grants.py
@topologies("on-cluster")
def test_they_are_enough(replicated_lab: Lab, table: str, grants: list[str]) -> None:
    assert len(grants) > 15
    use_all(replicated_lab, table, "all")
    assert bag(replicated_lab.rows(table)) == bag(ROWS)
    assert is_clean(replicated_lab)
    assert find_unused(replicated_lab, grants) == []


@pytest.mark.thorough
@topologies("on-cluster")
def test_they_are_enough_to_send_rows_to_their_shards(
    replicated_lab: Lab, table: str, sharded: str, grants: list[str]
) -> None:
    report = replicated_lab.load("in/*.csv", sharded)
    assert replicated_lab.settings(report)["parallel_distributed_insert_select"]["value"] == 1
    assert bag(replicated_lab.rows(table)) == bag(ROWS)


@pytest.mark.thorough
@topologies("on-cluster")
def test_without_the_optional_one_a_load_waits_for_the_log(
    replicated_lab: Lab, table: str, grants: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    assert f"-- GRANT {OPTIONAL} TO loader;" in PAGE.read_text()
    lab = replicated_lab
    lab.query(f"REVOKE ON CLUSTER {lab.sandbox.cluster} {OPTIONAL} FROM least_{lab.database}")
    caplog.set_level(logging.INFO)
    lab.load("in/*.csv", table)
    assert len([r for r in caplog.records if f"GRANT {OPTIONAL}" in r.message]) == 1
    assert bag(lab.rows(table)) == bag(ROWS)


def find_unused(lab: Lab, grants: list[str]) -> list[str]:
    """The rights that no statement has used, by what the servers say of them."""
    lab.connect_clickhouse()
    lab.everywhere("SYSTEM FLUSH LOGS")
    used = set()
    for row in lab.everywhere(
        "SELECT DISTINCT arrayJoin(used_privileges) AS used FROM system.query_log"
        f" WHERE user = 'least_{lab.database}'"
    ):
        rights, _, what = row["used"].rpartition(" ON ")
        used |= {(right, what) for right in re.sub(r"\([^)]*\)", "", rights).split(", ")}
    rights = [(right, what) for grant in grants for right, what, _ in split(grant)]
    (engine,) = (
        row["engine"] for row in lab.query(f"SELECT engine FROM system.databases WHERE name = '{lab.database}'")
    )
    # A Replicated database runs DDL everywhere by itself.
    needless = (*UNTOLD, "CLUSTER") if engine == "Replicated" else UNTOLD
    return [
        f"{right} ON {what}"
        for right, what in rights
        if right not in needless
        and what not in OF_LAGS
        and not any(one == right and fnmatch(on, what) for one, on in used)
    ]


def use_all(lab: Lab, table: str, name: str) -> None:
    """Use everything that needs rights; afterwards the table holds the rows of the files."""
    works, said = ClickHouseS3Hook(clickhouse_conn_id="ch").test_connection()
    if not works:
        raise ChS3Error("a-code", said)
    for mode, arguments in MODES.items():
        lab.load("in/*.csv", table, task_id=f"{name}-{mode}", **arguments)
    lab.load("in/*.csv", table, mode="direct", task_id=f"{name}-direct")
    lab.put("narrow/a.csv", b"n\n1\n")
    lab.put("wider/a.csv", b"n,more\n1,2\n")
    new, given = f"{lab.database}.new_{name}", {"create_table": "auto", "data_format": "CSVWithNames"}
    lab.load("narrow/*.csv", new, task_id=f"{name}-new", **given)
    lab.load("wider/*.csv", new, task_id=f"{name}-wider", columns=Columns(on_new="add"), **given)
    sensor = ClickHousePartsSettledSensor(task_id="s", table=table, clickhouse_conn_id="ch", stable_seconds=0)
    sensor.poke({})
    operator = lab.operator("in/*.csv", table, mode="replace_table", task_id=f"{name}-killed")
    with own_errors():
        operator.execute(lab.context(operator))
    operator.on_kill()
    for options in ((), ("prune", "--older-than-days", "0")):
        if lab.loads(*options):
            raise ChS3Error("a-code", "loads failed")
    if main(["plan", *lab.arguments(table)]):
        raise ChS3Error("a-code", "plan failed")


@pytest.mark.thorough
@pytest.mark.timeout(1800)
@only_on("on-cluster")
def test_none_of_them_is_too_many(replicated_lab: Lab, table: str, grants: list[str]) -> None:
    lab = replicated_lab
    unused = []
    rights = [(right, what, user) for grant in grants for right, what, user in split(grant)]
    for number, (right, what, user) in enumerate(rights):
        lab.query(f"REVOKE ON CLUSTER {lab.sandbox.cluster} {right} ON {what} FROM {user}")
        with suppress(ChS3Error):
            use_all(lab, table, str(number))
            unused.append(f"{right} ON {what}")
        lab.query(f"GRANT ON CLUSTER {lab.sandbox.cluster} {right} ON {what} TO {user}")
    assert unused == []
    use_all(lab, table, "again")  # only the missing rights made it fail


def split(grant: str) -> list[tuple[str, str, str]]:
    """Split a statement into its rights: which right, on what, to whom."""
    match = re.fullmatch(r"(.+) ON (\S+) TO (\S+)", grant)
    assert match
    return [(right, match[2], match[3]) for right in match[1].split(", ")]


@pytest.mark.thorough
@only_on("on-cluster")
def test_rights_on_each_table_by_its_name(replicated_lab: Lab, table: str, grants: list[str]) -> None:
    """For an administrator who grants no rights on the whole database."""
    lab = replicated_lab
    on_cluster = f"ON CLUSTER {lab.sandbox.cluster}"
    for right, what, user in (one for grant in grants for one in split(grant)):
        if what == f"{lab.database}.*":
            lab.query(f"REVOKE {on_cluster} {right} ON {what} FROM {user}")
            lab.query(f"GRANT {on_cluster} {right} ON {lab.database}.ch_s3_* TO {user}")
            if right in ("SELECT", "INSERT"):
                lab.query(f"GRANT {on_cluster} {right} ON {table} TO {user}")
    lab.load("in/*.csv", table)
    assert bag(lab.rows(table)) == bag(ROWS)
    says = coded("grant-missing", f"GRANT ALTER DELETE ON {table} TO")
    with pytest.raises(TargetError, match=says):
        lab.load("in/*.csv", table, mode="replace_table", task_id="replace")


@pytest.mark.thorough
@pytest.mark.parametrize("right", ["ALTER SETTINGS", "S3", "CREATE TABLE", "SELECT ON system.query_log"])
@only_on("on-cluster")
def test_one_that_is_missing_is_named(replicated_lab: Lab, table: str, grants: list[str], right: str) -> None:
    lab = replicated_lab
    given = [next(iter(split(grant))) for grant in grants if right in grant]
    user = given[0][2]
    change = ", ".join(right if " ON " in right else f"{right} ON {what}" for _, what, _ in given)
    lab.query(f"REVOKE ON CLUSTER {lab.sandbox.cluster} {change} FROM {user}")
    with pytest.raises(ChS3Error) as caught:
        lab.load("in/*.csv", table)
    # S3 is READ ON S3 by now
    assert ("nothing was changed" in caught.value.sentence) == (right in ("ALTER SETTINGS", "CREATE TABLE"))
    assert re.search(rf"GRANT [^;]*{right}", caught.value.sentence), caught.value.sentence
    assert caught.value.is_final
    assert lab.rows(table) == []
    lab.query(f"GRANT ON CLUSTER {lab.sandbox.cluster} {change} TO {user}")
    lab.load("in/*.csv", table, try_number=2)
    assert bag(lab.rows(table)) == bag(ROWS)
    assert is_clean(lab)
