"""What the Parquet files of a Delta table's checkpoint have, before deltalake reads them all at once.

deltalake would open sidecars and deletion vectors wherever they are, and keep all actions of the checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from deltalake import QueryBuilder

from airflow_provider_ch_s3.lakes.parquet import read_longest_bytes

_COLUMNS = (
    'add STRUCT<path VARCHAR, "deletionVector" STRUCT<"storageType" VARCHAR, "pathOrInlineDv" VARCHAR,'
    " cardinality BIGINT>>, sidecar STRUCT<path VARCHAR>"
)
_MOST_ROWS = 8192  # DataFusion's own default


def read_sidecars(log: Path) -> Iterator[str]:
    """Read the paths of the sidecars that the files of a checkpoint name.

    :param log: a copy of the log, without the sidecars.
    """
    for sidecar in _read(log, "SELECT c.sidecar FROM c WHERE c.sidecar IS NOT NULL"):
        yield str(sidecar["path"])


def read_vectors(log: Path) -> Iterator[Mapping[str, Any]]:
    """Read the actions of a checkpoint that add a data file with a deletion vector.

    :param log: a copy of the log, with the sidecars.
    """
    return _read(log, "SELECT c.add FROM c WHERE c.add IS NOT NULL AND c.add['deletionVector'] IS NOT NULL")


def _read(log: Path, query: str) -> Iterator[Mapping[str, Any]]:
    """Query one column of all files of a checkpoint together; files may lack any of the columns."""
    for folder in (log, log / "_sidecars"):
        if any(folder.glob("*.parquet")):
            for batch in _query(f"{folder}/*.parquet", query, columns=f"({_COLUMNS})"):
                yield from batch.column(0).to_pylist()


def count_decoded(body: bytes, limit_bytes: int) -> int:
    """Decode a file piece by piece, keeping no piece, and return the size of the values; beyond the limit, stop.

    A text that repeats takes next to nothing in a file, and the footer counts the text once.

    :raises DeltaError: if the file is damaged; ValueError, KeyError and the like as well.
    """
    rows = max(1, min(_MOST_ROWS, limit_bytes // read_longest_bytes(body)))
    size_bytes = 0
    with NamedTemporaryFile(suffix=".parquet") as file:
        file.write(body)
        file.flush()
        for batch in _query(file.name, "SELECT * FROM c", rows=rows):
            size_bytes += batch.nbytes
            if size_bytes > limit_bytes:
                break
    return size_bytes


def _query(place: str, query: str, *, columns: str = "", rows: int = _MOST_ROWS) -> Iterator[Any]:
    """Query Parquet files as the table ``c``.

    :param columns: with their types; '' for all columns of the files.
    :param rows: of a piece of the answer.
    """
    engine = QueryBuilder()
    location = place.replace("'", "''")
    for statement in (
        f"SET datafusion.execution.batch_size = {rows}",
        "SET datafusion.execution.parquet.schema_force_view_types = false",  # each value has bytes of its own
        f"CREATE EXTERNAL TABLE c {columns} STORED AS PARQUET LOCATION '{location}'",
    ):
        engine.execute(statement)
    yield from engine.execute(query)
