"""S3 through the amazon provider's hook: files, credentials for ClickHouse, and the completion of an export."""

from __future__ import annotations

import datetime
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from email.utils import parsedate_to_datetime
from functools import cached_property, partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit
from xml.etree import ElementTree

from airflow.providers.amazon.aws.hooks.s3 import S3Hook
from airflow.providers.common.compat.sdk import AirflowNotFoundException
from boto3.s3.transfer import TransferConfig
from botocore import UNSIGNED
from botocore.config import Config
from botocore.credentials import Credentials, RefreshableCredentials
from botocore.exceptions import BotoCoreError, ClientError

from airflow_provider_ch_s3.arguments import OWN_KEYS, CatalogKeys, NamedCollection, OwnKeys, Role
from airflow_provider_ch_s3.common.environment import refuse_unreadable
from airflow_provider_ch_s3.common.text import format_bytes
from airflow_provider_ch_s3.discretion import get_log, keep_connection, keep_secret
from airflow_provider_ch_s3.errors import ConfigError, SourceError, StoreAnswerError
from airflow_provider_ch_s3.files.access import S3Access, VendedKeys
from airflow_provider_ch_s3.files.addresses import S3, Source
from airflow_provider_ch_s3.files.globs import begins_like, mask_url
from airflow_provider_ch_s3.files.regions import find_region
from airflow_provider_ch_s3.files.source import SourceFile
from airflow_provider_ch_s3.files.stores import MAX_SMALL_BYTES, Change, ChangedError, SmallObject
from airflow_provider_ch_s3.stores.answers import hide_secrets, listed_file, reading_answers, refusal
from airflow_provider_ch_s3.stores.groups import list_groups

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Connection
    from boto3.session import Session

log = get_log(__name__)

UNSIGNED_CONFIG = Config(signature_version=UNSIGNED)
KEYS_TOGETHER = 500
"""Keys of a folder that are listed together: S3 answers with a page of 1,000 objects."""

COPIED_AT_ONCE = 5 * 2**30
"""Bytes of the largest object that S3 copies with one request, including tags and metadata."""

MAX_WAITING = 1_000
"""Connections to SQS that are kept: a watcher that waits for messages occupies a connection."""

KEPT_SECONDS = 60.0
"""How long vended keys are kept: a load needs the keys many times, and each chunk should have fresh ones."""

_REMEDIES = {
    "NoSuchBucket": "create it, or correct the bucket in source",
    "AccessDenied": "allow these credentials to list the bucket",
    "InvalidAccessKeyId": "correct the access key of the connection",
    "SignatureDoesNotMatch": "correct the secret key of the connection",
    "ExpiredToken": "renew the session token of the connection",
}


class S3FileStore:
    """The files of one S3 endpoint.

    :param aws_conn_id: an Airflow connection of type ``aws``. None: the worker lists with the worker's own
        credentials (environment, instance profile), and the ClickHouse servers read with theirs.
    :param credentials: the servers' own; except with ``OwnKeys``, the connection is used only for listing. With
        ``CatalogKeys``, worker and servers read with the keys of ``vend``, and the connection has the endpoint.
    :param requester_pays: agree to pay for the requests, as the bucket's owner asks of readers.
    :param host: of the store, if the source is a URL. Without a connection, and without own credentials of the
        worker, the bucket is then read as a public one.
    :raises ConfigError: if ``requester_pays`` has no effect.
    """

    account = ""
    argument = "aws_conn_id"
    scheme = S3
    public = "https://bucket.s3.eu-west-3.amazonaws.com/key"
    """Example of a source that needs no connection."""
    without_connection = "use the own roles of the worker and the servers"
    cannot = "the rows are committed, but after_load cannot"
    """Beginning of the message if the store refuses a change."""
    why_read = "it tells which files a table has"
    """Purpose of a small object, for the message if the object cannot be read."""

    def __init__(
        self,
        *,
        aws_conn_id: str | None,
        credentials: OwnKeys | NamedCollection | Role | CatalogKeys = OWN_KEYS,
        requester_pays: bool = False,
        host: str = "",
    ) -> None:
        if requester_pays and isinstance(credentials, NamedCollection):
            raise ConfigError(
                "argument-without-effect",
                f"requester_pays=True has no effect with {credentials!r}, because ClickHouse sends no"
                " x-amz-request-payer with the keys of a named collection; use the keys of the connection, or"
                " Role(…)",
            )
        self.aws_conn_id = aws_conn_id
        self.credentials = credentials
        self.requester_pays = requester_pays
        self.host = host
        self.vend: Callable[[], VendedKeys] | None = None
        """Has a catalog vend keys; known as soon as the catalog is."""

    @cached_property
    def _connection(self) -> Connection | None:
        """The connection; None if there is none, and none is needed."""
        if self.aws_conn_id is None:
            return None
        # S3Hook falls back to the worker's own credentials if the connection does not exist
        try:
            connection = S3Hook.get_connection(self.aws_conn_id)
        except AirflowNotFoundException as error:
            refuse_unreadable(self.aws_conn_id)
            if self.host:
                log.info("Airflow has no connection %r: the bucket is read as a public one", self.aws_conn_id)
                return None
            raise ConfigError(
                "connection-missing",
                f"Airflow has no connection {self.aws_conn_id!r} to {self.scheme.store}; create it, correct"
                f" {self.argument}, or set {self.argument}=None to {self.without_connection}; a source such as"
                f" {self.public!r} in a public bucket needs no connection",
            ) from error
        keep_connection(connection.login, connection.password, connection.extra_dejson)
        return connection

    @cached_property
    def _hook(self) -> S3Hook:
        quiet_botocore()
        region = find_region(self.host)
        hook = partial(_VendedHook, self.vend) if self.vend else S3Hook
        return hook(
            aws_conn_id=self.aws_conn_id if self._connection else None,
            region_name=region.name or None if region else None,
        )

    @property
    def _is_public(self) -> bool:
        """Whether nobody signs the requests."""
        if self._connection or not self.host:
            return False
        return self.aws_conn_id is not None or self._hook.get_session().get_credentials() is None

    @cached_property
    def _client(self) -> Any:
        self._check_host()
        client = self._connect()
        client.meta.events.register("before-send.s3", _keep_token)
        client.meta.events.register("before-parse.s3.ListObjectsV2", _parse_objects)
        if self.requester_pays:
            client.meta.events.register("before-call.s3", _agree_to_pay)
        return client

    def _check_host(self) -> None:
        elsewhere = self._hook.conn_config.get_service_endpoint_url("s3") if self.host and self._connection else ""
        if elsewhere and urlsplit(elsewhere).hostname != self.host:
            raise ConfigError(
                "arguments-contradict",
                f"source is at {self.host}, and the connection {self.aws_conn_id!r} leads to {mask_url(elsewhere)};"
                f" name a connection to {self.host}, or set {self.argument}=None to read a public bucket",
            )

    def _connect(self) -> Any:
        hook = self._hook
        return self._build_client(
            hook.region_name, hook.conn_config.get_service_endpoint_url("s3"), verify=hook.verify
        )

    def _build_client(self, region_name: str | None, endpoint_url: str | None, *, verify: bool | str | None) -> Any:
        # the hook's own client names its caller, and searches the stack for that: a third of the time of connecting
        session = self._hook.get_session(region_name=region_name)
        config = UNSIGNED_CONFIG if self._is_public else self._hook.config
        return session.client("s3", endpoint_url=endpoint_url, config=config, verify=verify)

    @cached_property
    def sqs(self) -> Any:
        """The client of SQS with the same login; the connection may have another endpoint for SQS."""
        from airflow.providers.amazon.aws.hooks.sqs import SqsHook  # only watchers need it

        hook = SqsHook(aws_conn_id=self._hook.aws_conn_id)
        config = hook.config.merge(Config(max_pool_connections=MAX_WAITING))
        client = hook.get_client_type(region_name=hook.region_name, config=config)
        client.meta.events.register("before-send.sqs", _keep_token)
        return client

    @property
    def who(self) -> str:
        """Whose credentials the requests carry, for messages."""
        if self._is_public:
            return "no credentials"
        if self.vend:
            return "the keys that the catalog vends"
        return f"connection {self.aws_conn_id!r}" if self.aws_conn_id else "the worker's own credentials"

    def _reading(self) -> AbstractContextManager[None]:
        return reading_answers(self._client.meta.endpoint_url)

    def list_files(self, source: Source, *, after: str = "") -> Iterator[SourceFile]:
        """List all objects under the source's prefixes, page by page.

        :param after: only objects with a greater key.
        :raises SourceError: if the bucket is missing, or the credentials are wrong or may not list it.
        :raises ConfigError: if the connection does not exist.
        """
        with self._reading():
            for page in self._pages(source, after):
                yield from map(_read_item, page.get("Contents", ()))

    def list_ages(self, source: Source, *, after: str = "") -> Iterator[tuple[SourceFile, float]]:
        """List the same objects, each with the age in seconds by the store's clock: the worker's clock may be wrong.

        :raises SourceError: as :meth:`list_files`, or if the store does not tell the time.
        :raises ConfigError: as :meth:`list_files`.
        """
        with self._reading():
            for page in self._pages(source, after):
                items = page.get("Contents", ())
                now = self._answered_at(page) if items else None
                for item in items:
                    yield _read_item(item), (now - item["LastModified"]).total_seconds()

    def _pages(self, source: Source, after: str) -> Iterator[dict[str, Any]]:
        # all keys with an earlier prefix come before
        groups = ([p for p in some if p >= after or after.startswith(p)] for some in source.groups(KEYS_TOGETHER))
        return list_groups(list(filter(None, groups)), partial(self._pages_of_group, source.bucket, after))

    def _pages_of_group(self, bucket: str, after: str, prefixes: Sequence[str]) -> Iterator[dict[str, Any]]:
        """List the objects that begin with any of some sorted prefixes, and leap over the objects between them.

        A store that lists in no order, or from the start in any case, is listed to the end.
        """
        left, start = list(prefixes), after
        while left:
            if len(prefixes) > 1:
                start = max(after, left[0][:-1])
            for page in self._pages_after(bucket, os.path.commonprefix(prefixes), start):
                items = page.get("Contents", ())
                keys = [item["Key"] for item in items]
                if len(prefixes) > 1:
                    page["Contents"] = [i for i in items if i["Key"] > start and begins_like(i["Key"], prefixes)]
                yield page
                if not page.get("IsTruncated") or keys != sorted(keys):
                    continue
                while left and left[0] < keys[-1] and not keys[-1].startswith(left[0]):
                    left.pop(0)
                if not left or left[0][:-1] > max(keys[-1], start):
                    break
            else:
                return

    def _pages_after(self, bucket: str, prefix: str, after: str) -> Iterator[dict[str, Any]]:
        start = {"StartAfter": after} if after else {}
        try:
            yield from self._client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix, **start)
        except (BotoCoreError, ClientError) as error:
            remedy = "check the connection's endpoint_url, region and keys"
            if isinstance(error, ClientError):
                code = error.response.get("Error", {}).get("Code", "")
                remedy = _REMEDIES.get(code, "check the connection and the bucket")
                if self._is_public:
                    remedy = (
                        f"if the bucket is not public, set {self.argument} to a connection with keys; if it is"
                        " public and cannot be listed, name its files with HttpToClickHouseOperator"
                    )
            message = f"cannot list bucket {bucket!r} with {self.who}: {error}; {remedy}"
            raise refusal("bucket-not-listed", message, error) from error

    def _answered_at(self, page: dict[str, Any]) -> datetime.datetime:
        """When the store sent a page, by the store's own clock."""
        date = page["ResponseMetadata"]["HTTPHeaders"].get("date", "")
        try:
            return parsedate_to_datetime(date)
        except ValueError as error:
            raise SourceError(
                "file-age-unknown",
                f"{self._client.meta.endpoint_url} answers with Date={date!r}, so the age of its files is unknown;"
                " set min_age=0, or have the store, or the proxy before it, send the header Date",
            ) from error

    def region_of(self, bucket: str) -> str:
        """Name of the bucket's region; '' if the store does not tell the region.

        AWS tells everybody the region, also users without any right to the bucket.
        """
        try:
            answer = self._client.head_bucket(Bucket=bucket)
        except ClientError as error:
            answer = error.response
        except BotoCoreError as error:
            log.debug("no region of bucket %r: %s", bucket, error)
            return ""
        return str(answer["ResponseMetadata"].get("HTTPHeaders", {}).get("x-amz-bucket-region", ""))

    def read(self, bucket: str, key: str) -> SmallObject | None:
        """Read a small object; None if the object does not exist.

        :raises SourceError: if the store refuses.
        """
        try:
            with self._reading():
                answer = self._client.get_object(Bucket=bucket, Key=key)
                body = answer["Body"].read(MAX_SMALL_BYTES + 1)
                if len(body) > MAX_SMALL_BYTES:
                    raise StoreAnswerError(
                        "object-too-large",
                        f"{key!r} in bucket {bucket!r} is larger than {format_bytes(MAX_SMALL_BYTES)}, the most that"
                        f" a worker reads of one object, and {self.why_read}; split it, or load its files by their"
                        " names",
                    )
                return SmallObject(body=body, etag=answer["ETag"].strip('"'))
        except (BotoCoreError, ClientError) as error:
            if isinstance(error, ClientError) and error.response.get("Error", {}).get("Code") == "NoSuchKey":
                return None
            message = (
                f"cannot read {key!r} in bucket {bucket!r} with {self.who}: {error}; {self.why_read}: allow these"
                " credentials to read and list there (s3:GetObject, s3:ListBucket)"
            )
            raise refusal("file-not-readable", message, error) from error

    def read_tail(self, bucket: str, key: str, size_bytes: int) -> bytes:
        """Read the last bytes of an object, or the whole object if it is smaller.

        :raises SourceError: if the object no longer exists, or the credentials may not read it.
        """
        try:
            with self._reading():
                answer = self._client.get_object(Bucket=bucket, Key=key, Range=f"bytes=-{size_bytes}")
                return bytes(answer["Body"].read())
        except (BotoCoreError, ClientError) as error:
            message = (
                f"cannot read the end of {key!r} in bucket {bucket!r} with {self.who}: {error}; it shows whether"
                " a .zst or .lz4 file is complete, and the fields of a lake's file: allow these credentials to read"
                " the objects (s3:GetObject), or compress the files with gz, xz or br"
            )
            raise refusal("file-not-readable", message, error) from error

    def tag(self, bucket: str, key: str, etag: str, tags: Mapping[str, str]) -> bool:
        """Add tags to an object if its ETag still matches, and keep the present tags; return False if it changed.

        :raises SourceError: if the store refuses.
        """
        with self._changing("tag", bucket, key) as change:
            which = {"Bucket": bucket, "Key": key, **self._find_version(bucket, key, etag)}
            present = self._client.get_object_tagging(**which)["TagSet"]
            wanted = {**{tag["Key"]: tag["Value"] for tag in present}, **tags}
            tag_set = [{"Key": name, "Value": value} for name, value in wanted.items()]
            self._client.put_object_tagging(**which, Tagging={"TagSet": tag_set})
        return change.is_done

    def move(self, bucket: str, key: str, etag: str, *, to: str) -> bool:
        """Copy an object to another key, then delete the original, if its ETag still matches; return False if not.

        Objects may have any size.

        :raises SourceError: if the store refuses.
        """
        with self._changing("move", bucket, key, to=to) as change:
            source = {"Bucket": bucket, "Key": key}
            extra = {"CopySourceIfMatch": f'"{etag}"', **self._properties_beside(bucket, key)}
            config = TransferConfig(multipart_threshold=COPIED_AT_ONCE)
            self._client.copy(source, bucket, to, ExtraArgs=extra, Config=config)
            self._delete(bucket, key, etag)
        return change.is_done

    def _properties_beside(self, bucket: str, key: str) -> dict[str, Any]:
        """Read what a copy in several requests would leave behind; nothing if one request copies the object."""
        found = self._client.head_object(Bucket=bucket, Key=key)
        if found["ContentLength"] < COPIED_AT_ONCE:
            return {}
        tags = self._client.get_object_tagging(Bucket=bucket, Key=key)["TagSet"]
        tagging = urlencode({tag["Key"]: tag["Value"] for tag in tags})
        properties = {
            "Metadata": found["Metadata"],
            "ContentType": found["ContentType"],
            "MetadataDirective": "REPLACE",
        }
        return {**properties, "Tagging": tagging, "TaggingDirective": "REPLACE"}

    def delete(self, bucket: str, key: str, etag: str) -> bool:
        """Delete an object if its ETag still matches; return False if the object changed.

        :raises SourceError: if the store refuses.
        """
        with self._changing("delete", bucket, key) as change:
            self._delete(bucket, key, etag)
        return change.is_done

    def _delete(self, bucket: str, key: str, etag: str) -> None:
        self._find_version(bucket, key, etag)  # for stores without this condition
        self._client.delete_object(Bucket=bucket, Key=key, IfMatch=f'"{etag}"')

    def _find_version(self, bucket: str, key: str, etag: str) -> dict[str, str]:
        """Find the version id of an object, if the bucket has versions.

        :raises ChangedError: if the object has another ETag.
        """
        found = self._client.head_object(Bucket=bucket, Key=key)
        if found["ETag"].strip('"') != etag:
            raise ChangedError
        return {"VersionId": found["VersionId"]} if found.get("VersionId", "null") != "null" else {}

    def _exists(self, bucket: str, key: str) -> bool:
        try:
            self._client.head_object(Bucket=bucket, Key=key)
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] != HTTPStatus.NOT_FOUND:
                raise
            return False
        return True

    @contextmanager
    def _changing(self, what: str, bucket: str, key: str, *, to: str = "") -> Iterator[Change]:
        """:param to: the key of the copy: a missing object counts as moved only if the copy exists."""
        change = Change()
        try:
            with self._reading():
                yield change
        except ChangedError:
            change.is_done = False
        except (BotoCoreError, ClientError) as error:
            status = error.response["ResponseMetadata"]["HTTPStatusCode"] if isinstance(error, ClientError) else 0
            if status not in {HTTPStatus.NOT_FOUND, HTTPStatus.PRECONDITION_FAILED}:
                message = (
                    f"{self.cannot} {what} {key!r} in bucket {bucket!r} with {self.who}: {error}; allow these"
                    " credentials to do so, and let the task try again"
                )
                raise refusal("after-load-failed", message, error) from error
            is_gone = status == HTTPStatus.NOT_FOUND
            # Nothing but this attempt's own move writes into its folder, and copies appear there as a whole.
            change.is_done = is_gone and (what == "delete" or (what == "move" and self._exists(bucket, to)))

    def access(self) -> S3Access:
        """How the ClickHouse servers reach the same endpoint, and with which credentials.

        :raises ConfigError: if the connection has no keys, and the worker has none of its own.
        """
        reach = partial(S3Access, endpoint_url=self._client.meta.endpoint_url, requester_pays=self.requester_pays)
        match self.credentials:
            case NamedCollection(collection=collection):
                return reach(named_collection=collection)
            case Role(arn=arn, external_id=external_id):
                hide_secrets([external_id])
                return reach(role_arn=arn, external_id=external_id)
        if self._client.meta.config.signature_version is UNSIGNED:
            return reach(anonymous=True)
        if self.aws_conn_id is None and not self.vend:
            return reach()
        renewed = self._hook.get_session().get_credentials()
        if renewed is None:
            raise ConfigError(
                "connection-invalid",
                f"connection {self.aws_conn_id!r} has no keys, and neither has this worker; add login and password to"
                f" the connection, or set {self.argument}=None to {self.without_connection}",
            )
        credentials = renewed.get_frozen_credentials()
        # botocore keeps to itself when the token of an assumed role expires; of a fixed token it is unknown
        expiry: datetime.datetime | None = getattr(renewed, "_expiry_time", None)
        access = reach(
            access_key=credentials.access_key,
            secret_key=credentials.secret_key,
            session_token=credentials.token or "",
            expires_at=expiry.timestamp() if expiry else None,
        )
        # Airflow masks the secrets in the connection, but not temporary ones obtained with them.
        hide_secrets(access.secrets)
        return access


class _VendedHook(S3Hook):  # type: ignore[misc]
    """Signs with vended keys, and has further keys vended before the keys expire."""

    def __init__(self, vend: Callable[[], VendedKeys], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._vend = vend
        self._signing: Credentials | None = None
        self._renew_at = 0.0

    def get_session(self, *args: Any, **kwargs: Any) -> Session:
        """Build a session with the keys."""
        session = super().get_session(*args, **kwargs)
        if time.monotonic() >= self._renew_at:
            self._signing, self._renew_at = self._sign(), time.monotonic() + KEPT_SECONDS
        session._session._credentials = self._signing
        return session

    def _sign(self) -> Credentials:
        keys = self._describe_keys()
        if keys["expiry_time"]:
            return RefreshableCredentials.create_from_metadata(keys, self._describe_keys, "catalog")
        return Credentials(keys["access_key"], keys["secret_key"], keys["token"])

    def _describe_keys(self) -> dict[str, str]:
        keys = self._vend()
        hide_secrets([keys.access_key, keys.secret_key, keys.session_token])
        expiry = keys.expires_at and datetime.datetime.fromtimestamp(keys.expires_at, datetime.UTC).isoformat()
        return {
            "access_key": keys.access_key,
            "secret_key": keys.secret_key,
            "token": keys.session_token,
            "expiry_time": expiry or "",
        }


def _read_item(item: Mapping[str, Any]) -> SourceFile:
    return listed_file(item.get("Key"), item.get("ETag"), item.get("Size"))


def _parse_objects(response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: Any) -> None:
    """Parse the objects of a page, with a tenth of the CPU time that botocore takes; botocore parses the rest."""
    try:
        page = ElementTree.fromstring(response_dict["body"])
    except ElementTree.ParseError:
        return  # botocore raises its own error
    objects = [element for element in page if _name_of(element) == "Contents"]
    if objects:
        customized_response_dict["Contents"] = list(map(_parse_object, objects))
        page[:] = [element for element in page if _name_of(element) != "Contents"]
        response_dict["body"] = ElementTree.tostring(page)


def _parse_object(element: ElementTree.Element) -> dict[str, Any]:
    found = {_name_of(field): field.text or "" for field in element}
    changed = found.get("LastModified")
    return {
        "Key": found.get("Key"),
        "ETag": found.get("ETag"),
        "Size": int(found["Size"]),
        **({"LastModified": datetime.datetime.fromisoformat(changed)} if changed else {}),
    }


def _name_of(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]  # behind a namespace, which not every store gives


def _agree_to_pay(params: dict[str, Any], **_: Any) -> None:
    """Add the header to a request; every operation takes the header, also operations without an argument for it."""
    params["headers"]["x-amz-request-payer"] = "requester"


def _keep_token(request: Any, **_: Any) -> None:
    """Keep the token of a request secret, wherever botocore has the token from, before any error can quote it."""
    token = request.headers.get("X-Amz-Security-Token", "")
    keep_secret(token.decode() if isinstance(token, bytes) else token)


def quiet_botocore() -> None:
    """Keep botocore from logging requests: at DEBUG botocore logs the session token with all other headers."""
    for name in ("botocore", *(n for n in logging.Logger.manager.loggerDict if n.startswith("botocore."))):
        logger = logging.getLogger(name)
        if name == "botocore" or logger.level != logging.NOTSET:
            logger.setLevel(max(logger.level, logging.INFO))


class S3ExportStore(S3FileStore):
    """The prefixes of one S3 endpoint; arguments as for :class:`S3FileStore`."""

    cannot = "cannot"
    why_read = "it tells whether an export is complete"

    def write(self, bucket: str, key: str, body: bytes, *, instead_of: SmallObject | None) -> bool:
        """Write a small object if the present object is still the given one; return False if it changed.

        :raises SourceError: if the store refuses.
        """
        condition = {"IfMatch": f'"{instead_of.etag}"'} if instead_of else {"IfNoneMatch": "*"}
        with self._changing("write", bucket, key) as change:
            if self.read(bucket, key) != instead_of:  # for stores without this condition
                raise ChangedError
            self._client.put_object(Bucket=bucket, Key=key, Body=body, **condition)
        return change.is_done
