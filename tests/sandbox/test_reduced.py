"""INSERTs that run out of memory, however often they are reduced."""

from __future__ import annotations

import logging
import random

import pyarrow as pa
import pytest
from pyarrow import parquet

from airflow_provider_ch_s3.errors import LoadError
from tests.failures import coded
from tests.sandbox.conftest import Lab

pytestmark = pytest.mark.sandbox

ROWS = 600_000


@pytest.fixture
def table(lab: Lab) -> str:
    """A table, and a file with a single row group of 60 MB, which no compression makes smaller."""
    source = random.Random(7)
    texts = pa.array([source.randbytes(50).hex() for _ in range(ROWS)])
    buffer = pa.BufferOutputStream()
    parquet.write_table(pa.table({"s": texts}), buffer, row_group_size=ROWS, use_dictionary=False)
    lab.put("in/large.parquet", buffer.getvalue().to_pybytes())
    return lab.create("t", "s String", "MergeTree ORDER BY s")


# The condition makes gigabytes of each chunk, however small the blocks are; a sample does not evaluate it.
GREEDY = {"where": "length(repeat(s, 2000)) > 0", "settings": {"max_memory_usage": 1_000_000_000}}


def test_a_try_loads_again_twice(lab: Lab, table: str, caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level(logging.WARNING),
        pytest.raises(LoadError, match=coded("query-failed", "raise max_memory_usage")),
    ):
        lab.load("in/*.parquet", table, **GREEDY)
    assert [f"halved {count}" in caplog.text for count in ("once", "twice", "3 times")] == [True, True, False]
    assert len(lab.inserts()) == 3
    assert lab.rows(table) == []
    assert lab.left_overs() == []


@pytest.mark.thorough
def test_a_row_group_larger_than_the_share_is_named(lab: Lab, table: str) -> None:
    lab.connect_clickhouse({"memory_gib_per_node": 1, "ingest_memory_ratio": 0.05})
    with pytest.raises(LoadError, match=coded("row-group-too-large", "/in/large.parquet", "MiB", "51.2 MiB")):
        lab.load("in/*.parquet", table, **GREEDY)
    assert len(lab.inserts()) == 2
    assert lab.left_overs() == []
