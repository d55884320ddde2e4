"""The exception tree. Every message says what is wrong, with which value, where, and what to do about it.

A message ends with a code in brackets, such as ``[columns-missing]``. A code stands for one mistake, and stays when
the sentence changes. ``tests/golden/messages.txt`` lists all codes with their sentences, and
``docs/troubleshooting.md`` explains the likely codes.

Classes marked with a dot are final: no retry can change them, so Airflow does not try again. So is any error for
which a grant is missing.

::

    ChS3Error
    ├── ConfigError ·          a connection field or an argument has an invalid value
    ├── SourceError            the files cannot be listed, read or understood
    │   ├── BadValueError ·      a value of the files does not fit its column
    │   ├── StoreAnswerError · what a store says of its files cannot be used
    │   └── SnapshotError ·    the snapshots of a lake table cannot be loaded as files
    ├── TargetError ·          the table does not fit the load, the files, or the rights of the user
    │   ├── TargetChangingError     it is missing on a node, or differs between nodes, perhaps only for a moment
    │   │   └── ColumnsDifferError      its columns differ
    │   └── NewColumnsError ·       the files have columns that it lacks
    ├── ClusterError           the cluster is unknown, or a node cannot be queried
    │   └── ServerUnreachableError  there was no response: the statement may or may not be running
    ├── PlanError ·            no plan is possible for this cluster, source and target
    ├── ServerError            ClickHouse responded with an error (its number and name are kept)
    ├── LoadError              the load ran and failed
    │   ├── CheckFailedError · the staged rows do not fulfil a check: loading them again would not help
    │   ├── OvertakenError     a newer process of the same task has taken over: this one must stop
    │   │   └── LockLostError      the lock was taken over, perhaps by another load: then this one may start again
    │   └── UnknownStateError  it is unknown whether the load ran: it must not be submitted again
    └── SettleError            the parts of a table cannot settle
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

from airflow_provider_ch_s3.discretion import showable


class ErrorCode(IntEnum):
    """The ClickHouse error codes that this package reacts to, under ClickHouse's names.

    Source: ``src/Common/ErrorCodes.cpp`` of ClickHouse.
    """

    ATTEMPT_TO_READ_AFTER_EOF = 32
    BAD_ARGUMENTS = 36
    NUMBER_OF_ARGUMENTS_DOESNT_MATCH = 42
    TABLE_ALREADY_EXISTS = 57
    UNKNOWN_FUNCTION = 46
    UNKNOWN_IDENTIFIER = 47
    UNKNOWN_TABLE = 60
    SYNTAX_ERROR = 62
    UNKNOWN_DATABASE = 81
    INCOMPATIBLE_COLUMNS = 122
    TIMEOUT_EXCEEDED = 159
    ILLEGAL_AGGREGATION = 184
    UNKNOWN_USER = 192
    WRONG_PASSWORD = 193
    REQUIRED_PASSWORD = 194
    DNS_ERROR = 198
    SOCKET_TIMEOUT = 209
    NETWORK_ERROR = 210
    NOT_AN_AGGREGATE = 215
    QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING = 216
    NO_ZOOKEEPER = 225
    ABORTED = 236
    TABLE_IS_READ_ONLY = 242
    ALL_CONNECTION_TRIES_FAILED = 279
    TOO_FEW_LIVE_REPLICAS = 285
    UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE = 286
    UNKNOWN_STATUS_OF_INSERT = 319
    QUERY_IS_PROHIBITED = 392
    VIOLATED_CONSTRAINT = 469
    ACCESS_DENIED = 497
    AUTHENTICATION_FAILED = 516
    CANNOT_EXTRACT_TABLE_STRUCTURE = 636
    NAMED_COLLECTION_DOESNT_EXIST = 669
    QUERY_CACHE_USED_WITH_NONDETERMINISTIC_FUNCTIONS = 704
    KEEPER_EXCEPTION = 999


class ChS3Error(Exception):
    """Root of all errors raised by this package.

    :param code: what is wrong in two to four words, such as ``columns-missing``; the message ends with the code.
    :param sentence: what is wrong, and what to do. Servers, files and their names have a say in the sentence.
    :ivar sentence: the sentence as it may be shown, without the code; for the sentences of other errors.
    :ivar is_final: no retry can change the error.
    :ivar left: the report of the chunks that a load committed before the load failed for good; None without any.
    """

    is_final: bool = False
    left: Any = None

    def __init__(self, code: str, sentence: str) -> None:
        self.code = code
        self.sentence = showable(sentence)
        super().__init__(code, self.sentence)

    def __str__(self) -> str:
        return f"{self.sentence} [{self.code}]"


class ConfigError(ChS3Error):
    """A connection field or an argument has an invalid value."""

    is_final = True


class SourceError(ChS3Error):
    """The source files cannot be listed, read or understood."""


class BadValueError(SourceError):
    """A value of the files does not fit the column.

    Text that cannot be parsed is a different error if the store may give a part of a file, or the file has changed.
    """

    is_final = True


class StoreAnswerError(SourceError):
    """A store's answer about a file cannot be used: a name, a size, a version, or an object too large to read."""

    is_final = True


class SnapshotError(SourceError):
    """The snapshots of a lake table cannot be loaded as files: the files would have other rows than the table."""

    is_final = True


class TargetError(ChS3Error):
    """The target table does not fit the load, the files, or the rights of the user."""

    is_final = True


class TargetChangingError(TargetError):
    """The target is missing on a node, or differs between nodes, perhaps only while somebody changes it."""

    is_final = False


class ColumnsDifferError(TargetChangingError):
    """The target has other columns on another node."""


class NewColumnsError(TargetError):
    """The files have columns that the target lacks.

    :ivar columns: names of these columns.
    """

    def __init__(self, code: str, sentence: str, columns: Sequence[str]) -> None:
        super().__init__(code, sentence)
        self.columns = tuple(columns)


class ClusterError(ChS3Error):
    """The cluster is unknown, or a node cannot be queried."""


class ServerUnreachableError(ClusterError):
    """There was no response from a server: only the query id can tell whether the statement is running."""


class PlanError(ChS3Error):
    """No plan is possible for the cluster, the source and the target."""

    is_final = True


class ServerError(ChS3Error):
    """ClickHouse responded with an error.

    :param sentence: the server's message, without stack trace and secrets.
    :param server_code: ClickHouse's own error code; 0 if the response had none.
    """

    def __init__(self, code: str, sentence: str, *, server_code: int = 0) -> None:
        super().__init__(code, sentence)
        self.server_code = server_code
        self.is_final = server_code == ErrorCode.ACCESS_DENIED


class LoadError(ChS3Error):
    """The load ran and failed."""


class CheckFailedError(LoadError):
    """The staged rows do not fulfil a check, so they were not committed; a retry would find the same rows.

    :ivar results: what each check found.
    """

    is_final = True

    def __init__(self, code: str, sentence: str, results: Sequence[Any]) -> None:
        super().__init__(code, sentence)
        self.results = tuple(results)


class OvertakenError(LoadError):
    """A newer process of the same task has taken over the load, so this one must stop."""


class LockLostError(OvertakenError):
    """Another process has taken over the lock of the target: nothing this process does has an effect any more."""


class UnknownStateError(LoadError):
    """Nobody can say whether the load ran, so the load must not be submitted again."""


class SettleError(ChS3Error):
    """The parts of a table cannot settle."""
