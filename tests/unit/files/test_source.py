"""Addresses, globs and columns of the files; and the address that reads exactly the listed ones."""

from __future__ import annotations

import dataclasses
import re

import pytest

from airflow_provider_ch_s3.errors import ConfigError, SourceError
from airflow_provider_ch_s3.files.access import S3Access
from airflow_provider_ch_s3.files.addresses import (
    AZURE,
    DELTA,
    GCS,
    HTTP,
    S3,
    SCHEMES,
    Scheme,
    Source,
    find_host,
    find_scheme,
    parse_source,
)
from airflow_provider_ch_s3.files.source import FileColumn, SourceFile, SourceSpec
from airflow_provider_ch_s3.table.file_schema import parse_structure
from airflow_provider_ch_s3.table.path_columns import path_column_names
from airflow_provider_ch_s3.table.target import TableColumn
from airflow_provider_ch_s3.table.text_columns import type_text_columns
from tests.failures import coded

ACCESS = S3Access(endpoint_url="http://s3:9000")


def file(key: str, size_bytes: int = 10) -> SourceFile:
    return SourceFile(key=key, etag="e", size_bytes=size_bytes)


def source_of(*globs: str) -> Source:
    return Source(bucket="b", globs=globs)


def spec(*keys: str, globs: tuple[str, ...] = ("**",), data_format: str = "Parquet") -> SourceSpec:
    return SourceSpec(
        origin=source_of(*globs),
        access=ACCESS,
        files=tuple(file(key) for key in keys),
        data_format=data_format,
        compression="auto",
        columns=(),
    )


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("s3://b/a/x.csv", source_of("a/x.csv"), id="one-key"),
        pytest.param("s3a://b/x", source_of("x"), id="s3a"),
        pytest.param(["s3://b/x/*", "s3://b/y/*"], source_of("x/*", "y/*"), id="list"),
        pytest.param("s3://b/a b/ü?.csv", source_of("a b/ü?.csv"), id="any-character-in-the-key"),
    ],
)
def test_parse_source(source: str | list[str], expected: Source) -> None:
    assert parse_source(source) == expected


AWS = "amazonaws.com"


@pytest.mark.parametrize(
    ("source", "scheme", "address", "host"),
    [
        (f"https://b-1.s3.eu-west-3.{AWS}/a/x.csv", S3, "s3://b-1/a/x.csv", f"s3.eu-west-3.{AWS}"),
        (f"https://b-1.s3.{AWS}/{{a,b}}_{{1..3}}", S3, "s3://b-1/{a,b}_{1..3}", f"s3.{AWS}"),
        (f"https://b-1.s3-us-west-2.{AWS}/x", S3, "s3://b-1/x", f"s3-us-west-2.{AWS}"),
        (f"https://s3.us-east-1.{AWS}/b-1/d-*.csv.gz", S3, "s3://b-1/d-*.csv.gz", f"s3.us-east-1.{AWS}"),
        (f"https://s3.{AWS}/b-1/a?.csv", S3, "s3://b-1/a?.csv", f"s3.{AWS}"),
        (f"https://s3-us-west-2.{AWS}/b-1/x", S3, "s3://b-1/x", f"s3-us-west-2.{AWS}"),
        (f"http://b-1.s3.dualstack.eu-west-1.{AWS}/x/**", S3, "s3://b-1/x/**", f"s3.dualstack.eu-west-1.{AWS}"),
        (f"https://s3.dualstack.eu-west-1.{AWS}/b.1/a%20b", S3, "s3://b.1/a b", f"s3.dualstack.eu-west-1.{AWS}"),
        (f"https://b.s3.cn-north-1.{AWS}.cn/x", S3, "s3://b/x", f"s3.cn-north-1.{AWS}.cn"),
        ("https://storage.googleapis.com/b_1/d-*.gz", GCS, "gs://b_1/d-*.gz", "storage.googleapis.com"),
        ("https://b-1.storage.googleapis.com/x", GCS, "gs://b-1/x", "storage.googleapis.com"),
    ],
)
def test_the_url_of_an_object_is_an_address_of_its_store(
    source: str, scheme: Scheme, address: str, host: str
) -> None:
    assert parse_source(source, scheme) == parse_source(address, scheme)
    assert find_scheme(source) is scheme
    assert find_host(["no://address", source], scheme) == host


@pytest.mark.parametrize(
    ("source", "scheme", "said"),
    [
        (f"https://b-1.s3.{AWS}/d-*", HTTP, "S3ToClickHouseOperator"),
        ("https://storage.googleapis.com/b/d-*", S3, "GCSToClickHouseOperator"),
        (f"https://b-1.s3.{AWS}/x?X-Amz-Signature=s3cret", S3, "'https://b-1.s3.amazonaws.com/x?…'"),
        (f"https://b-1.s3-website-us-east-1.{AWS}/x", S3, "HttpToClickHouseOperator"),
        ("http://minio:9000/b/x", S3, "'s3://bucket/folder/*.parquet'"),
        ("https://example.com/x", GCS, "HttpToClickHouseOperator"),
        ("abfss://c@a.dfs.core.windows.net/x", S3, "AzureBlobStorageToClickHouseOperator"),
        ("https://a.blob.core.windows.net/c/x", AZURE, "'az://"),
        ("gcs://b/x", S3, "GCSToClickHouseOperator"),
    ],
)
def test_what_is_no_address_of_the_store_is_sent_to_the_right_operator(
    source: str, scheme: Scheme, said: str
) -> None:
    with pytest.raises(ConfigError, match=coded("address-invalid", said)) as caught:
        parse_source(source, scheme)
    assert "s3cret" not in str(caught.value)


def test_a_named_file_of_a_bucket_may_be_loaded_over_http() -> None:
    source = f"https://b-1.s3.{AWS}/x.csv"
    assert str(parse_source(source, HTTP)) == source


@pytest.mark.parametrize(
    ("source", "said"),
    [
        pytest.param(None, "source is empty; give an address", id="none"),
        pytest.param(7, "source=7 is of type int; give an address such as 's3://", id="number"),
        pytest.param({"s3://b/x"}, "source={'s3://b/x'} is of type set; give an address", id="set"),
        pytest.param(
            "s3://b/" + "{1..9}" * 17, f"source 's3://b/{'{1..9}' * 17}' has more than 16 wildcards", id="wildcards"
        ),
        pytest.param(["s3://b/x", None], "source None is not an S3 address", id="none-in-a-list"),
        pytest.param([], "source is empty; give an address such as 's3://bucket/folder/*.parquet'", id="empty-list"),
        pytest.param("", "source '' is not an S3 address; write it as 's3://", id="empty-text"),
        pytest.param(
            "gs://b/x", "source 'gs://b/x' is an address of Google Cloud Storage; use GCS", id="other-store"
        ),
        pytest.param("s3://b", "source 's3://b' names no file; write 's3://b/**'", id="no-key"),
        pytest.param("s3://b/", "source 's3://b/' names no file; write 's3://b/**'", id="empty-key"),
        pytest.param("s3://b*/x", "source 's3://b*/x' is not an S3 address", id="glob-in-the-bucket"),
        pytest.param("s3:///x", "source 's3:///x' is not an S3 address", id="no-bucket"),
        pytest.param(
            "htp://b/x",
            "source 'htp://b/x' has the unknown scheme 'htp'; known are s3, gs, az, https: write it as 's3://",
            id="unknown-scheme",
        ),
        pytest.param(["s3://b/x", "s3://a/x"], "source names the buckets a, b; one load reads one", id="two-buckets"),
    ],
)
def test_a_wrong_source_says_what_to_write(source: str | list[str], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_source(source)
    assert caught.value.sentence.startswith(said)


@pytest.mark.parametrize(
    ("glob", "matching", "others"),
    [
        pytest.param("d/*.csv", ["d/a.csv"], ["d/e/a.csv", "d/a.csv.gz", "dXa.csv", "d/.csv"], id="star"),
        pytest.param("d/.*", ["d/.csv"], ["d/a.csv", "d/_a"], id="names-the-point"),
        pytest.param("d/_*.csv", ["d/_a.csv"], ["d/a.csv", "d/.a.csv"], id="names-the-underscore"),
        pytest.param("d/{_a,b}*", ["d/_a1", "d/b1"], ["d/_b1"], id="names-the-underscore-in-braces"),
        pytest.param("d/_a.csv", ["d/_a.csv"], [], id="names-a-file"),
        pytest.param("_in/**", ["_in/a", "_in/b/a"], ["_in/_tmp/a"], id="names-the-folder"),
        pytest.param("d/f?.csv", ["d/f1.csv", "d/fü.csv"], ["d/f.csv", "d/f10.csv", "d/f/.csv"], id="question-mark"),
        pytest.param("d/**.csv", ["d/a.csv", "d/e/f/a.csv"], ["e/a.csv", "d/a.tsv"], id="two-stars"),
        pytest.param("d/**/a.csv", ["d/a.csv", "d/e/a.csv", "d/e/f/a.csv"], ["d/xa.csv", "da.csv"], id="any-folders"),
        pytest.param("**/a", ["a", "x/a"], ["xa"], id="any-folders-first"),
        pytest.param("d{a,bc}.csv", ["da.csv", "dbc.csv"], ["dabc.csv", "d.csv", "d{a,bc}.csv"], id="choice"),
        pytest.param("d{a*,b?}", ["da", "daxx", "dbx"], ["db", "da/x"], id="wildcards-in-a-choice"),
        pytest.param("m{01..12}", ["m01", "m09", "m12"], ["m1", "m00", "m13", "m012"], id="zeros-in-front"),
        pytest.param("m{8..11}", ["m8", "m9", "m10", "m11"], ["m08", "m7", "m12", "m"], id="no-zeros"),
        pytest.param("m{0..10}", ["m0", "m9", "m10"], ["m00", "m09"], id="zero-alone-is-not-in-front"),
        pytest.param("m{09..010}", ["m009", "m010"], ["m09", "m10"], id="the-wider-end-counts"),
        pytest.param("m{7..5000000}", ["m7", "m4999999", "m5000000"], ["m6", "m07", "m5000001", "m"], id="millions"),
        pytest.param("{98..1203}", ["98", "999", "1000", "1203"], ["97", "1204", "098", "9800"], id="lengths"),
        pytest.param("{0998..1203}", ["0998", "0999", "1000", "1203"], ["998", "0997", "1204"], id="zeros-lengths"),
        pytest.param("{0..99999999999999999999}", ["0", "9" * 20], ["00", "1" + "0" * 20], id="astronomic"),
        pytest.param("m{3..1}", ["m1", "m2", "m3"], ["m", "m0", "m4"], id="downwards"),
        pytest.param("a.b+(c)[d]", ["a.b+(c)[d]"], ["aXb+(c)[d]", "a.bb(c)d"], id="no-regular-expression"),
        pytest.param("a{b", ["a{b"], ["ab"], id="brace-alone"),
    ],
)
def test_globs(glob: str, matching: list[str], others: list[str]) -> None:
    assert [key for key in (*matching, *others) if source_of(glob).matches(key)] == matching


# What the jobs and tools write that leave such objects in a folder.
NO_DATA = [
    "d/_SUCCESS",
    "d/_temporary/0/_temporary/attempt_1/part-0.csv",
    "d/dt=2024-01-01/_temporary/0/task_1/part-0.csv",
    "d/.spark-staging-3f2a/dt=2024-01-01/part-0.csv",
    "d/_impala_insert_staging/a/b.csv",
    "d/.hive-staging_hive_2024-01-01/-ext-10000/000000_0.csv",
    "d/_committed_8123",
    "d/_started_8123",
    "d/_metadata",
    "d/_common_metadata",
    "d/_delta_log/00000000000000000000.json",
    "d/.hoodie/hoodie.properties",
    "d/.part-0.csv.crc",
    "d/part-0.csv.crc",
    "d/part-0.csv._COPYING_",
    "d/dt=2024-01-01_$folder$",
    "d/dt=2024-01-01/",
]


@pytest.mark.parametrize("key", NO_DATA)
def test_a_wildcard_selects_data_files_only(key: str) -> None:
    source = source_of("d/**")
    assert (source.matches(key), source.leaves_out(key)) == (False, True)
    assert source_of(key).matches(key), "a source without wildcards means what it names"


@pytest.mark.parametrize("key", ["d/_year=2024/a.csv", "d/a=_x/b.csv", "d/k=__HIVE_DEFAULT_PARTITION__/a", "d/a_b.c"])
def test_values_of_folders_and_names_with_such_characters_are_data(key: str) -> None:
    source = source_of("d/**")
    assert (source.matches(key), source.leaves_out(key)) == (True, False)


def test_what_no_glob_matches_is_not_left_out() -> None:
    assert not source_of("d/*.csv").leaves_out("d/_SUCCESS")


def test_the_metadata_of_a_lake_tell_which_files_are_data() -> None:
    lake = dataclasses.replace(source_of("d/**"), scheme=DELTA)
    assert (lake.matches("d/_x/a.parquet"), lake.leaves_out("d/_x/a.parquet")) == (True, False)


def test_one_of_several_globs_is_enough() -> None:
    assert [key for key in ("x/a", "y/a", "z/a") if source_of("x/*", "y/*").matches(key)] == ["x/a", "y/a"]


@pytest.mark.parametrize(
    ("globs", "expected"),
    [
        pytest.param(("a/b.csv",), ("a/b.csv",), id="no-wildcard"),
        pytest.param(("a/b*.csv",), ("a/b",), id="star"),
        pytest.param(("a/{x,y}/*",), ("a/",), id="braces"),
        pytest.param(("a?",), ("a",), id="question-mark"),
        pytest.param(("**",), ("",), id="whole-bucket"),
        pytest.param(("b/*", "a/*", "b/*.csv"), ("a/", "b/"), id="each-once"),
        pytest.param(("a/*", "a/b/*", "ab/*"), ("a/", "ab/"), id="not-inside-another"),
        pytest.param(("a/x", "*"), ("",), id="whole-bucket-covers-all"),
    ],
)
def test_prefixes(globs: tuple[str, ...], expected: tuple[str, ...]) -> None:
    assert source_of(*globs).prefixes == expected


@pytest.mark.parametrize(
    ("globs", "expected"),
    [
        pytest.param(("a/b/*.csv", "a/dt=*/x"), {"a/b/", "a/"}, id="above-the-first-wildcard"),
        pytest.param(("a/b/c.csv",), {"a/b/"}, id="of-a-file"),
        pytest.param(("a/part-*", "a/{b,c}/*"), {"a/"}, id="each-once"),
        pytest.param(("*.csv", "x"), {""}, id="of-the-bucket"),
    ],
)
def test_folders(globs: tuple[str, ...], expected: set[str]) -> None:
    assert source_of(*globs).folders == expected


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        pytest.param(["a.csv"], "a.csv", id="one"),
        pytest.param(
            ["dt=1/a.csv", "dt=2/a.csv", "dt=30/a.csv"], "dt={1,2,30}/a.csv", id="common-start-and-end-are-shared"
        ),
        pytest.param(["a.csv", "x.tsv"], "{a.c,x.t}sv", id="nothing-common-at-the-start"),
        pytest.param(["f1.csv", "f10.csv"], "f{1,10}.csv", id="no-empty-choice"),
        pytest.param(["a", "aa"], "{a,aa}", id="no-empty-choice-where-one-starts-the-other"),
        pytest.param(["a.csv", "ba.csv"], "{a,ba}.csv", id="no-empty-choice-where-one-ends-the-other"),
        pytest.param(["a-_./=@:&;()'~!Z9"], "a-_./=@:&;()'~!Z9", id="characters-that-are-taken-literally"),
    ],
)
def test_the_address_names_exactly_the_listed_keys(keys: list[str], expected: str) -> None:
    source = spec(*keys)
    assert source.address == f"http://s3:9000/b/{expected}"
    assert source.path_filter == ()


@pytest.mark.parametrize(
    ("glob", "names", "expected"),
    [
        pytest.param("in/*", "in/f{}.csv", "in/f{%s}.csv", id="no-digit"),
        pytest.param("in/*", "in/f{}.mp3", "in/f{%s}.mp{3..3}", id="digit-behind"),
        pytest.param("in/*", "in/d=2024/f{}.csv", "in/d=202{4..4}/f{%s}.csv", id="digit-before"),
        pytest.param("d=2024/*", "d=2024/f{}.csv", "d=2024/f{%s}.csv", id="the-list-would-be-longer"),
        pytest.param("in/*", "in/0 {}.csv", "in/0?{%s}.csv", id="other-wildcards"),
    ],
)
def test_many_keys_are_listed_together(glob: str, names: str, expected: str) -> None:
    """ClickHouse asks for each key that braces name, and lists once if there is a range of numbers, too."""
    letters = "abcdefghijklmnopqrst"
    source = spec(*(names.format(one) for one in letters), globs=(glob,))
    named = f"http://s3:9000/b/{expected % ','.join(letters)}"
    assert dataclasses.replace(source, may_list=True).address == named
    assert source.address == re.sub(r"\{(.)\.\.\1\}", r"\1", named)
    few = dataclasses.replace(source, may_list=True, files=source.files[:19])
    assert ".." not in few.address


def test_very_many_exact_keys_are_listed_with_their_folder() -> None:
    names = [f"in/f{n:04}.csv" for n in range(1_000)]
    many = dataclasses.replace(spec(*names, globs=tuple(names)), may_list=True)
    assert many.address.startswith("http://s3:9000/b/in/f{0..0}{000,001,")
    few = dataclasses.replace(many, files=many.files[:-1])
    assert few.address.startswith("http://s3:9000/b/in/f0{000,001,")


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        pytest.param("a b.csv", "a?b.csv", id="space"),
        pytest.param("a*b.csv", "a?b.csv", id="star"),
        pytest.param("a?b.csv", "a?b.csv", id="question-mark"),
        pytest.param("a{x}b", "a?x?b", id="braces"),
        pytest.param("a,b", "a?b", id="comma"),
        pytest.param("a%20b", "a?20b", id="percent"),
        pytest.param("a#b", "a?b", id="hash"),
        pytest.param("a$b", "a?b", id="dollar"),
        pytest.param("ä日", "??", id="not-ascii"),
        pytest.param("a..b", "a??b", id="two-dots"),
    ],
)
def test_an_unsafe_character_becomes_a_wildcard_and_the_path_is_compared(key: str, expected: str) -> None:
    source = spec(key)
    assert source.address == f"http://s3:9000/b/{expected}"
    assert source.path_filter == (f"b/{key}",)


def test_one_unsafe_key_makes_all_paths_compared() -> None:
    # No star: ClickHouse 26.7 finds nothing for {f,g*}1.csv
    source = spec("f1.csv", "g 1.csv")
    assert source.address == "http://s3:9000/b/{f,g?}1.csv"
    assert source.path_filter == ("b/f1.csv", "b/g 1.csv")


@pytest.mark.parametrize(
    ("keys", "is_listed"),
    [
        pytest.param([f"{n:05d}.csv" for n in range(10_000)], True, id="10,000-files"),
        pytest.param([f"{n:05d}.csv" for n in range(10_001)], False, id="10,001-files"),
        pytest.param([f"{n:04d}{'x' * 94}{n:04d}" for n in range(950)], True, id="97,000-bytes"),
        pytest.param([f"{n:04d}{'x' * 94}{n:04d}" for n in range(999)], False, id="102,000-bytes"),
        pytest.param(
            [f"{n:03d}{'日' * 100}" for n in range(500)], False, id="bytes-of-the-filter-and-not-characters"
        ),
    ],
)
def test_a_list_that_is_too_long_becomes_the_users_pattern(keys: list[str], is_listed: bool) -> None:
    source = spec(*keys, globs=("d/*.csv",))
    assert (source.address != "http://s3:9000/b/d/*.csv") is is_listed
    assert source.path_filter == ()


def test_several_patterns_are_joined_where_clickhouse_can_read_that() -> None:
    keys = [str(n) for n in range(10_001)]
    assert spec(*keys, globs=("x/*.csv", "y/*.csv")).address == "http://s3:9000/b/{x,y}/*.csv"


@pytest.mark.parametrize(
    "globs",
    [
        pytest.param(("x/*.csv", "y/*.tsv"), id="star-in-braces"),
        pytest.param(("x/{1,2}.csv", "y/{3,4}.csv"), id="braces-in-braces"),
        pytest.param(("{a*,b}.csv",), id="the-users-own-braces"),
    ],
)
def test_a_long_list_and_a_glob_that_clickhouse_cannot_read(globs: tuple[str, ...]) -> None:
    source = spec(*(str(n) for n in range(10_001)), globs=globs)
    with pytest.raises(SourceError, match=coded("files-too-many", "10001 files", "one task for each glob")):
        _ = source.address


def test_an_address_takes_an_endpoint_with_a_slash() -> None:
    assert S3Access(endpoint_url="https://s3.eu-west-1.amazonaws.com/").address("b", "d/k") == (
        "https://s3.eu-west-1.amazonaws.com/b/d/k"
    )


@pytest.mark.parametrize(
    ("access", "expected"),
    [
        pytest.param(S3Access(endpoint_url="e"), {}, id="own-role"),
        pytest.param(S3Access(endpoint_url="e", anonymous=True), {}, id="anonymous"),
        pytest.param(
            S3Access(endpoint_url="e", access_key="A", secret_key="S", parameter_prefix="p_"),
            {"p_access_key": "A", "p_secret_key": "S"},
            id="keys",
        ),
        pytest.param(
            S3Access(endpoint_url="e", access_key="A", secret_key="S", session_token="T", parameter_prefix="p_"),
            {"p_access_key": "A", "p_secret_key": "S", "p_session_token": "T"},
            id="temporary-keys",
        ),
    ],
)
def test_secrets_are_parameters(access: S3Access, expected: dict[str, str]) -> None:
    assert access.parameters == expected


def test_nobody_knows_the_names_of_the_parameters_before() -> None:
    one, other = (S3Access(endpoint_url="e", access_key="A", secret_key="S") for _ in range(2))
    assert one == other
    assert one.parameters.keys().isdisjoint(other.parameters)
    assert all(re.fullmatch(r"ch_s3_[0-9a-f]{16}_(access|secret)_key", name) for name in one.parameters)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        pytest.param("a.csv", set(), id="no-folder"),
        pytest.param("dt=2013-01-01/hour=3/a.csv", {"dt", "hour"}, id="two"),
        pytest.param("d/x=1=2/a.csv", {"x"}, id="value-with-equals"),
        pytest.param("d/=1/a.csv", set(), id="no-name"),
        pytest.param("d/n=1.csv", set(), id="file-name-is-no-folder"),
    ],
)
def test_path_columns(key: str, expected: set[str]) -> None:
    assert path_column_names([file(key)], S3) == expected


def test_parse_structure() -> None:
    structure = "a UInt8, `b c` Nullable(String), d Tuple(x UInt8, y Enum8('p,q' = 1)), `e\\`f` Array(Int8)"
    assert parse_structure(structure, frozenset({"hour", "dt"})) == (
        FileColumn(name="a", type="UInt8"),
        FileColumn(name="b c", type="Nullable(String)"),
        FileColumn(name="d", type="Tuple(x UInt8, y Enum8('p,q' = 1))"),
        FileColumn(name="e`f", type="Array(Int8)"),
        FileColumn(name="dt", in_path=True),
        FileColumn(name="hour", in_path=True),
    )


@pytest.mark.parametrize(
    ("structure", "said"),
    [
        pytest.param("a", "structure holds 'a'; write 'name Type, name Type, …'", id="no-type"),
        pytest.param("a UInt8,", "structure holds ''; write", id="empty-part"),
        pytest.param("a-b UInt8", "structure holds 'a-b UInt8'; write", id="name-with-a-dash"),
        pytest.param("a Array(UInt8", "lacks a closing ')'", id="open-bracket"),
        pytest.param("a String DEFAULT 'x'", "is more than a name and a type", id="default"),
        pytest.param(
            "a UInt8 DEFAULT toUInt8(file('/etc/hostname'))", "is more than a name and a type", id="default-from-file"
        ),
        pytest.param("a DEFAULT file('/etc/hostname')", "is more than a name and a type", id="default-without-type"),
        pytest.param("a UInt8 MATERIALIZED toUInt8(b)", "is more than a name and a type", id="materialized"),
        pytest.param("a Nullable(UInt8) ALIAS (1)", "is more than a name and a type", id="alias"),
        pytest.param("a LowCardinality(String) CODEC(ZSTD)", "is more than a name and a type", id="codec"),
        pytest.param("a UInt8; DROP TABLE t", "contains a ';'", id="second-statement"),
    ],
)
def test_a_wrong_structure(structure: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_structure(structure, frozenset())
    assert said in caught.value.sentence


def test_structure_leaves_path_columns_out_and_quotes_names() -> None:
    columns = (
        FileColumn(name="a`b", type="UInt8"),
        FileColumn(name="c\\d", type="String"),
        FileColumn(name="dt", in_path=True),
    )
    source = dataclasses.replace(spec("x"), columns=columns)
    assert source.structure == "`a\\`b` UInt8, `c\\\\d` String"


def text_columns(*names: str) -> list[FileColumn]:
    return [FileColumn(name=name, type="Nullable(String)") for name in names]


TABLE = [
    TableColumn(name="id", type="UInt64"),
    TableColumn(name="at", type="DateTime", default_kind="DEFAULT"),
    TableColumn(name="size", type="Nullable(UInt16)"),
    TableColumn(name="year", type="UInt16", default_kind="MATERIALIZED"),
]


def names_and_types(source: SourceSpec) -> list[tuple[str, str]]:
    return [(column.name, column.type) for column in source.columns]


def test_text_with_names_gets_the_types_of_the_table() -> None:
    typed = type_text_columns(spec("a.csv", data_format="CSV"), text_columns("at", "id", "note", "size"), TABLE)
    assert typed.data_format == "CSVWithNames"
    assert names_and_types(typed) == [
        ("at", "Nullable(DateTime)"),
        ("id", "Nullable(UInt64)"),
        ("note", "Nullable(String)"),
        ("size", "Nullable(Int64)"),
    ]


@pytest.mark.parametrize(
    ("in_table", "expected"),
    [
        pytest.param("UInt8", "Nullable(Int64)", id="UInt8"),
        pytest.param("Int32", "Nullable(Int64)", id="Int32"),
        pytest.param("Nullable(Int16)", "Nullable(Int64)", id="nullable"),
        pytest.param("LowCardinality(Nullable(UInt8))", "Nullable(Int64)", id="low-cardinality"),
        pytest.param("UInt64", "Nullable(UInt64)", id="UInt64"),
        pytest.param("Int256", "Nullable(Int256)", id="nothing-is-wider"),
        pytest.param("Float64", "Nullable(Float64)", id="no-integer"),
        pytest.param("Date", "Nullable(Date)", id="date"),
        pytest.param("DateTime('UTC')", "Nullable(DateTime('UTC'))", id="time-with-zone"),
        pytest.param("DateTime64(3)", "Nullable(DateTime64(3))", id="wide-time"),
        pytest.param("Enum8('a' = 1)", "Nullable(Enum8('a' = 1))", id="enum"),
        pytest.param("LowCardinality(String)", "LowCardinality(String)", id="an-empty-text-stays"),
        pytest.param("Nullable(String)", "Nullable(String)", id="nullable-text"),
        pytest.param("Float32", "Nullable(Float32)", id="float"),
        pytest.param("SimpleAggregateFunction(sum, UInt64)", "Nullable(UInt64)", id="simple-aggregate"),
        pytest.param("Array(Nullable(UInt8))", "Array(Nullable(Int64))", id="inside-of-an-array"),
        pytest.param("Tuple(a UInt8, b String)", "Tuple(a Int64, b String)", id="inside-of-a-tuple"),
        pytest.param("Map(String, Array(Int32))", "Map(String, Array(Int64))", id="inside-of-a-map"),
        pytest.param("Array(Float32)", "Array(Float32)", id="a-float-inside-stays"),
    ],
)
def test_text_has_the_types_of_the_table_but_for_small_integers(in_table: str, expected: str) -> None:
    source = spec("a.csv", data_format="CSV")
    typed = type_text_columns(source, text_columns("n"), [TableColumn(name="n", type=in_table)])
    assert names_and_types(typed) == [("n", expected)]


def test_text_without_names_goes_by_position() -> None:
    described = [*text_columns("c1", "c2"), FileColumn(name="id", in_path=True)]
    typed = type_text_columns(spec("id=1/a.tsv", data_format="TSV"), described, TABLE)
    assert typed.data_format == "TSV"
    assert names_and_types(typed) == [
        ("at", "Nullable(DateTime)"),
        ("size", "Nullable(Int64)"),
        ("id", ""),
    ]


def test_text_without_names_and_another_number_of_columns_is_refused() -> None:
    with pytest.raises(SourceError) as caught:
        type_text_columns(spec("a.csv", data_format="CSV"), text_columns("c1", "c2"), TABLE)
    assert caught.value.sentence == (
        "the CSV files have 2 columns without names, and the table has 3; give"
        " data_format=Format(structure='name Type, …') with the columns of the files"
    )


def test_json_keeps_its_format_and_skipped_columns_their_guessed_type() -> None:
    source = spec("a.json", data_format="JSONEachRow")
    typed = type_text_columns(source, text_columns("id", "at"), TABLE, skip=frozenset({"at"}))
    assert typed.data_format == "JSONEachRow"
    assert names_and_types(typed) == [("id", "Nullable(UInt64)"), ("at", "Nullable(String)")]


def test_json_columns_named_like_positions_are_names() -> None:
    source = spec("a.json", data_format="JSONEachRow")
    typed = type_text_columns(source, text_columns("c1"), [TableColumn(name="c1", type="Date")])
    assert names_and_types(typed) == [("c1", "Nullable(Date)")]


@pytest.mark.parametrize(
    ("data_format", "expected"),
    [
        pytest.param("JSONEachRow", "Nullable(String)", id="json-tells-null-from-empty"),
        pytest.param("JSONAsString", "String", id="the-whole-row-as-a-text"),
        pytest.param("LineAsString", "String", id="the-whole-line-as-a-text"),
    ],
)
def test_a_text_is_nullable_where_the_format_tells_a_null(data_format: str, expected: str) -> None:
    source = spec("a", data_format=data_format)
    typed = type_text_columns(source, text_columns("s"), [TableColumn(name="s", type="String")])
    assert names_and_types(typed) == [("s", expected)]


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.store)
@pytest.mark.parametrize(
    "address",
    [
        "http:/u:PW@h/x",
        "http:///u:PW@h/x",
        "https:u:PW@h/x",
        "https ://u:PW@h/x",
        " https://u:PW@h/x",
        "http:\\\\u:PW@h/x",
        "HTTP://u:PW@h/x",
        "jdbc:http://u:PW@h/x",
        "//u:PW@h/x",
        "u:PW@h/x",
        "ftp://u:PW@h/x",
        "https://u:P/PW@h/x",
        "https://u:P?PW@h/x",
        "https://u:P#PW@h/x",
        "https://u:P@PW@h/x",
        "https://u%3APW%40h/x",
        "https://u:PW@[::1]:80/x",
        "https://u:PW@h/{1..3}/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*",
        "https://u:\nPW@h/x",
        "s3:/u:PW@b/x",
        "s3:u:PW@b/x",
        "s3://u:PW@b/x",
        "s3a://u:PW@b/x/*",
        "gs://u:PW@b/x",
        "az://u:PW@b/x",
        "http:/h/x?sig=PW",
        "https:h/x#PW",
    ],
)
def test_a_malformed_address_shows_no_login(scheme: Scheme, address: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_source(address.replace("PW", "hunter2"), scheme)
    assert "hunter2" not in raised.value.sentence


@pytest.mark.parametrize(
    ("data_format", "columns", "expected"),
    [
        pytest.param("JSONEachRow", ["Nullable(Int64)", "Array(Nullable(String))"], True, id="list"),
        pytest.param("JSONEachRow", ["Map(String, Nullable(Int64))", "Dynamic"], True, id="map"),
        pytest.param("Avro", ["Tuple(a Nullable(Int64), keys Array(Tuple(b Nullable(Date))))"], True, id="object"),
        pytest.param("JSONEachRow", ["Nullable(Int64)"], False, id="nothing-nested"),
        pytest.param("JSONEachRow", ["String", "Array(Nullable(String))"], False, id="a-text-that-cannot-be-null"),
        pytest.param("JSONEachRow", ["Point", "Array(Nullable(String))"], False, id="a-point-that-cannot-be-null"),
        pytest.param("JSONEachRow", ["Array(Tuple(keys String))"], False, id="inside"),
        pytest.param("Parquet", ["Array(Nullable(String))"], False, id="another-format"),
    ],
)
def test_null_may_stand_for_lists_where_all_values_tell_it(
    data_format: str, columns: list[str], expected: bool
) -> None:
    source = dataclasses.replace(
        spec("a", data_format=data_format),
        columns=tuple(FileColumn(name=f"c{place}", type=kind) for place, kind in enumerate(columns)),
    )
    assert source.has_null_lists is expected
