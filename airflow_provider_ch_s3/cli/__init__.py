"""The command ``ch-s3``."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module

from airflow_provider_ch_s3 import __version__
from airflow_provider_ch_s3.cli.parser import CommandParser
from airflow_provider_ch_s3.errors import ChS3Error

# A module for each command. `add_parser(subparsers)` of the module sets `run(args) -> int` as the default of `run`.
# Airflow, moto and drivers are imported only when the command runs.
COMMANDS = ("doctor", "plan", "loads", "docs", "tune", "bench", "sandbox", "demo")
INTERRUPTED = 130
"""The exit code of a shell's command ended by Ctrl-C."""


def main(argv: list[str] | None = None) -> int:
    """Run a command; an error of this package becomes a message and exit code 1, Ctrl-C one and exit code 130."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    logging.getLogger("airflow_provider_ch_s3").setLevel(logging.INFO)
    argv = sys.argv[1:] if argv is None else argv
    # Like Ctrl-C: before the end, a command removes what the command created.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if "_ARGCOMPLETE" in os.environ:  # the shell asks for completions
        import argcomplete

        argcomplete.autocomplete(build_parser())
    try:
        # A production worker that runs `ch-s3 tune` imports neither the sandbox nor the benchmark.
        args = build_parser([name for name in COMMANDS if name in argv[:1]] or COMMANDS).parse_args(argv)
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


def build_parser(commands: Sequence[str] = COMMANDS) -> CommandParser:
    """Build the parser of these commands."""
    parser = CommandParser(
        prog="ch-s3",
        description="Bulk loads from object storage into ClickHouse, and a sandbox to try them in.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in commands:
        import_module(f"{__name__}.{name}").add_parser(subparsers)
    return parser
