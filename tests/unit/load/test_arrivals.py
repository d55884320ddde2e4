"""Which of the listed files are ready: those that match, are old enough, and have their markers."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ch_s3.arguments import Arrivals, OnNothing
from airflow_provider_ch_s3.common.arguments import parse_file_names, parse_seconds
from airflow_provider_ch_s3.common.work import batches
from airflow_provider_ch_s3.errors import ConfigError, SourceError
from airflow_provider_ch_s3.files.access import S3Access
from airflow_provider_ch_s3.files.addresses import Source, parse_source
from airflow_provider_ch_s3.files.source import SourceFile
from airflow_provider_ch_s3.load.arrivals import ReadyFiles, list_files
from airflow_provider_ch_s3.modes import Append, Mode, OnLoadedFiles
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.stores.s3 import S3FileStore
from tests.load_requests import MODES, REPLACING, load_request

OLD = 3600.0
MIXED: dict[str, Any] = {"d/a": 1, "d/b": (1, 59.0), "d/c": (1, 12.0), "d/d": (1, 60.0), "d/x/e": (1, 1.0)}


class Store:
    """Objects: key → size, or size and age in seconds."""

    def __init__(self, **objects: int | tuple[int, float]) -> None:
        self.objects = {key: given if isinstance(given, tuple) else (given, OLD) for key, given in objects.items()}
        self.listed: list[str] = []

    def list_ages(self, source: Source, *, after: str = "") -> Iterator[tuple[SourceFile, float]]:
        self.listed += source.prefixes
        for key, (size_bytes, age) in self.objects.items():
            if key.startswith(source.prefixes) and key > after:
                yield SourceFile(key=key, etag="e", size_bytes=size_bytes), age

    def list_files(self, source: Source, *, after: str = "") -> list[SourceFile]:
        return [file for file, _ in self.list_ages(source, after=after)]

    def read_tail(self, bucket: str, key: str, size_bytes: int) -> bytes:
        raise AssertionError("no content is needed")

    def access(self) -> S3Access:
        raise AssertionError("no server is asked")


def request(*globs: str, **arguments: Any) -> LoadRequest:
    return load_request(parse_source([f"s3://b/{glob}" for glob in globs]), **arguments)


def keys(files: tuple[SourceFile, ...]) -> list[str]:
    return [file.key for file in files]


def ready_and_young(store: Store, asked: LoadRequest) -> tuple[list[str], int]:
    """The keys of the files that are ready, and how many are too young."""
    arrivals = ReadyFiles(store=store, request=asked)
    ready = sorted(file.key for file in arrivals)
    arrivals.check()
    return ready, arrivals.young_count


def refusal(store: Store, asked: LoadRequest, **how: Any) -> str:
    with pytest.raises(SourceError) as caught:
        list_files(store, asked, **how)
    return caught.value.sentence


class TestMatches:
    def test_sorted_without_empty_and_other_objects(self) -> None:
        store = Store(**{"d/b.csv": 1, "d/_SUCCESS": 0, "d/a.csv": 1, "d/": 0, "d/e/c.csv": 1})
        assert keys(list_files(store, request("d/*"))) == ["d/a.csv", "d/b.csv"]

    def test_sorted_by_keys(self) -> None:
        ordered = ["a", "a b", "a!", "a.csv", "a/b", "a0", "aa", "b", "é", "日", "😀"]
        assert keys(list_files(Store(**dict.fromkeys(reversed(ordered), 9)), request("**"))) == ordered

    @pytest.mark.parametrize(
        "key", [pytest.param("d//a.csv", id="inside"), pytest.param("/a.csv", id="at-the-start")]
    )
    def test_a_key_with_an_empty_folder_name_is_refused(self, key: str) -> None:
        said = refusal(Store(**{key: 1}), request("**"))
        assert said == (
            f"ClickHouse cannot read the key '{key}' of bucket 'b': it contains an empty folder name; copy the file"
            " to a key without '//'"
        )

    def test_too_few(self) -> None:
        assert refusal(Store(**{"d/a": 1, "d/b": 1}), request("d/*", arrivals=Arrivals(min_files=3))) == (
            "s3://b/d/* matches 2 files, but min_files=3; wait for the others to be delivered, or lower min_files"
        )


class TestNoDataFiles:
    def test_they_are_left_out_and_told_in_one_line(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO)
        store = Store(**{"d/": 0, "d/_SUCCESS": 0, "d/_temporary/0/part-0.csv": 7, "d/a.csv": 7, "d/b.txt": 7})
        assert keys(list_files(store, request("d/**"))) == ["d/a.csv", "d/b.txt"]
        assert [record.getMessage() for record in caplog.records] == [
            "leaving out 2 objects ('d/_SUCCESS' and 1 more), because wildcards select no names that begin with _"
            " or ., which jobs give to unfinished files, nor checksums (.crc) and folders; to load such files, name"
            " the _ or . in the source"
        ]

    def test_nothing_else_is_there(self) -> None:
        assert refusal(Store(**{"d/_a.csv": 7}), request("d/*.csv")).startswith(
            "no data file matches s3://b/d/*.csv, but 1 object ('d/_a.csv'): wildcards select no names that begin"
        )


class TestNoFiles:
    REMEDY = (
        "check the address, the date in it, and that the files were delivered; arrivals=Arrivals(on_none='skip')"
        " accepts"
        " an empty source"
    )

    def test_an_error_names_the_pattern(self) -> None:
        said = refusal(Store(), request("d/*.csv", "e/*.csv"))
        assert said == f"no file matches s3://b/d/*.csv, s3://b/e/*.csv; {self.REMEDY}"

    def test_an_error_names_what_is_no_wildcard(self) -> None:
        said = refusal(Store(), request("d[1-3]/*.csv"))
        assert said == (
            "no file matches s3://b/d[1-3]/*.csv ([1-3] is a part of the name: wildcards are *, ?, **, {a,b} and"
            f" {{1..9}}); {self.REMEDY}"
        )

    def test_an_error_names_half_a_template(self) -> None:
        said = refusal(Store(), request("dt={ds}/*.csv"))
        assert "dt={ds}/*.csv ({ds} is one choice; a template has two braces, as in {{ ds }}); check" in said

    def test_files_without_content_are_named(self) -> None:
        """The rows of their earlier versions stay until somebody says that an empty file may replace them."""
        said = refusal(Store(**{"d/a.csv": 0, "d/b.csv": 0}), request("d/*.csv"))
        assert said.startswith("no file of s3://b/d/*.csv has content: 'd/a.csv' and 1 more of 0 bytes; check how")

    @pytest.mark.parametrize(
        ("glob", "listed", "begin", "remedy"),
        [
            pytest.param(
                "d/",
                ("d/a.csv", "d/b.csv"),
                "2 objects begin like it, such as 'd/a.csv'",
                "to load a folder write 's3://b/d/*'",
                id="folder",
            ),
            pytest.param(
                "d",
                ("d-old/x.csv", "d.csv", "d/a.csv"),
                "1 object begins like it, such as 'd/a.csv'",
                "to load a folder write 's3://b/d/*'",
                id="folder-without-slash",
            ),
            pytest.param(
                "d",
                ("d/e/a.csv",),
                "1 object begins like it, such as 'd/e/a.csv'",
                "to load a folder write 's3://b/d/**'",
                id="deeper-folder",
            ),
            pytest.param(
                "d/*.csv",
                ("d/a.parquet",),
                "1 object begins like it, such as 'd/a.parquet'",
                REMEDY,
                id="other-ending",
            ),
        ],
    )
    def test_an_error_names_what_is_there(self, glob: str, listed: tuple[str, ...], begin: str, remedy: str) -> None:
        said = refusal(Store(**{"d/_SUCCESS": 0, **dict.fromkeys(listed, 1)}), request(glob))
        assert said == f"no file matches s3://b/{glob}, but {begin}; {remedy}"

    @pytest.mark.parametrize("choice", [OnNothing.SKIP, OnNothing.SUCCEED])
    @pytest.mark.parametrize("mode", MODES)
    def test_allowed(self, choice: OnNothing, mode: Mode, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO)
        asked = request("d/*.csv", mode=mode, arrivals=Arrivals(min_files=5, on_none=choice))
        assert ready_and_young(Store(**{"d/a.parquet": 1}), asked) == ([], 0)
        assert "no file matches s3://b/d/*.csv, but 1 object begins like it" in caplog.text

    def test_min_files_alone_allows_nothing(self) -> None:
        assert refusal(Store(), request("d/*", arrivals=Arrivals(min_files=0))).startswith("no file matches")

    def test_an_empty_snapshot(self) -> None:
        asked = request("t/**", snapshot="7")
        assert refusal(Store(), asked) == (
            "snapshot '7' of s3://b/t/** has no rows, so there is nothing to load; load again once it has some; if"
            " all of its rows were deleted, TRUNCATE the ClickHouse table as well, and load with"
            " mode='replace_table' then, after which 'append' goes on from there;"
            " arrivals=Arrivals(on_none='skip') accepts an empty source"
        )


class TestYoungFiles:
    def test_they_are_left_to_the_next_load(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO)
        asked = request("d/*", arrivals=Arrivals(min_age=60))
        assert ready_and_young(Store(**MIXED), asked) == (["d/a", "d/d"], 2)
        assert "leaving out 'd/b' and 1 more, younger than min_age (1 min 00 s)" in caplog.text

    def test_without_the_argument_the_store_is_not_asked_for_ages(self, monkeypatch: pytest.MonkeyPatch) -> None:
        store = Store(**MIXED)
        files = store.list_files(request("d/*").source)
        monkeypatch.setattr(store, "list_files", lambda *_, after: files)
        monkeypatch.setattr(store, "list_ages", None)
        assert ready_and_young(store, request("d/*"))[1] == 0

    @pytest.mark.parametrize(
        ("how", "is_recorded", "why"),
        [
            *(
                pytest.param(
                    {"mode": mode},
                    True,
                    f"mode='{mode.name}' would replace rows by those of the other files alone",
                    id=mode.name,
                )
                for mode in REPLACING
            ),
            pytest.param({}, False, "with mode='direct' no later load knows that they are missing", id="direct"),
            pytest.param(
                {"mode": Append(on_loaded=OnLoadedFiles.LOAD)},
                True,
                "with Append(on_loaded='load') a later load would load the others again",
                id="load-again",
            ),
        ],
    )
    @pytest.mark.parametrize("on_no_files", OnNothing)
    def test_where_no_later_load_adds_them_the_load_fails(
        self, how: dict[str, Any], is_recorded: bool, why: str, on_no_files: OnNothing
    ) -> None:
        asked = request("d/*", arrivals=Arrivals(min_age=60, on_none=on_no_files), **how)
        expected = (
            "'d/b' and 1 more of s3://b/d/*, younger than min_age (1 min 00 s), cannot be left out: "
            f"{why}; load again in 48.0 s, e.g. by a retry of the task, or lower min_age"
        )
        assert refusal(Store(**MIXED), asked, is_recorded=is_recorded) == expected
        young_alone = Store(**{"d/b": (1, 12.0)})
        assert "'d/b' of s3://b/d/*" in refusal(young_alone, asked, is_recorded=is_recorded)

    def test_all_are_too_young(self) -> None:
        store = Store(**{"d/b": (1, 5.0)})
        asked = request("d/*", arrivals=Arrivals(min_age=60))
        assert refusal(store, asked) == (
            "no file of s3://b/d/* is old enough: 'd/b' changed less than min_age (1 min 00 s) ago; load again"
            " later, e.g. by a retry of the task"
        )
        allowed = request("d/*", arrivals=Arrivals(min_age=60, on_none=OnNothing.SUCCEED))
        assert ready_and_young(store, allowed) == ([], 1)

    def test_they_do_not_count_for_min_files(self) -> None:
        asked = request("d/*", arrivals=Arrivals(min_age=60, min_files=3))
        assert refusal(Store(**MIXED), asked) == (
            "s3://b/d/* matches 2 files that are old enough (2 are not), but min_files=3; wait for the others to be"
            " delivered, or lower min_files"
        )


class TestMarkers:
    @pytest.mark.parametrize(
        ("globs", "objects"),
        [
            pytest.param(["out/*.csv"], ["out/a.csv", "out/_SUCCESS"], id="beside-the-files"),
            pytest.param(
                ["out/dt=*/*.csv"],
                ["out/dt=1/a.csv", "out/dt=1/_SUCCESS", "out/dt=2/a.csv", "out/dt=2/_SUCCESS"],
                id="in-each-folder",
            ),
            pytest.param(["out/dt=*/*.csv"], ["out/dt=1/a.csv", "out/dt=2/a.csv", "out/_SUCCESS"], id="above-all"),
            pytest.param(
                ["out/**/*.csv"],
                ["out/y=1/m=1/a.csv", "out/y=1/m=2/a.csv", "out/y=1/_SUCCESS", "out/y=2/a.csv", "out/y=2/_SUCCESS"],
                id="between",
            ),
            pytest.param(["out/a.csv"], ["out/a.csv", "out/_SUCCESS"], id="one-file"),
            pytest.param(["*.csv"], ["a.csv", "_SUCCESS"], id="in-the-bucket-itself"),
            pytest.param(
                ["in/*.csv", "out/*.csv"],
                ["in/a.csv", "in/_SUCCESS", "out/_SUCCESS"],
                id="of-an-address-without-files",
            ),
            pytest.param(
                ["out/**", "out/x/*.csv"],
                ["out/x/a.csv", "out/_SUCCESS"],
                id="above-one-address-and-within-the-other",
            ),
        ],
    )
    def test_complete(self, globs: list[str], objects: list[str]) -> None:
        found = list_files(
            Store(**dict.fromkeys(objects, 1)), request(*globs, arrivals=Arrivals(expected=("_SUCCESS",)))
        )
        assert keys(found) == [key for key in objects if key.endswith(".csv")]

    @pytest.mark.parametrize(
        ("globs", "objects", "where"),
        [
            pytest.param(["out/*.csv"], ["out/a.csv"], "s3://b/out/", id="beside-the-files"),
            pytest.param(["out/*.csv"], ["out/a.csv", "_SUCCESS"], "s3://b/out/", id="above-the-source"),
            pytest.param(["out/*.csv"], ["out/a.csv", "out/x_SUCCESS"], "s3://b/out/", id="another-name"),
            pytest.param(["out/a.csv"], ["out/a.csv", "out/_SUCCESS.crc"], "s3://b/out/", id="another-ending"),
            pytest.param(
                ["out/dt=*/*.csv"],
                ["out/dt=1/a.csv", "out/dt=1/_SUCCESS", "out/dt=2/a.csv"],
                "s3://b/out/dt=2/, nor above, up to s3://b/out/",
                id="in-one-folder",
            ),
            pytest.param(
                ["out/dt=*/*.csv"],
                [f"out/dt={n}/a.csv" for n in range(3)],
                "s3://b/out/dt=0/ and 2 more of 3 folders, nor above, up to s3://b/out/",
                id="in-all-folders",
            ),
            pytest.param(["in/*.csv", "out/*.csv"], ["in/a.csv", "in/_SUCCESS"], "s3://b/out/", id="without-files"),
            pytest.param(["out/dt=1/*.csv"], [], "s3://b/out/dt=1/", id="nothing-there"),
        ],
    )
    @pytest.mark.parametrize("on_no_files", OnNothing)
    def test_missing(self, globs: list[str], objects: list[str], where: str, on_no_files: OnNothing) -> None:
        asked = request(*globs, arrivals=Arrivals(expected=("_SUCCESS",), on_none=on_no_files))
        assert refusal(Store(**dict.fromkeys(objects, 1)), asked) == (
            f"expected file '_SUCCESS' is missing in {where}, so the files may not be complete; load again when their"
            " writer has finished, e.g. by a retry of the task, or correct Arrivals(expected=…)"
        )

    def test_all_names_are_needed_and_none_is_loaded(self) -> None:
        store = Store(**{"d/a": 1, "d/_SUCCESS": 9, "d/meta/done": 9})
        assert keys(list_files(store, request("d/**", arrivals=Arrivals(expected=("_SUCCESS", "meta/done"))))) == [
            "d/a"
        ]
        said = refusal(store, request("d/**", arrivals=Arrivals(expected=("_SUCCESS", "meta/done", "_done"))))
        assert said.startswith("expected file '_done' is missing in s3://b/d/,")

    def test_young_files_need_their_marker_too(self) -> None:
        store = Store(**{"d/x/a": 1, "d/x/_SUCCESS": 0, "d/y/b": (1, 1.0)})
        asked = request("d/*/*", arrivals=Arrivals(min_age=60, expected=("_SUCCESS",)))
        assert "missing in s3://b/d/y/" in refusal(store, asked)

    def test_a_marker_beside_the_listing_is_looked_up_by_its_key(self) -> None:
        store = Store(**{"out/part-1": 1, "out/part-2": 1, "out/_SUCCESS": 0, "out/other": 1})
        assert keys(list_files(store, request("out/part-*", arrivals=Arrivals(expected=("_SUCCESS",))))) == [
            "out/part-1",
            "out/part-2",
        ]
        assert store.listed == ["out/part-", "out/_SUCCESS"]


class Client:
    """boto3, with one page of a listing: written by a clock that is years before the worker's."""

    def __init__(self, date: str) -> None:
        self.page = {
            "ResponseMetadata": {"HTTPHeaders": {"date": date}},
            "Contents": [
                {
                    "Key": f"d/{second}",
                    "ETag": '"e"',
                    "Size": 1,
                    "LastModified": datetime.datetime(2001, 2, 3, 4, 5, second, tzinfo=datetime.UTC),
                }
                for second in (0, 30)
            ],
        }
        self.meta = type("Meta", (), {"endpoint_url": "http://s3:9000"})

    def get_paginator(self, _: str) -> Client:
        return self

    def paginate(self, **_: str) -> list[dict[str, Any]]:
        return [self.page]


def make_store(monkeypatch: pytest.MonkeyPatch, date: str) -> S3FileStore:
    monkeypatch.setattr(S3FileStore, "_client", Client(date))
    return S3FileStore(aws_conn_id=None)


def test_ages_are_those_by_the_clock_of_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    store = make_store(monkeypatch, "Sat, 03 Feb 2001 04:05:40 GMT")
    found = store.list_ages(parse_source("s3://b/d/*"))
    assert [(file.key, age) for file, age in found] == [("d/0", 40.0), ("d/30", 10.0)]


@pytest.mark.parametrize("date", ["", "now"])
def test_a_store_that_does_not_tell_its_time(monkeypatch: pytest.MonkeyPatch, date: str) -> None:
    with pytest.raises(SourceError) as caught:
        list(make_store(monkeypatch, date).list_ages(parse_source("s3://b/d/*")))
    assert caught.value.sentence == (
        f"http://s3:9000 answers with Date='{date}', so the age of its files is unknown; set min_age=0, or have"
        " the store, or the proxy before it, send the header Date"
    )


class Bucket:
    """boto3, with pages of two keys; keeps what was asked for."""

    meta = SimpleNamespace(endpoint_url="http://s3")

    def __init__(self, *keys: str) -> None:
        self.keys = sorted(keys)
        self.asked: list[dict[str, str]] = []

    def get_paginator(self, _: str) -> Bucket:
        return self

    def paginate(self, **asked: str) -> Iterator[dict[str, Any]]:
        self.asked.append(asked)
        after = asked.get("StartAfter", "")
        found = [key for key in self.keys if key.startswith(asked["Prefix"]) and key > after]
        for page in batches(found, 2):
            yield {"Contents": [{"Key": key, "ETag": '"e"', "Size": 1} for key in page]}


@pytest.mark.parametrize(
    ("after", "prefixes"),
    [
        pytest.param("", ["a/", "b/x-", "c/"], id="from-the-start"),
        pytest.param("a", ["a/", "b/x-", "c/"], id="before-all"),
        pytest.param("a/2", ["a/", "b/x-", "c/"], id="within-the-first"),
        pytest.param("a/9", ["a/", "b/x-", "c/"], id="its-last-key"),
        pytest.param("b/x", ["b/x-", "c/"], id="between"),
        pytest.param("b/x-", ["b/x-", "c/"], id="a-prefix-itself"),
        pytest.param("b/x-1", ["b/x-", "c/"], id="within-the-second"),
        pytest.param("b/y", ["c/"], id="behind-the-second"),
        pytest.param("c/é", ["c/"], id="within-the-last"),
        pytest.param("d", [], id="behind-all"),
    ],
)
def test_a_listing_begins_after_a_key(monkeypatch: pytest.MonkeyPatch, after: str, prefixes: list[str]) -> None:
    bucket = Bucket("a/1", "a/2", "a/3", "a/9", "b/x-0", "b/x-1", "b/x-2", "b/y", "c/1", "c/é", "c/日", "d")
    monkeypatch.setattr(S3FileStore, "_client", bucket)
    found = S3FileStore(aws_conn_id=None).list_files(
        parse_source([f"s3://b/{p}*" for p in ("c/", "a/", "b/x-")]), after=after
    )
    expected = [key for key in bucket.keys if key.startswith(("a/", "b/x-", "c/")) and key > after]
    assert [file.key for file in found] == expected
    start = {"StartAfter": after} if after else {}
    assert bucket.asked == [{"Bucket": "b", "Prefix": prefix, **start} for prefix in prefixes]


@pytest.mark.parametrize("value", [90, 90.0, datetime.timedelta(seconds=90)])
def test_durations(value: object) -> None:
    assert parse_seconds("min_file_age", value) == 90.0


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("90", "min_file_age='90' is of type str; give a number of seconds, or a timedelta"),
        (None, "min_file_age=None is of type NoneType; give a number of seconds, or a timedelta"),
        (True, "min_file_age=True is of type bool; give a number of seconds, or a timedelta"),
        (
            datetime.timedelta(seconds=-1),
            "min_file_age=-1.0 is not a duration; give a number of seconds of 0 or more",
        ),
        (float("inf"), "min_file_age=inf is not a duration; give a number of seconds of 0 or more"),
    ],
)
def test_what_is_no_duration(value: object, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_seconds("min_file_age", value)
    assert caught.value.sentence == message


@pytest.mark.parametrize(
    ("value", "expected"), [(None, ()), ("_SUCCESS", ("_SUCCESS",)), (["a", "b/c"], ("a", "b/c")), ([], ())]
)
def test_file_names(value: object, expected: tuple[str, ...]) -> None:
    assert parse_file_names("expected_files", value) == expected


@pytest.mark.parametrize("value", ["", "s3://b/_SUCCESS", "/_SUCCESS", "*.done", ["_SUCCESS", ""]])
def test_what_is_no_file_name(value: object) -> None:
    name = value[-1] if isinstance(value, list) else value
    with pytest.raises(ConfigError) as caught:
        parse_file_names("expected_files", value)
    assert caught.value.sentence == (
        f"expected_files={value!r} contains {name!r}, which is not a file name; give the name of a file in the"
        " folders of the source, such as '_SUCCESS', without address and wildcards"
    )


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (7, "expected_files=7 is of type int; give a file name such as '_SUCCESS', a list of them, or leave it out"),
        ([1], "expected_files[0]=1 is of type int; give a string"),
    ],
)
def test_expected_files_of_another_type(value: object, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_file_names("expected_files", value)
    assert caught.value.sentence == message
