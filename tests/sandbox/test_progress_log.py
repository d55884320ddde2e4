"""What a load logs: its progress, and its outcome when it is killed."""

from __future__ import annotations

import asyncio
import logging
import re
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from airflow.providers.common.compat.sdk import TaskDeferred

from airflow_provider_ch_s3.arguments import Chunks
from airflow_provider_ch_s3.modes import Merge
from airflow_provider_ch_s3.triggers.load import LoadTrigger
from tests.logs import unfolded
from tests.sandbox.conftest import Lab, wait_until

pytestmark = pytest.mark.sandbox

# One file takes 18 seconds, the others one each: the nodes that read those finish long before.
UNEVEN = {"large": 600, **{f"small{number}": 30 for number in range(9)}}
EVEN = {f"even{number}": 300 for number in range(12)}
SLOW: dict[str, Any] = {
    "where": "sleepEachRow(0.03) = 0",
    "settings": {
        "max_threads": 1,
        "max_insert_threads": 1,
        "max_block_size": 10,
        "input_format_parquet_max_block_size": 10,
        "cluster_table_function_split_granularity": "file",
    },
}
PROGRESS = re.compile(r"(?:(\d+)%, )?([\d,]+) rows?, .* memory, (\d) (?:of \d )?nodes? at work")


@pytest.fixture
def table(lab: Lab) -> str:
    """A Distributed table over three nodes."""
    return lab.distribute(lab.create("it", "n UInt32"))


def put_files(lab: Lab, files: dict[str, int], data_format: str = "parquet") -> None:
    for name, rows in files.items():
        if data_format == "parquet":
            lab.put_parquet(f"in/{name}.parquet", {"n": list(range(rows))})
        else:
            lab.put(f"in/{name}.csv", "".join(f"{n}\n" for n in range(rows)).encode())


def progress(caplog: pytest.LogCaptureFixture) -> list[tuple[int, int, int]]:
    """Parse percent, rows and working nodes of each line."""
    found = [match for record in caplog.records if (match := PROGRESS.search(record.getMessage()))]
    return [(int(match[1] or 0), int(match[2].replace(",", "")), int(match[3])) for match in found]


@pytest.mark.parametrize("data_format", ["parquet", "csv"])
@pytest.mark.thorough
def test_progress_never_runs_backwards(
    lab: Lab, table: str, data_format: str, caplog: pytest.LogCaptureFixture
) -> None:
    put_files(lab, UNEVEN, data_format)
    with caplog.at_level(logging.INFO):
        lab.load("in/*", table, **SLOW)
    percents, rows, nodes = zip(*progress(caplog), strict=True)
    assert list(percents) == sorted(percents)
    assert list(rows) == sorted(rows)
    assert nodes[-1] == 1 < max(nodes), "some nodes finished before the others"
    assert rows[-1] > 435, "half of them"
    assert percents[-1] >= 50


def defer(lab: Lab, table: str) -> LoadTrigger:
    operator = lab.operator("in/*", table, deferrable=True, **SLOW)
    with pytest.raises(TaskDeferred) as deferred:
        operator.execute(lab.context(operator))
    trigger = deferred.value.trigger
    assert isinstance(trigger, LoadTrigger)
    return trigger


@pytest.mark.thorough
def test_a_trigger_says_how_far_the_load_is(lab: Lab, table: str, caplog: pytest.LogCaptureFixture) -> None:
    put_files(lab, UNEVEN)
    trigger = defer(lab, table)

    async def wait() -> list[Any]:
        return [event.payload async for event in trigger.run()]

    with caplog.at_level(logging.INFO):
        events = asyncio.run(asyncio.wait_for(wait(), 60))
    assert events == [{"status": "over", "query_id": trigger.query_id, "deadline": None}]
    percents, rows, nodes = zip(*progress(caplog), strict=True)
    assert list(rows) == sorted(rows)
    assert list(percents) == sorted(percents)
    assert percents[-1] > 50
    assert nodes[-1] == 1
    said = [record.getMessage() for record in caplog.records]
    assert any(line.startswith(f"{trigger.query_id}: ") for line in said)
    assert f"no node is running {trigger.query_id} any more; the task continues from here" in said


@pytest.mark.thorough
def test_a_killed_trigger_says_what_was_ended_and_that_nothing_changed(
    lab: Lab, table: str, caplog: pytest.LogCaptureFixture
) -> None:
    put_files(lab, EVEN)
    trigger = defer(lab, table)
    wait_until(lambda: len(lab.running()) > 3, "the parts of the query on three nodes")
    with caplog.at_level(logging.INFO):
        asyncio.run(asyncio.wait_for(trigger.on_kill(), 60))
    assert f"killed on 3 nodes; {table} was not changed" in caplog.text
    assert (lab.running(), lab.left_overs(), lab.query(f"SELECT * FROM {table}")) == ([], [], [])


@pytest.mark.thorough
def test_a_killed_task_says_so_too(lab: Lab, table: str, caplog: pytest.LogCaptureFixture) -> None:
    put_files(lab, EVEN)
    operator = lab.operator("in/*", table, deferrable=True, mode="direct", **SLOW)
    with pytest.raises(TaskDeferred):
        operator.execute(lab.context(operator))
    wait_until(lambda: len(lab.running()) > 3, "the parts of the query on three nodes")
    with caplog.at_level(logging.INFO):
        operator.on_kill()
    assert f"killed on 3 nodes; rows that it had written stay in {table} (mode='direct')" in caplog.text


@pytest.mark.thorough
def test_files_that_are_left_out_are_told_once(lab: Lab, table: str, caplog: pytest.LogCaptureFixture) -> None:
    lab.put_parquet("in/a.parquet", {"n": [1]})
    lab.load("in/*", table)
    lab.put_parquet("in/b.parquet", {"n": [2]})
    with caplog.at_level(logging.INFO):
        lab.load("in/*", table, task_id="next")
    told = [record.getMessage() for record in caplog.records if "skipping" in record.getMessage()]
    assert told == ["skipping 1 file that the table already holds ('in/a.parquet')"]


def load(lab: Lab, table: str, **how: Any) -> None:
    """Load as Airflow does, which resumes a deferred task when its trigger has fired."""
    operator = lab.operator("in/*", table, **how)
    context = lab.context(operator)
    step = partial(operator.execute, context)
    while True:
        try:
            step()
            return
        except TaskDeferred as deferred:
            event = asyncio.run(asyncio.wait_for(anext(deferred.trigger.run()), 60))
            step = partial(lab.operator("in/*", table, **how).execute_complete, context, event.payload)


LINES_OF_A_CHUNK = 5


@pytest.mark.parametrize(
    ("how", "files", "most"),
    [
        pytest.param({}, 1, 25, id="staged"),
        pytest.param({"deferrable": True}, 1, 25, id="deferred"),
        pytest.param({"chunks": Chunks(max_files=1)}, 4, 25 + 3 * LINES_OF_A_CHUNK, id="chunked"),
        pytest.param({"mode": Merge(key=["c0"])}, 1, 25, id="merge"),
        pytest.param({"mode": "direct"}, 1, 25, id="direct"),
    ],
)
def test_an_ordinary_load_fits_on_a_page(
    lab: Lab, caplog: pytest.LogCaptureFixture, how: dict[str, Any], files: int, most: int
) -> None:
    """Columns are wider in the files than in the table, which was said in a line for each."""
    for file in range(files):
        lab.put_parquet(f"in/{file}.parquet", {f"c{n}": pa.array([n], pa.int64()) for n in range(15)})
    table = lab.create("t", ", ".join(f"c{n} Int32" for n in range(15)))
    with caplog.at_level(logging.INFO):
        load(lab, table, **how)
    lines = unfolded(
        record.getMessage() for record in caplog.records if record.name.startswith("airflow_provider_ch_s3")
    )
    assert len(lines) <= most
    warnings = [record.getMessage()[:14] for record in caplog.records if record.levelno > logging.INFO]
    assert warnings == ([] if how.get("mode") != "direct" else ["mode='direct':"])
    said = "\n".join(lines)
    for words in (
        r"1 Parquet file, [\d.]+ KiB, 1 row, from s3://",
        "::group::15 columns are wider in the files than in ",
        "plan: 3 x 1 thread, blocks of ",
        "::group::the settings that matter, with their reasons",
        "::group::the SQL",
        f"(loaded|merged) {files} rows? from {files} files? into {table}",
    ):
        assert re.search(words, said), words
    # what is said of each chunk has its number or its query id in it, but for these
    of_each = [line for line in lines if re.match("::group::(15 columns|the SQL)", line)]
    assert len(of_each) == 2 * files
    assert len(set(lines)) == len(lines) - len(of_each) + 2
