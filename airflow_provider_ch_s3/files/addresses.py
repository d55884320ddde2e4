"""Addresses of files, as users write them: ``s3://bucket/folder/*.parquet``."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from types import NoneType
from typing import Any
from urllib.parse import unquote

from airflow_provider_ch_s3.common.arguments import refuse_argument
from airflow_provider_ch_s3.common.declared import TEXT, Form, Kind, parse_list
from airflow_provider_ch_s3.common.text import is_text, show_name
from airflow_provider_ch_s3.common.work import batches
from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.files.globs import (
    UNSAFE_IN_PATH,
    UNSAFE_IN_URL,
    WILDCARD,
    before_wildcards,
    folder_of,
    glob_regex,
    leaves_out,
    mask_malformed,
    read_host,
    read_url_glob,
)

MAX_WILDCARDS = 16
# A source may name thousands of files, and messages and records show the source.
MAX_SHOWN = 10


@dataclass(frozen=True, kw_only=True)
class Scheme:
    """What the addresses of one kind of store look like.

    :param store: the store, for messages; ``operator``: the operator for the store.
    :param start: regex of the part before the key; the group ``bucket`` is the bucket.
    :param web: regex of the same address as a URL, with the groups ``host`` and ``key``, and ``bucket`` if the name
        of the host has the bucket.
    :param elsewhere: regex of addresses that other tools write for objects of the store.
    :param in_metadata: regex of addresses in the metadata of lake tables, with the groups ``bucket`` and ``key``, and
        ``account`` if an address may name the storage account.
    :param prefix: the part before the bucket in an address; ``path_prefix``: in the ledger.
    :param example: an address.
    :param lists_folders: a listing contains all objects that begin like a glob; otherwise only the glob's matches.
    :param is_reliable: an object arrives whole, or the reader fails.
    :param is_writable: objects can be tagged, moved and deleted.
    :param is_lake: the files belong to a lake table, and no load takes the table apart.
    :param has_path_columns: folders named ``name=value/`` hold the values of a column.
    :param unsafe: characters of a key that the servers do not take literally.
    :param read_bucket: turns a bucket into its usual form; ``read_glob``: a glob into the form of listed keys.
    """

    store: str
    operator: str
    start: str
    prefix: str
    path_prefix: str
    example: str
    web: str = r"(?!)"
    elsewhere: str = r"(?!)"
    in_metadata: str = r"(?!)"
    lists_folders: bool = True
    is_reliable: bool = True
    is_writable: bool = True
    is_lake: bool = False
    has_path_columns: bool = True
    unsafe: re.Pattern[str] = UNSAFE_IN_PATH
    read_bucket: Callable[[str], str] = str
    read_glob: Callable[[str], str] = str


_BUCKET = r"://(?P<bucket>[^/*?{}@]+)"  # a login before the host is not the name of a bucket
# A query string does not belong to a key, and a signature in a query string is a secret.
_IN_WEB = r"(?i:https?://)((?P<bucket>\w[\w.-]*)\.)?(?P<host>%s)(:443)?/(?P<key>((?!\?[\w-]+=).)+)"
# A name, and no ARN: boto3 takes the host of its requests from an ARN.
_NAMED_BUCKET = r"(?P<bucket>[A-Za-z0-9_.-]{1,255})"
_AWS_REGION = r"[a-z]{2}(-[a-z]+)+-\d+"

S3 = Scheme(
    store="S3",
    operator="S3ToClickHouseOperator",
    start=rf"(?i:s3[an]?){_BUCKET}",
    prefix="s3://",
    path_prefix="",  # as ClickHouse names them
    example="s3://bucket/folder/*.parquet",
    in_metadata=rf"s3[an]?://{_NAMED_BUCKET}/+(?P<key>.*)",
    web=_IN_WEB % rf"s3(-fips|-accelerate)?([.-]dualstack)?([.-]{_AWS_REGION})?\.amazonaws\.com(\.cn)?",
)
GCS = Scheme(
    store="Google Cloud Storage",
    operator="GCSToClickHouseOperator",
    start=rf"gc?s{_BUCKET}",
    prefix="gs://",
    path_prefix="gs://",
    example="gs://bucket/folder/*.parquet",
    in_metadata=rf"gs://{_NAMED_BUCKET}/+(?P<key>.*)",
    web=_IN_WEB % r"storage\.(googleapis|cloud\.google)\.com",
)
AZURE = Scheme(
    store="Azure Blob Storage",
    operator="AzureBlobStorageToClickHouseOperator",
    start=rf"az{_BUCKET}",
    elsewhere=r"(?i:(abfss?|wasbs?|azure)://|https?://[\w-]+\.(blob|dfs)\.core\.)",
    prefix="az://",
    path_prefix="az://",
    example="az://container/folder/*.parquet",
    in_metadata=rf"(az|abfss?|wasbs?)://{_NAMED_BUCKET}(@(?P<account>[a-z0-9]+)\.[a-z0-9.]+)?/+(?P<key>.*)",
)
HTTP = Scheme(
    store="HTTP",
    operator="HttpToClickHouseOperator",
    start=r"(?P<bucket>https?://([^/*?{}@#%:\\\s\[\]]+|\[[0-9A-Fa-f:.]+\])(:\d+)?)",
    prefix="",
    path_prefix="",
    example="https://host/folder/{1..9}.parquet",
    lists_folders=False,
    is_reliable=False,
    is_writable=False,
    unsafe=UNSAFE_IN_URL,
    read_bucket=read_host,
    read_glob=read_url_glob,
)
DELTA = replace(
    S3,
    store="Delta",
    operator="DeltaToClickHouseOperator",
    example="s3://bucket/folder/of/the/table",
    is_writable=False,
    is_lake=True,
)
# What its files do not say, their folders do not say either: they are named by transforms, and by texts of their own.
ICEBERG = replace(DELTA, store="Iceberg", operator="IcebergToClickHouseOperator", has_path_columns=False)
SCHEMES = (S3, GCS, AZURE, HTTP)
_OF_LAKE = ("store", "operator", "example", "is_writable", "is_lake", "has_path_columns")


@dataclass(frozen=True, kw_only=True)
class NamedStore:
    """A store, as the arguments of an operator or a watcher name the store.

    :param scheme: None if only the connection tells the kind of the store.
    :param argument: name of the argument with the connection, for messages.
    :param host: of the store, if the source is a URL.
    """

    scheme: Scheme | None
    conn_id: str | None
    argument: str
    host: str = ""


@dataclass(frozen=True, kw_only=True)
class Source:
    """The objects that a load selects: the keys in ``bucket`` that match any of ``globs``.

    :param bucket: a bucket, a container of Azure, or the scheme and host of a URL.
    :param account: the storage account, if bucket names are unique only within an account; the connection names it.
    """

    bucket: str
    globs: tuple[str, ...]
    scheme: Scheme = S3
    account: str = ""

    def matches(self, key: str) -> bool:
        """Whether the load selects the object with this key: a glob matches the key, and the object holds data."""
        return key in self._keys or any(
            regex.fullmatch(key) and not self._hides(glob, key) for glob, regex in self._regexes
        )

    def leaves_out(self, key: str) -> bool:
        """Whether a glob matches the key, but the load leaves the object out because it holds no data."""
        return not self.matches(key) and any(regex.fullmatch(key) for _, regex in self._regexes)

    def _hides(self, glob: str, key: str) -> bool:
        return not self.scheme.is_lake and leaves_out(glob, key)  # the metadata of a lake tell which files are data

    def path(self, key: str) -> str:
        """Name of an object in the ledger, the same for every load."""
        account = f"{self.account}/" if self.account else ""
        return f"{self.scheme.path_prefix}{account}{self.bucket}/{key}"

    def covers(self, path: str) -> bool:
        """Whether the load selects the object with this path."""
        start = self.path("")
        return path.startswith(start) and self.matches(path.removeprefix(start))

    def address(self, key: str) -> str:
        """Address of an object or a folder, as a user would write it."""
        return f"{self.scheme.prefix}{self.bucket}/{key}"

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses as a user would write them, with strange characters escaped."""
        return tuple(show_name(self.address(glob)) for glob in self.globs)

    @cached_property
    def prefixes(self) -> tuple[str, ...]:
        """The start of each glob, up to the first wildcard, sorted; no prefix starts with another prefix."""
        found: list[str] = []
        for prefix in sorted(set(map(before_wildcards, self.globs))):
            if not (found and prefix.startswith(found[-1])):
                found.append(prefix)
        return tuple(found)

    def groups(self, most: int = sys.maxsize) -> Iterator[Sequence[str]]:
        """Group the prefixes that a store lists together: keys of one folder; the prefix of a wildcard is alone.

        :param most: how many keys a group may have.
        """
        for _, some in groupby(self.prefixes, lambda prefix: folder_of(prefix) if prefix in self._keys else prefix):
            yield from batches(some, most)

    @property
    def folders(self) -> frozenset[str]:
        """The folder of each glob, up to the first wildcard, with a slash; '' for the bucket itself."""
        return frozenset(folder_of(before_wildcards(glob)) for glob in self.globs)

    def glob_above(self, key: str) -> str:
        """Return a glob that the key begins like, whether the glob matches the key or not; '' if no glob does.

        ``d`` and ``d/`` are above ``d/a.csv``, and so are ``d/*.parquet`` and ``*``.
        """
        for glob in self.globs:
            prefix = before_wildcards(glob)
            if key.startswith(prefix if prefix != glob else f"{glob.rstrip('/')}/"):
                return glob
        return ""

    @property
    def with_hint(self) -> str:
        """The source for messages, with a note on what was probably meant as a shell's wildcard or a template."""
        globs = " ".join(self.globs)
        if single := re.search(r"\{\w+\}", globs):
            return f"{self} ({single[0]} is one choice; a template has two braces, as in {{{{ ds }}}})"
        found = re.search(r"\[[^]/]+\]", globs)
        if found is None:
            return str(self)
        known = "{a,b} and {1..9}" if self.scheme is HTTP else "*, ?, **, {a,b} and {1..9}"
        return f"{self} ({found[0]} is a part of the name: wildcards are {known})"

    @cached_property
    def _keys(self) -> frozenset[str]:
        """The globs without wildcards, which may be thousands: each is the key of an object."""
        return frozenset(glob for glob in self.globs if not WILDCARD.search(glob))

    @cached_property
    def _regexes(self) -> tuple[tuple[str, re.Pattern[str]], ...]:
        return tuple((glob, re.compile(glob_regex(glob), re.DOTALL)) for glob in self.globs if glob not in self._keys)

    def __str__(self) -> str:
        more = len(self.globs) - MAX_SHOWN
        return ", ".join(self.addresses[:MAX_SHOWN]) + (f" and {more:,} more addresses" if more > 0 else "")


def _parse_addresses(name: str, value: Any) -> list[str]:
    """Parse an address, a path of Airflow's object storage, or a list of both.

    :raises ConfigError: for anything else.
    """
    given = parse_list(name, value)
    if isinstance(given, str) or not isinstance(given, Sequence):
        given = [given]
    return [_parse_address(name, one) for one in given]


def _parse_address(name: str, value: Any, remedy: str = f"give an address such as {S3.example!r}, or a list") -> str:
    if hasattr(value, "protocol") and hasattr(value, "bucket") and hasattr(value, "key"):  # str() adds the connection
        return f"{value.protocol}://{value.bucket}/{value.key}"
    if not isinstance(value, str):
        raise refuse_argument(name, value, remedy)
    return value


def _parse_location(name: str, value: Any) -> str:
    """:raises ConfigError: for no text or ``*``; the scheme judges all the rest (``?`` begins a query of a URL)."""
    location = _parse_address(name, value, "give the location of one table")
    if "*" in location:
        raise _names_tables(location)
    return location


def _names_tables(location: str) -> ConfigError:
    return ConfigError("address-invalid", f"source={location!r} has wildcards; give the location of one table")


SOURCE = Kind(_parse_addresses, Form.TEXT, of=TEXT)
LOCATION = Kind(_parse_location, Form.TEXT)


def parse_source(source: str | Sequence[str], scheme: Scheme = S3) -> Source:
    """Parse ``s3://bucket/key``, or a list of addresses; keys may have ``*``, ``?``, ``**``, ``{a,b}``, ``{1..9}``.

    :param scheme: the expected kind of address.
    :raises ConfigError: if an address is malformed, or the addresses name several buckets.
    """
    if not isinstance(source, (str, Sequence, NoneType)):
        raise refuse_argument("source", source, f"give an address such as {scheme.example!r}, or a list")
    addresses = [source] if isinstance(source, str) else list(source or ())
    if not addresses:
        raise ConfigError("address-invalid", f"source is empty; give an address such as {scheme.example!r}")
    buckets, globs = set(), []
    for address in addresses:
        if isinstance(address, str) and not is_text(address):
            raise ConfigError(
                "address-invalid", f"source {address!r} contains an invalid character; write it in UTF-8"
            )
        match = re.fullmatch(rf"{scheme.start}/(?P<glob>.+)", read_web(str(address), scheme)[0], re.DOTALL)
        needs_listing = scheme is HTTP and find_scheme(str(address)) is not HTTP and re.search(r"[*?]", str(address))
        if match is None or needs_listing:
            raise _is_malformed(address, scheme)
        if len(WILDCARD.findall(match["glob"])) > MAX_WILDCARDS:
            raise ConfigError(
                "address-invalid",
                f"source {mask_malformed(str(address))!r} has more than {MAX_WILDCARDS} wildcards, and each of them"
                " multiplies the ways in which a key may match; use fewer, such as * for several in a row",
            )
        buckets.add(scheme.read_bucket(match["bucket"]))
        globs.append(scheme.read_glob(match["glob"]))
    if len(buckets) > 1:
        raise ConfigError(
            "sources-differ",
            f"source names the buckets {', '.join(sorted(buckets))}; one load reads one bucket, so use one"
            " task for each (dynamic task mapping does that)",
        )
    return Source(bucket=buckets.pop(), globs=tuple(globs), scheme=scheme)


def parse_location(source: object, scheme: Scheme) -> Source:
    """Parse the address of a lake table: the folder with all files of the table.

    :param scheme: the format, with addresses in S3.
    :returns: the table's files, with the format's scheme in the store that the address names.
    :raises ConfigError: if the address is malformed, or names several tables.
    """
    if not isinstance(source, str):
        raise refuse_argument("source", source, f"give the location of one table, such as {scheme.example!r}")
    if (store := find_scheme(source)) in (GCS, AZURE):
        scheme = replace(store, **{name: getattr(scheme, name) for name in _OF_LAKE})
    files = parse_source(source.rstrip("/"), scheme)
    (folder,) = files.globs
    if WILDCARD.search(folder):
        raise _names_tables(source)
    return replace(files, globs=(f"{folder}/**",))


def find_scheme(address: str) -> Scheme:
    """Find the kind of store that an address names; S3 if no store has addresses of this form."""
    return next((scheme for scheme in SCHEMES if _is_of(scheme, address)), S3)


def find_host(source: object, scheme: Scheme = S3) -> str:
    """Find the host of the store in addresses that are URLs, without the bucket; '' if no address names a host."""
    hosts = (read_web(address, scheme)[1] for address in _parse_addresses("source", source))
    return next(filter(None, hosts), "")


def read_web(address: str, scheme: Scheme) -> tuple[str, str]:
    """Turn the URL of an object into the store's own form of the address; return the address, and the URL's host."""
    match = re.fullmatch(scheme.web, address, re.DOTALL)
    if match is None:
        return address, ""
    bucket = f"{match['bucket']}/" if match["bucket"] else ""
    return f"{scheme.prefix}{bucket}{unquote(match['key'])}", match["host"].lower()


def _is_of(scheme: Scheme, address: str) -> bool:
    return bool(re.match(scheme.start, address) or re.fullmatch(scheme.web, address, re.DOTALL))


def _is_malformed(address: object, scheme: Scheme) -> ConfigError:
    shown = repr(mask_malformed(address) if isinstance(address, str) else address)
    text = str(address)
    other = next((one for one in SCHEMES if _is_of(one, text) or re.match(one.elsewhere, text)), None)
    if other is HTTP and "?" in text and "@" not in text:
        read_url_glob(text)  # raises an error with the reason
    if scheme.is_lake:  # an operator for files would load rows that the table no longer has
        return ConfigError(
            "address-invalid",
            f"source {shown} is not the location of a lake table; write it as 's3://bucket/folder',"
            " 'gs://bucket/folder' or 'az://container/folder', and put the URL of an S3-compatible store into"
            " endpoint_url of store_conn_id",
        )
    if other is HTTP and scheme is S3:
        return ConfigError(
            "address-invalid",
            f"source {shown} is a URL; for an S3-compatible store, write it as {S3.example!r}, and put the URL of the"
            f" store into endpoint_url of aws_conn_id; for files of a web server, use {HTTP.operator}",
        )
    if other not in (None, scheme):
        return ConfigError(
            "address-invalid",
            f"source {shown} is an address of {other.store}; use {other.operator} for it, and write it as"
            f" {other.example!r}",
        )
    if match := re.fullmatch(rf"({scheme.start})/*", text):
        return ConfigError(
            "address-invalid", f"source {shown} names no file; write {f'{match[1]}/**'!r} for all files there"
        )
    unknown = re.match(r"([A-Za-z][\w+.-]*)://", text)
    if unknown and not re.fullmatch(r"(?i)s3[an]?|gc?s|az|https?", unknown[1]):
        return ConfigError(
            "address-invalid",
            f"source {shown} has the unknown scheme {unknown[1]!r}; known are"
            f" {', '.join(one.example.partition('://')[0] for one in SCHEMES)}: write it as {scheme.example!r}",
        )
    article = "a" if scheme is GCS else "an"
    return ConfigError(
        "address-invalid", f"source {shown} is not {article} {scheme.store} address; write it as {scheme.example!r}"
    )
