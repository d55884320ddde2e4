"""Ports for the processes of a sandbox and of a demo, each used by a single process of this kind."""

from __future__ import annotations

import random
import socket
from itertools import islice

from airflow_provider_ch_s3.common.text import count_of
from ch_s3_lab.errors import SandboxError

# Below the ports that Linux assigns to outgoing connections: one of those could occupy a node's port
# at the moment when the node restarts.
PORT_RANGE = range(20_000, 32_000)
# Enough for a sandbox of 24 nodes.
PORTS_OF_A_BLOCK = 100

# A server listens seconds after its port was chosen, and until then another sandbox could take it. So a process that
# has bound the first port of a block owns the others until it ends.
_owned: list[socket.socket] = []


def free_ports(count: int) -> list[int]:
    """Find distinct, unused ports of 127.0.0.1; no other caller gets them while this process lives.

    :raises SandboxError: if there are not enough of them.
    """
    firsts = PORT_RANGE[::PORTS_OF_A_BLOCK]
    for first in random.sample(firsts, len(firsts)):
        owner = _bind(first)
        if owner is None:
            continue
        found = list(islice(filter(_is_free, range(first + 1, first + PORTS_OF_A_BLOCK)), count))
        if len(found) == count:
            _owned.append(owner)
            return found
        owner.close()
    raise SandboxError(
        "ports-not-free",
        f"there are fewer than {count_of(count, 'free port')} on 127.0.0.1 between {PORT_RANGE.start} and"
        f" {PORT_RANGE.stop - 1}; stop processes that listen there",
    )


def _bind(port: int) -> socket.socket | None:
    bound = socket.socket()
    try:
        bound.bind(("127.0.0.1", port))
    except OSError:
        bound.close()
        return None
    return bound


def _is_free(port: int) -> bool:
    bound = _bind(port)
    if bound:
        bound.close()
    return bound is not None
