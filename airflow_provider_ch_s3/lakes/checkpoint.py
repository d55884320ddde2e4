"""What checkpoints of Delta tables name besides data files: sidecars, and deletion vectors.

deltalake would open both wherever they are. So a copy of the checkpoint is read first, as the data of another table.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from deltalake import DeltaTable, QueryBuilder

_VECTOR = {"storageType": "string", "pathOrInlineDv": "string", "cardinality": "long"}


def _struct(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    named = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in fields.items()]
    return {"type": "struct", "fields": named}


_SCHEMA = _struct(
    {
        "add": _struct({"path": "string", "deletionVector": _struct(_VECTOR)}),
        "sidecar": _struct({"path": "string"}),
    }
)


def read_sidecars(files: Sequence[Path]) -> Iterator[str]:
    """Read the paths of the sidecars that Parquet files of a checkpoint name."""
    for sidecar in _query(files, "SELECT c.sidecar FROM c WHERE c.sidecar IS NOT NULL"):
        yield str(sidecar["path"])


def read_vectors(files: Sequence[Path]) -> Iterator[Mapping[str, Any]]:
    """Read the actions of Parquet files of a checkpoint that add a data file with a deletion vector."""
    return _query(files, "SELECT c.add FROM c WHERE c.add IS NOT NULL AND c.add['deletionVector'] IS NOT NULL")


def _query(files: Sequence[Path], query: str) -> Iterator[Mapping[str, Any]]:
    """Query the rows of all files together as the table ``c``; files may lack any of the columns.

    :param query: of one column.
    """
    if not files:
        return
    schema = {"schemaString": json.dumps(_SCHEMA), "partitionColumns": [], "configuration": {}, "createdTime": 0}
    actions: list[Mapping[str, Any]] = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {"id": "checkpoint", "format": {"provider": "parquet", "options": {}}, **schema}},
    ]
    about = {"partitionValues": {}, "modificationTime": 0, "dataChange": True}
    with TemporaryDirectory() as folder:
        for number, file in enumerate(files):
            os.link(file, Path(folder, str(number)))
            actions.append({"add": {"path": str(number), "size": file.stat().st_size, **about}})
        log = Path(folder, "_delta_log")
        log.mkdir()
        (log / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))
        found = QueryBuilder().register("c", DeltaTable(folder))
        for batch in found.execute(query):
            yield from batch.column(0).to_pylist()
