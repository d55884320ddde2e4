"""Each engine understands each golden statement."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ch_s3.errors import ServerError
from airflow_provider_ch_s3.hooks.clickhouse_s3 import DATABASE_SETTINGS, QUEUED_SETTINGS
from airflow_provider_ch_s3.hooks.driver import EXECUTE_SETTINGS, RAISED_LIMITS
from airflow_provider_ch_s3.sql.filters import assignments, literals
from airflow_provider_ch_s3.sql.table_queries import render_read_table
from airflow_provider_ch_s3.table.target import TableName
from airflow_provider_ch_s3.tuning.export import EXPORT_RULES
from airflow_provider_ch_s3.tuning.rule import Rule, is_same
from airflow_provider_ch_s3.tuning.rules import EVERY_QUERY, KEPT, NEWER_ANSWERS, RULES, WHOLE_ANSWERS
from ch_s3_lab.errors import SandboxError
from ch_s3_lab.sandbox import Sandbox, SandboxConfig
from ch_s3_lab.sandbox.config import EMBEDDED, SERVERS
from ch_s3_lab.sandbox.engine import package_of
from ch_s3_lab.sandbox.launch import running_sandbox
from ch_s3_lab.sandbox.zookeeper import find_classpath
from tests.marks import thorough
from tests.sandbox.engine_in_process import CLUSTER, answer_each, ask_each

pytestmark = [pytest.mark.sandbox, pytest.mark.every_case]

JUDGED_SETTINGS = Path(__file__).with_name("judged_settings.txt")


def read_judged() -> dict[str, frozenset[str]]:
    """Read what was judged of all settings of 24.8 to 26.9: label → names."""
    labels, *parts = re.split(r"^\[(\w+)\]$", JUDGED_SETTINGS.read_text(), flags=re.M)
    assert not labels.strip()
    return {label: frozenset(names.split()) for label, names in zip(parts[::2], parts[1::2], strict=True)}


# Pinned: no other value is possible, because it would change rows or answers. Sent: a statement or a rule of a plan
# gives it a value, which may be another one. Chosen: how text is written, or the zone of times without one; a plan
# leaves it to the profile. Harmless: whatever a profile sets, nothing is lost or changed silently.
LABELS = read_judged()
JUDGED = frozenset().union(*LABELS.values())
GOLDEN = Path(__file__).parents[1] / "golden"
# What an engine answers to a statement that it does not understand. Files and most tables are not there, so other
# errors are expected.
NOT_UNDERSTOOD = {
    16: "no such column",
    42: "number of arguments",
    43: "type of an argument",
    46: "unknown function",
    47: "unknown identifier",
    50: "unknown type",
    62: "syntax error",
    63: "unknown aggregate function",
    115: "unknown setting",
}
TABLE_COLUMNS = (
    "id UInt64, `tail\\`num` String, dt Date, origin Nullable(String), file String, row UInt64, column String,"
    " value String, line String, reason String, line_count UInt64, opened_row UInt64, ended_row UInt64"
)
TABLES = ("a\\`b", "ch_s3_stage_52115f13b013_0123_2_7_7")
PARAMETERS = ("az_connection_string", "s3_access_key", "s3_external_id", "s3_secret_key", "s3_session_token", "x")
GIVEN = {f"param_{name}": "x" for name in PARAMETERS} | {"max_execution_time": "10", "s3_retry_attempts": "0"}
BEFORE = (
    *(f"CREATE DATABASE `{database}` ENGINE = Atomic" for database in ("it's", "e", "d")),
    *(
        f"CREATE TABLE `it's`.`{table}` ({TABLE_COLUMNS}) ENGINE = MergeTree PARTITION BY dt ORDER BY id"
        for table in TABLES
    ),
)
# Statements that an engine does not understand, each with the reason why it is not sent there, or is known to fail.
WHERE_KNOWN = {
    "copy_partitions": "the setting is sent where the server knows it",
    "replace_partitions_by_nothing": "the setting is sent where the server knows it",
}
NOT_FOR_25_8 = WHERE_KNOWN | {
    "insert_load_delta_changes_unsharded": "change data are read from 26.7 on: they are refused before",
}
NOT_FOR_24_8 = NOT_FOR_25_8 | {
    "check_grant": "sent from 25.8 on",
    "describe_files_iceberg": "24.8 has no functions that read lakes right: they are refused",
    **dict.fromkeys(
        (
            "insert_load_delta_changes",
            "insert_load_delta_named_collection",
            "insert_load_delta_nosign",
            "insert_load_delta_requester_pays",
            "insert_load_delta_server_role",
            "insert_load_delta_session_token",
            "insert_load_iceberg_assumed_role",
            "insert_load_iceberg_keys",
            "insert_load_iceberg_single",
        ),
        "as describe_files_iceberg",
    ),
    "insert_load_compared_rows": "position deletes are compared from 26.7 on: they are refused before",
    "flush_logs_on_cluster": "24.8 is sent flush_logs_old",
    "insert_export_assumed_role": "24.8 knows no roles: they are refused",
    "insert_lines_cluster": "24.8 does not number the lines of a file: bad_rows=Reject(…) is refused",
    "insert_lines_json": "as insert_lines_cluster",
    "insert_lines_single": "as insert_lines_cluster",
    "read_first_line_single": "as insert_lines_cluster",
}
NOT_FOR = {EMBEDDED: dict[str, str](), "25.8": NOT_FOR_25_8, "24.8": NOT_FOR_24_8}
# Their examples name columns that their subquery or structure does not have, or has with another type.
LOOSE_EXAMPLES = {
    "check_condition_here",
    "count_uneven_text",
    "describe_select_keys",
    "insert_load_compared_files",
    "sample_files_keys",
    "sample_partitions_keys",
}


@pytest.fixture(scope="module", params=[EMBEDDED, *(thorough(version) for version in SERVERS)])
def engine(request: pytest.FixtureRequest) -> Iterator[tuple[str, Sandbox]]:
    config = SandboxConfig(shards=1, engine=request.param)
    try:
        package_of(config.engine)
        if config.has_keeper:
            find_classpath(config.zookeeper)
    except SandboxError as error:
        pytest.skip(str(error))
    with running_sandbox(config) as sandbox:
        yield config.engine, sandbox


def statements() -> list[tuple[str, str]]:
    """The golden statements by name: those that create come first, those that drop last."""
    order = {"CREATE": 0, "DROP": 2}
    texts = [(path.stem, path.read_text()) for path in sorted(GOLDEN.glob("*.sql"))]
    return sorted(texts, key=lambda named: order.get(named[1].split()[0], 1))


def at_home(text: str, cluster: str, endpoint: str) -> str:
    """Name a cluster and an object store that are there, unlike those of the golden statements."""
    text = text.replace(" ON CLUSTER `it's`", "")
    text = re.sub(r"(\w*[cC]luster\w*|Distributed)\('it\\'s'", rf"\1('{cluster}'", text)
    return re.sub(r"'https?://[^/'\"]*", f"'{endpoint}", text)


def on_one_server(text: str) -> str:
    """What a server without a cluster is sent."""
    text = re.sub(r"clusterAllReplicas\('it\\'s', (system\.\w+)\)", r"\1", text)
    table = r"cluster(?:AllReplicas)?\('it\\'s', 'it\\'s', '(\w+`?\w*)'(?:, cityHash64\(id, 'it\\'s'\))?\)"
    text = re.sub(rf"(?:FUNCTION )?{table}", lambda found: "`it's`.`{}`".format(found[1].replace("`", "\\`")), text)
    return re.sub(r"(\w+)Cluster\('it\\'s', ", r"\1(", text)


def complaint(code: int, said: str) -> str:
    """Why an engine does not understand a statement, from its error; '' if it does."""
    return f"{NOT_UNDERSTOOD[code]}: {said}" if code in NOT_UNDERSTOOD else ""


def answer(sandbox: Sandbox, text: str) -> str:
    try:
        sandbox.query(at_home(text, sandbox.cluster, sandbox.s3_endpoint), settings=GIVEN)
    except ServerError as error:
        return complaint(error.server_code, str(error))
    return ""


def check(found: dict[str, str], known: dict[str, str]) -> None:
    """Check what an engine does not understand.

    :param known: what it is not sent.
    """
    unexpected = found.keys() - known.keys() - LOOSE_EXAMPLES
    assert not unexpected, "\n".join(f"{name}: {found[name]}" for name in sorted(unexpected))
    assert known.keys() - found.keys() == set(), "understood after all"


def test_the_engine_understands_each_statement(engine: tuple[str, Sandbox]) -> None:
    version, sandbox = engine
    for statement in BEFORE:
        sandbox.query(statement)
    found = {name: said for name, text in statements() if (said := answer(sandbox, text))}
    check(found, NOT_FOR[version])


def test_each_setting_of_the_engine_was_judged(engine: tuple[str, Sandbox]) -> None:
    """A setting that is new may change which rows statements read or write, as ``filter`` does: then it is pinned."""
    _, sandbox = engine
    rows = sandbox.query("SELECT name FROM system.settings")
    names = {row["name"] for row in rows}
    assert names - JUDGED == set(), (
        "what do these do to a statement of a load, if a profile sets them? Pin what changes rows or answers"
        f" (NEWER_ANSWERS, KEPT in tuning/rules.py), and add each with its label to {JUDGED_SETTINGS}"
    )
    assert WHOLE_ANSWERS.keys() <= names
    assert NEWER_ANSWERS.keys() <= JUDGED


def test_each_label_of_a_setting_is_true() -> None:
    """What is pinned or sent is so in our statements, clients and rules, and nothing else is."""
    rules: list[Rule[Any]] = [*RULES, *KEPT, *EVERY_QUERY, *EXPORT_RULES]
    pinned = {*WHOLE_ANSWERS, *NEWER_ANSWERS, *(rule.name for rule in rules if rule.is_pinned)}
    clauses = [text.partition("SETTINGS")[2] for _, text in statements()]
    named = {name for clause in clauses for name in re.findall(r"(\w+) = ", clause)}
    given = {*EXECUTE_SETTINGS, *QUEUED_SETTINGS, *DATABASE_SETTINGS, *RAISED_LIMITS}
    # but for settings of tables, and parameters of a request
    sent = JUDGED & {*named, *given, *(rule.name for rule in rules)} - pinned
    assert LABELS.keys() == {"pinned", "sent", "chosen", "harmless"}
    assert (sorted(LABELS["pinned"]), sorted(LABELS["sent"])) == (sorted(pinned), sorted(sent))
    assert sum(map(len, LABELS.values())) == len(JUDGED)


@pytest.mark.thorough
def test_each_setting_of_the_newest_engine_was_judged(tmp_path: Path) -> None:
    unjudged = (
        "SELECT toUInt8(concat('unjudged: ', arrayStringConcat(groupArray(name), ' '))) FROM system.settings"
        f" WHERE name NOT IN ({literals(sorted(JUDGED))}) HAVING count() > 0"
    )
    settings = assignments(NEWER_ANSWERS)
    inserts = [
        "CREATE TABLE t (n UInt8) ENGINE = MergeTree ORDER BY n",
        f"INSERT INTO t SELECT number FROM numbers(10) SETTINGS {settings}",
        "SELECT throwIf((count(), sum(n)) != (10, 45)) FROM t",
        # What they do, so that they are pinned.
        "INSERT INTO t SELECT number FROM numbers(10) SETTINGS filter = 'number < 3', select = 'number + 1'",
        "SELECT throwIf((count(), sum(n)) != (13, 51)) FROM t",
    ]
    assert ask_each([unjudged, *inserts], tmp_path) == [""] * 6


@pytest.mark.thorough
def test_the_newest_engine_answers_whole_by_default(tmp_path: Path) -> None:
    """A profile with any other value is refused."""
    names = literals(sorted(NEWER_ANSWERS))
    ((error, answer),) = answer_each([f"SELECT name, value FROM system.settings WHERE name IN ({names})"], tmp_path)
    assert not error
    found = {row["name"]: row["value"] for row in map(json.loads, answer.splitlines())}
    assert found.keys() == NEWER_ANSWERS.keys()
    assert {name: found[name] for name, value in NEWER_ANSWERS.items() if not is_same(found[name], value)} == {}


@pytest.mark.thorough
def test_the_newest_engine_shows_which_table_has_a_unique_key(tmp_path: Path) -> None:
    """Such a table takes no partitions, and is refused."""
    asked = [
        "SET enable_unique_key = 1",
        "CREATE TABLE u (id UInt64, day UInt8) ENGINE = MergeTree PARTITION BY day ORDER BY id UNIQUE KEY (id)",
        "CREATE TABLE p (id UInt64, day UInt8 COMMENT 'a UNIQUE KEY b') ENGINE = MergeTree PARTITION BY day"
        " ORDER BY id COMMENT 'a UNIQUE KEY b'",
        "INSERT INTO p VALUES (1, 1)",
        "ALTER TABLE p MOVE PARTITION 1 TO TABLE u",
        *(render_read_table(TableName(database="default", table=name), None).text for name in ("u", "p")),
    ]
    *_, moved, unique, plain = answer_each(asked, tmp_path)
    assert re.match(r"Code: 344\b", moved[0])
    assert [json.loads(answer)["has_unique_key"] for _, answer in (unique, plain)] == [1, 0]


@pytest.mark.thorough
def test_the_newest_engine_understands_each_statement_of_one_server(ch_s3_sandbox: Sandbox, tmp_path: Path) -> None:
    """No other node can answer an engine in process: statements over a cluster are tried as for one server."""
    before = [*BEFORE, *(f"SET {name} = '{value}'" for name, value in GIVEN.items()), "SYSTEM FLUSH LOGS"]
    asked = {name: at_home(on_one_server(text), CLUSTER, ch_s3_sandbox.s3_endpoint) for name, text in statements()}
    said = ask_each([*before, *asked.values()], tmp_path)
    assert said[: len(before)] == [""] * len(before)
    found = dict(zip(asked, said[len(before) :], strict=True))
    codes = {name: int(code[1]) for name, text in found.items() if (code := re.match(r"Code: (\d+)", text))}
    assert codes.keys() == {name for name, text in found.items() if text}
    check({name: why for name, code in codes.items() if (why := complaint(code, found[name]))}, {})
