"""Bars on a terminal, and nothing in a pipe."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress

import pytest

STEPS = """
from airflow_provider_ch_s3.common.bars import show_steps
with show_steps("loads", 3) as advance:
    print("one line", flush=True)
    advance()
    advance()
"""
BYTES = """
import time
from ch_s3_lab.sandbox.registries import show_bytes
with show_bytes("an engine", lambda: 2_000_000):
    time.sleep(1.2)
"""


@pytest.mark.parametrize(
    ("script", "shown"), [pytest.param(STEPS, "2/3", id="steps"), pytest.param(BYTES, "2.0/? MB", id="bytes")]
)
def test_a_terminal_has_a_bar_and_a_pipe_has_none(script: str, shown: str) -> None:
    command = [sys.executable, "-c", script]
    piped = subprocess.run(command, capture_output=True, text=True, check=True)
    assert piped.stderr == ""
    leader, follower = os.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=follower, env=environment) as process:
        os.close(follower)
        chunks = []
        with suppress(OSError):  # what Linux says at the end of a terminal
            while chunk := os.read(leader, 65_536):
                chunks.append(chunk)
        os.close(leader)
    assert process.returncode == 0
    assert shown in b"".join(chunks).decode()
