"""The command ``ch-s3``."""

from __future__ import annotations

import logging
import os
import signal
import sys
from importlib import import_module
from importlib.metadata import entry_points

from airflow_provider_ch_s3 import __version__
from airflow_provider_ch_s3.cli.parser import CommandParser
from airflow_provider_ch_s3.errors import ChS3Error, ConfigError

# A module for each command. `add_parser(subparsers)` of the module sets `run(args) -> int` as the default of `run`.
# Airflow and drivers are imported only when the command runs.
COMMANDS = ("doctor", "plan", "loads", "docs", "tune")
LAB_COMMANDS = {"bench": "./lab[bench]", "demo": "./lab[demo]", "sandbox": "./lab"}
"""What pip installs in a clone of the repository for each command of the lab."""
ENTRY_POINTS = "ch_s3.commands"
"""The entry points of the lab's commands: name → module."""
DRIVERS = ("urllib3.connectionpool", "clickhouse_connect")
"""Loggers that tell of each failed request; the error of the command says the same."""
INTERRUPTED = 130
"""The exit code of a shell's command ended by Ctrl-C."""


def main(argv: list[str] | None = None) -> int:
    """Run a command; an error of this package ends with a message and exit code 1, Ctrl-C with exit code 130."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    logging.getLogger("airflow_provider_ch_s3").setLevel(logging.INFO)
    for name in DRIVERS:
        logging.getLogger(name).setLevel(logging.ERROR)
    argv = sys.argv[1:] if argv is None else argv
    # Like Ctrl-C: before the end, a command removes what the command created.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if "_ARGCOMPLETE" in os.environ:  # the shell asks for completions
        import argcomplete

        argcomplete.autocomplete(build_parser())
    try:
        if not argv:
            build_parser().print_help()
            return 0
        args = build_parser(argv[0]).parse_args(argv)
        # A command of the lab has loggers of its own.
        logging.getLogger(args.run.__module__.partition(".")[0]).setLevel(logging.INFO)
        code: int = args.run(args)
    except ChS3Error as exc:
        print(f"ch-s3: {exc}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # `| head` has read enough; at the exit, Python would flush what is left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print("ch-s3: interrupted", file=sys.stderr)
        return INTERRUPTED
    return code


def build_parser(name: str | None = None) -> CommandParser:
    """Build the parser of a command, or of all installed commands.

    :param name: the command; only the modules of this command are imported. An unknown word stands for all commands.
    :raises ConfigError: if the command belongs to the lab, and the lab is not installed.
    """
    commands = {command: f"{__name__}.{command}" for command in COMMANDS}
    lacking: dict[str, str] = {}
    if name not in commands:  # otherwise each start would read the entry points of all distributions
        commands |= {point.name: point.module for point in entry_points(group=ENTRY_POINTS)}
        lacking = {command: lab for command, lab in LAB_COMMANDS.items() if command not in commands}
    if name in lacking:
        raise ConfigError(
            "lab-not-installed",
            f"`ch-s3 {name}` is a command of ch-s3-lab, which is not installed here: {install_lab(lacking[name])}",
        )
    parser = CommandParser(
        prog="ch-s3",
        description="Bulk loads from object storage into ClickHouse.",
        epilog=f"`ch-s3 docs sandbox` says how to install {', '.join(lacking)}." if lacking else None,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for module in [commands[name]] if name in commands else commands.values():
        import_module(module).add_parser(subparsers)
    return parser


def install_lab(package: str) -> str:
    """Say how the lab, or an extra of the lab, is installed.

    :param package: as pip takes the package in a clone: ``./lab``, or ``./lab[demo]``.
    """
    return f"run pip install '{package}' in a clone of the repository"
