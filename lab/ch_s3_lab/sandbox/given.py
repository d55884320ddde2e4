"""A running cluster, used in place of a sandbox."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from ch_s3_lab.errors import SandboxError
from ch_s3_lab.sandbox.config import SandboxConfig
from ch_s3_lab.sandbox.info import GIVEN_VARIABLE, Sandbox
from ch_s3_lab.sandbox.launch import running_sandbox

COMPOSE_KEY = "x-sandbox"
"""The key of a compose file with the description of a sandbox."""


def given_sandbox() -> Sandbox | None:
    """Describe the cluster in the variable ``CH_S3_SANDBOX``; None without the variable.

    The variable holds the output of ``ch-s3 sandbox up --json``, or the path of a compose file.

    :raises SandboxError: if the variable names no readable compose file.
    :raises ConfigError: if the description is incomplete.
    """
    given = os.environ.get(GIVEN_VARIABLE)
    if not given:
        return None
    if given.lstrip().startswith("{"):
        return Sandbox.from_json(given)
    try:
        described = yaml.safe_load(Path(given).read_text())[COMPOSE_KEY]
    except (OSError, yaml.YAMLError, KeyError, TypeError):
        raise SandboxError(
            "sandbox-description-invalid",
            f"{GIVEN_VARIABLE} does not name a compose file with the addresses of a cluster ({COMPOSE_KEY}); set the"
            " variable to the path of compose.yaml, or to the line that `ch-s3 sandbox up --json` prints",
        ) from None
    return Sandbox.from_json(json.dumps(described))


@contextmanager
def given_or_running_sandbox(config: SandboxConfig) -> Iterator[Sandbox]:
    """Use the cluster in the variable, and leave the cluster running; without the variable, run a sandbox."""
    if given := given_sandbox():
        yield given
        return
    with running_sandbox(config) as sandbox:
        yield sandbox
