"""What cannot be loaded is refused before anything is written, with a message that names value, place and remedy."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_ch_s3.arguments import Checks, Format, NamedCollection
from airflow_provider_ch_s3.errors import (
    ChS3Error,
    ClusterError,
    ConfigError,
    ServerError,
    ServerUnreachableError,
    SourceError,
    TargetError,
)
from airflow_provider_ch_s3.modes import ReplaceWhere
from tests.sandbox.conftest import Lab, wait_until
from tests.sandbox.processes import all_answer, kept_down

pytestmark = pytest.mark.sandbox

IDS = {"id": pa.array([1, 2], pa.uint32())}


LEFT_OVERS = "^ch_s3_(stage|lock)_"


def in_lab(lab: Lab) -> str:
    return f"database = '{lab.database}' AND name NOT LIKE 'ch_s3_ledger%'"


def refuse(
    lab: Lab, error: type[ChS3Error], glob: str | list[str], table: str, *words: str, **arguments: Any
) -> None:
    """Check that a load is refused with these words in this order, without having sent an INSERT or left a row."""
    with pytest.raises(error) as caught:
        lab.load(glob, table, **arguments)
    assert re.search(".*".join(map(re.escape, words)), str(caught.value), re.DOTALL), str(caught.value)
    assert lab.inserts() == []
    assert lab.everywhere(f"SELECT name, total_rows FROM system.tables WHERE {in_lab(lab)} AND total_rows > 0") == []
    assert lab.everywhere(f"SELECT name FROM system.tables WHERE {in_lab(lab)} AND match(name, '{LEFT_OVERS}')") == []


class TestSource:
    def test_no_file_matches(self, lab: Lab) -> None:
        lab.put_parquet("in/2013-01-01.parquet", IDS)
        table = lab.create("t", "id UInt32")
        words = ("no file matches", lab.uri("in/2014-*.parquet"), "check the address")
        refuse(lab, SourceError, "in/2014-*.parquet", table, *words)

    def test_only_empty_files_match(self, lab: Lab) -> None:
        lab.put("in/_SUCCESS", b"")
        refuse(lab, SourceError, "in/*", lab.create("t", "id UInt32"), "no data file matches", lab.uri("in/*"))

    def test_a_missing_bucket(self, lab: Lab) -> None:
        table = lab.create("t", "id UInt32")
        lab.bucket = "no-such-bucket"
        words = ("cannot list bucket 'no-such-bucket'", "'aws'", "NoSuchBucket", "create it, or correct the bucket")
        refuse(lab, SourceError, "*.parquet", table, *words)

    @pytest.mark.parametrize(
        ("field", "code", "remedy"),
        [
            pytest.param("password", "SignatureDoesNotMatch", "correct the secret key", id="wrong-secret"),
            pytest.param("login", "InvalidAccessKeyId", "correct the access key", id="wrong-access-key"),
        ],
    )
    def test_wrong_keys(self, lab: Lab, field: str, code: str, remedy: str) -> None:
        lab.put_parquet("in/a.parquet", IDS)
        table = lab.create("t", "id UInt32")
        lab.connect_aws(**{field: "wr0ng"})
        words = (f"cannot list bucket '{lab.bucket}' with connection 'aws'", code, remedy)
        refuse(lab, SourceError, "in/*", table, *words)

    def test_a_dead_endpoint(self, lab: Lab) -> None:
        table = lab.create("t", "id UInt32")
        config = {"retries": {"max_attempts": 0}, "connect_timeout": 1}
        lab.connect_aws({"endpoint_url": "http://127.0.0.1:1", "config_kwargs": config})
        words = ("cannot list bucket", "'aws'", "http://127.0.0.1:1", "endpoint_url")
        refuse(lab, SourceError, "in/*", table, *words)

    def test_an_endpoint_that_only_the_worker_reaches(self, lab: Lab) -> None:
        # a bucket that the worker can list and the servers cannot read, as if their rights differed
        lab.put_parquet("in/a.parquet", IDS)
        table = lab.create("t", "id UInt32")
        name = f"other_keys_{lab.database}"
        lab.everywhere(f"CREATE NAMED COLLECTION {name} AS access_key_id = 'other', secret_access_key = 'other'")
        words = ("ClickHouse cannot read", lab.uri("in/*"), "check that the servers reach")
        try:
            refuse(lab, SourceError, "in/*", table, *words, credentials=NamedCollection(name))
        finally:
            lab.everywhere(f"DROP NAMED COLLECTION {name}")

    @pytest.mark.parametrize("glob", ["in", "in/"])
    def test_a_folder_instead_of_its_files(self, lab: Lab, glob: str) -> None:
        lab.put_parquet("in/a.parquet", IDS)
        lab.put_parquet("in/b.parquet", IDS)
        lab.put_parquet("in-2012/a.parquet", IDS)
        table = lab.create("t", "id UInt32")
        words = ("no file matches", lab.uri(glob), "2 objects", "'in/a.parquet'", f"write '{lab.uri('in/*')}'")
        refuse(lab, SourceError, glob, table, *words)

    def test_an_unknown_aws_connection(self, lab: Lab) -> None:
        lab.put_parquet("in/a.parquet", IDS)
        table = lab.create("t", "id UInt32")
        words = ("no connection 'no_such'", "create it", "aws_conn_id=None")
        refuse(lab, ConfigError, "in/*", table, *words, aws_conn_id="no_such")

    def test_an_unknown_ending(self, lab: Lab) -> None:
        lab.put("in/a.dat", b"1\n")
        words = ("the format of 'in/a.dat' cannot be inferred from its name", "give data_format", ".parquet")
        refuse(lab, SourceError, "in/*", lab.create("t", "id UInt32"), *words)

    def test_an_unknown_format(self, lab: Lab) -> None:
        lab.put("in/a.dat", b"1\n")
        words = ("data_format='Parkett' is not a format that this server can read", "did you mean 'Parquet'?")
        refuse(lab, ConfigError, "in/*", lab.create("t", "id UInt32"), *words, data_format="Parkett")

    def test_mixed_formats(self, lab: Lab) -> None:
        lab.put_parquet("in/a.parquet", IDS)
        lab.put("in/b.csv", b"1\n")
        words = ("'in/a.parquet' looks like Parquet and 'in/b.csv' like CSV", "narrow the source or give data_format")
        refuse(lab, SourceError, "in/*", lab.create("t", "id UInt32"), *words)

    def test_a_file_that_is_not_what_its_name_says(self, lab: Lab) -> None:
        lab.put("in/a.parquet", b"PAR1 no")
        words = ("ClickHouse cannot read", "as Parquet", "check that", "data_format")
        refuse(lab, SourceError, "in/*", lab.create("t", "id UInt32"), *words)

    def test_an_empty_folder_name(self, lab: Lab) -> None:
        lab.put("in//a.csv", b"1\n")
        words = ("cannot read the key 'in//a.csv'", lab.bucket, "copy the file to a key without '//'")
        refuse(lab, SourceError, "in/**.csv", lab.create("t", "id UInt32"), *words)

    @pytest.mark.parametrize(
        ("source", "words"),
        [
            pytest.param(
                "in/*.parquet", ("source 'in/*.parquet' is not an S3 address", "s3://bucket"), id="no-scheme"
            ),
            pytest.param("s3://bucket", ("'s3://bucket' names no file; write 's3://bucket/**'",), id="no-key"),
            pytest.param(
                "https://h/b/k",
                ("source 'https://h/b/k' is a URL; for an S3-compatible store",),
                id="https",
            ),
            pytest.param("s3://b*/k", ("'s3://b*/k' is not an S3 address",), id="glob-in-bucket"),
            pytest.param([], ("source is empty", "s3://bucket"), id="empty-list"),
            pytest.param(["s3://a/k", "s3://b/k"], ("names the buckets a, b", "one task for each"), id="two-buckets"),
        ],
    )
    def test_a_malformed_source(self, lab: Lab, source: str | list[str], words: tuple[str, ...]) -> None:
        lab.uri = str  # type: ignore[method-assign, assignment]  # the source unchanged
        refuse(lab, ConfigError, source, lab.create("t", "id UInt32"), *words)


class TestTarget:
    @pytest.fixture
    def lab(self, lab: Lab) -> Lab:
        lab.put_parquet("in/dt=2013-01-01/a.parquet", IDS)
        return lab

    def test_a_missing_table(self, lab: Lab) -> None:
        words = (
            f"table {lab.database}.nope does not exist on the connected server",
            "create the table on every node",
        )
        refuse(lab, TargetError, "in/**", f"{lab.database}.nope", *words)

    def test_a_misspelt_table(self, lab: Lab) -> None:
        lab.create("sales", "id UInt32")
        refuse(lab, TargetError, "in/**", f"{lab.database}.sale", "did you mean 'sales'? Otherwise create the table")

    def test_not_a_table_name(self, lab: Lab) -> None:
        refuse(lab, ConfigError, "in/**", "a.b.c", "table 'a.b.c' is not a table name", "database.table")

    @pytest.mark.parametrize("distributed", [False, True], ids=["local", "distributed"])
    def test_a_table_that_one_node_lacks(self, lab: Lab, distributed: bool) -> None:
        local = lab.create("t", "id UInt32, dt Date")
        table = lab.distribute(local) if distributed else local
        lab.query(f"DROP TABLE {local} SYNC", node=2)
        port = str(lab.sandbox.tcp_ports[2])
        refuse(lab, TargetError, "in/**", table, f"table {local} does not exist on", port, "create it there too")

    @pytest.mark.thorough
    def test_other_columns_on_one_node(self, lab: Lab) -> None:
        local = lab.create("t", "id UInt32, dt Date")
        lab.query(f"ALTER TABLE {local} MODIFY COLUMN id UInt64", node=1)
        port = str(lab.sandbox.tcp_ports[1])
        with pytest.raises(TargetError) as caught:
            lab.load("in/**", local)
        assert port in caught.value.sentence
        refuse(lab, TargetError, "in/**", local, "differ in id UInt32, id UInt64", "ALTER TABLE")

    @pytest.mark.thorough
    def test_a_distributed_table_that_lags_behind(self, lab: Lab) -> None:
        local = lab.create("t", "id UInt32, dt Date")
        table = lab.distribute(local)
        lab.ddl(f"ALTER TABLE {local} ADD COLUMN extra UInt8")
        refuse(lab, TargetError, "in/**", table, table, local, "differ in extra UInt8", "ALTER TABLE")

    def test_a_column_of_the_files_that_the_table_lacks(self, lab: Lab) -> None:
        lab.put_parquet("new/a.parquet", {**IDS, "tail": ["N1", "N2"]})
        table = lab.create("t", "id UInt32")
        refuse(lab, TargetError, "new/*", table, "the files have the columns tail", table, "columns=[…]")

    def test_a_column_that_the_files_lack(self, lab: Lab) -> None:
        table = lab.create("t", "id UInt32, dt Date, tail String")
        words = (f"{table} has the columns tail without a DEFAULT", "they have dt, id", "give them a DEFAULT")
        refuse(lab, TargetError, "in/**", table, *words)

    @pytest.mark.thorough
    def test_a_column_that_the_files_lack_and_that_has_a_default(self, lab: Lab) -> None:
        table = lab.create("t", "id UInt32, dt Date, tail String DEFAULT concat('N', toString(id))")
        lab.load("in/**", table)
        assert {row["tail"] for row in lab.rows(table)} == {"N1", "N2"}

    def test_types_without_a_conversion(self, lab: Lab) -> None:
        table = lab.create("t", "id Array(UInt32), dt Date")
        words = ("column 'id' is", "UInt32", "in the files and Array(UInt32) in", table, "select={'id'")
        refuse(lab, TargetError, "in/**", table, *words)

    @pytest.mark.parametrize(
        ("engine", "ddl"),
        [
            pytest.param("View", "CREATE VIEW {d}.v AS SELECT id, dt FROM {d}.t", id="view"),
            pytest.param(
                "MaterializedView",
                "CREATE MATERIALIZED VIEW {d}.v TO {d}.t AS SELECT id, dt FROM {d}.t2",
                id="materialized-view",
            ),
            pytest.param(
                "Dictionary",
                "CREATE DICTIONARY {d}.v (id UInt64, dt Date) PRIMARY KEY id"
                " SOURCE(CLICKHOUSE(DB '{d}' TABLE 't')) LIFETIME(0) LAYOUT(FLAT())",
                id="dictionary",
            ),
            pytest.param("File", "CREATE TABLE {d}.v (id UInt32, dt Date) ENGINE = File(CSV)", id="file"),
        ],
    )
    @pytest.mark.parametrize("distributed", [False, True], ids=["local", "distributed"])
    @pytest.mark.parametrize("mode", ["append", "direct"], ids=["staged", "direct"])
    def test_an_engine_without_parallel_inserts(
        self, lab: Lab, engine: str, ddl: str, distributed: bool, mode: str
    ) -> None:
        lab.create("t", "id UInt32, dt Date")
        lab.create("t2", "id UInt32, dt Date")
        lab.ddl(ddl.format(d=lab.database))
        table = lab.distribute(f"{lab.database}.v") if distributed else f"{lab.database}.v"
        words = (f"{lab.database}.v is a {engine} table on", "in parallel", "name such a table")
        refuse(lab, TargetError, "in/**", table, *words, mode=mode)

    @pytest.mark.parametrize(
        ("engine", "expected"),
        [
            pytest.param("ReplacingMergeTree ORDER BY id", 2, id="MergeTree-family"),
            pytest.param("Memory", 2, id="Memory"),
            pytest.param("TinyLog", 2, id="TinyLog"),
            pytest.param("Null", 0, id="Null"),
        ],
    )
    def test_an_engine_with_parallel_inserts(self, lab: Lab, engine: str, expected: int) -> None:
        table = lab.create("t", "id UInt32, dt Date", engine)
        assert lab.load("in/**", table, mode="direct")["rows_written"] == 2
        assert len(lab.rows(table)) == expected

    @pytest.mark.parametrize("engine", ["Memory", "TinyLog", "Null"])
    def test_an_engine_that_cannot_stage(self, lab: Lab, engine: str) -> None:
        table = lab.create("t", "id UInt32, dt Date", engine)
        refuse(lab, TargetError, "in/**", table, f"{table} is a {engine}", "use a MergeTree table", "mode='direct'")

    @pytest.mark.parametrize(
        ("columns", "engine", "said"),
        [
            pytest.param(
                "id UInt32, dt Date", "MergeTree PARTITION BY id ORDER BY id", "PARTITION BY", id="partition"
            ),
            pytest.param("id UInt32, dt Date", "MergeTree ORDER BY dt", "ORDER BY", id="sorting-key"),
            pytest.param("id UInt32, dt Date", "ReplacingMergeTree ORDER BY id", "the engine", id="engine"),
            pytest.param(
                "id UInt32, dt Date DEFAULT today()", "MergeTree ORDER BY id", "differ in dt Date", id="default"
            ),
        ],
    )
    def test_a_table_that_means_something_else_on_one_node(
        self, lab: Lab, columns: str, engine: str, said: str
    ) -> None:
        table = lab.create("t", "id UInt32, dt Date", "MergeTree ORDER BY id")
        lab.query(f"DROP TABLE {table} SYNC", node=1)
        lab.query(f"CREATE TABLE {table} ({columns}) ENGINE = {engine}", node=1)
        refuse(lab, TargetError, "in/**", table, said, "the same")

    def test_text_that_is_no_number(self, lab: Lab) -> None:
        lab.put_parquet("text/a.parquet", {"id": ["1", "x"]})
        table = lab.create("t", "id UInt32")
        said = (
            "column id: 'x' is not a valid UInt32",
            "row 2 of",
        )
        refuse(
            lab,
            SourceError,
            "text/*",
            table,
            *said,
            "widen the column",
            "select={'id': '…'}",
            "where",
            "Cannot parse",
        )


class TestCluster:
    @pytest.fixture
    def lab(self, lab: Lab) -> Lab:
        lab.put_parquet("in/a.parquet", IDS)
        return lab

    def test_an_unknown_cluster(self, lab: Lab) -> None:
        table = lab.create("t", "id UInt32")
        lab.connect_clickhouse({"cluster": "nope"})
        refuse(lab, ClusterError, "in/*", table, "there is no cluster 'nope'", "it knows", "sandbox", "field cluster")

    def test_a_table_over_another_cluster(self, lab: Lab) -> None:
        table = lab.distribute(lab.create("t", "id UInt32"))
        lab.connect_clickhouse({"cluster": "other"})
        words = ("cluster 'other'", table, "cluster 'sandbox'", "set the connection's field cluster to 'sandbox'")
        refuse(lab, ConfigError, "in/*", table, *words)

    def test_a_server_that_does_not_answer(self, lab: Lab) -> None:
        table = lab.create("t", "id UInt32")
        lab.connect_clickhouse(port=1)
        words = ("no answer from ClickHouse at 127.0.0.1:1", "Connection refused", "connection 'ch'")
        refuse(lab, ServerUnreachableError, "in/*", table, *words)

    def test_a_wrong_password(self, lab: Lab) -> None:
        table = lab.create("t", "id UInt32")
        lab.connect_clickhouse(password="wr0ng")
        where = f"127.0.0.1:{lab.sandbox.http_ports[0]} rejects the login"
        words = (where, "AUTHENTICATION_FAILED", "correct login and password of the connection 'ch'")
        refuse(lab, ServerError, "in/*", table, *words)

    def test_a_node_that_is_down(self, fragile_lab: Lab) -> None:
        lab = fragile_lab
        lab.put_parquet("in/a.parquet", IDS)
        table = lab.create("t", "id UInt32")
        port = lab.sandbox.tcp_ports[1]
        with kept_down(lab.sandbox, 1), pytest.raises(ClusterError) as caught:
            lab.load("in/*", table)
        words = (f"127.0.0.1:{port} of cluster 'sandbox' does not answer", "start it", "field replicas to 'one'")
        assert re.search(".*".join(map(re.escape, words)), caught.value.sentence), caught.value.sentence
        wait_until(lambda: all_answer(lab.sandbox), "the node")
        assert lab.inserts() == []
        assert lab.rows(table) == []


class TestArguments:
    @pytest.fixture
    def lab(self, lab: Lab) -> Lab:
        lab.put_parquet("in/a.parquet", IDS)
        return lab

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            pytest.param(
                {"settings": {"max_insert_thread": 4}},
                ("the operator sets 'max_insert_thread'", "did you mean 'max_insert_threads'?"),
                id="unknown-setting",
            ),
            pytest.param(
                {"select": {"id": "id FROM numbers(3)) UNION ALL SELECT (1"}},
                ("id FROM numbers(3)) UNION ALL SELECT (1", "unmatched ')'"),
                id="select-that-ends-the-statement",
            ),
            pytest.param({"select": {"id": "(SELECT 1)"}}, ("'(SELECT 1)'", "SELECT", "one flat"), id="subquery"),
            pytest.param({"where": "id = 1; DROP TABLE t"}, ("id = 1; DROP TABLE t", "';'"), id="two-statements"),
            pytest.param({"where": "id = 1 -- rest"}, ("id = 1 -- rest", "comment"), id="comment"),
            pytest.param(
                {"select": {"nope": "1"}}, ("select names 'nope'", "no such column; it has id"), id="select-of-none"
            ),
            pytest.param({"columns": ["nope"]}, ("columns names 'nope'", "it has id"), id="columns-of-none"),
            pytest.param(
                {"data_format": Format(structure="id")}, ("structure holds 'id'", "name Type"), id="structure"
            ),
            pytest.param({"mode": "replace"}, ("mode='replace' is unknown", "'replace_table'"), id="mode"),
            pytest.param(
                {"mode": "replace_where"},
                ("mode='replace_where' lacks what it needs", "ReplaceWhere(condition=…)"),
                id="no-condition",
            ),
            pytest.param(
                {"mode": ReplaceWhere(" ")}, ("mode=ReplaceWhere(' ') has no condition",), id="empty-condition"
            ),
            pytest.param({"checks": Checks(min_rows="some")}, ("min_rows='some'", "whole number"), id="min-rows"),
            pytest.param({"poll_interval": 0}, ("poll_interval=0", "above 0"), id="poll-interval"),
        ],
    )
    def test_wrong_arguments(self, lab: Lab, arguments: dict[str, Any], words: tuple[str, ...]) -> None:
        refuse(lab, ConfigError, "in/*", lab.create("t", "id UInt32"), *words, **arguments)

    @pytest.mark.parametrize(
        ("arguments", "word"),
        [
            pytest.param({"select": {"id": "no_such_function(id)"}}, "no_such_function", id="function"),
            pytest.param({"select": {"id": "nope + 1"}}, "nope", id="column-in-select"),
            pytest.param({"where": "nope = 1"}, "nope", id="column-in-where"),
            pytest.param({"where": "id +"}, "Syntax error", id="syntax-in-where"),
            pytest.param({"settings": {"max_threads": "many"}}, "many", id="value-of-a-setting"),
        ],
    )
    def test_what_only_the_server_can_refuse(self, lab: Lab, arguments: dict[str, Any], word: str) -> None:
        table = lab.create("t", "id UInt32")
        with pytest.raises(ChS3Error) as caught:
            lab.load("in/*", table, **arguments)
        assert word in caught.value.sentence
        assert lab.rows(table) == []

    def test_an_unknown_setting_of_the_connection(self, lab: Lab) -> None:
        table = lab.create("t", "id UInt32")
        lab.connect_clickhouse({"session_settings": {"no_such_setting": 1}})
        refuse(lab, ChS3Error, "in/*", table, "no_such_setting")


def test_a_missing_grant_is_named_as_a_statement(lab: Lab) -> None:
    with pytest.raises(ServerError) as caught:
        lab.ddl(f"CREATE USER {lab.database}")
    remedy = f"; have an administrator run GRANT CREATE USER ON {lab.database} TO loader on every node"
    assert remedy in caught.value.sentence


@pytest.mark.parametrize(
    ("endpoint_count", "error", "words"),
    [
        pytest.param(
            2, ClusterError, ("http_endpoints is 127.0.0.1:", "the cluster 'sandbox' has 3 nodes"), id="two"
        ),
        pytest.param(0, ConfigError, ("the connection has no address of", "in http_endpoints"), id="none"),
    ],
)
def test_endpoints_that_do_not_reach_every_node(
    lab: Lab, endpoint_count: int, error: type[ChS3Error], words: tuple[str, ...]
) -> None:
    lab.put_parquet("in/a.parquet", IDS)
    table = lab.create("t", "id UInt32")
    endpoints = [f"127.0.0.1:{port}" for port in lab.sandbox.http_ports[:endpoint_count]]
    lab.connect_clickhouse({"ddl_mode": None, "http_endpoints": endpoints or None})
    refuse(lab, error, "in/*", table, *words)
    ledgers = f"SELECT name FROM system.tables WHERE database = '{lab.database}' AND startsWith(name, 'ch_s3_')"
    assert lab.everywhere(ledgers) == []


def test_a_database_with_a_dot_in_its_name_on_a_cluster(lab: Lab) -> None:
    database = f"{lab.database}.dotted"
    lab.put_parquet("in/a.parquet", IDS)
    lab.ddl(f"CREATE DATABASE `{database}` ENGINE = Atomic")
    try:
        lab.ddl(f"CREATE TABLE `{database}`.t (id UInt32) ENGINE = MergeTree ORDER BY ()")
        words = (f"`{database}`.t cannot be loaded on the cluster 'sandbox'", f"'{database}'; rename the database")
        refuse(lab, TargetError, "in/*", f"`{database}`.t", *words)
        assert [row["name"] for row in lab.everywhere(f"SHOW TABLES FROM `{database}`")] == ["t", "t", "t"]
        unquoted = (f"table '{database}.t' is not a table name", "in back-quotes, as in '`my.database`.table'")
        refuse(lab, ConfigError, "in/*", f"{database}.t", *unquoted)
    finally:
        lab.ddl(f"DROP DATABASE `{database}` SYNC")
