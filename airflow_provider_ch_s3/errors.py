"""The exception tree: every error says what, which value, where, and what to do.

::

    ChS3Error
    ├── ConfigError            a connection field or an argument has a wrong value
    ├── SourceError            the files cannot be listed, read or understood
    ├── TargetError            the table is missing, differs between nodes, or does not fit
    ├── ClusterError           the cluster is unknown, or a node cannot be asked
    │   └── ServerUnreachableError  no answer came: what was sent may run or not
    ├── PlanError              no plan can be made from what was found
    ├── ServerError            ClickHouse answered with an error (code and name are kept)
    ├── LoadError              the load ran and failed
    │   ├── OvertakenError     a newer process of the same task works on the load: this one must stop
    │   │   └── LockLostError      perhaps another load only took the lock: then this one may begin again
    │   └── UnknownStateError  nobody can say whether the load ran: never submit a second one
    ├── SettleError            the parts of a table cannot settle
    └── SandboxError           the sandbox did not start, or is not there
"""

from __future__ import annotations

from enum import IntEnum


class ErrorCode(IntEnum):
    """ClickHouse's error codes that decide something here, by ClickHouse's names.

    Source: ``src/Common/ErrorCodes.cpp`` of ClickHouse.
    """

    BAD_ARGUMENTS = 36
    TABLE_ALREADY_EXISTS = 57
    UNKNOWN_TABLE = 60
    INCOMPATIBLE_COLUMNS = 122
    TIMEOUT_EXCEEDED = 159
    UNKNOWN_USER = 192
    WRONG_PASSWORD = 193
    REQUIRED_PASSWORD = 194
    NOT_AN_AGGREGATE = 215
    QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING = 216
    NO_ZOOKEEPER = 225
    ALL_CONNECTION_TRIES_FAILED = 279
    QUERY_IS_PROHIBITED = 392
    ACCESS_DENIED = 497
    AUTHENTICATION_FAILED = 516
    QUERY_CACHE_USED_WITH_NONDETERMINISTIC_FUNCTIONS = 704


class ChS3Error(Exception):
    """Root of all errors raised by this package."""


class ConfigError(ChS3Error):
    """A connection field or an argument has a wrong value."""


class SourceError(ChS3Error):
    """The source files cannot be listed, read or understood."""


class TargetError(ChS3Error):
    """The target table is missing, differs between nodes, or does not fit the files."""


class ClusterError(ChS3Error):
    """The cluster is unknown, or one of its nodes cannot be asked."""


class ServerUnreachableError(ClusterError):
    """No answer came from a server: what was sent to it may run or not, and only its query id can tell."""


class PlanError(ChS3Error):
    """No plan can be made from the cluster, the source and the target."""


class ServerError(ChS3Error):
    """ClickHouse answered with an error.

    :param message: the server's message, without stack trace and secrets.
    :param code: the server's error code; 0 if the answer carried none.
    """

    def __init__(self, message: str, *, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class LoadError(ChS3Error):
    """The load ran and failed."""


class OvertakenError(LoadError):
    """A newer process of the same task took the load over, so this one must stop."""


class LockLostError(OvertakenError):
    """Somebody took the lock of the target over, because this process was too slow: nothing it does counts."""


class UnknownStateError(LoadError):
    """Nobody can say whether the load ran, so a second one must not be started."""


class SettleError(ChS3Error):
    """The parts of a table cannot settle."""


class SandboxError(ChS3Error):
    """The sandbox did not start, or is not there."""
