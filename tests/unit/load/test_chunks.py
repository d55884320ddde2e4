"""The chunks of a load: what the ledger says of those before, and which files the next one takes."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Mapping, Set
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from airflow_provider_ch_s3.arguments import Arrivals, Chunks
from airflow_provider_ch_s3.errors import ConfigError, SourceError
from airflow_provider_ch_s3.exactly_once.history import AttemptId, Event, EventKind, History
from airflow_provider_ch_s3.files.access import S3Access
from airflow_provider_ch_s3.files.addresses import Source, parse_source
from airflow_provider_ch_s3.files.chunk import Chunk
from airflow_provider_ch_s3.files.source import SourceFile, list_keys
from airflow_provider_ch_s3.identity import LoadIdentity
from airflow_provider_ch_s3.load import selection as selection_module
from airflow_provider_ch_s3.load.chunks import ChunkFiles, ChunkLimits, CommittedChunks
from airflow_provider_ch_s3.load.selection import ChunkSelection, list_chunk, select_chunk
from airflow_provider_ch_s3.modes import Append, Mode, OnChangedFiles, OnLoadedFiles
from airflow_provider_ch_s3.request import LoadRequest
from tests.failures import coded
from tests.load_requests import REPLACING, load_request

PATTERN = Source(bucket="b", globs=("*",))
RUN = datetime(2026, 11, 22, tzinfo=UTC)
IDENTITY = LoadIdentity(dag_id="d", task_id="t", run_id="r", table="d.t", generation=1, first_try=2, since=RUN)


def reported(events: list[Event]) -> list[Event]:
    """The same attempt, whose task has ended with it."""
    return [*events, replace(events[0], kind=EventKind.REPORTED)]


class TestChunk:
    @pytest.mark.parametrize(
        ("chunk", "place"),
        [
            pytest.param(Chunk(size_bytes=5, bytes_total=5), "1 of 1", id="the-only-one"),
            pytest.param(Chunk(last="k", size_bytes=10, bytes_total=100), "1 of about 10", id="the-first"),
            pytest.param(Chunk(last="k", size_bytes=10, bytes_total=101), "1 of about 11", id="and-a-rest"),
            pytest.param(
                Chunk(number=3, last="k", size_bytes=20, bytes_before=60, bytes_total=100),
                "3 of about 4",
                id="between",
            ),
            pytest.param(
                Chunk(number=4, last="k", size_bytes=10, bytes_before=90, bytes_total=100),
                "4 of about 5",
                id="more-than-the-first-one-found",
            ),
            pytest.param(Chunk(number=7, size_bytes=1, bytes_before=60, bytes_total=100), "7 of 7", id="the-last"),
            pytest.param(
                Chunk(number=1200, last="k", size_bytes=1, bytes_before=1199, bytes_total=2400),
                "1,200 of about 2,400",
                id="thousands",
            ),
        ],
    )
    def test_place(self, chunk: Chunk, place: str) -> None:
        assert chunk.place == place

    @pytest.mark.parametrize(
        ("chunk", "ratio", "expected"),
        [
            pytest.param(Chunk(), 0.25, 0.25, id="of-an-earlier-release"),
            pytest.param(Chunk(last="k", size_bytes=20, bytes_before=40, bytes_total=100), 0.5, 0.5, id="between"),
            pytest.param(Chunk(size_bytes=20, bytes_before=90, bytes_total=100), 0.9, 1.0, id="never-more-than-all"),
        ],
    )
    def test_done_ratio(self, chunk: Chunk, ratio: float, expected: float) -> None:
        assert chunk.done_ratio(ratio) == expected


SOURCE = parse_source("s3://b/d/*.csv")
FIRST = Chunk(last="b", size_bytes=40, bytes_total=100)
SECOND = Chunk(number=2, after="b", last="d", size_bytes=30, bytes_before=40, seconds_before=60.0, bytes_total=100)
LAST = Chunk(number=3, after="d", size_bytes=35, bytes_before=70, seconds_before=90.0, bytes_total=105)


def attempt(
    number: int,
    chunk: Chunk | None,
    ended: EventKind | None = EventKind.COMMITTED,
    *,
    load_id: str = IDENTITY.load_id,
    generation: int = 1,
    try_number: int = 2,
    since: datetime = RUN,
    table_uuid: str = "u1",
    partitions: Mapping[str, int] | None = None,
    seconds: float = 60.0,
    source: Source = SOURCE,
) -> list[Event]:
    """The events of an attempt, which took some seconds from its plan to its end."""
    planned = {"since": since.timestamp(), "source": str(source), "load_mode": "append"} | (
        {} if chunk is None else {"chunk": chunk.as_dict()}
    )
    report = {
        "query_id": f"q-{number}",
        "table": "d.t",
        "partitions": partitions,
        "rows_written": number,
        "rows_read": 10 * number,
        "seconds": seconds,
    }
    details = {EventKind.PLANNED: planned, EventKind.COMMITTED: {"table_uuids": [table_uuid], "report": report}}
    kinds = [EventKind.PLANNED] if ended is None else [EventKind.PLANNED, ended]
    return [
        Event(
            kind=kind,
            attempt=AttemptId(load_id=load_id, generation=generation, number=number),
            epoch=number,
            try_number=try_number,
            detail=details.get(kind, {}),
            time=1000.0 * number + (0.0 if kind is EventKind.PLANNED else seconds),
        )
        for kind in kinds
    ]


def read(*attempts: list[Event]) -> CommittedChunks:
    """What a load finds into a table whose copies have the UUIDs u1 and u2."""
    return CommittedChunks.read(History(events=list(itertools.chain(*attempts))), IDENTITY, ["u1", "u2"])


class TestCommittedChunks:
    @pytest.mark.parametrize(
        ("attempts", "numbers"),
        [
            pytest.param([], [], id="none"),
            pytest.param([attempt(1, FIRST), attempt(2, SECOND)], [1, 2], id="two"),
            pytest.param([attempt(1, FIRST), attempt(2, SECOND, None)], [1], id="the-second-one-is-planned"),
            pytest.param(
                [attempt(1, FIRST), attempt(2, SECOND, EventKind.COMMITTING)],
                [1],
                id="the-second-one-is-committing",
            ),
            pytest.param(
                [attempt(1, FIRST), attempt(2, SECOND, EventKind.ABANDONED), attempt(3, SECOND)],
                [1, 3],
                id="an-abandoned-attempt-between",
            ),
            pytest.param([attempt(1, FIRST, try_number=2), attempt(2, SECOND, try_number=5)], [1, 2], id="retries"),
            pytest.param([attempt(1, FIRST, generation=0), attempt(2, FIRST)], [2], id="before-a-clear"),
            pytest.param([reported(attempt(1, FIRST, try_number=1)), attempt(2, FIRST)], [2], id="cleared"),
            pytest.param([attempt(1, FIRST, try_number=1), attempt(2, SECOND)], [1, 2], id="retries-were-lowered"),
            pytest.param(
                [attempt(1, FIRST, since=datetime(2026, 11, 21, tzinfo=UTC)), attempt(2, FIRST)],
                [2],
                id="a-run-of-the-same-name",
            ),
            pytest.param([attempt(1, FIRST, load_id="ch-s3-other"), attempt(2, FIRST)], [2], id="another-load"),
            pytest.param([attempt(1, FIRST, table_uuid="dropped"), attempt(2, FIRST)], [2], id="a-dropped-table"),
            pytest.param([attempt(1, FIRST, table_uuid="u2"), attempt(2, SECOND)], [1, 2], id="another-copy"),
        ],
    )
    def test_which_count(self, attempts: list[list[Event]], numbers: list[int]) -> None:
        assert [found.id.number for found in read(*attempts).attempts] == numbers

    def test_where_the_next_one_begins(self) -> None:
        assert read().next(request()) == Chunk()
        abandoned = attempt(2, SECOND, EventKind.ABANDONED, seconds=900.0)
        chunks = read(attempt(1, FIRST, seconds=60.0), abandoned, attempt(3, SECOND, seconds=30.0))
        third = Chunk(number=3, after="d", bytes_before=70, rows_before=40, seconds_before=90.0, bytes_total=100)
        assert chunks.next(request()) == third

    @pytest.mark.parametrize(
        ("glob", "arguments", "said"),
        [
            ("*/*.csv", {}, ["source", "'s3://b/*/*.csv'", "1 chunk"]),
            ("d/*.csv", {"mode": "replace_table"}, ["mode", "'replace_table'", "1 chunk"]),
        ],
    )
    def test_a_request_that_was_changed_in_between_is_refused(
        self, glob: str, arguments: dict[str, Any], said: list[str]
    ) -> None:
        with pytest.raises(ConfigError, match=coded("arguments-changed", *said, "clear the task")):
            read(attempt(1, FIRST)).next(request(glob, **arguments))
        # before the first chunk is in the table, and after the last one, it makes no difference
        assert read(attempt(1, FIRST, EventKind.ABANDONED)).next(request(glob, **arguments)) == Chunk()

    @pytest.mark.parametrize(
        ("attempts", "is_all"),
        [
            pytest.param([], False, id="none"),
            pytest.param([attempt(1, FIRST)], False, id="the-first"),
            pytest.param([attempt(1, FIRST), attempt(2, SECOND), attempt(3, LAST)], True, id="the-last"),
            pytest.param(
                [attempt(1, FIRST), attempt(2, SECOND), attempt(3, LAST, None)], False, id="the-last-one-open"
            ),
            pytest.param([attempt(1, Chunk())], True, id="the-only-one"),
            pytest.param([attempt(1, None)], True, id="of-an-earlier-release"),
        ],
    )
    def test_is_all(self, attempts: list[list[Event]], is_all: bool) -> None:
        assert read(*attempts).is_all is is_all

    def test_their_rows_and_their_report(self) -> None:
        chunks = read(attempt(1, FIRST, partitions={"a": 1, "b": 2}), attempt(2, SECOND, partitions={"b": 4}))
        assert (chunks.rows, read().rows, read(attempt(1, FIRST)).rows) == (7, 0, 0)
        report = chunks.report
        assert (report.query_id, report.chunks, report.rows_written) == ("q-2", 2, 3)
        assert report.partitions == {"a": 1, "b": 6}

    def test_whether_they_are_the_same(self) -> None:
        one, two = read(attempt(1, FIRST)), read(attempt(1, FIRST), attempt(2, SECOND))
        assert one.is_same(read(attempt(1, FIRST), attempt(2, SECOND, None)))
        assert not one.is_same(two)
        assert not one.is_same(read(attempt(3, FIRST)))


class TestLimits:
    @pytest.mark.parametrize(
        ("arguments", "files", "size_bytes"),
        [
            pytest.param({}, 10, 7000, id="bytes-as-planned"),
            pytest.param({"chunks": Chunks(max_files=10, max_bytes=5)}, 10, 5, id="bytes-as-given"),
        ],
    )
    def test_in_chunks(self, arguments: dict[str, Any], files: int, size_bytes: int) -> None:
        limits = ChunkLimits.of(request(**arguments), planned_bytes=7000)
        assert limits == ChunkLimits(files=files, size_bytes=size_bytes, has_listed_keys=True)

    @pytest.mark.parametrize(
        "arguments",
        [
            pytest.param({"chunks": "off"}, id="commit-at-the-end"),
            *(pytest.param({"mode": mode}, id=mode.name) for mode in REPLACING),
        ],
    )
    def test_one_insert_for_all(self, arguments: dict[str, Any]) -> None:
        asked = request(**arguments)
        assert ChunkLimits.of(asked, planned_bytes=7000) == ChunkLimits()


def files_of(*sizes: int) -> tuple[SourceFile, ...]:
    return tuple(SourceFile(key=f"d/{n}", etag="1", size_bytes=size) for n, size in enumerate(sizes))


def long_keys(template: str) -> tuple[SourceFile, ...]:
    """Files whose keys have little in common: 4,000 of them are too many for a statement, though not in number."""
    names = sorted(template.format(hashlib.md5(bytes([n // 256, n % 256])).hexdigest()) for n in range(4000))
    return tuple(SourceFile(key=name, etag="1", size_bytes=1) for name in names)


class TestTake:
    @pytest.mark.parametrize(
        ("limits", "before", "given", "count"),
        [
            pytest.param(ChunkLimits(), (), (9, 9, 9), 3, id="without-limits"),
            pytest.param(ChunkLimits(files=2), (), (9, 9, 9), 2, id="as-many-files"),
            pytest.param(ChunkLimits(files=2), (9,), (9, 9), 1, id="as-many-files-with-those-before"),
            pytest.param(ChunkLimits(files=2), (9, 9), (9,), 0, id="full"),
            pytest.param(ChunkLimits(size_bytes=10), (), (4, 4, 4), 2, id="as-many-bytes"),
            pytest.param(ChunkLimits(size_bytes=10), (), (5, 5, 5), 2, id="exactly-as-many-bytes"),
            pytest.param(ChunkLimits(size_bytes=10), (4,), (4, 4), 1, id="as-many-bytes-with-those-before"),
            pytest.param(ChunkLimits(size_bytes=10), (), (20, 1), 1, id="one-larger-than-the-limit"),
            pytest.param(ChunkLimits(size_bytes=10), (), (5, 20, 1), 1, id="a-larger-one-is-for-the-next-chunk"),
            pytest.param(ChunkLimits(size_bytes=10), (5,), (20, 1), 0, id="which-begins-with-it"),
            pytest.param(ChunkLimits(files=3, size_bytes=10), (), (1, 1, 1, 1), 3, id="files-before-bytes"),
            pytest.param(ChunkLimits(files=3, size_bytes=10, has_listed_keys=True), (), (), 0, id="nothing"),
        ],
    )
    def test_as_many_as_fit(
        self, limits: ChunkLimits, before: tuple[int, ...], given: tuple[int, ...], count: int
    ) -> None:
        taken = ChunkFiles(limits=limits, source=PATTERN)
        assert taken.take(files_of(*before)) == ()
        new = files_of(*given)
        assert taken.take(new) == new[count:]
        assert taken.files == [*files_of(*before), *new[:count]]
        assert taken.size_bytes == sum(before) + sum(given[:count])

    @pytest.mark.parametrize(
        "template",
        [
            pytest.param("d/{}.parquet", id="literal"),
            pytest.param("d/{{{}}}.parquet", id="with-characters-that-need-a-filter"),
        ],
    )
    @pytest.mark.parametrize("group", [4000, 700])
    def test_as_many_as_a_statement_can_name(self, template: str, group: int) -> None:
        files = long_keys(template)
        assert list_keys(files, PATTERN) == ""
        taken = ChunkFiles(limits=ChunkLimits(has_listed_keys=True), source=PATTERN)
        groups = (files[start : start + group] for start in range(0, len(files), group))
        next(behind for behind in map(taken.take, groups) if behind)
        count = len(taken.files)
        assert taken.files == list(files[:count])
        assert list_keys(files[:count], PATTERN) != ""
        assert list_keys(files[: count + 1], PATTERN) == ""

    def test_as_many_as_a_commit_can_name_once_more(self) -> None:
        """Each of these names takes 100 bytes more for its file and 60 for its load, of 90,000."""
        files = [SourceFile(key=f"{n:098}", etag="", size_bytes=1) for n in range(700)]
        replaced = {file.key for file in files[100:]}
        taken = ChunkFiles(limits=ChunkLimits(has_listed_keys=True), source=PATTERN)
        assert len(taken.take(files[:300], replaced)) == 0
        assert len(taken.take(files[300:], replaced)) == 700 - 662
        assert len(taken.take(files[662:], replaced)) == 700 - 662
        assert ChunkFiles(limits=ChunkLimits(), source=PATTERN).take(files, replaced) == []

    def test_a_pattern_needs_no_names(self) -> None:
        assert ChunkFiles(limits=ChunkLimits(), source=PATTERN).take(long_keys("d/{}.parquet")) == ()


class Store:
    """Objects: key → size, or size and age in seconds; counts those that it has listed.

    :param has_start: it can begin a listing after a key.
    """

    def __init__(
        self, objects: Mapping[str, int | tuple[int, float]], *, is_sorted: bool = True, has_start: bool = True
    ) -> None:
        self.objects, self.is_sorted, self.has_start = dict(objects), is_sorted, has_start
        self.count = 0

    def list_ages(self, source: Source, *, after: str = "") -> Iterator[tuple[SourceFile, float]]:
        for key in sorted(self.objects, reverse=not self.is_sorted):
            if key.startswith(source.prefixes) and (key > after or not self.has_start):
                self.count += 1
                given = self.objects[key]
                size, age = given if isinstance(given, tuple) else (given, 3600.0)
                yield SourceFile(key=key, etag="1", size_bytes=size), age

    def list_files(self, source: Source, *, after: str = "") -> Iterator[SourceFile]:
        return (file for file, _ in self.list_ages(source, after=after))

    def read_tail(self, bucket: str, key: str, size_bytes: int) -> bytes:
        raise AssertionError("no content is needed")

    def access(self) -> S3Access:
        raise AssertionError("no server is asked")


def key(number: int) -> str:
    return f"d/{number:02}.csv"


def objects(count: int) -> dict[str, int | tuple[int, float]]:
    """Files of 1, 2, 3 … bytes, and what belongs to no load: a folder marker and other files."""
    return {key(number): number + 1 for number in range(count)} | {"d/": 0, "d/12.txt": 1000, "d/_SUCCESS": 0}


def is_append(arguments: Mapping[str, Any]) -> bool:
    return isinstance(arguments.get("mode", Append()), Append)


def request(glob: str = "d/*.csv", **arguments: Any) -> LoadRequest:
    given = {"chunks": Chunks(max_files=10), **arguments} if is_append(arguments) else arguments
    return load_request(parse_source(f"s3://b/{glob}"), **given)


@pytest.fixture(params=[1, 4, 100])
def group(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """So many files are looked up in the ledger at a time."""
    monkeypatch.setattr(selection_module, "FILES_PER_STATEMENT", request.param)


class Load:
    """Selects chunk by chunk, and commits each of them at once.

    :param held: path → ETags of the versions that the table holds.
    """

    def __init__(self, store: Store, asked: LoadRequest, held: Mapping[str, Set[str]] | None = None) -> None:
        self.store, self.request = store, asked
        self.held = dict(held or {})
        self.attempts: list[list[Event]] = []

    def versions(self, paths: Set[str]) -> Mapping[str, Set[str]]:
        return {path: self.held[path] for path in paths if path in self.held}

    def select(self) -> ChunkSelection:
        limits = ChunkLimits.of(self.request, planned_bytes=1000)
        selected = select_chunk(
            self.versions, self.store, self.request, read(*self.attempts).next(self.request), limits
        )
        self.attempts.append(attempt(len(self.attempts) + 1, selected.chunk, source=self.request.source))
        self.held |= {PATTERN.path(file.key): {file.etag} for file in selected.files}
        return selected

    def run(self) -> list[ChunkSelection]:
        selections = [self.select()]
        while not selections[-1].chunk.is_last:
            selections.append(self.select())
        return selections


def keys(selected: ChunkSelection) -> list[str]:
    return [file.key for file in selected.files]


@pytest.mark.usefixtures("group")
class TestSelect:
    def test_chunk_by_chunk_each_file_comes_once(self) -> None:
        selections = Load(Store(objects(25)), request()).run()
        assert [keys(one) for one in selections] == [
            [key(n) for n in range(10)],
            [key(n) for n in range(10, 20)],
            [key(n) for n in range(20, 25)],
        ]
        assert [one.chunk for one in selections] == [
            Chunk(number=1, last=key(9), size_bytes=55, bytes_total=325),
            Chunk(
                number=2,
                after=key(9),
                last=key(19),
                size_bytes=155,
                bytes_before=55,
                rows_before=10,
                seconds_before=60.0,
                bytes_total=325,
            ),
            Chunk(
                number=3,
                after=key(19),
                size_bytes=115,
                bytes_before=210,
                rows_before=30,
                seconds_before=120.0,
                bytes_total=325,
            ),
        ]

    @pytest.mark.parametrize(
        ("arguments", "counts"),
        [
            pytest.param({"chunks": Chunks(max_files=25)}, [25], id="one"),
            pytest.param({"chunks": Chunks(max_files=5)}, [5] * 5, id="no-empty-one-at-the-end"),
            pytest.param({"chunks": Chunks(max_files=24)}, [24, 1], id="one-file-at-the-end"),
            pytest.param(
                {"chunks": Chunks(max_files=10, max_bytes=120)}, [10, 8, 5, 2], id="whichever-limit-comes-first"
            ),
            pytest.param({"chunks": Chunks(max_files=10, max_bytes=1)}, [1] * 25, id="files-larger-than-the-limit"),
            pytest.param({"chunks": "off"}, [25], id="commit-at-the-end"),
        ],
    )
    def test_as_many_as_the_limits_allow(self, arguments: dict[str, Any], counts: list[int]) -> None:
        selections = Load(Store(objects(25)), request(**arguments)).run()
        assert [len(one.files) for one in selections] == counts
        assert [name for one in selections for name in keys(one)] == [key(n) for n in range(25)]

    @pytest.mark.parametrize("mode", REPLACING)
    def test_what_replaces_takes_all_whatever_the_table_holds(self, mode: Mode) -> None:
        held = {f"b/{key(n)}": {str(n % 2)} for n in range(25)}  # half of them in another version
        selected = Load(Store(objects(25)), request(mode=mode), held).select()
        assert (len(selected.files), selected.chunk.is_only) == (25, True)

    def test_what_the_table_holds_is_counted_in_the_first_chunk(self) -> None:
        held = {f"b/{key(n)}": {"1"} for n in (1, 3, 20)} | {f"b/{key(24)}": {"0"}}
        load = Load(Store(objects(25)), request(mode=Append(on_changed=OnChangedFiles.SKIP)), held)
        selections = load.run()
        assert [len(one.files) for one in selections] == [10, 10, 1]
        assert sorted(name for one in selections for name in keys(one)) == [
            key(n) for n in range(25) if n not in (1, 3, 20, 24)
        ]
        assert [one.left_out.skipped_count for one in selections] == [4, 0, 0]
        assert selections[0].left_out.describe_skipped() == (
            f"skipping 3 files that the table already holds ('{key(1)}', …) and 1 file that the table holds"
            f" in another version ('{key(24)}')"
        )
        assert selections[0].chunk.bytes_total == 325 - 2 - 4 - 21 - 25

    def test_nothing_is_new(self) -> None:
        selected = Load(Store(objects(25)), request(), {f"b/{key(n)}": {"1"} for n in range(25)}).select()
        assert (selected.files, selected.chunk, selected.left_out.loaded_count) == ((), Chunk(), 25)

    @pytest.mark.parametrize(
        ("arguments", "held", "said"),
        [
            pytest.param({}, {f"b/{key(24)}": {"0"}}, coded("file-changed", f"'{key(24)}'"), id="changed"),
            pytest.param(
                {"arrivals": Arrivals(min_files=26)},
                {},
                coded("files-too-few", "25 files", "min_files=26"),
                id="too-few",
            ),
            pytest.param(
                {"arrivals": Arrivals(expected=("_DONE",))},
                {},
                coded("expected-file-missing", "'_DONE'"),
                id="no-marker",
            ),
        ],
    )
    def test_what_is_wrong_behind_the_first_chunk_fails_it(
        self, arguments: dict[str, Any], held: dict[str, set[str]], said: str
    ) -> None:
        with pytest.raises(SourceError, match=said):
            Load(Store(objects(25)), request(**arguments), held).select()

    def test_a_key_that_clickhouse_cannot_read_behind_the_first_chunk_fails_it(self) -> None:
        with pytest.raises(SourceError, match=coded("key-unreadable", "'d/e//f'")):
            Load(Store({**objects(25), "d/e//f": 1}), request("d/**")).select()

    def test_young_files_are_counted_in_the_first_chunk(self) -> None:
        store = Store({**objects(25), key(5): (6, 1.0), key(22): (23, 1.0)})
        selections = Load(store, request(arrivals=Arrivals(min_age=60))).run()
        assert [len(one.files) for one in selections] == [10, 10, 3]
        assert not {key(5), key(22)} & {name for one in selections for name in keys(one)}
        assert [one.left_out.young_count for one in selections] == [2, 0, 0]

    def test_the_listing_changes_between_two_chunks(self) -> None:
        load = Load(Store(objects(15)), request())
        load.select()
        for number in (9, 12):  # the last one of the chunk, too
            del load.store.objects[key(number)]
        load.store.objects |= {"d/05-new.csv": 7, "d/13-new.csv": 7}
        selected = load.select()
        # what comes before is left to the next load
        assert keys(selected) == ["d/10.csv", "d/11.csv", "d/13-new.csv", "d/13.csv", "d/14.csv"]
        assert selected.chunk.is_last

    def test_files_that_the_table_holds_count_for_min_files(self) -> None:
        held = {f"b/{key(n)}": {"1"} for n in range(20)}
        selected = Load(Store(objects(25)), request(arrivals=Arrivals(min_files=25)), held).select()
        assert keys(selected) == [key(n) for n in range(20, 25)]

    def test_all_files_behind_a_chunk_are_deleted(self) -> None:
        load = Load(Store(objects(25)), request(arrivals=Arrivals(expected=("_SUCCESS",), min_files=25)))
        load.select()
        load.store.objects = {}
        selected = load.select()
        assert (selected.files, selected.chunk.is_last) == ((), True)

    def test_more_files_than_the_first_chunk_found(self) -> None:
        load = Load(Store(objects(11)), request(chunks=Chunks(max_files=4)))
        load.select()
        load.store.objects |= {key(n): 100 for n in range(11, 13)}
        assert load.run()[-1].chunk.bytes_total == 66 + 200


def test_a_later_chunk_lists_no_more_than_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection_module, "FILES_PER_STATEMENT", 4)
    load = Load(Store({f"d/{n:04}.csv": 1 for n in range(1000)}), request())
    load.select()
    assert load.store.count == 1000
    load.select()
    assert load.store.count == 1000 + 12


UNSORTED = (
    "s3://b/d/*.csv matches more files than one chunk takes (10), and the store does not list them in the order of"
    " their keys, so that the next chunk could not begin where this one ends; use one task for each folder (dynamic"
    " task mapping does that), or chunks='off', which loads all files with one INSERT"
    " (`ch-s3 docs many-files`)"
)


@pytest.mark.usefixtures("group")
class TestUnsortedListing:
    def test_more_than_one_chunk_is_refused(self) -> None:
        with pytest.raises(SourceError) as caught:
            Load(Store(objects(25), is_sorted=False), request()).select()
        assert caught.value.sentence == UNSORTED

    def test_disorder_behind_the_first_chunk_is_found_too(self) -> None:
        store = Store(objects(25))
        swapped = [*store.list_files(request().source)]
        swapped[15:20] = reversed(swapped[15:20])
        store.list_files = lambda *_, after: iter(swapped)  # type: ignore[method-assign]
        with pytest.raises(SourceError) as caught:
            Load(store, request()).select()
        assert caught.value.sentence == UNSORTED

    @pytest.mark.parametrize(
        "arguments",
        [
            pytest.param({"chunks": Chunks(max_files=25)}, id="one-chunk"),
            pytest.param({"chunks": "off"}, id="commit-at-the-end"),
        ],
    )
    def test_one_insert_takes_any_order(self, arguments: dict[str, Any]) -> None:
        selected = Load(Store(objects(25), is_sorted=False), request(**arguments)).select()
        assert keys(selected) == [key(n) for n in range(25)]
        assert selected.chunk.is_only


@pytest.mark.parametrize(
    ("chunk", "numbers", "count"),
    [
        pytest.param(Chunk(), range(25), 25, id="all"),
        pytest.param(Chunk(last=key(9)), range(10), 11, id="the-first"),
        pytest.param(Chunk(after=key(9), last=key(19)), range(10, 20), 11, id="between"),
        pytest.param(Chunk(after=key(19)), range(20, 25), 5, id="the-last"),
    ],
)
def test_the_second_listing_of_a_chunk(chunk: Chunk, numbers: range, count: int) -> None:
    store = Store({key(n): 1 for n in range(25)})
    assert [file.key for file in list_chunk(store, request(), chunk)] == [key(n) for n in numbers]
    assert store.count == count


def test_the_second_listing_of_a_store_without_order() -> None:
    store = Store({key(n): 1 for n in range(25)}, is_sorted=False)
    assert len([*list_chunk(store, request(), Chunk())]) == 25


@pytest.mark.usefixtures("group")
class TestOtherListings:
    def test_a_store_that_always_lists_from_the_start(self) -> None:
        load = Load(Store(objects(25), has_start=False), request(mode=Append(on_loaded=OnLoadedFiles.LOAD)))
        selections = load.run()
        assert [len(selected.files) for selected in selections] == [10, 10, 5]
        assert [name for selected in selections for name in keys(selected)] == [key(number) for number in range(25)]
        verified = [file.key for file in list_chunk(load.store, load.request, selections[1].chunk)]
        assert set(keys(selections[1])) <= set(verified)
        assert not set(keys(selections[0])) & set(verified)

    def test_two_addresses(self) -> None:
        store = Store({**{f"{folder}/{n}.csv": 1 for folder in "ac" for n in range(6)}, "b/0.csv": 1})
        asked = LoadRequest(
            source=parse_source(["s3://b/c/*.csv", "s3://b/a/*.csv"]), table="t", chunks=Chunks(max_files=5)
        )
        load = Load(store, asked)
        loaded = [name for selected in load.run() for name in keys(selected)]
        assert loaded == sorted(name for name in store.objects if not name.startswith("b"))

    def test_after_the_last_key_nothing_behind_a_young_file_is_taken(self) -> None:
        # the next load begins after the last key of this one
        store = Store({"d/1.csv": 1, "d/2.csv": 1, "d/3.csv": (1, 5.0), "d/4.csv": 1})
        asked = request(mode=Append(list_after_loaded=True), arrivals=Arrivals(min_age=60.0))
        selected = select_chunk(lambda _: {}, store, asked, Chunk(after="d/1.csv"), ChunkLimits())
        assert (keys(selected), selected.left_out.young_count) == (["d/2.csv"], 1)

    def test_after_the_last_key_no_marker_is_needed_where_there_is_no_file(self) -> None:
        asked = request(
            "d/*/*.csv", mode=Append(list_after_loaded=True), arrivals=Arrivals(expected=("_SUCCESS",), min_files=3)
        )
        selected = select_chunk(lambda _: {}, Store({"d/1/a.csv": 1}), asked, Chunk(after="d/1/a.csv"), ChunkLimits())
        assert keys(selected) == []
