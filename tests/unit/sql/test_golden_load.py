"""The statements of a load, compared as a whole; ``pytest --update-golden`` writes them anew."""

from __future__ import annotations

import dataclasses
import datetime
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest

from airflow_provider_ch_s3.clickhouse.conversion import Conversion, Method
from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.clickhouse.type_table import plan_conversion
from airflow_provider_ch_s3.errors import ConfigError, SnapshotError
from airflow_provider_ch_s3.files.access import AzureAccess, S3Access, StoreAccess, TableFunction, UrlAccess
from airflow_provider_ch_s3.files.addresses import AZURE, HTTP, Source
from airflow_provider_ch_s3.files.snapshots import DataFile
from airflow_provider_ch_s3.files.source import ChangeData, FileColumn, LakeReader, OpenQuote, SourceFile, SourceSpec
from airflow_provider_ch_s3.lakes.differences import compare
from airflow_provider_ch_s3.sql import load_queries, render, server_queries, table_queries
from airflow_provider_ch_s3.sql.rights import About, Right
from airflow_provider_ch_s3.table.mapping import MappedColumn
from airflow_provider_ch_s3.table.provenance import Origin, map_provenance
from airflow_provider_ch_s3.table.target import Distribution, TableColumn, TableName, TargetSpec
from tests.failures import coded
from tests.unit.sql.places import at_both

GOLDEN = Path(__file__).parents[2] / "golden"
TEMPLATES = Path(render.__file__).parent / "templates"

ROLE = S3Access(endpoint_url="http://s3:9000", parameter_prefix="s3_")
KEYS = dataclasses.replace(ROLE, access_key="AKIA-KEY", secret_key="SECRET-KEY")
TEMPORARY = dataclasses.replace(KEYS, session_token="SECRET-TOKEN")
ANONYMOUS = dataclasses.replace(ROLE, anonymous=True)
COLLECTION = dataclasses.replace(ROLE, named_collection="my`keys")
ASSUMED = dataclasses.replace(ROLE, role_arn="arn:aws:iam::1:role/it's")
ASSUMED_FOR = dataclasses.replace(ASSUMED, external_id="it's 7")
PAID = dataclasses.replace(KEYS, requester_pays=True)
AZURE_KEYS = AzureAccess(
    endpoint_url="https://a.blob", connection_string="AccountKey=SECRET-KEY", parameter_prefix="az_"
)
AZURE_COLLECTION = AzureAccess(endpoint_url="https://a.blob", named_collection="my`keys")
AZURE_IDENTITY = AzureAccess(endpoint_url="https://a.blob")
AZURE_APPLICATION = AzureAccess(endpoint_url="https://a.blob", client_id="it's-app", tenant_id="it's-tenant")

TABLE = TableName(database="it's", table="a`b")
LEDGER = TableName(database="ops", table="ledger")
CLUSTER = "it's"
PREFIX = "ch-s3-0'1-2-"
SINCE = datetime.date(2013, 1, 31)


def source(access: StoreAccess = KEYS, *keys: str, data_format: str = "Parquet") -> SourceSpec:
    return SourceSpec(
        origin=Source(bucket="flights", globs=("**",)),
        access=access,
        files=tuple(
            SourceFile(key=key, etag="e", size_bytes=9) for key in keys or ("dt=1/a.parquet", "dt=2/a.parquet")
        ),
        data_format=data_format,
        compression="auto",
        columns=(
            FileColumn(name="id", type="Nullable(Int64)"),
            FileColumn(name="tail`num", type="String"),
            FileColumn(name="dt", in_path=True, type="Date"),
        ),
    )


def through(
    access: StoreAccess,
    function: TableFunction,
    metadata: str = "",
    changes: ChangeData | None = None,
    **settings: int,
) -> SourceSpec:
    """All rows of a lake's snapshot, or change data."""
    reader = LakeReader(
        function=function,
        location="it's/t",
        settings=settings,
        metadata=metadata,
        since=(26, 7),
        refusal=SnapshotError("lake-rows-deleted", "rows are deleted"),
    )
    file = DataFile(key="it's/t/a.parquet", size_bytes=9, rows=1, reader=reader, changes=changes)
    return dataclasses.replace(source(access), files=(file,), columns=source().columns[:2])


ICEBERG = partial(
    through, function=TableFunction.ICEBERG, metadata="metadata/1-it's.metadata.json", iceberg_snapshot_id=7
)
DELTA = partial(through, function=TableFunction.DELTA, delta_lake_snapshot_version=0)
CHANGES = ChangeData(deletes="_change_type = 'delete'", newest_first=("-_commit_version", "_change_type = 'delete'"))


def compared(access: StoreAccess, *, old_deletes: Sequence[str] = (), new_deletes: Sequence[str] = ()) -> SourceSpec:
    """Files of only one of two snapshots, and a file of both with rows that position deletes name."""
    first, both, last = (DataFile(key=f"it's/t/{name}", size_bytes=9, rows=1) for name in ("a,1.parquet", "b", "c"))
    deletes = [
        [SourceFile(key=f"it's/t/{name}", etag="", size_bytes=7) for name in names]
        for names in (old_deletes, new_deletes)
    ]
    files = compare(
        [first, both],
        [both, last],
        SnapshotError("lake-rows-removed", "rows are gone"),
        old_deletes=deletes[0],
        new_deletes=deletes[1],
    )
    return dataclasses.replace(source(access), files=tuple(files), columns=source().columns[:2])


BLOBS = Source(bucket="flights", globs=("**",), scheme=AZURE)
URLS = dataclasses.replace(
    source(UrlAccess(moved_to="https://h:9"), "it's%20%7B1%7D/a%2Cb.parquet", "it's%20%7B1%7D/c.parquet"),
    origin=Source(bucket="https://h:8", globs=("**",), scheme=HTTP),
)
TEXT = dataclasses.replace(
    source(KEYS, data_format="CSVWithNames"),
    columns=(
        FileColumn(name="id", type="Nullable(Int64)"),
        FileColumn(name="tail`num", type="String"),
        FileColumn(name="it's at", type="Nullable(DateTime64(3))", read_as="Nullable(String)"),
        FileColumn(name="dt`", in_path=True, type="Nullable(UInt8)"),
    ),
    open_quote=OpenQuote(column="it's at", rows=r"\n[^,\n]*,'\n$", is_fixed=False),
)
TABS = dataclasses.replace(
    source(KEYS, data_format="TSVWithNames"),
    columns=(
        FileColumn(name="id", type="Nullable(Int64)", read_as="Nullable(String)", is_empty_missing=True),
        FileColumn(name="tail`num", type="Nullable(String)"),
        FileColumn(
            name="m",
            type="Map(String, UInt8)",
            read_as="Map(String, String)",
            is_parsed_whole=True,
            has_bare_values=True,
            is_unescaped=True,
        ),
    ),
)
ESCAPED = dataclasses.replace(
    source(KEYS, data_format="Regexp"),
    header=("id", "it's"),
    columns=(
        FileColumn(name="id", type="Nullable(Int64)", read_as="Nullable(String)", is_trimmed=True, is_escaped=True),
        FileColumn(name="tail`num", type="String", is_escaped=True),
    ),
)
UNSAFE = source(KEYS, "it's 1.parquet", "it's 2.parquet")
LOCAL = TargetSpec(
    name=TABLE,
    local=TABLE,
    engine="MergeTree",
    columns=(TableColumn(name="id", type="UInt64"), TableColumn(name="tail`num", type="String")),
    partition_key="",
)
SPANNING = dataclasses.replace(LOCAL, spans_cluster=True)
DISTRIBUTED = dataclasses.replace(
    LOCAL,
    name=TableName(database="d", table="all"),
    distribution=Distribution(cluster=CLUSTER, local=TABLE),
)
SHARDED = dataclasses.replace(
    LOCAL,
    name=TableName(database="d", table="all"),
    distribution=Distribution(cluster=CLUSTER, local=TABLE, sharding_key="cityHash64(id, 'it\\'s')"),
)
STAGING = TableName(database="it's", table="ch_s3_stage_52115f13b013_0123_2_7_7")
PLAIN = (MappedColumn(target="id", source="id"), MappedColumn(target="tail`num", source="tail`num"))
MIXED = (
    MappedColumn(target="id", source="id", conversion=Conversion(method=Method.CAST, type="Nullable(UInt64)")),
    MappedColumn(target="tail`num", expression="upper(`tail`)"),
    MappedColumn(target="dt", source="dt"),
)
SETTINGS = {"max_insert_threads": 4, "date_time_input_format": "best_effort", "log_comment": '{"dag": "it\'s"}'}


def insert(
    files: SourceSpec,
    target: TargetSpec = DISTRIBUTED,
    mapping: tuple[MappedColumn, ...] = PLAIN,
    *,
    cluster: str | None = CLUSTER,
    where: str = "",
    key: Sequence[str] = (),
) -> Statement:
    given = files.read_with(**SETTINGS)
    return load_queries.render_insert_load(given, target, mapping, cluster=cluster, where=where, key=key)


CASES: dict[str, Statement] = {
    "insert_load_keys": insert(source(KEYS)),
    "insert_load_tsv": insert(TABS),
    "insert_load_escaped": insert(ESCAPED, where="id > 1"),
    "insert_load_session_token": insert(source(TEMPORARY)),
    "insert_load_nosign": insert(source(ANONYMOUS)),
    "insert_load_named_collection": insert(source(COLLECTION)),
    "insert_load_server_role": insert(source(ROLE)),
    "insert_load_assumed_role": insert(source(ASSUMED)),
    "insert_load_external_id": insert(source(ASSUMED_FOR)),
    "insert_load_requester_pays": insert(source(PAID)),
    "insert_load_iceberg_keys": insert(ICEBERG(KEYS), where="id > 1"),
    "insert_load_iceberg_assumed_role": insert(ICEBERG(ASSUMED_FOR)),
    "insert_load_iceberg_single": insert(ICEBERG(COLLECTION), LOCAL, cluster=None),
    "insert_load_delta_session_token": insert(DELTA(TEMPORARY)),
    "insert_load_delta_nosign": insert(DELTA(ANONYMOUS)),
    "insert_load_delta_server_role": insert(DELTA(ROLE)),
    "insert_load_delta_requester_pays": insert(DELTA(PAID), LOCAL, cluster=None),
    "insert_load_delta_named_collection": insert(DELTA(COLLECTION)),
    "describe_files_iceberg": load_queries.render_describe_files(ICEBERG(KEYS)),
    "insert_load_delta_changes": insert(
        DELTA(KEYS, changes=CHANGES), SHARDED.staged_in(STAGING), MIXED[:2], where="id > 1", key=["id", "tail`num"]
    ),
    "insert_load_delta_changes_unsharded": insert(
        DELTA(KEYS, changes=CHANGES), DISTRIBUTED.staged_in(STAGING), key=["id"]
    ),
    "insert_load_compared_files": insert(
        compared(KEYS), SHARDED.staged_in(STAGING), MIXED[:2], where="id > 1 OR id = 0", key=["id", "tail`num"]
    ),
    "insert_load_compared_rows": insert(
        compared(TEMPORARY, old_deletes=["d1"], new_deletes=["d1", "d2"]),
        DISTRIBUTED.staged_in(STAGING),
        key=["id"],
    ),
    "insert_load_azure_keys": insert(dataclasses.replace(source(AZURE_KEYS), origin=BLOBS)),
    "insert_load_azure_named_collection": insert(dataclasses.replace(source(AZURE_COLLECTION), origin=BLOBS)),
    "insert_load_azure_identity": insert(
        dataclasses.replace(source(AZURE_IDENTITY), origin=BLOBS), LOCAL, cluster=None
    ),
    "insert_load_azure_application": insert(dataclasses.replace(source(AZURE_APPLICATION), origin=BLOBS)),
    "insert_load_azure_path_filter": insert(
        dataclasses.replace(source(AZURE_KEYS, "it's 1.parquet", "it's 2.parquet"), origin=BLOBS)
    ),
    "insert_load_urls": insert(URLS),
    "insert_load_urls_single": insert(URLS, LOCAL, cluster=None),
    "insert_load_single": insert(source(KEYS), LOCAL, cluster=None),
    "insert_load_single_named_collection": insert(source(COLLECTION), LOCAL, cluster=None),
    "insert_load_spanning": insert(source(KEYS), SPANNING),
    "insert_load_staging": insert(source(KEYS), DISTRIBUTED.staged_in(STAGING)),
    "insert_load_staging_sharding_key": insert(source(KEYS), SHARDED.staged_in(STAGING)),
    "insert_load_staging_single": insert(source(KEYS), LOCAL.staged_in(STAGING), cluster=None),
    "insert_load_where": insert(source(KEYS), where="id > 0 OR dt = '2013-01-01'"),
    "insert_load_path_filter": insert(UNSAFE),
    "insert_load_where_path_filter": insert(UNSAFE, where="id > 0 OR dt = '2013-01-01'"),
    "insert_load_select": insert(source(KEYS), mapping=MIXED),
    "insert_load_provenance": insert(
        source(KEYS),
        mapping=(*PLAIN, *map_provenance({"file": Origin.PATH, "dt": Origin.TIME, "origin": Origin.LOAD})),
    ),
    "insert_load_provenance_row": insert(
        source(KEYS), mapping=(*PLAIN, *map_provenance({"file": Origin.PATH, "row": Origin.ROW}))
    ),
    "insert_load_conversions": insert(
        source(KEYS),
        mapping=(
            MappedColumn(target="id", expression="id + 255", conversion=plan_conversion("UInt64", "UInt8")),
            MappedColumn(target="a", source="a", conversion=plan_conversion("Nullable(String)", "UInt64")),
            MappedColumn(target="b", source="b", conversion=plan_conversion("String", "Date")),
            MappedColumn(target="c", source="c", conversion=plan_conversion("Nullable(String)", "DateTime('UTC')")),
            MappedColumn(target="d", source="d", conversion=plan_conversion("String", "Decimal(9, 2)")),
            MappedColumn(target="e", source="e", conversion=plan_conversion("FixedString(80)", "UInt256")),
            MappedColumn(target="f", source="f", conversion=plan_conversion("Nullable(Float64)", "Float32")),
            MappedColumn(
                target="g", source="g", conversion=plan_conversion("Nullable(DateTime64(6))", "DateTime64(3)")
            ),
        ),
    ),
    "insert_load_deletions": insert(
        source(KEYS),
        mapping=(
            MappedColumn(target="id", source="id"),
            MappedColumn(
                target="dt",
                source="dt",
                conversion=plan_conversion("Nullable(String)", "Date"),
                unused_if="ifNull((id = 5), 0) != 0",
                type="Date",
            ),
            MappedColumn(target="ch_s3_deleted", expression="ifNull((id = 5), 0) != 0"),
        ),
    ),
    "insert_load_repeated_folder": insert(
        dataclasses.replace(
            source(KEYS), columns=(FileColumn(name="id", type="Nullable(Int64)", repeats_folder=True),)
        ),
        mapping=(MappedColumn(target="id", source="id"),),
    ),
    "insert_load_text": insert(TEXT, where="`it's at` > '2013-01-01'"),
    "describe_select_text": load_queries.render_describe_select(
        TEXT.read_with(s3_retry_attempts=12), (MappedColumn(target="id", expression="toYear(`it's at`)"),)
    ),
    "describe_select_keys": load_queries.render_describe_select(source(KEYS), MIXED),
    "sample_files_text": load_queries.render_sample_files(
        TEXT.read_with(max_threads=4), PLAIN, numbered=(), where="`it's at` > '2013-01-01'", limit_rows=100
    ),
    "read_heads_single": load_queries.render_read_heads(UNSAFE, UNSAFE.files[:1], limit_bytes=8192),
    "find_filled_single": load_queries.render_find_filled(UNSAFE, is_json=True),
    "describe_files_keys": load_queries.render_describe_files(dataclasses.replace(source(KEYS), columns=())),
    "describe_files_structure": load_queries.render_describe_files(source(KEYS)),
    "describe_files_named_collection": load_queries.render_describe_files(
        dataclasses.replace(source(COLLECTION), columns=()).read_with(format_csv_delimiter=";")
    ),
    "sample_files_keys": load_queries.render_sample_files(
        source(KEYS).read_with(max_threads=4),
        MIXED,
        numbered=("tail`num", "dt"),
        where="id > 0 OR dt = '2013-01-01'",
        limit_rows=100,
    ),
    "sample_files_where_path_filter": load_queries.render_sample_files(
        UNSAFE.read_with(max_threads=4), PLAIN, numbered=(), where="id > 0 OR dt = '2013-01-01'", limit_rows=100
    ),
    "sample_files_server_role": load_queries.render_sample_files(
        source(ROLE).read_with(max_threads=4), PLAIN, numbered=(), where="", limit_rows=100
    ),
    "read_rows_keys": load_queries.render_read_rows(
        source(KEYS).read_with(max_threads=4),
        (MIXED[0], MIXED[2]),
        ["UInt16", "Date"],
        where="id > 0",
        first=5,
        count=10,
        seconds=30,
    ),
    "read_rows_where_filter": load_queries.render_read_rows(
        UNSAFE, (), (), where="id > 0", first=5, count=1, seconds=30
    ),
    "read_rows_value_keys": load_queries.render_read_rows_value(source(KEYS), MIXED[0], row=5, seconds=30),
    "sample_partitions_keys": load_queries.render_sample_partitions(
        source(KEYS).read_with(max_threads=4), MIXED, partition_key="toYYYYMM(dt), id % 4", seconds=1
    ),
    "sample_partitions_path_filter": load_queries.render_sample_partitions(
        UNSAFE.read_with(max_threads=4), PLAIN, partition_key="id", seconds=1
    ),
    "sample_touched_keys": load_queries.render_sample_touched(
        source(KEYS), MIXED, TABLE, cluster=CLUSTER, key=["id"], where="id > 0", limit_rows=100, seconds=10
    ),
    "count_rows_keys": load_queries.render_count_rows(source(KEYS).read_with(max_threads=4), seconds=1),
    "count_rows_path_filter": load_queries.render_count_rows(UNSAFE.read_with(max_threads=4), seconds=1),
    "parquet_footers_cluster": load_queries.render_parquet_footers(
        source(KEYS).read_with(s3_retry_attempts=12), CLUSTER
    ),
    "parquet_footers_single": load_queries.render_parquet_footers(source(KEYS), None),
    "parquet_footers_path_filter": load_queries.render_parquet_footers(UNSAFE, CLUSTER),
    "read_on_each_node_cluster": load_queries.render_read_on_each_node(source(KEYS), CLUSTER),
    "read_on_each_node_single": load_queries.render_read_on_each_node(UNSAFE, None),
    **at_both("read_volumes_cluster", table_queries.render_read_volumes, ["default", "it's"]),
    "largest_row_group": load_queries.render_largest_row_group(source().read_with(**SETTINGS)),
    **at_both("read_table_cluster", table_queries.render_read_table, TABLE),
    "read_names": table_queries.render_read_names("it's"),
    **at_both("read_columns_cluster", table_queries.render_read_columns, TABLE),
    "find_on_nodes": table_queries.render_find_on_nodes(TABLE, CLUSTER),
    "check_grant": server_queries.render_check_grant(
        [
            Right(rights=["SELECT", "ALTER DELETE"], on="d.t", about=About.TABLES, why=""),
            Right(rights=["TABLE ENGINE"], on="Memory", about=About.ENGINE, why=""),
        ]
    ),
    "read_session": server_queries.render_read_session(),
    "read_collections": server_queries.render_read_collections(),
    "read_formats": server_queries.render_read_formats(),
    "read_settings": server_queries.render_read_settings(),
    "read_settings_cluster": server_queries.render_read_settings(CLUSTER, nodes=3),
    **at_both("running_queries_cluster", load_queries.render_running_queries, PREFIX),
    **at_both(
        "count_loads_cluster", load_queries.render_count_loads, but="ch-s3-0123456789abcdef0123", ledger=LEDGER
    ),
    "count_loads_running": load_queries.render_count_loads(None, but="ch-s3-0123456789abcdef0123"),
    **at_both("flush_logs_on_cluster", load_queries.render_flush_logs, "query_log"),
    "flush_logs_old": load_queries.render_flush_logs(CLUSTER, None),
    **at_both("logged_queries_cluster", load_queries.render_logged_queries, PREFIX, age_seconds=3600),
    **at_both("has_query_log_cluster", load_queries.render_has_query_log),
    **at_both("read_uptimes_cluster", server_queries.render_read_uptimes),
    **at_both("kill_queries_on_cluster", load_queries.render_kill_queries, PREFIX),
}


@pytest.mark.parametrize("name", CASES)
def test_statement_is_as_the_golden_file(name: str, check_golden: Callable[[str, str], None]) -> None:
    check_golden(name, CASES[name].text)


@pytest.mark.parametrize("name", CASES)
def test_secrets_travel_beside_the_text(name: str) -> None:
    statement = CASES[name]
    assert "SECRET" not in statement.text
    assert "AKIA" not in statement.text
    assert list(dict.fromkeys(re.findall(r"\{(\w+):String\}", statement.text))) == list(statement.parameters)


def test_every_template_has_a_golden_file() -> None:
    templates = {path.name.removesuffix(".sql.jinja") for path in TEMPLATES.iterdir() if path.name[0] != "_"}
    assert len(templates) > 10
    # create_ledger_files_here is of create_ledger_files, and not of create_ledger
    having = {
        max((t for t in templates if f"{path.stem}_".startswith(f"{t}_")), key=len, default="")
        for path in GOLDEN.glob("*.sql")
    }
    assert templates - having == set()


@pytest.mark.parametrize(
    ("where", "mapping"),
    [
        pytest.param("1 UNION ALL SELECT 1", PLAIN, id="where"),
        pytest.param("1) -- ", PLAIN, id="where-that-ends-its-bracket"),
        pytest.param("", (MappedColumn(target="id", expression="id FROM x;"),), id="select"),
    ],
)
def test_a_hostile_expression_reaches_no_statement(where: str, mapping: tuple[MappedColumn, ...]) -> None:
    with pytest.raises(ConfigError):
        insert(UNSAFE, mapping=mapping, where=where)


def test_a_hostile_setting_name_reaches_no_statement() -> None:
    with pytest.raises(ConfigError, match=coded("setting-unknown")):
        load_queries.render_insert_load(source().read_with(**{"a = 1, b": 1}), LOCAL, PLAIN, cluster=None, where="")
