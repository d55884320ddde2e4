"""What to export, and to where."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_provider_ch_s3.clickhouse.expressions import parse_expression
from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.files.addresses import S3, Source, read_web
from airflow_provider_ch_s3.files.file_format import FORMATS, find_format
from airflow_provider_ch_s3.files.globs import UNSAFE_IN_PATH
from airflow_provider_ch_s3.table.target import parse_table
from airflow_provider_ch_s3.tuning import LoadLimit, SettingValue

_FOLDER = re.compile(r"\w+", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Destination:
    """The folder for an export.

    :param prefix: with a slash at the end.
    """

    bucket: str
    prefix: str

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}"

    @property
    def source(self) -> Source:
        """All objects in the folder, for a listing."""
        return Source(bucket=self.bucket, globs=(f"{self.prefix}**",))


@dataclass(frozen=True, kw_only=True)
class ExportRequest:
    """A request to export the rows of a query or a table.

    :param query: a SELECT; '' if ``table`` is given.
    :param table: ``table`` or ``database.table``, local or Distributed; '' if ``query`` is given.
    :param data_format: ClickHouse's name.
    :param compression: extension of the compressed files, such as ``gz``; '' for no compression except the format's
        own.
    :param partition_by: name of a folder → flat SQL expression over the exported columns for the values of the
        folder.
    :param settings: ClickHouse settings, which override all computed settings.
    :param connection_settings: settings of the Airflow connection.
    :param overwrite: replace a complete export of somebody else.
    :param timeout_seconds: the task's ``execution_timeout``.
    :param limit: how many exports of this task Airflow may run at once.
    """

    destination: Destination
    query: str = ""
    table: str = ""
    data_format: str = "Parquet"
    compression: str = ""
    partition_by: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, SettingValue] = field(default_factory=dict)
    connection_settings: Mapping[str, SettingValue] = field(default_factory=dict)
    overwrite: bool = False
    timeout_seconds: float | None = None
    limit: LoadLimit = field(default_factory=LoadLimit)

    @property
    def extension(self) -> str:
        """The end of the file names, after a dot."""
        by_name = {name: known.extensions[:1] for known in FORMATS for name in (known.name, known.with_names)}
        name = next(iter(by_name.get(self.data_format, ())), self.data_format.lower())
        return f"{name}.{self.compression}" if self.compression else name

    @property
    def given_settings(self) -> dict[str, SettingValue]:
        """The settings of the connection and the operator."""
        return {**self.connection_settings, **self.settings}

    @property
    def fingerprint(self) -> str:
        """A hash that differs for any request for other files."""
        what = [self.query, self.table, self.data_format.casefold(), self.compression, dict(self.partition_by)]
        return hashlib.sha256(json.dumps(what).encode()).hexdigest()[:16]

    def check(self) -> None:
        """Check what can be checked without a server.

        :raises ConfigError: if the arguments contradict each other, or an expression or a name is wrong.
        """
        if bool(self.query) == bool(self.table):
            given = f"query={self.query!r} and table={self.table!r}"
            raise ConfigError(
                "arguments-contradict", f"{given}: an export has one of them; give a SELECT, or the name of a table"
            )
        if self.table:
            parse_table(self.table, "")
        if self.compression and not find_format(self.data_format).is_text:
            raise ConfigError(
                "argument-invalid",
                f"compression={self.compression!r} is for text formats; {self.data_format} compresses its own blocks:"
                " leave it out (settings={'output_format_parquet_compression_method': …} changes that of Parquet)",
            )
        for name, expression in self.partition_by.items():
            if not _FOLDER.fullmatch(name):
                raise ConfigError(
                    "name-invalid",
                    f"partition_by has the folder name {name!r}; use letters, digits and _, as in"
                    " partition_by={'dt': 'toDate(time)'}, for folders such as dt=2024-01-31/",
                )
            parse_expression(expression)


def parse_destination(text: str) -> Destination:
    """Parse ``s3://bucket/folder/``.

    :raises ConfigError: if the text is not the address of a folder, or has characters that the servers do not take
        literally.
    """
    match = re.fullmatch(rf"{S3.start}/(?P<prefix>[^/]+(/[^/]+)*)/?", read_web(text, S3)[0])
    if match is None:
        raise ConfigError(
            "address-invalid",
            f"destination {text!r} is not the address of a folder in S3; write 's3://bucket/folder/'",
        )
    # A plus sign, as in a run id, has a meaning in a glob only, and an export writes to no glob.
    if unsafe := UNSAFE_IN_PATH.search(match["prefix"].replace("+", "")):
        raise ConfigError(
            "address-invalid",
            f"destination {text!r} contains {unsafe[0]!r}, which ClickHouse does not take literally; use letters,"
            " digits and _ - . / = @ : & ; ( ) ' ~ ! +",
        )
    return Destination(bucket=match["bucket"], prefix=f"{match['prefix']}/")
