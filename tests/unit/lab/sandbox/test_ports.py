from __future__ import annotations

import random
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ch_s3_lab.errors import SandboxError
from ch_s3_lab.sandbox import ports
from tests.failures import coded

pytestmark = pytest.mark.xdist_group("ports")  # they bind the ports themselves

# It asks within two blocks, and lives until its input ends.
OTHER_PROCESS = """
import sys
from ch_s3_lab.sandbox import ports
ports.PORT_RANGE = range(int(sys.argv[1]), int(sys.argv[1]) + 2 * ports.PORTS_OF_A_BLOCK)
print(*ports.free_ports(40), flush=True)
sys.stdin.read()
"""


@contextmanager
def other_process(first_port: int) -> Iterator[set[int]]:
    command = [sys.executable, "-c", OTHER_PROCESS, str(first_port)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield {int(port) for port in process.stdout.readline().split()}
        process.communicate()


@pytest.fixture
def first_port(monkeypatch: pytest.MonkeyPatch) -> int:
    """The first of two blocks of ports that nobody else asks for."""
    monkeypatch.setattr(ports, "_owned", [])
    first = random.randrange(61_000, 65_000, 2 * ports.PORTS_OF_A_BLOCK)
    monkeypatch.setattr(ports, "PORT_RANGE", range(first, first + 2 * ports.PORTS_OF_A_BLOCK))
    return first


def test_two_processes_that_have_not_listened_yet_get_different_ports(first_port: int) -> None:
    with other_process(first_port) as others:
        mine = set(ports.free_ports(40))
        assert len(mine) == len(others) == 40
        assert not mine & others
        with pytest.raises(SandboxError, match=coded("ports-not-free", "40 free ports")):
            ports.free_ports(40)


def test_the_ports_of_a_process_that_has_ended_are_free_again(first_port: int) -> None:
    ports.free_ports(40)
    with other_process(first_port) as others:
        pass
    assert len(ports.free_ports(40)) == len(others) == 40


def test_a_port_on_which_somebody_listens_is_left_out(first_port: int) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", first_port + 1))
        listener.listen()
        found = {port for _ in range(2) for port in ports.free_ports(ports.PORTS_OF_A_BLOCK - 2)}
    assert first_port + 1 not in found
