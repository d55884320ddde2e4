"""Convert the driver's exceptions to errors of this package: a single clean line, without secrets."""

from __future__ import annotations

import re
from collections.abc import Iterable

from airflow_provider_ch_s3.clickhouse.away import find_away
from airflow_provider_ch_s3.clickhouse.statement import MESSAGE_LIMIT, STACK_TRACE, shorten_lines
from airflow_provider_ch_s3.discretion import get_log, scrub
from airflow_provider_ch_s3.errors import ChS3Error, ConfigError, ErrorCode, ServerError, ServerUnreachableError
from airflow_provider_ch_s3.sql.filters import short_identifier

log = get_log(__name__)

_LOGIN_CODES = frozenset(
    {
        ErrorCode.UNKNOWN_USER,
        ErrorCode.WRONG_PASSWORD,
        ErrorCode.REQUIRED_PASSWORD,
        ErrorCode.AUTHENTICATION_FAILED,
    }
)
_MISSING_GRANT = re.compile(
    r"DB::Exception: (?P<user>(?:(?!DB::Exception: ).)+?): Not enough privileges\."
    r".*? necessary to have the grant (?P<grant>.+?)(?:\. \(|$)",
    re.DOTALL,
)
_TLS_REMEDIES = (
    (re.compile("certificate has expired|not yet valid"), "renew the server's certificate, and check the clocks"),
    (
        re.compile("(?i)hostname mismatch|ip address mismatch|doesn't match|hostname doesn"),
        "correct host and http_endpoints of the connection, or set its field server_host_name to the host in the"
        " certificate",
    ),
    (
        re.compile(r"CERTIFICATE_VERIFY_FAILED|\[X509|NO_CERTIFICATE_OR_CRL_FOUND"),
        "set the connection's field ca_cert to the file of the authority that signed the server's certificate",
    ),
    (
        re.compile("WRONG_VERSION_NUMBER|RECORD_LAYER_FAILURE|HTTP_REQUEST"),
        "the port uses plain HTTP: correct the connection's port, or switch its field secure off",
    ),
    (
        re.compile(
            "(?i)certificate required|handshake failure|bad certificate|unknown ca|PEM lib|KEY_VALUES_MISMATCH"
        ),
        "correct the connection's fields client_cert and client_cert_key",
    ),
)
_CODE = re.compile(r"\bCode: (\d+)|exception, code: (\d+)")
_NOISE = (
    re.compile(r"Received ClickHouse exception, code: \d+(?:, server response: )?"),
    STACK_TRACE,
    re.compile(r"\(for url [^)]*\)\s*$"),
    re.compile(r"\(version (?:[^()]|\([^()]*\))*\)"),
    re.compile(r"<urllib3\.[^>]*>:? ?|(?:HTTPS?Connection(?:Pool)?)\([^)]*\):? ?"),
)


def explain(error: Exception, *, address: str, conn_id: str, secrets: Iterable[str]) -> ChS3Error:
    """Convert a driver's exception to an error with a remedy.

    :param address: ``host:port`` of the server.
    :param secrets: values that the server may echo; each value is replaced by ``***``.
    """
    # Shortened last: half a secret would not be found.
    known = tuple(secrets)
    reason = shorten_lines(scrub(_clean(_innermost_text(error)), known), limit=MESSAGE_LIMIT)
    code = _read_code(error)
    if code in _LOGIN_CODES:
        blank = next((secret for secret in known if secret != secret.strip()), "")
        at_end = ": its password begins or ends with a blank or a line break" if blank else ""
        remedy = f"correct login and password of the connection {conn_id!r}{at_end}"
        return ServerError(
            "login-rejected", f"ClickHouse at {address} rejects the login: {reason}; {remedy}", server_code=code
        )
    if away := find_away(code, reason, asked=address):
        log.info("ClickHouse at %s: %s", address, reason)
        return ServerError("server-away", f"ClickHouse at {address} {away}", server_code=code)
    if code == ErrorCode.ACCESS_DENIED:
        return ServerError("grant-missing", f"ClickHouse at {address}: {_show_denied(reason)}", server_code=code)
    if code:
        return ServerError("server-error", f"ClickHouse at {address}: {reason}", server_code=code)
    if _is_refused_by_driver(error):
        return ConfigError(
            "connection-invalid",
            f"the driver rejects the connection {conn_id!r}: {reason}; correct the connection's extra",
        )
    if remedy := _tls_remedy(reason):
        return ServerUnreachableError(
            "tls-failed", f"TLS with ClickHouse at {address} failed: {reason}; {remedy} (connection {conn_id!r})"
        )
    return ServerUnreachableError(
        "server-unreachable",
        f"no answer from ClickHouse at {address}: {reason}; check that it is running, that host and port of the "
        f"connection {conn_id!r} are those of its HTTP interface, and that secure is set if, and only if, "
        "that port uses TLS",
    )


def _tls_remedy(reason: str) -> str:
    """Return what to correct if TLS failed; '' if something else went wrong."""
    return next((remedy for pattern, remedy in _TLS_REMEDIES if pattern.search(reason)), "")


def _show_denied(reason: str) -> str:
    """Say which right a user lacks, and who grants the right; the server's own words if the server names no right."""
    missing = _MISSING_GRANT.search(reason)
    if missing is None:
        return reason
    user, grant = missing["user"], missing["grant"]
    return (
        f"user {user!r} lacks the right {grant} (ACCESS_DENIED); have an administrator run GRANT {grant} TO"
        f" {short_identifier(user)} on every node (`ch-s3 doctor --grants` prints all rights that a load needs)"
    )


def _read_code(error: Exception) -> int:
    code = getattr(error, "code", None)
    if isinstance(code, int):
        return code
    match = _CODE.search(str(error))
    return int(match[1] or match[2]) if match else 0


def _is_refused_by_driver(error: Exception) -> bool:
    from clickhouse_connect.driver.exceptions import InterfaceError, NotSupportedError, ProgrammingError

    return isinstance(error, (InterfaceError, NotSupportedError, ProgrammingError, TypeError, ValueError))


def _innermost_text(error: Exception) -> str:
    """The innermost cause, e.g. ``Connection refused``, without urllib3's surrounding exceptions."""
    cause = error.__cause__
    while cause is not None:
        inner = getattr(cause, "reason", None)
        if not isinstance(inner, BaseException):
            return str(cause)
        cause = inner
    return str(error)


def _clean(text: str) -> str:
    for noise in _NOISE:
        text = noise.sub("", text)
    return " ".join(text.split())
