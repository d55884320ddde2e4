"""A lake table as the store of a case: each file of the case is a data file, written by the reader library."""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_provider_ch_s3.transfers.files_to_clickhouse import FilesToClickHouseOperator
from tests.combinations.factors import Case
from tests.lakes import FED, LAKES, DeltaLake, IcebergLake, server_of
from tests.sandbox.conftest import Lab

FOLDER = "lake"
# Lakes have no unsigned numbers, and none of a byte.
WIDER = {pa.uint32(): pa.int64(), pa.int8(): pa.int32()}


@dataclass(kw_only=True)
class LakeStore:
    """An Iceberg or a Delta table in the bucket of a lab.

    :param kind: of the table, a key of ``LAKES``.
    :param folder: for the catalog.
    """

    lab: Lab
    kind: str
    folder: Path
    _opened: IcebergLake | DeltaLake | None = None
    _paths: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    _ids: dict[str, list[int]] = field(default_factory=dict)

    @property
    def operator(self) -> type[FilesToClickHouseOperator]:
        return LAKES[self.kind].operator

    def arguments(self, case: Case) -> Mapping[str, Any]:
        return {"source": self.lab.uri(FOLDER), "store_conn_id": "aws"}

    def put(self, key: str, body: bytes) -> None:
        """Append the rows of a file to the table; rows that an earlier version of the file had are deleted before."""
        if not body:  # a marker, in a case that is refused
            return
        rows = pq.read_table(io.BytesIO(body))
        schema = pa.schema([column.with_type(WIDER.get(column.type, column.type)) for column in rows.schema])
        if self._opened is None:
            server, uri = server_of(self.lab.sandbox), self.lab.uri(FOLDER)
            given = {"configuration": FED} if self.kind == "delta" else {}
            self._opened = LAKES[self.kind](server, uri, self.folder, schema=schema, **given)
        self.remove(key)
        before = self._data_files()
        self._lake.append(rows.cast(schema).to_pylist())
        (added,) = self._data_files() - before
        self._paths[key].append(added.removeprefix("s3://"))
        self._ids[key] = rows["id"].to_pylist()

    def remove(self, key: str) -> None:
        """Delete the rows of a file, and so its data file."""
        if key in self._ids:
            self._lake.delete(f"id in ({', '.join(map(str, self._ids.pop(key)))})")

    def path(self, key: str, version: int) -> str:
        return self._paths[key][version - 1]

    def tags(self) -> Mapping[str, Collection[str]]:
        return {}

    @property
    def _lake(self) -> IcebergLake | DeltaLake:
        assert self._opened is not None
        return self._opened

    def _data_files(self) -> set[str]:
        lake = self._lake
        if isinstance(lake, IcebergLake):
            return {task.file.file_path for task in lake.table.scan().plan_files()}
        return set(lake.table.file_uris())
