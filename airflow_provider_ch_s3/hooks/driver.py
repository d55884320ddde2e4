"""Send statements through the driver, each to one address: clients, timeouts, clear errors without secrets."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, quote_plus, urlencode

from airflow.providers.clickhousedb.hooks.clickhouse import ClickHouseHook
from airflow.providers.common.compat.sdk import AirflowNotFoundException
from urllib3 import Timeout

from airflow_provider_ch_s3.clickhouse.statement import SettingValue, Statement
from airflow_provider_ch_s3.common.environment import refuse_unreadable, variable_of
from airflow_provider_ch_s3.common.seal import Login
from airflow_provider_ch_s3.common.text import format_address
from airflow_provider_ch_s3.discretion import get_log, keep_secret, scrub
from airflow_provider_ch_s3.errors import ChS3Error, ConfigError, ErrorCode, ServerError
from airflow_provider_ch_s3.hooks.connection import TLS_ARGUMENTS, clean_connection, fit_tls
from airflow_provider_ch_s3.hooks.driver_errors import explain
from airflow_provider_ch_s3.sql.filters import literal
from airflow_provider_ch_s3.tuning.rule import is_same
from airflow_provider_ch_s3.tuning.rules import NEWER_ANSWERS, WHOLE_ANSWERS

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Connection
    from clickhouse_connect.driver.client import Client

log = get_log(__name__)

Result = TypeVar("Result")

EXECUTE_TIMEOUT_SECONDS = 30 * 24 * 3600
"""``execute`` waits as long as the statement runs.

TCP keep-alive detects a server that is gone, and a load limits itself with ``max_execution_time``.
"""

MAX_FORM_BYTES = 128 * 1024
"""The longest form field that ClickHouse accepts (``http_max_field_value_size``)."""

# For a long statement, in multiples of the statement's bytes: an element takes at least a character, and is written
# out at each use of the element's alias.
RAISED_LIMITS = {"max_query_size": 2, "max_ast_elements": 1, "max_expanded_ast_elements": 10}

# With progress headers, a statement whose client is gone fails at the next header. A partition command waits only for
# the replica on the same node, whatever a profile says: the commit itself waits for the remaining replicas.
EXECUTE_SETTINGS = {"send_progress_in_http_headers": 0, "alter_sync": 1}

# Columns of ClickHouse's logs that quote statements, including any secrets in them.
_ERROR_COLUMNS = ("exception", "failure")
_SECRET_KWARGS = ("password", "access_token", "http_proxy", "https_proxy")


@dataclass(frozen=True, kw_only=True)
class ClientKind:
    """The purpose of a driver client; a client is created for each kind.

    :param address: ``host:port``; None for the connection's own address.
    :param keeps_final: leaves the choice to the user's profile whether tables are read with ``FINAL``.
    """

    address: str | None
    keeps_final: bool


@dataclass(frozen=True, kw_only=True)
class _Sent:
    """The statement that a thread sends, as the pool of connections has to know it.

    :param is_patient: wait for the answer as long as the statement runs.
    """

    parameters: Mapping[str, str]
    is_patient: bool


_SENT: ContextVar[_Sent] = ContextVar("sent")


class DriverHook(ClickHouseHook):  # type: ignore[misc]
    """The official hook with a checked connection and errors without secrets."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._clients: dict[ClientKind, Client] = {}
        # A signal handler that kills a load may interrupt the same thread while the thread holds the lock.
        self._clients_lock = threading.RLock()
        self._sent_secrets: set[str] = set()
        self._find_more_secrets: Callable[[], Iterable[str]] = tuple

    @classmethod
    def get_connection(cls, conn_id: str) -> Connection:
        """Get the connection with a clean extra.

        A form saves ``null`` for each field left empty, and a URI holds only strings. The official hook takes
        ``verify: null`` for false, and would check no certificate.

        :raises ConfigError: if Airflow has no connection of this id, or if the connection is not to ClickHouse, has
            no host, or has an unknown key in the extra.
        """
        if not conn_id:
            raise ConfigError("argument-missing", f"clickhouse_conn_id is {conn_id!r}; give the id of a connection")
        try:
            stored = super().get_connection(conn_id)
        except AirflowNotFoundException as error:
            refuse_unreadable(conn_id)
            variable = variable_of(conn_id)
            raise ConfigError(
                "connection-missing",
                f"Airflow has no connection {conn_id!r} to ClickHouse; create it in"
                f"{f' the environment as {variable}, in' if variable else ''} a secrets backend or in Airflow's"
                " database, or name another one",
            ) from error
        return clean_connection(stored, conn_id)

    def _read_address(self) -> str:
        """Read host and port of the connection, whatever else is wrong."""
        stored = super().get_connection(self.get_conn_id())
        return ":".join(str(part) for part in (stored.host or "(no host)", stored.port) if part)

    @property
    def connection_settings(self) -> dict[str, Any]:
        """The ClickHouse settings in the connection's ``session_settings``."""
        return dict(self._driver_kwargs.get("settings", {}))

    def get_uri(self) -> str:
        """Get the SQLAlchemy URI.

        The official method breaks on a login such as ``me@example.com``, and writes a blank of the password as ``+``.
        """
        connection = self.get_connection(self.get_conn_id())
        login, password = connection.login or "default", connection.password or ""
        uri = str(super().get_uri()).replace(f"//{login}", f"//{quote(login, safe='')}", 1)
        uri = uri.replace(f":{quote_plus(password)}@", f":{quote(password, safe='')}@", 1)
        tls = {name: self._driver_kwargs[name] for name in TLS_ARGUMENTS if name in self._driver_kwargs}
        return uri + ("&" if "?" in uri else "?") * bool(tls) + urlencode(tls)

    def keep_secret(self, find: Callable[[], Iterable[str]]) -> None:
        """Keep more secrets out of the servers' error messages than the secrets sent by this hook.

        :param find: returns the secrets; called for each message, which may quote a statement of an earlier process.
        """
        self._find_more_secrets = find

    def close(self) -> None:
        """Close the open connections."""
        with self._clients_lock:
            for client in self._clients.values():
                client.close()
            self._clients.clear()

    def _query_at(
        self, address: str | None, statement: Statement, *, query_id: str | None = None, is_patient: bool = False
    ) -> list[dict[str, Any]]:
        def run(client: Client) -> list[dict[str, Any]]:
            settings = {**statement.settings, **_settings(query_id), **_for_size(client, statement)}
            text = _whole_text(statement, client)
            result = client.query(text, settings=settings)
            # The driver treats CHECK as a command, and omits the name of its column.
            names = result.column_names or ("result",)
            return [dict(zip(names, row, strict=True)) for row in result.result_rows]

        rows = self._run(statement, run, address=address, is_patient=is_patient)
        return [self._without_secrets(row) for row in rows]

    def _execute_at(
        self,
        address: str | None,
        statement: Statement,
        *,
        query_id: str | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        given = {**EXECUTE_SETTINGS, **(settings or {}), **statement.settings, **_settings(query_id)}

        def run(client: Client) -> None:
            settings = {**given, **_for_size(client, statement)}
            text = _whole_text(statement, client)
            client.raw_query(text, settings=settings)

        self._run(statement, run, address=address, is_patient=True)

    def _run(
        self,
        statement: Statement,
        run: Callable[[Client], Result],
        *,
        address: str | None = None,
        is_patient: bool,
    ) -> Result:
        own = self._own_address
        where = address or own
        # Each new client asks the server for the version and all settings, so a present client is used first.
        kind = ClientKind(address=None if where == own else where, keeps_final=statement.keeps_final)
        self._sent_secrets.update(statement.parameters.values())
        secrets = (*self._secrets, *self._sent_secrets)
        try:
            client = self._client(kind)
            sent = _SENT.set(_Sent(parameters=statement.parameters, is_patient=is_patient))
            try:
                return run(client)
            finally:
                _SENT.reset(sent)
        except ChS3Error:
            raise
        except Exception as exc:
            error = explain(exc, address=where, conn_id=self.get_conn_id(), secrets=secrets)
        if isinstance(error, ServerError) and error.server_code == ErrorCode.UNKNOWN_DATABASE:
            error = self._database_missing(kind) or error
        raise error  # outside of the handler it has no context: the driver's exception still contains the secrets

    def _database_missing(self, kind: ClientKind) -> ConfigError | None:
        """Build the error for a database of the connection that the server does not have; None if it has it."""
        import clickhouse_connect

        wanted = self._driver_kwargs.get("database")
        elsewhere = {**_fit_kwargs(self._driver_kwargs, kind), "database": None}
        try:
            with closing(clickhouse_connect.get_client(**elsewhere)) as client:
                databases = [str(row[0]) for row in client.query("SHOW DATABASES").result_rows]
        except Exception as error:  # any error of the driver: the list only helps
            log.debug("no list of databases: %r", type(error))
            databases = []
        if wanted in databases:
            return None
        listed = f"this user sees {', '.join(databases)}" if databases else "this user sees none"
        return ConfigError(
            "database-missing",
            f"connection {self.get_conn_id()!r} has {wanted!r} in its field Database (schema), and the server has no"
            f" database of this name; {listed}: correct the field, or create the database on every node",
        )

    def _without_secrets(self, row: dict[str, Any]) -> dict[str, Any]:
        texts = {name: row[name] for name in _ERROR_COLUMNS if row.get(name)}
        if not texts:
            return row
        try:
            secrets = {*self._secrets, *self._sent_secrets, *self._find_more_secrets()}
        except Exception as error:  # any error: unknown secrets cannot be removed from the text
            log.warning("the server's error message is not shown, because it may quote secrets: %r", type(error))
            return row | dict.fromkeys(texts, "(not shown, because it may quote secrets)")
        return row | {name: scrub(text, secrets) for name, text in texts.items()}

    def _client(self, kind: ClientKind) -> Client:
        import clickhouse_connect

        with self._clients_lock:
            if kind not in self._clients:
                keep_secret(*self._secrets)
                client = clickhouse_connect.get_client(**_fit_kwargs(self._driver_kwargs, kind))
                client.http = _Pool(client.http)
                pin_settings(client, kind)
                self._clients[kind] = client
            return self._clients[kind]

    @property
    def login(self) -> Login:
        """How this connection logs in: by a password, a token, or the key of a certificate."""
        given = self._driver_kwargs
        secret = given.get("password") or given.get("access_token") or ""
        if not secret and (key := given.get("client_cert_key")):
            secret = Path(key).read_text()
        return Login(user=str(given.get("username") or ""), secret=str(secret))

    @property
    def _own_address(self) -> str:
        return format_address(self._driver_kwargs["host"], self._driver_kwargs["port"])

    @cached_property
    def _driver_kwargs(self) -> dict[str, Any]:
        return self._get_client_kwargs()

    def _get_client_kwargs(self) -> dict[str, Any]:
        return fit_tls(super()._get_client_kwargs(), self.get_conn_id())

    @property
    def _secrets(self) -> tuple[str, ...]:
        given = self._driver_kwargs
        found = [str(given[name]) for name in _SECRET_KWARGS if given.get(name)]
        if given.get("password"):
            found.append(f"{given.get('username')}:{given['password']}")  # as a header of the request has both
        return tuple(found)


class _Pool:
    """The driver's pool of connections, for what the driver has no argument of a single statement for.

    Query parameters are sent in a form, because secrets in the URL would reach the access logs of proxies. ClickHouse
    joins several fields ``query`` to one statement (24.8 to 26.7).
    """

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)

    def request(self, *args: Any, **given: Any) -> Any:
        """Send a request."""
        sent = _SENT.get()
        if sent.is_patient:
            given["timeout"] = Timeout(connect=given["timeout"].connect_timeout, read=EXECUTE_TIMEOUT_SECONDS)
        if sent.parameters:
            query = given.pop("body")
            pieces = [query[at : at + MAX_FORM_BYTES] for at in range(0, len(query), MAX_FORM_BYTES)]
            values = [(f"param_{name}", value.translate(_ESCAPES)) for name, value in sent.parameters.items()]
            given["fields"] = [*(("query", piece) for piece in pieces), *values]
            given["headers"].pop("Content-Type", None)  # of a body without a form
        return self._pool.request(*args, **given)


# of a query parameter, as in a file of the format TabSeparated
_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0"})


def _for_size(client: Client, statement: Statement) -> dict[str, Any]:
    """Raise the limits for a long statement, such as a statement with a thousand columns, if this user may."""
    size_bytes = len(statement.text.encode())
    if size_bytes <= MAX_FORM_BYTES:
        return {}
    known = client.server_settings
    return {
        name: times * size_bytes
        for name, times in RAISED_LIMITS.items()
        if name in known and not known[name].readonly
    }


# Its default, no index, is refused in a text; with another value a statement fails, and misses no rows.
_UNSPEAKABLE = "force_data_skipping_indices"
# Finds statements that read from other nodes; a load's INSERT names the settings it needs.
_ASKS_NODES = re.compile(r"\bFROM\s+cluster(AllReplicas)?\(")
# A view, unlike a query, would keep settings for good.
_IS_QUERY = re.compile(r"SELECT|WITH")


def _whole_text(statement: Statement, client: Client) -> str:
    newer = {name: value for name, value in NEWER_ANSWERS.items() if name in client.server_settings}
    return whole_text(statement, newer)


def whole_text(statement: Statement, newer: Mapping[str, SettingValue] = MappingProxyType({})) -> str:
    """Add settings to the text of a statement that other nodes answer, too, so that the answer is whole.

    A server ignores a parameter of the request that equals the server's own value, and sends only changed settings to
    further nodes. So the further nodes obey their own profiles, except for settings in the text itself.

    :param newer: the settings of ``NEWER_ANSWERS`` known to the server.
    """
    query, clause, own = statement.text.rpartition("\nSETTINGS")
    if not clause and _IS_QUERY.match(own):
        query, clause, own = own, "\nSETTINGS", ""
    if not clause or statement.reads_profiles or not _ASKS_NODES.search(query):
        return statement.text
    said = {*re.findall(r"(\w+) = ", own), _UNSPEAKABLE, *(["final"] if statement.keeps_final else [])}
    whole = {**WHOLE_ANSWERS, **newer}
    added = (f"{name} = {literal(value)}" for name, value in whole.items() if name not in said)
    return f"{query}{clause} {', '.join([*added, own.strip()] if own else added)}"


def pin_settings(client: Client, kind: ClientKind) -> None:
    """Have a client send the settings for whole answers, unless the user's profile fixes a setting to the same value.

    The profile may also cut the driver's list of the server's settings, so a setting missing in the list is sent,
    too.

    :raises ConfigError: if the profile fixes another value.
    """
    for name, value in WHOLE_ANSWERS.items():
        if name == "final" and kind.keeps_final:
            continue
        known = client.server_settings.get(name)
        if known is None or not known.readonly:
            client.params[name] = str(value)
        elif not is_same(known.value, value):
            client.close()
            raise ConfigError(
                "profile-fixes-setting",
                f"the ClickHouse user's profile fixes {name!r} to {known.value!r}, but every statement needs"
                f" {value!r}, so that its answer is whole; change the profile",
            )
    # A server adds a filter of the request to that of the profile: so none of these is overridden, only refused.
    for name, value in NEWER_ANSWERS.items():
        known = client.server_settings.get(name)
        if known is not None and not is_same(known.value, value):
            client.close()
            raise ConfigError(
                "profile-fixes-setting",
                f"the ClickHouse user's profile sets {name!r} to {known.value!r}, and no statement gives a whole"
                " answer with it; remove it from the profile, or load as another user",
            )


def _fit_kwargs(kwargs: Mapping[str, Any], kind: ClientKind) -> dict[str, Any]:
    fitted = {
        **kwargs,
        "autogenerate_session_id": False,  # a session runs one query at a time
    }
    if kind.address is not None:
        host, _, port = kind.address.rpartition(":")
        fitted.update(host=host.strip("[]"), port=int(port))
    return fitted


def _settings(query_id: str | None) -> dict[str, Any]:
    return {} if query_id is None else {"query_id": query_id}
