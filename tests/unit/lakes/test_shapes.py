"""Tables of all shapes: the metadata count the rows, and the formats' libraries read the rows worked out by hand."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ch_s3.errors import SnapshotError
from airflow_provider_ch_s3.files.snapshots import count_rows
from airflow_provider_ch_s3.lakes.functions import DELTA, ICEBERG, Version
from ch_s3_lab.sandbox.s3_server import S3Server
from tests.failures import coded
from tests.lake_features import Case
from tests.lake_shapes import CASES
from tests.lakes import LAKES
from tests.marks import thorough
from tests.unit.lakes.reading import open_lake

FEATURES: Mapping[str, Mapping[str, Version | None]] = {"iceberg": ICEBERG, "delta": DELTA}
USUAL = {"iceberg_position_deletes", "delta_vectors_in_checkpoint", "delta_checkpoint_in_json"}
UNCOUNTED = {
    "iceberg_equality_deletes",
    "iceberg_equality_by_two",
    "iceberg_equality_and_rename",
    "delta_without_statistics",
}


def bag(rows: Iterable[Mapping[str, Any]]) -> Counter[str]:
    return Counter(json.dumps(row, sort_keys=True) for row in rows)


@pytest.mark.parametrize(
    "case", [case if str(case) in USUAL else thorough(case, id=str(case)) for case in CASES], ids=str
)
def test_the_metadata_count_the_rows(case: Case, server: S3Server, bucket: str, tmp_path: Path) -> None:
    written = case.build(server, bucket, "lake/t", tmp_path)
    since = FEATURES[case.kind][case.feature] if case.feature else (0, 0)
    needed: list[Version] = []
    for snapshot, rows in written.snapshots.items():
        store = open_lake(LAKES[case.kind], f"s3://{bucket}/{written.location}", snapshot)
        if case.refused or (since is None and snapshot == list(written.snapshots)[-1]):
            with pytest.raises(SnapshotError, match=coded(case.refused) if case.refused else ""):
                list(store.at(store.pin(())).list_files(store.source))
        else:
            files = list(store.at(store.pin(())).list_files(store.source))
            counted = count_rows(files)
            assert counted == len(rows) or (counted is None and str(case) in UNCOUNTED)
            needed += [file.reader.since for file in files if file.reader]
        if written.read:
            assert bag(written.read(snapshot)) == bag(rows)
    assert case.refused or since is None or max(needed, default=(0, 0)) == since
