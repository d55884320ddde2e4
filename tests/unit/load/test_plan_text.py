"""What is printed of a plan."""

from __future__ import annotations

import dataclasses
import datetime
import json
import logging
import re

import pytest

from airflow_provider_ch_s3.cluster.spec import ClusterSpec, NodeSpec
from airflow_provider_ch_s3.common.text import GIB
from airflow_provider_ch_s3.discretion import without_facts
from airflow_provider_ch_s3.files.access import S3Access
from airflow_provider_ch_s3.files.addresses import Source
from airflow_provider_ch_s3.files.chunk import Chunk
from airflow_provider_ch_s3.files.source import SourceFile, SourceSpec
from airflow_provider_ch_s3.identity import LoadIdentity
from airflow_provider_ch_s3.load.plan_text import advise, format_elsewhere, format_plan, format_summary, log_plan
from airflow_provider_ch_s3.load.prepare import PreparedLoad
from airflow_provider_ch_s3.load.selection import ChunkSelection, LeftOut
from airflow_provider_ch_s3.table.mapping import MappedColumn
from airflow_provider_ch_s3.table.merge_rule import MergeRule
from airflow_provider_ch_s3.table.target import TableColumn, TableName, TableSize, TargetSpec
from airflow_provider_ch_s3.tuning import LoadPlan, MemorySharing, Prediction, Setting, SettingOrigin

PLAN = LoadPlan(
    settings=(
        Setting(name="max_threads", value=8, reason="one thread a core"),
        Setting(name="log_queries", value=1, reason="a retry finds it", is_notable=False),
        Setting(
            name="max_execution_time", value="0", reason="no timeout", origin=SettingOrigin.SERVER, is_notable=False
        ),
    ),
    kept=(
        Setting(name="limit", value=0, reason="rows", is_notable=False),
        Setting(name="offset", value=0, reason="a profile skips rows"),
    ),
    left_out={"new_setting": "this server does not have it"},
    prediction=Prediction(initial_parts=4, peak_memory_bytes=1024**3, load_seconds=2.0, settled_seconds=3.0),
    basis="from a test",
)

TABLE = TableName(database="d", table="t")
PREPARED = PreparedLoad(
    cluster=ClusterSpec(
        name=None,
        nodes=(NodeSpec(host="a:9000", shard=1, vcpus=8, memory_bytes=32 * 1024**3),),
        server_version=(26, 7),
        ingest_memory_ratio=0.5,
    ),
    source=SourceSpec(
        origin=Source(bucket="b", globs=("*.parquet",)),
        access=S3Access(endpoint_url="http://s3"),
        files=(SourceFile(key="a.parquet", etag="e", size_bytes=2048),),
        data_format="Parquet",
        compression="auto",
        columns=(),
        rows=10,
    ),
    target=TargetSpec(
        name=TABLE,
        local=TABLE,
        engine="MergeTree",
        columns=(TableColumn(name="a", type="UInt8"),),
        partition_key="",
    ),
    mapping=(MappedColumn(target="a", source="a"),),
    where="",
    plan=PLAN,
    plan_for=lambda _: PLAN,
    sharing=MemorySharing(running=2),
)
HEAD = """\
files     1 x Parquet, 2.0 KiB, 10 rows, from s3://b/*.parquet
table     d.t (MergeTree), 1 column
cluster   1 x 8 cores, 32.0 GiB; cores: detected, memory: detected
memory    50% per node, shared by 3 loads (2 others run now)
settings
"""
TAIL = """\
  new_setting left out: this server does not have it
expected  4 initial parts, 1.0 GiB peak memory per node, 2.0 s to load, 3.0 s until settled; from a
          test"""


@pytest.mark.parametrize(
    ("selection", "chunk", "lines"),
    [
        pytest.param(None, Chunk(), ["1 Parquet file", "no file", "1 file, 2.0 KiB, 10 rows"], id="no-table-yet"),
        pytest.param(
            ChunkSelection(
                chunk=Chunk(),
                files=PREPARED.source.files,
                left_out=LeftOut(loaded_count=2, loaded_key="b", changed_count=1, changed_key="c", young_count=1),
            ),
            Chunk(),
            [
                "5 Parquet files",
                "2 files that the table already holds ('b', …) and 1 file that the table holds in another version"
                " ('c'); 1 file younger than min_age",
                "1 file, 2.0 KiB, 10 rows",
            ],
            id="some-are-there",
        ),
        pytest.param(
            ChunkSelection(chunk=Chunk(), left_out=LeftOut(loaded_count=1, loaded_key="b")),
            Chunk(),
            ["1 Parquet file", "1 file that the table already holds ('b')", "no file"],
            id="nothing-new",
        ),
        pytest.param(
            ChunkSelection(chunk=Chunk(), files=PREPARED.source.files),
            Chunk(number=1, last="a", size_bytes=2048, bytes_total=4096),
            [
                "1 Parquet file and more",
                "no file",
                "1 file, 2.0 KiB, 10 rows; chunk 1 of about 2: 2.0 KiB of 4.0 KiB, 0 B already loaded",
            ],
            id="chunks",
        ),
    ],
)
def test_a_summary_has_six_lines(selection: ChunkSelection | None, chunk: Chunk, lines: list[str]) -> None:
    listed, skipped, new = lines
    expected = "nothing to load" if new == "no file" else str(PLAN.prediction)
    prepared = dataclasses.replace(PREPARED, chunk=chunk)
    assert format_summary(prepared, selection, "append").splitlines() == [
        "source    s3://b/*.parquet",
        f"listed    {listed}",
        f"skipped   {skipped}",
        f"new       {new}",
        "table     d.t (MergeTree), 1 column, mode append",
        f"expected  {expected}",
    ]


def test_a_plan_shows_what_is_notable_and_counts_the_rest() -> None:
    settings = """\
  max_threads = 8  [computed]
      one thread a core
  offset = 0  [computed]
      a profile skips rows
  3 more settings as the server has them: see `ch-s3 plan --all`
"""
    assert format_plan(PREPARED) == HEAD + settings + TAIL


@pytest.mark.parametrize(
    ("rewritten", "says"),
    [
        (None, "these keys, at most 2 partitions with 9 rows, 1.0 KiB"),
        (
            TableSize(partitions=1, rows=3, bytes=512),
            "these keys, about 1 partition with 3 rows, 512 B by a sample of them, at most 2 partitions",
        ),
    ],
    ids=["unknown", "estimated"],
)
def test_a_plan_of_a_merge_says_what_it_rewrites(rewritten: TableSize | None, says: str) -> None:
    merge, held = MergeRule(key=("a",)), TableSize(partitions=2, rows=9, bytes=1024)
    merged = dataclasses.replace(PREPARED, merge=merge, held=held, rewritten=rewritten)
    text = " ".join(format_plan(merged).split())
    assert f"by a; rewrites the partitions that hold rows of {says}" in text
    assert "advice" not in text


def test_a_plan_of_a_merge_advises_what_is_cheaper(caplog: pytest.LogCaptureFixture) -> None:
    """Into a table that replaces rows by itself; not by other columns than its own."""
    size = TableSize(partitions=1, rows=1, bytes=1)
    target = dataclasses.replace(PREPARED.target, engine="ReplacingMergeTree", sorting_key="a")
    merged = dataclasses.replace(PREPARED, merge=MergeRule(key=("a",)), held=size, target=target)
    said = "advice d.t is a ReplacingMergeTree, whose own merges leave the newest row of a key"
    assert said in " ".join(format_plan(merged).split())
    sorted_otherwise = dataclasses.replace(merged, target=dataclasses.replace(target, sorting_key="a, b"))
    assert "advice" not in format_plan(sorted_otherwise)
    with caplog.at_level(logging.INFO):
        log_plan(merged)
    _, _, merge, advice, *_ = caplog.messages
    assert merge == f"merge: by a; rewrites the partitions that hold rows of these keys, at most {size}"
    assert advice.startswith("advice: d.t is a ReplacingMergeTree, whose own merges leave the newest row of a key")


def test_all_of_a_plan() -> None:
    settings = """\
  max_threads = 8  [computed]
      one thread a core
  log_queries = 1  [computed]
      a retry finds it
  max_execution_time = 0  [server default]
      no timeout
  limit = 0  [computed]
      rows
  offset = 0  [computed]
      a profile skips rows
"""
    assert format_plan(PREPARED, show_all=True) == HEAD + settings + TAIL


def test_a_log_has_no_long_lines_and_folds_what_is_not_notable(caplog: pytest.LogCaptureFixture) -> None:
    reason = "a sentence with numbers in it, such as 67,108,864 bytes; " * 4
    settings = (Setting(name="max_threads", value=8, reason=reason), *PLAN.settings[1:])
    with caplog.at_level(logging.INFO):
        log_plan(dataclasses.replace(PREPARED, plan=dataclasses.replace(PLAN, settings=settings)))
    files, summary, first, plan, _, second, folded, _ = caplog.messages
    assert files == "1 Parquet file, 2.0 KiB, 10 rows, from s3://b/*.parquet into d.t"
    assert without_facts(summary) == (
        "plan: 4 initial parts, 1.0 GiB peak memory per node, 2.0 s to load, 3.0 s until settled"
    )
    assert (first, second) == (
        "::group::the settings that matter, with their reasons",
        "::group::the other 3 settings",
    )
    assert max(len(line) for line in plan.splitlines()) <= 100
    assert reason.split() == re.findall(r"max_threads = 8  \[computed\]\n(.*?)\n  offset", plan, re.DOTALL)[0].split()
    assert "log_queries" not in plan
    assert "  log_queries = 1  [computed]\n      a retry finds it\n" in folded
    assert "max_threads" not in folded


@pytest.mark.parametrize(
    ("keys", "data_format", "advice"),
    [
        pytest.param(
            ["a.csv.gz"],
            "CSVWithNames",
            ["one node reads, two wait: split the file, or write Parquet"],
            id="one-file-for-three-nodes",
        ),
        pytest.param(
            ["a.jsonl", "b.jsonl"],
            "JSONEachRow",
            ["two nodes read, one waits: split the files, or write Parquet"],
            id="two-files-for-three-nodes",
        ),
        pytest.param(["a.csv.gz", "b.csv.gz", "c.csv.gz"], "CSVWithNames", [], id="a-file-for-each-node"),
        pytest.param(["a.parquet"], "Parquet", [], id="nodes-share-row-groups"),
        pytest.param(
            ["a.parquet.gz", "b.parquet", "c.parquet"],
            "Parquet",
            [
                "'a.parquet.gz' is compressed twice: Parquet compresses its own columns, and as a compressed file it"
                " is read by one thread from its first byte to its last: store it without"
            ],
            id="compressed-twice",
        ),
        pytest.param(
            ["a.csv", "b.csv.xz", "c.csv"],
            "CSV",
            ["'b.csv.xz' is compressed with xz, which takes long to unpack: write .zst, or Parquet"],
            id="xz",
        ),
        pytest.param(
            ["a.csv", "b.csv", "huge.csv.gz"],
            "CSV",
            ["'huge.csv.gz' has 3.0 GiB, which one thread unpacks: split the file, or write Parquet"],
            id="huge-gzip",
        ),
    ],
)
def test_advice(keys: list[str], data_format: str, advice: list[str]) -> None:
    cluster = dataclasses.replace(PREPARED.cluster, name="c", declared_node_count=3)
    files = tuple(SourceFile(key=key, etag="e", size_bytes=3 * GIB if "huge" in key else 9) for key in keys)
    source = dataclasses.replace(PREPARED.source, files=files, data_format=data_format)
    prepared = dataclasses.replace(PREPARED, source=source)
    on_cluster = dataclasses.replace(prepared, cluster=cluster)
    assert advise(on_cluster) == advice
    assert [text for text in advise(prepared) if "node" in text] == []
    assert format_plan(on_cluster).count("\nadvice    ") == len(advice)


CHUNK = Chunk(number=2, after="a", last="c", size_bytes=2048, bytes_before=4096, bytes_total=10_240)


def test_a_plan_of_a_chunk_shows_its_share() -> None:
    text = format_plan(dataclasses.replace(PREPARED, chunk=CHUNK))
    assert text.splitlines()[1] == "chunk     2 of about 4: 2.0 KiB of 10.0 KiB, 4.0 KiB already loaded"
    assert text.replace(text.splitlines(keepends=True)[1], "") == format_plan(PREPARED)


@pytest.mark.parametrize(
    ("chunk", "told"),
    [
        pytest.param(CHUNK, {"chunk": CHUNK.as_dict()}, id="one-of-several"),
        pytest.param(Chunk(size_bytes=2048, bytes_total=2048), {}, id="the-only-one"),
    ],
)
def test_the_servers_log_says_which_chunk_an_insert_is(chunk: Chunk, told: dict[str, object]) -> None:
    identity = LoadIdentity(
        dag_id="d", task_id="t", run_id="r", table="d.t", since=datetime.datetime(2026, 11, 22, tzinfo=datetime.UTC)
    )
    text = dataclasses.replace(PREPARED, chunk=chunk).insert(identity).text
    comment = json.loads(re.findall(r"log_comment = '(.*)'", text)[0])
    assert comment == {**identity.names, "try": 1, "files": 1, "bytes": 2048, "rows": 10, **told}


def test_another_cluster_is_planned_by_the_same_code() -> None:
    """12 nodes of 32 cores plan for themselves; the answer tells how far to trust it."""

    def plan_for(cluster: ClusterSpec) -> LoadPlan:
        seconds = 3072 / cluster.node_count / cluster.weakest.vcpus
        prediction = dataclasses.replace(PLAN.prediction, load_seconds=seconds, settled_seconds=seconds)
        return dataclasses.replace(PLAN, prediction=prediction, trusted_range=(0.5, 2.0))

    prepared = dataclasses.replace(PREPARED, plan_for=plan_for)
    other = prepared.on(prepared.cluster.resized(node_count=12, vcpus=32, memory_gib=128))
    assert (
        format_elsewhere(other)
        == """\
on        12 x 32 cores, 128.0 GiB: 4 initial parts, 1.0 GiB peak memory per node, 8.0 s to load,
          8.0 s until settled; from a test
with      max_threads = 8
trust     4.0 s to 16.0 s to load: published loads took 0.5 to 2 times the seconds of such a
          prediction"""
    )


def test_a_load_of_many_parts_says_when_few_are_left() -> None:
    many = dataclasses.replace(PREPARED, plan=dataclasses.replace(PLAN, few_parts_seconds=4_728.0))
    assert "\nmerges    leave 3,000 parts after 1 h 18 min\n" in format_elsewhere(many)
    assert "merges" not in format_elsewhere(PREPARED)
