"""How the ClickHouse servers reach an object store: which table function, which address, which credentials."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from enum import Enum
from ipaddress import ip_address
from typing import ClassVar
from urllib.parse import quote, urlsplit

from airflow_provider_ch_s3.common.text import show_version
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.files.globs import MAX_URLS

log = get_log(__name__)

ROLES_SINCE = (25, 8)
EXTERNAL_IDS_SINCE = (26, 6)
APPLICATIONS_SINCE = (25, 8)
CONNECTION_STRINGS_SINCE = (25, 8)


class TableFunction(Enum):
    """The table function for the files; each function has a form with ``Cluster`` in the name."""

    S3 = "s3"
    AZURE = "azureBlobStorage"
    URL = "url"
    ICEBERG = "icebergS3"
    DELTA = "deltaLake"


@dataclass(frozen=True, kw_only=True)
class VendedKeys:
    """Keys for the files of one table, as the catalog of the table vends keys.

    :param expires_at: Unix time; None if the time is unknown.
    """

    access_key: str = field(repr=False)
    secret_key: str = field(repr=False)
    session_token: str = field(default="", repr=False)
    expires_at: float | None = None


@dataclass(frozen=True, kw_only=True)
class StoreAccess:
    """Fields common to all kinds of access.

    :param endpoint_url: where the store is, unless each address names the store.
    :param named_collection: named collection on the servers with the credentials.
    :param expires_at: Unix time at which the credentials expire; None if they do not, or if the time is unknown.
    :param parameter_prefix: prefix of the query parameters for the secrets; random, so that no expression of the load
        can refer to them.
    """

    function: ClassVar[TableFunction]

    endpoint_url: str = ""
    named_collection: str = ""
    expires_at: float | None = field(default=None, compare=False)
    parameter_prefix: str = field(default_factory=lambda: f"ch_s3_{secrets.token_hex(8)}_", repr=False, compare=False)

    @property
    def inspection_settings(self) -> dict[str, int]:
        """Settings for the inspection of files, before there is a plan."""
        return {}

    @property
    def uses_server_role(self) -> bool:
        """Whether the servers use the role of their own machine, in S3."""
        return False

    @property
    def credentials(self) -> str:
        """The credentials with which the servers read, for people; without any secret."""
        if self.named_collection:
            return f"the named collection {self.named_collection!r}"
        if self.uses_server_role:
            return "the servers' own role"
        return "the keys of the connection" if self.parameters else "no credentials"

    def check_version(self, version: tuple[int, int]) -> None:
        """Check that the servers can use these credentials.

        :param version: year and release of the oldest server.
        :raises ConfigError: if the servers are too old.
        """

    @property
    def parameters(self) -> dict[str, str]:
        """The secrets as query parameters, under the names used by the templates."""
        return {f"{self.parameter_prefix}{name}": value for name, value in self._credentials().items() if value}

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that no message may show."""
        return tuple(filter(None, self._credentials().values()))

    def _credentials(self) -> dict[str, str]:
        return {}

    @property
    def lists_as_the_worker(self) -> bool:
        """Whether the servers list files with the same credentials as the worker."""
        return False

    def address(self, bucket: str, keys: str) -> str:
        """The address of the objects that a glob names, for the table function."""
        raise NotImplementedError

    def address_of_one(self, bucket: str, key: str) -> str:
        """The address of one object, for the table function; the key may have any characters except globs."""
        return self.address(bucket, key)

    def path(self, bucket: str, key: str) -> str:
        """The object's ``_path`` in the servers' answers."""
        return f"{bucket}/{key}"


def warn_if_plain(access: StoreAccess) -> None:
    """Warn if others in the network can read the login to a store, or the rows."""
    url = urlsplit(access.endpoint_url)
    if url.scheme == "http" and access.secrets and not _is_loopback(url.hostname or ""):
        log.warning(
            "the store at %s is reached over plain HTTP: whoever sees the network can read the rows, and signatures"
            " and tokens that give access to them; write the address in the connection with https://",
            access.endpoint_url,
        )


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@dataclass(frozen=True, kw_only=True)
class S3Access(StoreAccess):
    """Access to S3 and to S3-compatible stores.

    At most one of: ``access_key`` and ``secret_key`` (with ``session_token`` when temporary), ``anonymous``,
    ``named_collection``, ``role_arn``. None of them: the servers' own role.

    :param role_arn: ARN of a role for the servers to assume; ``external_id``: required by the role's owner.
    :param requester_pays: the reader agrees to pay for requests, as the bucket's owner demands.
    """

    function = TableFunction.S3

    access_key: str = field(default="", repr=False)
    secret_key: str = field(default="", repr=False)
    session_token: str = field(default="", repr=False)
    anonymous: bool = False
    role_arn: str = ""
    external_id: str = field(default="", repr=False)
    requester_pays: bool = False

    @property
    def uses_server_role(self) -> bool:
        """Whether nothing else is given."""
        return not (self.access_key or self.anonymous or self.named_collection or self.role_arn)

    @property
    def lists_as_the_worker(self) -> bool:
        return bool(self.access_key)

    @property
    def credentials(self) -> str:
        """The credentials with which the servers read, for people."""
        return f"the role {self.role_arn!r}" if self.role_arn else super().credentials

    def check_version(self, version: tuple[int, int]) -> None:
        """Check that the servers know roles: 24.8 ignores them in a SELECT, and refuses them in an export.

        :raises ConfigError: if the servers do not.
        """
        instead = "remove it, or use a named collection, or the keys of the connection"
        if self.role_arn and version < ROLES_SINCE:
            raise _too_old(f"Role({self.role_arn!r})", version, ROLES_SINCE, instead)
        if self.external_id and version < EXTERNAL_IDS_SINCE:
            raise _too_old("Role(external_id=…)", version, EXTERNAL_IDS_SINCE, instead)

    def _credentials(self) -> dict[str, str]:
        if not self.access_key:
            return {"external_id": self.external_id}
        return {
            "access_key": self.access_key,
            "secret_key": self.secret_key,
            "session_token": self.session_token,
        }

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that no message may show; the access key is only a name, needed in the store's messages."""
        return tuple(filter(None, (self.secret_key, self.session_token, self.external_id)))

    @property
    def inspection_settings(self) -> dict[str, int]:
        """A server that cannot reach the store tries 500 times, for 40 minutes (26.7); 12 tries take half a minute.

        The load itself keeps the server's number: a busy store must not end hours of work.
        """
        return {"s3_retry_attempts": 12}

    def address(self, bucket: str, keys: str) -> str:
        """The path-style address, supported by every S3 endpoint and every ClickHouse version."""
        return f"{self.endpoint_url.rstrip('/')}/{bucket}/{keys}"

    def address_of_one(self, bucket: str, key: str) -> str:
        """The percent-encoded address: ClickHouse reads any single key like this, but no list of keys (26.7)."""
        return self.address(bucket, quote(key))


@dataclass(frozen=True, kw_only=True)
class AzureAccess(StoreAccess):
    """Access to Azure Blob Storage.

    With ``named_collection``, with ``connection_string``, with ``client_id`` and ``tenant_id``, or with none of them:
    then the servers use their own identity.

    :param connection_string: the account's endpoint with the key or shared access signature; secret.
    :param client_id: an application of Entra ID, as which the servers log in with the token of their own workload
        identity; ``tenant_id``: where the application is registered.
    """

    function = TableFunction.AZURE

    connection_string: str = field(default="", repr=False)
    client_id: str = ""
    tenant_id: str = ""

    def check_version(self, version: tuple[int, int]) -> None:
        """Check that all servers can use the connection string, or log in as an application.

        On 24.8, only the connected node understands the string: the remaining nodes take all of the string for an
        address.

        :raises ConfigError: if the servers cannot.
        """
        if self.connection_string and version < CONNECTION_STRINGS_SINCE:
            raise _too_old(
                "a connection to Azure with the account's key or a SAS token",
                version,
                CONNECTION_STRINGS_SINCE,
                "give credentials=NamedCollection(…), a collection on the servers with connection_string",
            )
        if self.client_id and version < APPLICATIONS_SINCE:
            raise _too_old(
                f"the connection's application {self.client_id!r} of Entra ID (tenant {self.tenant_id!r})",
                version,
                APPLICATIONS_SINCE,
                "give credentials=NamedCollection(…)",
            )

    @property
    def credentials(self) -> str:
        """The credentials with which the servers read, for people."""
        if self.connection_string or self.named_collection:
            return super().credentials
        return f"the application {self.client_id!r}" if self.client_id else "the servers' own identity"

    def _credentials(self) -> dict[str, str]:
        return {"connection_string": self.connection_string}

    @property
    def secrets(self) -> tuple[str, ...]:
        """The whole string and the secret parts of the string: messages may quote either."""
        named = (part.partition("=") for part in self.connection_string.split(";"))
        parts = [value for name, _, value in named if name in {"AccountKey", "SharedAccessSignature"}]
        return (*super().secrets, *filter(None, parts))

    def address(self, bucket: str, keys: str) -> str:
        """The path within the container, which is a separate argument."""
        return keys


@dataclass(frozen=True, kw_only=True)
class UrlAccess(StoreAccess):
    """Access to files on an HTTP server that everybody may read.

    :param redirects: how many redirects the servers follow.
    :param moved_to: scheme and host to which the files have moved; '' if the addresses are still right.
    """

    function = TableFunction.URL

    redirects: int = 0
    moved_to: str = ""

    @property
    def inspection_settings(self) -> dict[str, int]:
        """The same settings as in the plan: the addresses are the same."""
        return {
            "glob_expansion_max_elements": MAX_URLS,
            "http_skip_not_found_url_for_globs": 0,
            "max_http_get_redirects": self.redirects,
            # A server that cannot reach the file tries 10 times, for half a minute and more.
            "http_max_tries": 3,
        }

    def address(self, bucket: str, keys: str) -> str:
        """The URL; the bucket is scheme and host of the URL."""
        return f"{self.moved_to or bucket}/{keys}"

    def path(self, bucket: str, key: str) -> str:
        """``_path`` is the path of the requested URL."""
        return f"/{key}"


def _too_old(what: str, version: tuple[int, int], since: tuple[int, int], instead: str) -> ConfigError:
    needed, found = map(show_version, (since, version))
    return ConfigError(
        "server-too-old", f"{what} needs ClickHouse {needed} on all servers, and one has {found}; {instead}"
    )
