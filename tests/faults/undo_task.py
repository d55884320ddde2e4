"""``ch-s3 loads undo`` as a task: each try runs the command."""

from __future__ import annotations

from typing import Any

from airflow_provider_ch_s3.cli import build_parser


class UndoTask:
    """Undoes a load; takes no notice of the arguments that only loads have.

    :param database: of the ledger.
    :param load: its id.
    """

    def __init__(self, *, clickhouse_conn_id: str, database: str, load: str, **_: Any) -> None:
        self.command = ["loads", "--conn-id", clickhouse_conn_id, "--database", database, "undo", "--yes", load]

    def execute(self, _: Any) -> None:
        arguments = build_parser("loads").parse_args(self.command)
        arguments.run(arguments)

    def on_kill(self) -> None:
        """A command that is killed leaves the rest to the next load."""
