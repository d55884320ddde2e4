"""Each rule with numbers worked out by hand, and the plan that joins the rules."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from airflow_provider_ch_s3.cluster.calibration import Calibration
from airflow_provider_ch_s3.errors import ConfigError, PlanError
from airflow_provider_ch_s3.files.file_format import FORMAT_SETTINGS
from airflow_provider_ch_s3.tuning import (
    EXPORT_RULES,
    LoadFacts,
    LoadLimit,
    LoadPlan,
    MemorySharing,
    PastLoad,
    Reduction,
    ServerSetting,
    Setting,
    SettingOrigin,
    SettingValue,
    insert,
    plan_chunk_bytes,
    plan_load,
    predict,
)
from airflow_provider_ch_s3.tuning.rules import KEPT, RULES
from tests.failures import coded

DELAYED_STREAMS = "max_insert_delayed_streams_for_parallel_write"
SENDS = "parallel_distributed_insert_select"
MIB = 1_048_576
GIB = 1_073_741_824

FACTS = LoadFacts(
    node_count=1,
    vcpus=8,
    memory_bytes=32 * GIB,
    ingest_memory_ratio=1.0,
    file_count=48,
    size_bytes=48 * 200 * MIB,
    volume_bytes=1024 * GIB,
    data_format="Parquet",
)


def facts(**changes: Any) -> LoadFacts:
    return dataclasses.replace(FACTS, **changes)


PAST = PastLoad(
    query_id="q-1", volume_ratio=4.0, node_volume_bytes=2 * GIB, peak_memory_bytes=3 * GIB, core_seconds_per_gib=8.0
)


@pytest.mark.parametrize("name", ["node_count", "vcpus", "memory_bytes", "file_count"])
def test_impossible_facts_are_refused(name: str) -> None:
    with pytest.raises(PlanError, match=coded("hardware-unknown", name)):
        facts(**{name: 0})


def test_shares_of_a_node() -> None:
    spread = facts(node_count=3, file_count=10, size_bytes=1000, volume_bytes=3000)
    assert (spread.files_per_node, spread.file_bytes, spread.node_volume_bytes) == (4, 100.0, 1000.0)


@pytest.mark.parametrize(
    ("vcpus", "expected"),
    [
        pytest.param(1, 1, id="one-core"),
        pytest.param(2, 4, id="two-a-core"),
        pytest.param(3, 4, id="no-more-than-wait-for-no-merge"),
        pytest.param(7, 4, id="more-than-half"),
        pytest.param(8, 4, id="published-8-vcpu"),
        pytest.param(11, 5, id="half-rounded-down"),
        pytest.param(16, 8, id="published-16-vcpu"),
        pytest.param(96, 48, id="large"),
    ],
)
def test_max_insert_threads_of_terabytes(vcpus: int, expected: int) -> None:
    assert insert.max_insert_threads(facts(vcpus=vcpus)).value == expected


CORES = (1, 2, 4, 8, 16, 32, 64)
# A partition in each file.
DAYS = {"partition_key": "d", "partition_count": 48.0}


@pytest.mark.parametrize(
    ("changes", "threads", "parts"),
    [
        # four blocks of 1 GiB, however many cores
        pytest.param({"volume_bytes": 4 * GIB}, (1, 4, 4, 4, 4, 4, 4), (4,) * 7, id="fits"),
        pytest.param(
            {"volume_bytes": 12 * GIB, "node_count": 3}, (1, 4, 4, 4, 4, 4, 4), (12,) * 7, id="fits-on-three-nodes"
        ),
        # a million rows are less than one block of 64 MiB
        pytest.param({"volume_bytes": 67_000_000}, (1,) * 7, (1,) * 7, id="a-million-rows"),
        # three blocks of 64 MiB, the last one not full
        pytest.param({"volume_bytes": 190 * MIB}, (1, 3, 3, 3, 3, 3, 3), (3,) * 7, id="three-blocks"),
        # Half of the cores: four blocks of 8 GiB, held up to three times, would take 96 of 27.2 GiB. Blocks are
        # (27,852.8 - 25 a reader - 1.35 a thread) / 6, 8, 12, 24, 48 and 96 are 4,632.9; 3,468.4; 2,303.9; 1,143.4;
        # 563.1 and 273.0 MiB; a single core writes four blocks of 8 GiB, one after the other.
        pytest.param(
            {"volume_bytes": 32 * GIB}, (1, 4, 4, 4, 8, 16, 32), (4, 7, 10, 14, 29, 58, 118), id="too-large-for-four"
        ),
        # 48 parts, and one more for each file that is open at the end of a block: 192 parts are four a partition.
        # 16 cores: 7 x 16 more; 32 cores: 4 x 32 more, but 160 with a sixth block; 64 cores: all 48 files are open.
        # Two blocks a thread where there is still room: 8 cores (7 x 8 more), 4, 2.
        pytest.param(
            {"volume_bytes": 4 * GIB, **DAYS},
            (1, 4, 4, 4, 8, 5, 4),
            (55, 62, 76, 104, 160, 176, 192),
            id="by-day",
        ),
        # All 64 days in each file: four blocks are four parts for each day.
        pytest.param(
            {"volume_bytes": 4 * GIB, "partition_count": 64.0, "partitions_per_file": 64.0},
            (1, 4, 4, 4, 4, 4, 4),
            (256,) * 7,
            id="all-days-in-each-file",
        ),
    ],
)
def test_threads_and_parts_by_the_number_of_cores(
    changes: dict[str, Any], threads: tuple[int, ...], parts: tuple[int, ...]
) -> None:
    plans = [plan_load(facts(vcpus=cores, **changes), server=SERVER) for cores in CORES]
    assert tuple(plan.sent["max_insert_threads"] for plan in plans) == threads
    assert tuple(plan.prediction.initial_parts for plan in plans) == parts


@pytest.mark.parametrize(
    ("changes", "mib"),
    [
        pytest.param({"volume_bytes": 4 * GIB}, (1024.0,) * 7, id="fits"),
        pytest.param({"volume_bytes": 67_000_000}, (64.0,) * 7, id="a-million-rows"),
        # what memory allows, as worked out above; a single core writes four blocks
        pytest.param(
            {"volume_bytes": 32 * GIB},
            (8192.0, 4632.9, 3468.4, 2303.9, 1143.4, 563.1, 273.0),
            id="too-large-for-four",
        ),
        # eight blocks up to 16 cores; then one for each of 5 and 4 threads
        pytest.param(
            {"volume_bytes": 4 * GIB, **DAYS}, (512.0, 512.0, 512.0, 512.0, 512.0, 819.2, 1024.0), id="by-day"
        ),
    ],
)
def test_blocks_by_the_number_of_cores(changes: dict[str, Any], mib: tuple[float, ...]) -> None:
    blocks = [insert.min_insert_block_size_bytes(facts(vcpus=cores, **changes)).value for cores in CORES]
    assert tuple(round(int(one or 0) / MIB, 1) for one in blocks) == mib


@pytest.mark.parametrize(
    ("changes", "load_seconds", "merge_seconds"),
    [
        # 24 core seconds, of which 3.5 / 6.5 read on all cores and 3 / 6.5 write on four at most; 0.1 s, and 0.01 s
        # for each of 48, 24, 12, 6, 3, 2, 1 files one after the other. Four parts are not merged.
        pytest.param(
            {"volume_bytes": 4 * GIB}, (24.58, 12.34, 6.22, 4.54, 3.71, 3.29, 3.08), (0.0,) * 7, id="nothing-to-merge"
        ),
        # Four times the rows; 16 parts are two merges with 48 core seconds.
        pytest.param(
            {"volume_bytes": 16 * GIB},
            (96.58, 48.34, 24.22, 17.7, 14.44, 12.81, 11.99),
            (48.0, 24.0, 24.0, 24.0, 24.0, 24.0, 24.0),
            id="two-merges",
        ),
        # 8 GiB; 64 partitions with 8 parts each are 64 merges with 24 core seconds, 16 at a time.
        pytest.param(
            {"volume_bytes": 8 * GIB, "partition_count": 64.0, "partitions_per_file": 64.0},
            (48.58, 24.34, 12.22, 8.93, 7.28, 6.47, 6.05),
            (24.0, 12.0, 6.0, 3.0, 1.5, 1.5, 1.5),
            id="sixty-four-merges",
        ),
    ],
)
def test_seconds_by_the_number_of_cores(
    changes: dict[str, Any], load_seconds: tuple[float, ...], merge_seconds: tuple[float, ...]
) -> None:
    calibration = Calibration(core_seconds_per_gib=6.0)
    expected = [
        predict.predict(facts(vcpus=cores, calibration=calibration, **changes), threads=4, block_bytes=GIB)
        for cores in CORES
    ]
    assert tuple(round(one.load_seconds, 2) for one in expected) == load_seconds
    assert tuple(round(one.settled_seconds - one.load_seconds, 2) for one in expected) == merge_seconds


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        pytest.param(
            {"volume_bytes": 4 * GIB},
            "4 threads on 16 cores sort and write in parallel, and ClickHouse does not merge 4 equally sized parts",
            id="few-parts",
        ),
        pytest.param({"volume_bytes": 67_000_000}, "63.9 MiB of rows per node are 1 block", id="few-rows"),
        pytest.param(
            {},
            "the rows need more blocks than ClickHouse leaves unmerged, so 8 threads on 16 cores write, and the other"
            " cores read and merge",
            id="many-parts",
        ),
    ],
)
def test_the_reason_for_threads(changes: dict[str, Any], said: str) -> None:
    assert insert.max_insert_threads(facts(vcpus=16, **changes)).reason == said


@pytest.mark.parametrize(
    ("vcpus", "blocks"),
    [(1, 2), (2, 6), (4, 8), (8, 12), (16, 12), (32, 12), (64, 12)],
)
def test_three_blocks_a_thread_are_in_memory_at_most(vcpus: int, blocks: int) -> None:
    given = facts(vcpus=vcpus, volume_bytes=4 * GIB)
    assert predict.blocks_in_memory(given, threads=insert.count_insert_threads(given)) == blocks


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        # (85 % of 32 GiB - 8 readers x 25 MiB - 4 writers x 1.35 MiB) / (4 + 8) = 27,647.4 MiB / 12
        pytest.param({}, 2_415_866_675, id="8-vcpu-32-gib-and-terabytes"),
        # (55,705.6 - 16 x 25 - 8 x 1.35) / (8 + 16)
        pytest.param({"vcpus": 16, "memory_bytes": 64 * GIB}, 2_415_866_675, id="16-vcpu-64-gib"),
        # (13,926.4 - 205.4) / 12
        pytest.param({"ingest_memory_ratio": 0.5}, 1_198_959_274, id="half-of-the-memory"),
        # (6,963.2 - 205.4) / 12: the loads that run, and this one, if they are more than may run
        pytest.param({"sharing": MemorySharing(running=3)}, 590_505_574, id="three-other-loads"),
        pytest.param({"sharing": MemorySharing(limit=LoadLimit(4))}, 590_505_574, id="four-may-run"),
        pytest.param({"sharing": MemorySharing(running=3, limit=LoadLimit(2))}, 590_505_574, id="more-than-may-run"),
        # (27,852.8 - 200 - 4 x 100 x 1.35) / 12
        pytest.param({"column_count": 100}, 2_369_152_614, id="many-columns"),
        # (27,852.8 - 50 - 5.4) / (4 + 2)
        pytest.param({"vcpus": 2}, 4_857_947_750, id="more-threads-than-cores"),
        # one thread, and four blocks all the same
        pytest.param({"vcpus": 1, "volume_bytes": 4 * GIB}, 1 * GIB, id="one-core"),
        # 4 GiB in 4 blocks
        pytest.param({"volume_bytes": 4 * GIB}, 1 * GIB, id="the-data-decides"),
        pytest.param({"volume_bytes": 12 * GIB, "node_count": 3}, 1 * GIB, id="each-node-has-its-share"),
        # in 8
        pytest.param({"volume_bytes": 4 * GIB, "partition_count": 480.0}, 512 * MIB, id="smaller-with-partitions"),
        # 8 blocks would make 8 parts for each partition, which are merged
        pytest.param(
            {"volume_bytes": 4 * GIB, "partition_count": 64.0, "partitions_per_file": 64.0},
            GIB,
            id="shared-partitions",
        ),
        pytest.param({"volume_bytes": 256 * MIB}, 64 * MIB, id="exactly-the-smallest-block"),
        pytest.param({"volume_bytes": 10 * MIB}, 64 * MIB, id="never-smaller"),
        pytest.param({"volume_bytes": 0}, 64 * MIB, id="no-volume"),
        # memory wins over the smallest block, too, and buffers get half of it at most: (217.6 MiB - 128 MiB) / 12
        pytest.param({"memory_bytes": 256 * MIB}, 7_829_367, id="little-memory"),
    ],
)
def test_min_insert_block_size_bytes(changes: dict[str, Any], expected: int) -> None:
    assert insert.min_insert_block_size_bytes(facts(**changes)).value == expected


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        pytest.param(
            {},
            "100% of 32.0 GiB, less 15% and 205.4 MiB for buffers, allows 12 blocks of 2.2 GiB at once; 1.0 TiB"
            " of rows per node in 4 blocks: 256.0 GiB each, so memory is the limit",
            id="memory",
        ),
        pytest.param(
            {"volume_bytes": 4 * GIB, "ingest_memory_ratio": 0.5},
            "4.0 GiB of rows per node in 4 blocks: 1.0 GiB each, so that few parts are left to merge;"
            " 50% of 32.0 GiB, less 15% and 205.4 MiB for buffers, allows 12 blocks of 1.1 GiB at once",
            id="data",
        ),
        pytest.param(
            {"sharing": MemorySharing(running=3)},
            "100% of 32.0 GiB shared by 4 loads (3 others run now), less 15% and 205.4 MiB for buffers, allows"
            " 12 blocks of 563.1 MiB at once; 1.0 TiB of rows per node in 4 blocks: 256.0 GiB each, so memory is the"
            " limit",
            id="shared",
        ),
        pytest.param(
            {"volume_bytes": 16 * MIB},
            "16.0 MiB of rows per node in 4 blocks: 4.0 MiB each, and blocks below 64.0 MiB only produce"
            " more parts; 100% of 32.0 GiB, less 15% and 4.0 MiB for buffers, allows 3 blocks of 9.1 GiB at"
            " once",
            id="smallest",
        ),
    ],
)
def test_the_reason_for_a_block_size_holds_its_numbers(changes: dict[str, Any], said: str) -> None:
    assert insert.min_insert_block_size_bytes(facts(**changes)).reason == said


@pytest.mark.parametrize(
    ("name", "changes", "expected"),
    [
        pytest.param("min_insert_block_size_rows", {}, 0, id="min_insert_block_size_rows"),
        # 2 blocks of 1 GiB
        pytest.param(
            "max_insert_threads_min_free_memory_per_thread",
            {"volume_bytes": 4 * GIB},
            2_147_483_648,
            id="free-memory-of-a-thread",
        ),
        pytest.param("max_partitions_per_insert_block", {}, None, id="no-partitions"),
        pytest.param(DELAYED_STREAMS, {}, None, id="local-disks"),
        pytest.param(DELAYED_STREAMS, {"is_remote": True}, 0, id="remote-and-memory-is-the-limit"),
        pytest.param(DELAYED_STREAMS, {"is_remote": True, "volume_bytes": GIB}, None, id="remote-with-memory-left"),
        pytest.param(
            "max_partitions_per_insert_block", {"partition_key": "toDate(ts)"}, 0, id="any-number-of-partitions"
        ),
        pytest.param("insert_deduplicate", {}, 0, id="insert_deduplicate"),
        pytest.param("deduplicate_insert", {}, "disable", id="deduplicate_insert"),
        pytest.param("deduplicate_insert_select", {}, "disable", id="deduplicate_insert_select"),
        pytest.param("insert_quorum", {}, None, id="quorum-of-the-server"),
        pytest.param("insert_quorum", {"waits_for_replicas": True}, 0, id="no-quorum"),
        pytest.param("optimize_on_insert", {}, 0, id="optimize_on_insert"),
        pytest.param("s3_throw_on_zero_files_match", {}, 1, id="s3_throw_on_zero_files_match"),
        pytest.param("enable_parallel_replicas", {}, 0, id="enable_parallel_replicas"),
        pytest.param("date_time_overflow_behavior", {}, "throw", id="date_time_overflow_behavior"),
        pytest.param("parallel_distributed_insert_select", {}, 2, id="parallel-rows-stay-where-read"),
        pytest.param(
            "parallel_distributed_insert_select",
            {"keeps_rows_where_read": False, "sharding_key": "user"},
            1,
            id="parallel-sharding-key",
        ),
        pytest.param(
            "parallel_distributed_insert_select",
            {"keeps_rows_where_read": False, "sharding_key": "user", "one_sender": "why"},
            0,
            id="parallel-one-sender",
        ),
        pytest.param("parallel_distributed_insert_select", {"is_clustered": False}, None, id="parallel-alone"),
        pytest.param("parallel_distributed_insert_select", {"is_read_by_one": True}, 0, id="parallel-one-reader"),
        pytest.param("distributed_foreground_insert", {}, None, id="foreground-rows-stay-where-read"),
        pytest.param("async_insert", {}, None, id="async-rows-stay-where-read"),
        pytest.param("async_insert", {"keeps_rows_where_read": False}, 0, id="async-sharding-key"),
        pytest.param(
            "distributed_foreground_insert", {"keeps_rows_where_read": False}, 1, id="foreground-sharding-key"
        ),
        pytest.param(
            "distributed_foreground_insert",
            {"keeps_rows_where_read": False, "is_clustered": False},
            None,
            id="foreground-alone",
        ),
        pytest.param("max_threads", {}, 8, id="a-thread-for-each-core"),
        pytest.param("max_threads", {"calibration": Calibration(readers_per_core=1.5)}, 12, id="threads-tuned"),
        pytest.param(
            "max_threads", {"calibration": Calibration(readers_per_core=0.1), "vcpus": 2}, 1, id="one-thread-at-least"
        ),
        pytest.param("input_format_parquet_max_block_size", {}, 262_144, id="pieces-parquet"),
        pytest.param("input_format_parquet_max_block_size", {"data_format": "ORC"}, None, id="pieces-no-parquet"),
        pytest.param(
            "input_format_parallel_parsing",
            {"data_format": "CSVWithNames", "file_count": 8},
            0,
            id="parsing-many-text-files",
        ),
        pytest.param(
            "input_format_parallel_parsing",
            {"data_format": "JSONEachRow", "file_count": 7},
            None,
            id="parsing-few-text-files",
        ),
        pytest.param("max_threads_min_free_memory_per_thread", {}, 25 * MIB, id="free-memory-of-a-reader"),
        pytest.param(
            "cluster_table_function_split_granularity", {"node_count": 6}, None, id="as-many-files-as-cores"
        ),
        pytest.param(
            "cluster_table_function_split_granularity", {"node_count": 7}, "bucket", id="fewer-files-than-cores"
        ),
        pytest.param(
            "cluster_table_function_split_granularity",
            {"node_count": 7, "data_format": "CSV"},
            None,
            id="text-is-not-split-between-nodes",
        ),
        pytest.param("cluster_table_function_split_granularity", {"file_count": 1}, None, id="one-node-has-them-all"),
        pytest.param(
            "cluster_table_function_split_granularity",
            {"node_count": 7, "is_lake_function": True},
            "file",
            id="deleted-rows",
        ),
        pytest.param("input_format_parallel_parsing", {"file_count": 16}, None, id="parsing-parquet"),
        pytest.param(
            "max_download_buffer_size", {"file_count": 1, "size_bytes": 104_857_599}, 52_428_800, id="buffer-small"
        ),
        pytest.param(
            "max_download_buffer_size", {"file_count": 1, "size_bytes": 104_857_600}, None, id="buffer-100-mib"
        ),
        pytest.param(
            "max_download_buffer_size", {"file_count": 2, "size_bytes": 150 * MIB}, 52_428_800, id="buffer-mean"
        ),
        pytest.param("use_hive_partitioning", {"has_path_columns": True}, 0, id="hive-folders"),
        pytest.param("use_hive_partitioning", {}, None, id="hive-not-used"),
        pytest.param("date_time_input_format", {"parses_times": True}, "best_effort", id="times-in-text"),
        pytest.param("date_time_input_format", {}, None, id="no-times-in-text"),
        pytest.param("log_queries", {}, 1, id="log"),
        pytest.param("log_queries_min_query_duration_ms", {}, 0, id="log-short-ones"),
        pytest.param("log_queries_probability", {}, 1, id="log-all"),
        pytest.param("log_queries_min_type", {}, "QUERY_START", id="log-the-start"),
        pytest.param("insert_null_as_default", {}, 0, id="null-fails"),
        pytest.param("input_format_null_as_default", {}, 0, id="null-in-a-file-fails"),
        pytest.param("input_format_null_as_default", {"has_null_lists": True}, 1, id="null-for-a-list"),
        pytest.param("input_format_skip_unknown_fields", {}, 0, id="unknown-column-fails"),
        pytest.param(
            "input_format_json_defaults_for_missing_elements_in_named_tuple",
            {"data_format": "JSONEachRow"},
            1,
            id="missing-field-is-null",
        ),
        pytest.param(
            "input_format_json_defaults_for_missing_elements_in_named_tuple", {}, None, id="missing-field-no-json"
        ),
        pytest.param(
            "input_format_json_ignore_unknown_keys_in_named_tuple",
            {"data_format": "JSONEachRow"},
            0,
            id="unknown-field-fails",
        ),
        pytest.param(
            "input_format_json_ignore_unknown_keys_in_named_tuple",
            {"data_format": "JSONEachRow", "takes_all_columns": False},
            None,
            id="unknown-field-unwanted",
        ),
        pytest.param(
            "input_format_skip_unknown_fields", {"takes_all_columns": False}, None, id="unknown-column-unwanted"
        ),
        pytest.param(
            "input_format_skip_unknown_fields", {"reads_other_files": True}, None, id="unknown-column-elsewhere"
        ),
        pytest.param(
            "input_format_parquet_allow_missing_columns", {"reads_other_files": True}, None, id="missing-elsewhere"
        ),
        pytest.param("input_format_csv_empty_as_default", {"data_format": "CSVWithNames"}, 1, id="empty-field-csv"),
        pytest.param("input_format_csv_empty_as_default", {"data_format": "TSV"}, None, id="empty-field-no-csv"),
        pytest.param("input_format_tsv_empty_as_default", {"data_format": "TabSeparated"}, 0, id="empty-field-tsv"),
        pytest.param("input_format_tsv_crlf_end_of_line", {"data_format": "TSVWithNames"}, 1, id="line-ends-of-tsv"),
        pytest.param("input_format_tsv_crlf_end_of_line", {"data_format": "TSVRaw"}, 0, id="line-ends-of-raw-tsv"),
        pytest.param("input_format_tsv_crlf_end_of_line", {"data_format": "CSV"}, None, id="line-ends-of-no-tsv"),
        pytest.param("input_format_tsv_empty_as_default", {"data_format": "CSV"}, None, id="empty-field-no-tsv"),
        pytest.param("input_format_parquet_allow_missing_columns", {}, 0, id="missing-column-parquet"),
        pytest.param(
            "input_format_parquet_allow_missing_columns", {"data_format": "ORC"}, None, id="missing-no-parquet"
        ),
        pytest.param("input_format_orc_allow_missing_columns", {"data_format": "ORC"}, 0, id="missing-column-orc"),
        pytest.param("input_format_orc_allow_missing_columns", {}, None, id="missing-no-orc"),
        pytest.param(
            "input_format_arrow_allow_missing_columns",
            {"data_format": "ArrowStream"},
            0,
            id="missing-column-arrow",
        ),
        pytest.param("input_format_arrow_allow_missing_columns", {}, None, id="missing-no-arrow"),
        pytest.param("max_execution_time", {}, None, id="no-timeout"),
        pytest.param("max_execution_time", {"timeout_seconds": 90.2}, 91, id="timeout-rounded-up"),
    ],
)
def test_rule(name: str, changes: dict[str, Any], expected: object) -> None:
    (rule,) = (rule for rule in RULES if rule.name == name)
    setting = rule.apply(facts(**changes))
    assert (setting.name, setting.value) == (name, expected)
    assert setting.origin is SettingOrigin.COMPUTED
    assert setting.reason


def test_every_rule_says_what_it_does() -> None:
    assert [rule.name for rule in (*RULES, *KEPT) if not rule.about] == []


SHARDED = facts(node_count=3, keeps_rows_where_read=False, sharding_key="hash(user)")


def test_a_sharding_key_is_named() -> None:
    assert insert.parallel_distributed_insert_select(SHARDED).reason == (
        "the sharding key hash(user) decides where rows belong, and each of 3 nodes sends the rows that it reads"
    )


def test_the_cost_of_one_sender_is_named_with_its_reason() -> None:
    given = dataclasses.replace(SHARDED, one_sender="the nodes define the cluster differently")
    assert insert.parallel_distributed_insert_select(given).reason == (
        "the sharding key hash(user) decides where rows belong, and the nodes define the cluster differently: all"
        " rows pass through one node, which is slower; set this to 2 if any row may be on any shard"
    )


@pytest.mark.parametrize(
    ("changes", "of_each", "on_a_node"),
    [
        pytest.param({}, 1, 3, id="rounded-down"),
        pytest.param({"vcpus": 24}, 4, 12, id="even"),
        pytest.param({"node_count": 12}, 1, 12, id="more-nodes-than-threads"),
        pytest.param({"one_sender": "why"}, 4, 4, id="one-sender"),
        pytest.param({"is_clustered": False}, 4, 4, id="one-node"),
        pytest.param({"keeps_rows_where_read": True}, 4, 4, id="rows-stay"),
        # two threads instead of four
        pytest.param({"reduction": Reduction(memory=1)}, 1, 3, id="reduced"),
    ],
)
def test_threads_are_divided_among_those_who_send(changes: dict[str, Any], of_each: int, on_a_node: int) -> None:
    given = dataclasses.replace(SHARDED, **changes)
    assert insert.max_insert_threads(given).value == of_each
    assert insert.count_insert_threads(given) == on_a_node


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        pytest.param({}, 3, id="a-block-of-each-sender"),
        pytest.param({"one_sender": "why"}, 1, id="one-sender"),
        # 3 blocks with rows of all 48 days, and not of a third of the days
        pytest.param({"partition_count": 48.0}, 64, id="all-files-reach-each-node"),
        pytest.param({"partition_count": 48.0, "keeps_rows_where_read": True}, 16, id="only-the-node-s-own-files"),
    ],
)
def test_parts_of_a_small_load(changes: dict[str, Any], parts: int) -> None:
    given = dataclasses.replace(SHARDED, volume_bytes=MIB, **changes)
    assert predict.parts_per_node(given, block_bytes=64 * MIB) == parts


def test_the_threads_of_all_senders_share_memory_and_rows() -> None:
    plan = plan_load(dataclasses.replace(SHARDED, volume_bytes=18 * GIB), server=SERVER)
    values = {setting.name: setting.value for setting in plan.settings}
    # 6 GiB on each node, a third for each thread
    assert values["min_insert_block_size_bytes"] == 2 * GIB
    assert plan.prediction.initial_parts == 9
    assert "; divided among 3 nodes, which all send rows to each other" in next(
        setting.reason for setting in plan.settings if setting.name == "max_insert_threads"
    )


@pytest.mark.parametrize(
    ("given", "threads", "is_sent"),
    [
        pytest.param(None, 1, True, id="the-plan-s"),
        pytest.param(1, 1, True, id="all-send"),
        pytest.param(0, 4, True, id="one-sends"),
        pytest.param("0", 4, True, id="text"),
        pytest.param(0.0, 4, True, id="float"),
        pytest.param(False, 4, True, id="boolean"),
        pytest.param(3, 1, True, id="as-1"),
        pytest.param(2, 4, False, id="nothing-is-sent"),
        pytest.param("2", 4, False, id="nothing-is-sent-text"),
    ],
)
@pytest.mark.parametrize("origin", ["operator", "connection"])
def test_who_sends_may_be_given(given: SettingValue | None, threads: int, is_sent: bool, origin: str) -> None:
    settings = {} if given is None else {SENDS: given}
    plan = plan_load(SHARDED, server=SERVER, **{origin: settings})
    values = {setting.name: setting.value for setting in plan.settings if setting.is_sent}
    assert (values["max_insert_threads"], plan.sends_rows) == (threads, is_sent)
    assert values.get("async_insert") == (0 if is_sent else None)
    assert values.get("distributed_foreground_insert") == (1 if is_sent else None)


def test_rows_without_a_sharding_key_are_sent_if_the_user_wants_it() -> None:
    plan = plan_load(dataclasses.replace(FACTS, node_count=3), server=SERVER, operator={SENDS: 1})
    assert (plan.sent["async_insert"], plan.sent["distributed_foreground_insert"]) == (0, 1)
    assert plan.prediction == plan_load(SHARDED, server=SERVER).prediction


@pytest.mark.parametrize(
    ("fixed", "facts", "threads"),
    [
        pytest.param("1", SHARDED, 1, id="as-planned"),
        pytest.param("0", SHARDED, 4, id="one-sends"),
        pytest.param("1", dataclasses.replace(SHARDED, keeps_rows_where_read=True), 1, id="no-key"),
    ],
)
def test_a_profile_may_fix_who_sends(fixed: str, facts: LoadFacts, threads: int) -> None:
    plan = plan_load(facts, server=SERVER | {SENDS: ServerSetting(value=fixed, is_readonly=True)})
    assert plan.sent["max_insert_threads"] == threads
    assert plan.sends_rows


@pytest.mark.parametrize(("fixed", "one_sender", "best"), [("2", "", 1), ("2", "why", 0), ("1", "why", 0)])
def test_a_profile_may_not_fix_what_ignores_the_key(fixed: str, one_sender: str, best: int) -> None:
    server = SERVER | {SENDS: ServerSetting(value=fixed, is_readonly=True)}
    with pytest.raises(
        PlanError, match=coded("profile-fixes-setting", f"'{SENDS}'", f"'{fixed}'", f"needs {best}", "hash(user)")
    ):
        plan_load(dataclasses.replace(SHARDED, one_sender=one_sender), server=server)


SERVER = {rule.name: ServerSetting(value="default") for rule in RULES} | {
    "max_memory_usage": ServerSetting(value="0"),
    "readonly_one": ServerSetting(value="5", is_readonly=True),
}


def without(name: str) -> dict[str, ServerSetting]:
    return {key: value for key, value in SERVER.items() if key != name}


@pytest.mark.parametrize(("data_format", "kind"), [("CSV", "csv"), ("TSV", "tsv")])
def test_a_profile_may_not_skip_the_first_lines(data_format: str, kind: str) -> None:
    """A row of each file would be lost, and nothing would be missing by what the servers count."""
    name = f"input_format_{kind}_skip_first_lines"
    facts = dataclasses.replace(FACTS, data_format=data_format)
    skips = SERVER | {name: ServerSetting(value="1")}
    assert plan_load(facts, server=skips).sent[name] == 0
    assert plan_load(facts, server=skips, operator={name: 1}).sent.get(name) != 0


def test_what_is_computed_is_sent_and_the_servers_defaults_are_not() -> None:
    plan = plan_load(FACTS, server=SERVER)
    assert plan.sent == {
        "max_insert_threads": 4,
        "min_insert_block_size_bytes": 2_415_866_675,
        "max_insert_threads_min_free_memory_per_thread": 4_831_733_350,
        "max_threads_min_free_memory_per_thread": 26_214_400,
        "min_insert_block_size_rows": 0,
        "insert_deduplicate": 0,
        "deduplicate_insert": "disable",
        "deduplicate_insert_select": "disable",
        "insert_null_as_default": 0,
        "optimize_on_insert": 0,
        "parallel_distributed_insert_select": 2,
        "max_threads": 8,
        "input_format_parquet_max_block_size": 262_144,
        "s3_throw_on_zero_files_match": 1,
        "enable_parallel_replicas": 0,
        "date_time_overflow_behavior": "throw",
        "input_format_try_infer_dates": 0,
        "input_format_try_infer_datetimes": 0,
        "precise_float_parsing": 1,
        "input_format_null_as_default": 0,
        "cast_keep_nullable": 0,
        "data_type_default_nullable": 0,
        "transform_null_in": 0,
        "input_format_skip_unknown_fields": 0,
        "input_format_parquet_allow_missing_columns": 0,
        "log_queries": 1,
        "log_queries_min_query_duration_ms": 0,
        "log_queries_probability": 1,
        "log_queries_min_type": "QUERY_START",
    }
    assert plan.left_out == {}


@pytest.mark.parametrize(
    ("name", "value", "needed"),
    [
        pytest.param("enable_parallel_replicas", 1, "0", id="replicas"),
        pytest.param("timeout_overflow_mode", "break", "'throw'", id="timeout"),
        pytest.param("read_overflow_mode", "break", "'throw'", id="read"),
        pytest.param("read_overflow_mode_leaf", "break", "'throw'", id="read-leaf"),
        pytest.param("log_queries", False, "1", id="log"),
        pytest.param("log_queries_min_query_duration_ms", 5000, "0", id="log-duration"),
        pytest.param("log_queries_probability", 0.5, "1", id="log-probability"),
        pytest.param("log_queries_min_type", "EXCEPTION_WHILE_PROCESSING", "'QUERY_START'", id="log-type"),
    ],
)
def test_a_pinned_setting_takes_no_other_value(name: str, value: Any, needed: str) -> None:
    with pytest.raises(ConfigError) as caught:
        plan_load(FACTS, server=SERVER | {name: ServerSetting(value="")}, connection={name: value})
    said = caught.value.sentence
    assert said.startswith(f"the connection sets '{name}' to {value!r}, but a load needs {needed}: ")
    assert said.endswith("; leave it out")


@pytest.mark.parametrize("value", [1, 1.0, True, "1"])
def test_a_pinned_setting_may_be_given_its_value(value: Any) -> None:
    plan = plan_load(FACTS, server=SERVER, operator={"log_queries": value})
    assert plan.sent["log_queries"] == value


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        pytest.param(
            "limit",
            1,
            "the operator sets 'limit' to 1, but a load needs 0: with any other value a load leaves rows out and"
            " still reports success; use where to select rows; leave it out",
            id="limit",
        ),
        pytest.param(
            "input_format_allow_errors_num",
            "5",
            "the operator sets 'input_format_allow_errors_num' to '5', but a load needs 0: rows that cannot be parsed"
            " must fail the load, not be dropped; leave it out",
            id="errors",
        ),
    ],
)
def test_a_setting_that_drops_rows_is_refused(name: str, value: Any, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        plan_load(FACTS, server=SERVER | {name: ServerSetting(value="0")}, operator={name: value})
    assert caught.value.sentence == said


@pytest.mark.parametrize("value", ["5", "0"])
def test_a_setting_that_drops_rows_is_kept_whatever_a_profile_says(value: str) -> None:
    plan = plan_load(FACTS, server=SERVER | {"limit": ServerSetting(value=value)}, operator={"limit": "0"})
    assert [(s.name, s.value) for s in plan.kept] == [("limit", 0)]
    assert plan.sent["limit"] == 0
    assert [s.name for s in plan.settings if s.name == "limit"] == []


def test_a_setting_that_drops_rows_and_that_a_profile_fixes() -> None:
    whole = {"input_format_allow_errors_ratio": ServerSetting(value="0.0", is_readonly=True)}
    assert plan_load(FACTS, server=SERVER | whole).kept == ()
    with pytest.raises(PlanError, match=coded("profile-fixes-setting", "'limit'", "'9'", "a load needs 0")):
        plan_load(FACTS, server=SERVER | {"limit": ServerSetting(value="9", is_readonly=True)})


ROLE = "s3_allow_server_credentials_in_user_queries"


@pytest.mark.parametrize(
    "known",
    [
        pytest.param(ServerSetting(value="0", is_readonly=True), id="readonly"),
        pytest.param(ServerSetting(value="0", highest="0"), id="constraint"),
    ],
)
def test_a_profile_that_refuses_the_role_of_the_servers(known: ServerSetting) -> None:
    with pytest.raises(
        PlanError,
        match=coded("profile-fixes-setting", f"'{ROLE}'", "'0'", f"{ROLE} = 1"),
    ):
        plan_load(facts(uses_server_role=True), server=SERVER | {ROLE: known})
    assert ROLE not in plan_load(FACTS, server=SERVER | {ROLE: known}).sent


@pytest.mark.parametrize(
    ("known", "sent"),
    [
        pytest.param({ROLE: ServerSetting(value="0")}, 1, id="may-be-set"),
        pytest.param({ROLE: ServerSetting(value="0", lowest="0", highest="1")}, 1, id="within-a-constraint"),
        pytest.param({ROLE: ServerSetting(value="1", is_readonly=True)}, None, id="is-set"),
        pytest.param({}, None, id="older-servers"),
    ],
)
def test_the_role_of_the_servers(known: dict[str, ServerSetting], sent: int | None) -> None:
    server = {name: setting for name, setting in SERVER.items() if name != ROLE} | known
    assert plan_load(facts(uses_server_role=True), server=server).sent.get(ROLE) == sent


def test_the_role_of_the_servers_and_what_users_give() -> None:
    server = SERVER | {ROLE: ServerSetting(value="0")}
    with pytest.raises(ConfigError, match=coded("setting-not-allowed", f"'{ROLE}'", "0", "needs 1")):
        plan_load(facts(uses_server_role=True), server=server, operator={ROLE: 0})
    # a named collection may name a role, or the servers' own
    assert plan_load(FACTS, server=server, operator={ROLE: 1}).sent[ROLE] == 1


def test_a_value_that_a_constraint_forbids_is_left_out() -> None:
    plan = plan_load(FACTS, server=SERVER | {"max_threads": ServerSetting(value="2", highest="4")})
    assert plan.left_out["max_threads"] == "this user may not change it from 2"


def test_a_profile_that_fixes_a_pinned_setting_to_another_value_is_refused() -> None:
    kept = SERVER | {"timeout_overflow_mode": ServerSetting(value="throw", is_readonly=True)}
    assert "timeout_overflow_mode" not in plan_load(FACTS, server=kept).sent
    broken = SERVER | {"timeout_overflow_mode": ServerSetting(value="break", is_readonly=True)}
    with pytest.raises(
        PlanError, match=coded("profile-fixes-setting", "'timeout_overflow_mode'", "'break'", "a load needs 'throw'")
    ):
        plan_load(FACTS, server=broken)


@pytest.mark.parametrize(
    ("operator", "connection", "expected"),
    [
        pytest.param({"max_threads": 3}, {"max_threads": 4}, (3, SettingOrigin.OPERATOR), id="operator-wins"),
        pytest.param({}, {"max_threads": 4}, (4, SettingOrigin.CONNECTION), id="connection-over-computed"),
        pytest.param({}, {}, (8, SettingOrigin.COMPUTED), id="computed"),
    ],
)
def test_precedence(
    operator: dict[str, Any], connection: dict[str, Any], expected: tuple[int, SettingOrigin]
) -> None:
    plan = plan_load(FACTS, server=SERVER, operator=operator, connection=connection)
    assert [(s.value, s.origin) for s in plan.settings if s.name == "max_threads"] == [expected]
    assert plan.sent["max_threads"] == expected[0]


def test_a_rule_that_does_not_apply_leaves_the_servers_default() -> None:
    plan = plan_load(FACTS, server=SERVER | {"max_execution_time": ServerSetting(value="600")})
    setting = next(s for s in plan.settings if s.name == "max_execution_time")
    assert (setting.value, setting.origin, setting.is_sent) == ("600", SettingOrigin.SERVER, False)
    assert "max_execution_time" not in plan.sent


@pytest.mark.parametrize(
    ("changes", "server", "name", "expected"),
    [
        pytest.param({}, {"max_threads": "16"}, "max_threads", True, id="another-value"),
        pytest.param({}, {"max_threads": "8"}, "max_threads", True, id="decides-speed"),
        pytest.param({}, {"max_threads": "auto(8)"}, "max_threads", True, id="not-known-to-be-the-same"),
        pytest.param({}, {"log_queries": "1"}, "log_queries", False, id="pinned-and-the-same"),
        pytest.param({}, {"log_queries": "0"}, "log_queries", True, id="pinned-over-a-profile"),
        pytest.param({}, {"deduplicate_insert": "disable"}, "deduplicate_insert", False, id="protects-the-data"),
        pytest.param({}, {"limit": "0"}, "limit", False, id="kept"),
        pytest.param({}, {"limit": "5"}, "limit", True, id="kept-over-a-profile"),
        pytest.param({}, {}, "max_execution_time", False, id="does-not-apply"),
        pytest.param({}, {}, "input_format_csv_empty_as_default", False, id="protects-the-data-of-another-format"),
        pytest.param(
            {"data_format": "CSV"},
            {},
            "input_format_csv_empty_as_default",
            True,
            id="protects-the-data-of-the-format",
        ),
    ],
)
def test_what_of_a_plan_is_notable(
    changes: dict[str, Any], server: dict[str, str], name: str, expected: bool
) -> None:
    known = SERVER | {name: ServerSetting(value=value) for name, value in server.items()}
    plan = plan_load(facts(**changes), server=known)
    assert [s.is_notable for s in (*plan.settings, *plan.kept) if s.name == name] == [expected]


def test_the_text_has_what_some_node_does_otherwise_and_the_request_the_guards() -> None:
    known = SERVER | {
        "limit": ServerSetting(value="0"),
        "offset": ServerSetting(value="0", is_even=False),
        "log_queries": ServerSetting(value="1"),
    }
    plan = plan_load(FACTS, server=known)
    assert plan.guards == {"log_queries": 1, "limit": 0}
    assert plan.in_text["offset"] == 0
    assert plan.in_text | plan.guards == plan.sent


def test_what_a_user_gave_is_notable() -> None:
    plan = plan_load(FACTS, server=SERVER | {"max_threads": ServerSetting(value="8")}, operator={"max_threads": 8})
    assert [s.is_notable for s in plan.settings if s.name == "max_threads"] == [True]


def test_a_setting_of_other_formats_names_the_format() -> None:
    (rule,) = (rule for rule in RULES if rule.name == "input_format_parallel_parsing")
    assert rule.apply(FACTS).reason == "the files are Parquet"
    assert "Parquet" not in rule.formats
    assert "CSV" in rule.formats


def test_each_setting_is_listed_once() -> None:
    names = [rule.name for rule in (*RULES, *KEPT)]
    assert len(names) == len(set(names))


def test_a_setting_that_only_some_formats_take_has_a_rule() -> None:
    assert not FORMAT_SETTINGS - {rule.name for rule in (*RULES, *EXPORT_RULES)}


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        pytest.param(5, "set by the operator, instead of the computed 4", id="another-value"),
        pytest.param(4, "set by the operator", id="the-computed-value"),
    ],
)
def test_a_given_value_says_what_it_replaces(given: int, reason: str) -> None:
    plan = plan_load(FACTS, server=SERVER, operator={"max_insert_threads": given})
    assert plan.settings[0].reason == reason


def test_settings_without_a_rule_are_sent_last() -> None:
    plan = plan_load(FACTS, server=SERVER, connection={"max_memory_usage": 9})
    assert plan.settings[-1] == Setting(
        name="max_memory_usage", value=9, reason="set by the connection", origin=SettingOrigin.CONNECTION
    )
    assert plan.sent["max_memory_usage"] == 9


def test_a_computed_setting_that_the_server_does_not_know_is_left_out_and_named() -> None:
    plan = plan_load(FACTS, server=without("enable_parallel_replicas"))
    assert plan.left_out == {"enable_parallel_replicas": "this server does not have it"}
    assert "enable_parallel_replicas" not in plan.sent


def test_an_unknown_setting_whose_rule_does_not_apply_is_no_loss() -> None:
    assert plan_load(FACTS, server=without("max_execution_time")).left_out == {}


def test_a_computed_setting_that_the_user_may_not_change_is_left_out_and_named() -> None:
    server = SERVER | {"max_insert_threads": ServerSetting(value="1", is_readonly=True)}
    plan = plan_load(FACTS, server=server)
    assert plan.left_out == {"max_insert_threads": "this user may not change it from 1"}
    assert "max_insert_threads" not in plan.sent


@pytest.mark.parametrize(
    ("operator", "connection", "said"),
    [
        pytest.param(
            {"max_insert_thread": 3},
            {},
            "the operator sets 'max_insert_thread', which does not exist on this server; did you mean"
            " 'max_insert_threads'?",
            id="misspelt",
        ),
        pytest.param(
            {"max_threads": None},
            {},
            "the operator sets 'max_threads' to None; give it a value, or leave it out",
            id="none",
        ),
        pytest.param(
            {},
            {"zzz": 3},
            "the connection sets 'zzz', which does not exist on this server; check its spelling and the"
            " server's version",
            id="nothing-like-it",
        ),
        pytest.param(
            {"readonly_one": 3},
            {},
            "the operator sets 'readonly_one', which the ClickHouse user may not change; leave it out, or change"
            " the user's profile",
            id="readonly",
        ),
    ],
)
def test_a_users_setting_that_cannot_be_set_is_an_error(
    operator: dict[str, Any], connection: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        plan_load(FACTS, server=SERVER, operator=operator, connection=connection)
    assert caught.value.sentence == said


@pytest.mark.parametrize(
    ("changes", "operator", "server", "parts", "memory_bytes"),
    [
        # 1 TiB in blocks of 2,303.95 MiB and a fiftieth: 446.2; 12 of them, 8 x 25 MiB, 4 x 1.35 MiB
        pytest.param({}, {}, {}, 447, 29_205_777_610, id="terabytes"),
        # a share of 4 GiB in blocks of 1 GiB, on 3 nodes; 12 of them, and 205.4 MiB
        pytest.param({"volume_bytes": 12 * GIB, "node_count": 3}, {}, {}, 12, 13_100_279_398, id="three-nodes"),
        # 3 blocks of 1000, 8 readers with a file of 1000 / 48, and buffers that take no more than all rows
        pytest.param({"volume_bytes": 1000}, {}, {}, 1, 4166, id="no-more-memory-than-the-data-takes"),
        pytest.param({"volume_bytes": 0}, {}, {}, 1, 0, id="nothing"),
        pytest.param(
            {"volume_bytes": 16 * GIB},
            {"max_insert_threads": "2", "min_insert_block_size_bytes": "536870912"},
            {},
            32,
            # (2 + 4) x 512 MiB, 200 MiB, 2 x 1.35 MiB
            3_433_771_827,
            id="given-values-count-as-text-too",
        ),
        pytest.param(
            {"volume_bytes": 4 * GIB},
            {"max_insert_threads": "auto", "min_insert_block_size_bytes": 0},
            {},
            4,
            13_100_279_398,
            id="given-values-that-are-no-numbers",
        ),
        pytest.param(
            {"volume_bytes": 16 * GIB},
            {},
            {
                "max_insert_threads": ServerSetting(value="1", is_readonly=True),
                "min_insert_block_size_bytes": ServerSetting(value="268435456", is_readonly=True),
            },
            63,
            # 256 MiB that are collected, and 8 x 140 MiB read ahead
            1_442_840_576,
            id="what-the-server-keeps-counts",
        ),
    ],
)
def test_prediction(
    changes: dict[str, Any],
    operator: dict[str, Any],
    server: dict[str, ServerSetting],
    parts: int,
    memory_bytes: int,
) -> None:
    expected = plan_load(facts(**changes), server=SERVER | server, operator=operator).prediction
    assert (expected.initial_parts, expected.peak_memory_bytes) == (parts, memory_bytes)


# 4 GiB in blocks of 1 GiB, read by 8 readers from 48 files
SPREAD = {"volume_bytes": 4 * GIB, "partition_key": "d"}


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        pytest.param({"partition_count": 1.0}, 4, id="one-partition"),
        # three times 8 files are cut
        pytest.param({"partition_count": 48.0}, 48 + 24, id="a-partition-per-file"),
        pytest.param({"partition_count": 360.0, "partitions_per_file": 7.5}, 360 + 24, id="some-per-file"),
        pytest.param({"partition_count": 64.0, "partitions_per_file": 64.0}, 4 * 64, id="all-in-each-file"),
        # on each of 2 nodes 24 files in 2 blocks
        pytest.param({"partition_count": 48.0, "node_count": 2}, 2 * (24 + 8), id="nodes"),
        # three times both files are cut
        pytest.param(
            {"partition_count": 20.0, "partitions_per_file": 10.0, "file_count": 2}, 20 + 6, id="blocks-within-a-file"
        ),
        pytest.param({"partition_count": 12.0, "volume_bytes": 1000}, 12, id="one-block"),
    ],
)
def test_a_block_makes_a_part_for_each_partition_that_it_touches(changes: dict[str, Any], parts: int) -> None:
    assert predict.predict(facts(**SPREAD | changes), threads=4, block_bytes=GIB).initial_parts == parts


@pytest.mark.parametrize(
    ("changes", "load_seconds", "settled_seconds"),
    [
        # 4 GiB at 6 core seconds on 4 cores, all of which write; 48 files, 4 at a time, are 12 times 0.01 s
        pytest.param({"vcpus": 4}, 6.22, 6.22, id="all-cores-write"),
        # 3.5 of 6.5 core seconds read on 8 cores, 3.0 write on four: 9.5 / 6.5 times 3 s; 4 parts wait for no merge
        pytest.param({}, 4.5446, 4.5446, id="measured-on-the-cluster"),
        # 32 cores read in a quarter of the time, and four write: 27.5 / 6.5 times 0.75 s, and two files one by one
        pytest.param({"vcpus": 32}, 3.2931, 3.2931, id="more-cores-read"),
        # 9.5 / 6.5 times 4 s
        pytest.param({"past": PAST}, 6.0062, 6.0062, id="measured-on-the-table"),
        pytest.param({"node_count": 3, "volume_bytes": 12 * GIB}, 4.5046, 4.5046, id="each-node-has-its-share"),
        # CSV: 10.5 of 13.5 core seconds read
        pytest.param({"data_format": "CSV"}, 3.8267, 3.8267, id="text"),
        pytest.param({"volume_bytes": 0, "file_count": 1}, 0.11, 0.11, id="what-every-load-costs"),
        pytest.param(
            {"volume_bytes": 0, "file_count": 365, "vcpus": 1, "node_count": 3}, 1.32, 1.32, id="many-files"
        ),
        # 16 parts (15.7 blocks) are two merges, side by side
        pytest.param({"volume_bytes": 16 * GIB}, 17.6985, 17.6985 + 16 * 3 / 2, id="two-merges-at-once"),
        # 51 parts (50.2 blocks) of 51.2 GiB are six merges of ten; the six parts are one merge
        pytest.param({"volume_bytes": int(51.2 * GIB)}, 56.2831, 56.2831 + 51.2 * 3, id="two-passes"),
        # the same as a terabyte in the store: ten parts are too large for a merge
        pytest.param(
            {"volume_bytes": int(51.2 * GIB), "size_bytes": 1024 * GIB}, 56.2831, 56.2831, id="too-large-to-merge"
        ),
        # 8 partitions with 8 parts each are merged at once, on 8 cores
        pytest.param(
            {"volume_bytes": 8 * GIB, "partition_key": "d", "partition_count": 8.0, "partitions_per_file": 8.0},
            8.9292,
            8.9292 + predict.MERGE_CORE_SECONDS_PER_GIB,
            id="partitions",
        ),
    ],
)
def test_predicted_seconds(changes: dict[str, Any], load_seconds: float, settled_seconds: float) -> None:
    known = facts(**{"volume_bytes": 4 * GIB, "calibration": Calibration(core_seconds_per_gib=6.0)} | changes)
    expected = predict.predict(known, threads=4, block_bytes=GIB)
    assert (expected.load_seconds, expected.settled_seconds) == pytest.approx(
        (load_seconds, settled_seconds), abs=1e-4
    )


def test_a_short_time_is_not_told_in_tenths_of_a_second() -> None:
    short = predict.Prediction(initial_parts=1, peak_memory_bytes=MIB, load_seconds=0.04, settled_seconds=1.2)
    assert str(short) == ("1 initial part, 1.0 MiB peak memory per node, under a second to load, 1.2 s until settled")


@pytest.mark.parametrize(
    ("changes", "threads", "block_bytes", "expected"),
    [
        # 8 blocks of 64 MiB that are collected, and 8 x 140 MiB read ahead
        pytest.param({}, 8, 64 * MIB, (512 + 1120) * MIB, id="reading-takes-more"),
        # (1 + 1) blocks of 1 GiB, 25 MiB to read, 100 x 1.35 MiB to write
        pytest.param({"vcpus": 1, "column_count": 100}, 1, GIB, 2 * GIB + 160 * MIB, id="writing-takes-more"),
    ],
)
def test_the_higher_of_two_peaks_counts(
    changes: dict[str, Any], threads: int, block_bytes: int, expected: int
) -> None:
    known = facts(**{"volume_bytes": 64 * GIB} | changes)
    assert predict.predict(known, threads=threads, block_bytes=block_bytes).peak_memory_bytes == expected


def test_text_takes_longer_to_read() -> None:
    text = predict.predict(facts(data_format="CSV"), threads=4, block_bytes=GIB)
    assert text.load_seconds > predict.predict(FACTS, threads=4, block_bytes=GIB).load_seconds


@pytest.mark.parametrize(
    ("volume_bytes", "expected"),
    [
        pytest.param(2 * GIB, 3 * GIB, id="as-much-as-then"),
        pytest.param(1 * GIB, 1.5 * GIB, id="half"),
        # 12 blocks, 8 readers and 4 writers are more than then
        pytest.param(400 * GIB, 13_100_279_398, id="much-more-data-in-the-same-blocks"),
    ],
)
def test_memory_of_the_last_load_counts(volume_bytes: int, expected: float) -> None:
    known = facts(volume_bytes=volume_bytes, past=PAST)
    assert predict.predict(known, threads=4, block_bytes=GIB).peak_memory_bytes == expected


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        pytest.param({}, "based on built-in constants; the table's next load will use the", id="nothing"),
        pytest.param(
            {"calibration": Calibration(core_seconds_per_gib=6.0)},
            "based on the measurements of `ch-s3 tune`",
            id="calibration",
        ),
        pytest.param(
            {"calibration": Calibration(core_seconds_per_gib=6.0), "past": PAST},
            "based on the measurements of q-1",
            id="past",
        ),
    ],
)
def test_a_prediction_says_what_it_rests_on(changes: dict[str, Any], said: str) -> None:
    assert plan_load(facts(**changes), server=SERVER).basis.startswith(said)


def test_what_was_tuned_wins_over_the_rules() -> None:
    calibration = Calibration(insert_threads_per_core=1.0, readers_per_core=3.0, blocks_per_thread=2.0)
    sent = plan_load(facts(calibration=calibration, volume_bytes=8 * GIB), server=SERVER).sent
    assert (sent["max_insert_threads"], sent["max_threads"]) == (8, 24)
    assert sent["min_insert_block_size_bytes"] == 512 * MIB  # 16 blocks


@pytest.mark.parametrize(
    ("values", "said"),
    [
        pytest.param(
            {"threads": 2},
            ["'threads'", "insert_threads_per_core, readers_per_core"],
            id="unknown",
        ),
        pytest.param({"readers_per_core": "2"}, ["readers_per_core", "'2'"], id="text"),
        pytest.param({"readers_per_core": 0}, ["readers_per_core", "0"], id="zero"),
        pytest.param({"readers_per_core": True}, ["readers_per_core", "True"], id="bool"),
    ],
)
def test_wrong_constants_are_refused(values: dict[str, Any], said: list[str]) -> None:
    with pytest.raises(ConfigError, match=coded("connection-invalid", *said)):
        Calibration.from_dict(values)


@pytest.mark.parametrize(
    ("sharing", "said"),
    [
        pytest.param(MemorySharing(), "for one load", id="alone"),
        pytest.param(MemorySharing(running=1), "shared by 2 loads (1 other runs now)", id="one-more"),
        pytest.param(
            MemorySharing(running=2, limit=LoadLimit(3, "max_active_runs")),
            "shared by 3 loads (2 others run now)",
            id="as-many-as-may-run",
        ),
        pytest.param(
            MemorySharing(running=1, limit=LoadLimit(4, "max_concurrent_loads")),
            "shared by 4 loads (max_concurrent_loads is 4)",
            id="more-may-run",
        ),
    ],
)
def test_why_memory_is_shared(sharing: MemorySharing, said: str) -> None:
    assert str(sharing) == said


@pytest.mark.parametrize(
    ("cores", "past", "gib"),
    [
        pytest.param(1, [], 30, id="one-core"),
        pytest.param(48, [], 1440, id="a-cluster"),
        # 8 core seconds for each GiB of rows, which are 4 times as large as the files
        pytest.param(8, [PAST], 150, id="as-measured"),
        pytest.param(8, [PAST, dataclasses.replace(PAST, volume_ratio=2.0)], 150, id="the-slowest-counts"),
        pytest.param(8, [PAST, dataclasses.replace(PAST, core_seconds_per_gib=16.0)], 75, id="whichever-is-slowest"),
    ],
)
def test_a_chunk_is_what_a_cluster_loads_in_ten_minutes(cores: int, past: list[PastLoad], gib: int) -> None:
    assert plan_chunk_bytes(cores, past) == gib * GIB


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("UInt64", "abc", "a number"),
        ("UInt64", "", "a number"),
        ("UInt64", "10G", ""),
        ("UInt64", "1.5Gi", ""),
        ("UInt64", "1x", "a number"),
        ("UInt64", True, ""),
        ("MaxThreads", "auto", ""),
        ("MaxThreads", "auto(4)", ""),
        ("MaxThreads", "4 cores", "a number"),
        ("Seconds", "ten", "a number"),
        ("Float", ".5", ""),
        ("Float", "1e-3", ""),
        ("Bool", "maybe", "true or false"),
        ("Bool", True, ""),
        ("Bool", 1.0, ""),
        ("Float", "nan", ""),
        ("Bool", 0, ""),
        ("String", "abc", ""),
    ],
)
def test_texts_are_told_from_values(kind: str, value: Any, expected: str) -> None:
    assert ServerSetting(value="0", type=kind).refusal(value) == expected


def values(planned: LoadPlan) -> tuple[Any, ...]:
    names = ("max_insert_threads", "max_threads", "min_insert_block_size_bytes")
    return tuple(planned.sent[name] for name in names)


def test_a_load_that_ran_out_of_memory_takes_half_of_everything() -> None:
    assert values(plan_load(FACTS, server=SERVER)) == (4, 8, 2_415_866_675)
    reduced = facts(reduction=Reduction(memory=1))
    assert values(plan_load(reduced, server=SERVER)) == (2, 4, 1_207_933_337)
    assert values(plan_load(facts(reduction=Reduction(memory=2)), server=SERVER)) == (1, 2, 603_966_668)
    reasons = {setting.name: setting.reason for setting in plan_load(reduced, server=SERVER).settings}
    assert reasons["max_insert_threads"] == "4 threads halved once, because a node ran out of memory"
    assert reasons["min_insert_block_size_bytes"] == "2.2 GiB halved once, because a node ran out of memory"
    assert reasons["max_threads"].endswith("; halved once, because a node ran out of memory")


def test_a_store_that_refuses_requests_gets_fewer_readers() -> None:
    reduced = plan_load(facts(reduction=Reduction(readers=1)), server=SERVER)
    assert (reduced.sent["max_insert_threads"], reduced.sent["max_threads"]) == (4, 4)


def test_blocks_and_threads_have_a_floor() -> None:
    small = facts(vcpus=1, volume_bytes=1, reduction=Reduction(memory=9))
    assert values(plan_load(small, server=SERVER)) == (1, 1, 4 * MIB)


@pytest.mark.parametrize(
    ("before", "peak_bytes", "expected"),
    [
        pytest.param(Reduction(), GIB, Reduction(), id="none"),
        pytest.param(Reduction(memory=1, again=1), 8 * GIB, Reduction(memory=1), id="no-room-for-more"),
        pytest.param(Reduction(memory=2, again=2), 4 * GIB, Reduction(memory=1), id="room-for-twice-as-much"),
        pytest.param(Reduction(readers=1, again=1), 8 * GIB, Reduction(), id="the-store-may-answer-now"),
    ],
)
def test_the_next_load_begins_where_the_last_one_ended(
    before: Reduction, peak_bytes: int, expected: Reduction
) -> None:
    past = dataclasses.replace(PAST, reduction=before, peak_memory_bytes=peak_bytes)
    assert facts(memory_bytes=32 * GIB, ingest_memory_ratio=0.5, past=past).first_reduction == expected
