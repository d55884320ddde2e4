"""A secrets backend that has no secrets, and writes down what it is asked for."""

from __future__ import annotations

from pathlib import Path

from airflow.secrets.base_secrets import BaseSecretsBackend


class RecordingBackend(BaseSecretsBackend):
    """Appends the id of each connection that it is asked for to a file."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = Path(path)

    def get_conn_value(self, conn_id: str, team_name: str | None = None) -> None:
        with self.path.open("a") as file:
            file.write(f"{conn_id}\n")
