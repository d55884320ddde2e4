"""The report of an export."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from airflow_provider_ch_s3.common.text import count_of, format_bytes, format_seconds


@dataclass(frozen=True, kw_only=True)
class ExportReport:
    """What an export wrote; passed through XCom as a dict of plain values.

    :param destination: address of the folder.
    :param manifest: address of the manifest, which names the files.
    :param files: number of files.
    :param rows: rows in the files, as counted there.
    :param size_bytes: stored size of the files.
    :param query_id: id of the INSERT in ``system.query_log``.
    :param seconds: duration of the INSERT.
    :param attached: whether an earlier try submitted the INSERT, and this try took over the result.
    """

    destination: str
    manifest: str
    files: int
    rows: int
    size_bytes: int
    query_id: str
    seconds: float
    attached: bool

    def __str__(self) -> str:
        return (
            f"exported {count_of(self.rows, 'row')}, {format_bytes(self.size_bytes)} in"
            f" {count_of(self.files, 'file')} to {self.destination} in {format_seconds(self.seconds)}"
        )

    def as_dict(self) -> dict[str, Any]:
        """As plain values."""
        return dataclasses.asdict(self)
