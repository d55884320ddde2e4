"""Find out what a server waits for in vain (another server, Keeper, replicas), and what to do."""

from __future__ import annotations

import re

from airflow_provider_ch_s3.errors import ErrorCode

THEN = "or wait until it is back, then try again (clear the task, or repeat the command)"
# A server names another one after what went wrong. The codes alone may also be about a file.
_PEER_CODES = frozenset(
    {
        ErrorCode.ATTEMPT_TO_READ_AFTER_EOF,
        ErrorCode.DNS_ERROR,
        ErrorCode.SOCKET_TIMEOUT,
        ErrorCode.NETWORK_ERROR,
        ErrorCode.ALL_CONNECTION_TRIES_FAILED,
    }
)
_HOST = r"(?:[\w-]+(?:\.[\w-]+)*|\[[\da-f:]+\])"
_PEERS = re.compile(
    rf"(?:\(|receiving packet from |(?:from|to) socket \((?:peer: )?)({_HOST}:\d+)"
    rf"|Not found address of host: ({_HOST})"
)
_KEEPER = f"has lost the connection to Keeper; start Keeper (ZooKeeper), {THEN}"
_QUORUM = (
    f"finds too few live replicas of a table for its quorum; start the replica that is down (system.replicas), {THEN}"
)
_ALWAYS = ""
_OTHERS = (
    (
        ErrorCode.KEEPER_EXCEPTION,
        "(?i)session (?:has )?expired|connection loss|operation timeout|connection tries failed|not connected",
        _KEEPER,
    ),
    (ErrorCode.TABLE_IS_READ_ONLY, "(?i)read-?only", _KEEPER),
    (ErrorCode.UNKNOWN_STATUS_OF_INSERT, "(?i)quorum", _QUORUM),
    (ErrorCode.UNKNOWN_STATUS_OF_INSERT, _ALWAYS, _KEEPER),
    (ErrorCode.TOO_FEW_LIVE_REPLICAS, _ALWAYS, _QUORUM),
    (ErrorCode.UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE, _ALWAYS, _QUORUM),
    (
        ErrorCode.TIMEOUT_EXCEEDED,
        "distributed_ddl_task_timeout",
        "waits in vain for other servers to run DDL; start the one that is down (system.clusters names them),"
        f" {THEN}",
    ),
    (ErrorCode.ABORTED, "(?i)shut ?down|shutting down", f"is shutting down; start it, {THEN}"),
)


def find_away(code: int, message: str, *, asked: str = "") -> str:
    """Say what the responding server cannot reach, and what to do; '' if the error has another cause.

    :param code: of the error; ``message``: of the server.
    :param asked: address of the responding server.
    :returns: the end of a sentence about the server, such as ``gets no answer from ch2:9000; start it, …``.
    """
    if code in _PEER_CODES:
        named = dict.fromkeys(one for groups in _PEERS.findall(message) for one in groups if one and one != asked)
        return f"gets no answer from {', '.join(named)}; start it, {THEN}" if named else ""
    return next((said for known, pattern, said in _OTHERS if code == known and re.search(pattern, message)), "")
