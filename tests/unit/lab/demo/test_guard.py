"""Processes that would outlive whoever started them, and what does not let them: a guard, and the kernel."""

from __future__ import annotations

import signal
import subprocess
import sys
from operator import not_

import pytest

from airflow_provider_ch_s3.common.timing import REAL_TIME
from tests.processes import alive

STARTER = """
import subprocess, sys, time
from ch_s3_lab.sandbox.bound import bound_command
from ch_s3_lab.demo.guard import Guard
if sys.argv[1] == "bound":
    print(subprocess.Popen(bound_command(["sleep", "600"])).pid, flush=True)
    time.sleep(600)
started = subprocess.Popen(["sleep", "600"], start_new_session=True)
guard = Guard()
guard.watch(started.pid)
print(started.pid, flush=True)
if sys.argv[1] == "close":
    guard.close()
    print(started.wait(), flush=True)
time.sleep(600)
"""
WAIT_SECONDS = 30


def start(how: str) -> tuple[subprocess.Popen[str], int]:
    starter = subprocess.Popen([sys.executable, "-c", STARTER, how], stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    return starter, int(starter.stdout.readline())


@pytest.mark.parametrize("how", ["guarded", "bound"])
def test_whoever_is_killed_leaves_nothing_behind(how: str) -> None:
    starter, pid = start(how)
    with starter:
        assert alive(pid)
        starter.kill()
    assert not REAL_TIME.poll(lambda: alive(pid), until=not_, seconds=WAIT_SECONDS, pause_seconds=0.05)


def test_what_is_left_when_it_closes_is_killed() -> None:
    starter, _ = start("close")
    with starter:
        assert starter.stdout is not None
        assert int(starter.stdout.readline()) == -signal.SIGKILL
        starter.kill()
