"""Azure Blob Storage through the Microsoft provider's hook: listing blobs, and the credentials for ClickHouse."""

from __future__ import annotations

import datetime
import logging
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from functools import cached_property, partial
from typing import Any

from airflow.providers.common.compat.sdk import AirflowNotFoundException
from airflow.providers.microsoft.azure.hooks.wasb import WasbHook
from azure.core import MatchConditions
from azure.core.exceptions import AzureError, ResourceModifiedError, ResourceNotFoundError

from airflow_provider_ch_s3.arguments import OWN_KEYS, NamedCollection, OwnKeys
from airflow_provider_ch_s3.common.environment import refuse_unreadable
from airflow_provider_ch_s3.common.text import format_bytes
from airflow_provider_ch_s3.discretion import keep_connection, keep_secret
from airflow_provider_ch_s3.errors import ConfigError, SourceError, StoreAnswerError
from airflow_provider_ch_s3.files.access import AzureAccess
from airflow_provider_ch_s3.files.addresses import AZURE, Source
from airflow_provider_ch_s3.files.globs import begins_like
from airflow_provider_ch_s3.files.source import MIN_LISTED_TOGETHER, SourceFile
from airflow_provider_ch_s3.files.stores import MAX_SMALL_BYTES, Change, SmallObject
from airflow_provider_ch_s3.stores.answers import hide_secrets, listed_file, reading_answers, refusal
from airflow_provider_ch_s3.stores.groups import list_groups
from airflow_provider_ch_s3.stores.http import quiet_urllib3

COPY_POLL_SECONDS = 1.0
_NAMES = {
    name.casefold(): name
    for name in (
        "AccountKey",
        "AccountName",
        "BlobEndpoint",
        "DefaultEndpointsProtocol",
        "EndpointSuffix",
        "SharedAccessSignature",
    )
}


class AzureBlobFileStore:
    """The blobs of one storage account.

    :param wasb_conn_id: an Airflow connection of type ``wasb``.
    :param credentials: the servers' own: with a named collection, the connection is used only for listing.
    """

    scheme = AZURE
    argument = "wasb_conn_id"

    def __init__(self, *, wasb_conn_id: str, credentials: OwnKeys | NamedCollection = OWN_KEYS) -> None:
        quiet_urllib3()  # a SAS is part of each address
        # They log whatever a server answers to the secret of an application; the error shows that without the secret.
        for library in ("azure.identity", "msal"):
            logging.getLogger(library).setLevel(logging.CRITICAL)
        self.wasb_conn_id = wasb_conn_id
        self.credentials = credentials

    @cached_property
    def _hook(self) -> WasbHook:
        return WasbHook(wasb_conn_id=self.wasb_conn_id)

    @cached_property
    def _connection(self) -> Any:
        try:
            connection = self._hook.get_connection(self.wasb_conn_id)
        except AirflowNotFoundException as error:
            refuse_unreadable(self.wasb_conn_id)
            raise ConfigError(
                "connection-missing",
                f"Airflow has no connection {self.wasb_conn_id!r} to Azure Blob Storage; create it, or correct"
                f" {self.argument}",
            ) from error
        keep_connection(connection.login, connection.password, connection.extra_dejson)
        if connection.conn_type == "aws":  # such as the default of lakes
            raise ConfigError(
                "connection-invalid",
                f"connection {self.wasb_conn_id!r} is of type 'aws', and Azure Blob Storage needs type 'wasb';"
                f" correct {self.argument}",
            )
        return connection

    @cached_property
    def _client(self) -> Any:
        _ = self._connection
        try:
            client = self._hook.get_conn()
            _keep_tokens(client.credential)
            return client
        except (AzureError, AttributeError, ValueError) as error:
            raise ConfigError(
                "connection-invalid",
                f"connection {self.wasb_conn_id!r} cannot access the storage account: {error}; correct its account"
                " (login or host) and key (password), or its connection_string",
            ) from error

    @property
    def account(self) -> str:
        """Name of the storage account.

        :raises ConfigError: if the connection does not exist, or names no account.
        """
        return str(self._client.account_name)

    @property
    def _endpoint(self) -> str:
        """The address of the account, without a signature in the address."""
        return str(self._client.url.partition("?")[0].rstrip("/"))

    def list_files(self, source: Source, *, after: str = "") -> Iterator[SourceFile]:
        """List all blobs under the source's prefixes, page by page.

        :param after: not used: Azure lists from the start.
        :raises SourceError: if the container is missing, or the credentials are wrong or may not list it.
        :raises ConfigError: if the connection does not exist.
        """
        with reading_answers(self._endpoint):
            for file, _, _ in self._list(source):
                yield file

    def list_ages(self, source: Source, *, after: str = "") -> Iterator[tuple[SourceFile, float]]:
        """List the same blobs, each with the age in seconds by the store's own clock.

        :raises SourceError: as :meth:`list_files`, or if the store does not tell the time.
        :raises ConfigError: as :meth:`list_files`.
        """
        with reading_answers(self._endpoint):
            for file, changed, date in self._list(source):
                try:
                    age = (parsedate_to_datetime(date) - changed).total_seconds()
                except (TypeError, ValueError) as error:
                    raise SourceError(
                        "file-age-unknown",
                        f"{self._endpoint} answers with Date={date!r}, so the age of its files is unknown; set"
                        " min_age=0, or have the proxy before it send the header Date",
                    ) from error
                yield file, age

    def _list(self, source: Source) -> Iterator[tuple[SourceFile, datetime.datetime, str]]:
        """List blobs, each with the time of the last change, and the header Date of the page."""
        return list_groups(list(source.groups()), partial(self._list_group, source.bucket))

    def _list_group(
        self, bucket: str, prefixes: Sequence[str]
    ) -> Iterator[tuple[SourceFile, datetime.datetime, str]]:
        """List the blobs that begin with any of some prefixes, sorted."""
        are_many = len(prefixes) >= MIN_LISTED_TOGETHER
        for prefix in [os.path.commonprefix(prefixes)] if are_many else prefixes:
            for found in self._list_prefix(bucket, prefix):
                if not are_many or begins_like(found[0].key, prefixes):
                    yield found

    def _list_prefix(self, bucket: str, prefix: str) -> Iterator[tuple[SourceFile, datetime.datetime, str]]:
        dates = [""]

        def note_date(response: Any) -> None:
            dates[0] = response.http_response.headers.get("date", "")

        container = self._client.get_container_client(bucket)
        try:
            for blob in container.list_blobs(name_starts_with=prefix, raw_response_hook=note_date):
                yield listed_file(blob.name, blob.etag, blob.size), blob.last_modified, dates[0]
        except ResourceNotFoundError as error:
            raise SourceError(
                "bucket-missing",
                f"there is no container {bucket!r} for connection {self.wasb_conn_id!r}; create it, or"
                " correct the container in source",
            ) from error
        except AzureError as error:
            message = (
                f"cannot list container {bucket!r} with connection {self.wasb_conn_id!r}:"
                f" {_first_line(error)}; check the connection's account, and that its key may list the container"
            )
            raise refusal("bucket-not-listed", message, error) from error

    def read(self, bucket: str, key: str) -> SmallObject | None:
        """Read a small blob; None if the blob does not exist.

        :raises SourceError: if the store refuses, or the blob is not small.
        """
        blob = self._client.get_blob_client(container=bucket, blob=key)
        try:
            with reading_answers(self._endpoint):
                answer = blob.download_blob()
                if answer.size > MAX_SMALL_BYTES:
                    raise StoreAnswerError(
                        "object-too-large",
                        f"{key!r} in container {bucket!r} is larger than {format_bytes(MAX_SMALL_BYTES)}, the most"
                        " that a worker reads of one object; have the lake table write smaller metadata",
                    )
                return SmallObject(body=bytes(answer.readall()), etag=str(answer.properties.etag).strip('"'))
        except ResourceNotFoundError:
            return None
        except AzureError as error:
            message = (
                f"cannot read {key!r} in container {bucket!r} with connection {self.wasb_conn_id!r}:"
                f" {_first_line(error)}; it tells which files a table has: allow these credentials to read the blobs"
            )
            raise refusal("file-not-readable", message, error) from error

    def read_tail(self, bucket: str, key: str, size_bytes: int) -> bytes:
        """Read the last bytes of a blob, or the whole blob if it is smaller.

        :raises SourceError: if the blob no longer exists, or the credentials may not read it.
        """
        blob = self._client.get_blob_client(container=bucket, blob=key)
        try:
            with reading_answers(self._endpoint):
                start = max(0, blob.get_blob_properties().size - size_bytes)
                return bytes(blob.download_blob(offset=start, length=size_bytes).readall())
        except AzureError as error:
            message = (
                f"cannot read the end of {key!r} in container {bucket!r} with connection {self.wasb_conn_id!r}:"
                f" {_first_line(error)}; it shows whether a .zst or .lz4 file is complete: allow these credentials to"
                " read the blobs, or compress the files with gz, xz or br"
            )
            raise refusal("file-not-readable", message, error) from error

    def tag(self, bucket: str, key: str, etag: str, tags: Mapping[str, str]) -> bool:
        """Add index tags to a blob if its ETag still matches, and keep the present tags; return False if it changed.

        :raises SourceError: if the store refuses, as accounts with a hierarchical namespace do.
        """
        with self._changing("tag", bucket, key) as change:
            blob = self._client.get_blob_client(container=bucket, blob=key)
            blob.get_blob_properties(**_only(etag))
            blob.set_blob_tags({**blob.get_blob_tags(), **tags})
        return change.is_done

    def move(self, bucket: str, key: str, etag: str, *, to: str) -> bool:
        """Copy a blob to another path and delete it, if its ETag still matches; return False if the blob changed.

        :raises SourceError: if the store refuses.
        """
        with self._changing("move", bucket, key, to=to) as change:
            blob = self._client.get_blob_client(container=bucket, blob=key)
            blob.get_blob_properties(**_only(etag))
            copy = self._client.get_blob_client(container=bucket, blob=to)
            copy.start_copy_from_url(
                blob.url, source_etag=f'"{etag}"', source_match_condition=MatchConditions.IfNotModified
            )
            while (state := copy.get_blob_properties().copy.status) == "pending":
                time.sleep(COPY_POLL_SECONDS)
            if state != "success":
                raise SourceError(
                    "after-load-failed",
                    f"the copy of {key!r} to {to!r} in container {bucket!r} ended as {state!r}; try again",
                )
            blob.delete_blob(**_only(etag))
        return change.is_done

    def delete(self, bucket: str, key: str, etag: str) -> bool:
        """Delete a blob if its ETag still matches; return False if the blob changed.

        :raises SourceError: if the store refuses.
        """
        with self._changing("delete", bucket, key) as change:
            self._client.get_blob_client(container=bucket, blob=key).delete_blob(**_only(etag))
        return change.is_done

    def _is_copied(self, bucket: str, path: str) -> bool:
        """Whether an earlier try has copied a blob to a path: only copies are written into the attempt's folder."""
        try:
            copy = self._client.get_blob_client(container=bucket, blob=path).get_blob_properties().copy
        except ResourceNotFoundError:
            return False
        return bool(copy.status == "success")

    @contextmanager
    def _changing(self, what: str, bucket: str, key: str, *, to: str = "") -> Iterator[Change]:
        """:param to: the path of the copy: a missing blob counts as moved only if the copy exists."""
        change = Change()
        try:
            with reading_answers(self._endpoint):
                yield change
        except (ResourceModifiedError, ResourceNotFoundError):
            # A missing blob does not match the ETag, either.
            is_gone = not self._client.get_blob_client(container=bucket, blob=key).exists()
            change.is_done = is_gone and (what == "delete" or (what == "move" and self._is_copied(bucket, to)))
        except AzureError as error:
            message = (
                f"the rows are committed, but after_load cannot {what} {key!r} in container {bucket!r} with"
                f" connection {self.wasb_conn_id!r}: {_first_line(error)}; allow these credentials to do so, and let"
                " the task try again"
            )
            raise refusal("after-load-failed", message, error) from error

    def access(self) -> AzureAccess:
        """How the ClickHouse servers reach the same account, and with which credentials."""
        if isinstance(self.credentials, NamedCollection):
            return AzureAccess(endpoint_url=self._endpoint, named_collection=self.credentials.collection)
        access = self._log_in(self._endpoint)
        hide_secrets(access.secrets)
        return access

    def _log_in(self, endpoint_url: str) -> AzureAccess:
        """Access with the login of the connection; without a login, with the servers' own identity.

        The fields of the connection count in the order in which the Microsoft provider reads them. ClickHouse takes
        an application without a secret: the servers log in with the token of their own workload identity.
        """
        reach = partial(AzureAccess, endpoint_url=endpoint_url)
        connection, extra = self._connection, self._connection.extra_dejson
        if given := _field(extra, "connection_string"):
            return reach(connection_string=_spell(given))
        if tenant := _field(extra, "tenant_id"):
            return reach(client_id=connection.login or "", tenant_id=tenant)
        key = _field(extra, "shared_access_key")
        token = "" if key else _field(extra, "sas_token")
        if token:
            signature = token.rpartition("?")[2]
            return reach(connection_string=f"BlobEndpoint={endpoint_url};SharedAccessSignature={signature}")
        key = key or connection.password or _field(extra, "account_key")
        if not key:
            client, tenant = (_field(extra, f) for f in ("managed_identity_client_id", "workload_identity_tenant_id"))
            return reach(client_id=client, tenant_id=tenant) if client and tenant else reach()
        protocol, account = endpoint_url.partition("://")[0], self._client.account_name
        login = f"DefaultEndpointsProtocol={protocol};AccountName={account};AccountKey={key}"
        return reach(connection_string=f"{login};BlobEndpoint={endpoint_url}")


def _keep_tokens(credential: Any) -> None:
    """Keep each token obtained by an identity secret, before any error can quote the token; keys obtain no tokens."""
    obtain = getattr(credential, "get_token_info", None)
    if obtain is None:
        return

    def get_token_info(*scopes: str, **options: Any) -> Any:
        obtained = obtain(*scopes, **options)
        keep_secret(obtained.token)
        return obtained

    credential.get_token_info = get_token_info


def _only(etag: str) -> dict[str, Any]:
    return {"etag": f'"{etag}"', "match_condition": MatchConditions.IfNotModified}


def _spell(connection_string: str) -> str:
    """Write the names in a connection string as ClickHouse wants them: Azure's own library takes any case."""
    parts = (part.partition("=") for part in connection_string.split(";"))
    return ";".join(f"{_NAMES.get(name.strip().casefold(), name)}{equals}{value}" for name, equals, value in parts)


def _field(extra: dict[str, Any], name: str) -> str:
    return str(extra.get(name) or extra.get(f"extra__wasb__{name}") or "")


def _first_line(error: AzureError) -> str:
    return str(error).partition("\n")[0]
