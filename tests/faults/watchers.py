"""Random arrivals and faults around watchers of new files.

A run is a sequence of random acts: files arrive, change and go; two watchers poll; events are lost, late or doubled;
loads of events succeed, fail or die; the listing is empty for a while, the store or the servers are away. After the
run, the table has to hold each file once, and no watcher may tell of a file any more.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
import types
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from airflow_provider_ch_s3.exactly_once.history import Attempt
from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
from airflow_provider_ch_s3.load import watch
from airflow_provider_ch_s3.load.watch import WatchedSource
from airflow_provider_ch_s3.triggers import polling
from airflow_provider_ch_s3.triggers.new_files import NewFilesTrigger
from airflow_provider_ch_s3.triggers.polling import Read
from tests.faults import oracle
from tests.faults.arrivals import HEADER, Arrivals, File, Rows, WrongError, write_rows
from tests.faults.harness import SETTINGS, Harness
from tests.faults.points import read_points
from tests.faults.runners import OVER
from tests.faults.scene import Slot, read_lines, wait_for
from tests.faults.sources import BUCKET, FEW_REQUESTS, S3

AGAIN_SECONDS = 1_000.0
WATCHERS = 2
STEPS = 30
ROUNDS = 5
LOAD_SECONDS = 240.0
ALWAYS = 10**9
GONE = -1
"""The version of a file that is not there."""
ODD = ("_part{}.csv", "part{}[1].csv", "empty{}.csv", "no rows{}.csv")
"""Names of files that are left out, that are wildcards, that are empty, and that have a header alone."""
FEW_NAMES = 3
# A dead load is taken over soon.
TIMING = {"lock_patience_seconds": 1.5, "heartbeat_seconds": 0.3, "lock_poll_seconds": 0.1}
# By default, a poll of a store that is away takes seconds.
FEW_TRIES = {"retries": {"total_max_attempts": 2}}
DISCARDED = ("write_event_abandoned", "write_event_committed")


class Clock:
    """The clock of the watchers, by which ``again_after`` passes when told to."""

    def __init__(self) -> None:
        self._passed: list[float] = []

    @property
    def times(self) -> int:
        """How often ``again_after`` has passed."""
        return len(self._passed)

    def go_on(self) -> None:
        self._passed.append(time.time())

    def monotonic(self) -> float:
        return time.monotonic() + AGAIN_SECONDS * self.times

    def age_of(self, attempt: Attempt) -> float:
        passed = sum(moment > attempt.planned_at for moment in self._passed)
        return attempt.events[0].age_seconds + AGAIN_SECONDS * passed

    @contextmanager
    def valid(self) -> Iterator[None]:
        """Have watchers go by this clock."""
        with patch.object(watch, "time", self), patch.object(Attempt, "age_seconds", property(self.age_of)):
            yield


@types.coroutine
def _wait_for_poll(asked: tuple[WatchedSource, Read[Any, Any]]) -> Generator[Any, Any, Any]:
    """Hand over to the one who drives a trigger; returns the answer of a poll."""
    return (yield asked)


@asynccontextmanager
async def _join_polls(conn_id: str, cluster: str | None, read: Read[Any, Any]) -> AsyncIterator[Any]:
    """In place of a poller, which polls by the clock."""

    async def poll(item: WatchedSource, *, interval_seconds: float) -> Any:
        del interval_seconds  # whoever drives the trigger says when
        return await _wait_for_poll((item, read))

    yield types.SimpleNamespace(poll=poll)


class Watcher:
    """A trigger that polls when told to; as in a triggerer that is killed, nothing is kept from one to the next.

    :param seen: what the last successful poll has listed, and how often ``again_after`` had passed by then.
    """

    def __init__(self, **arguments: Any) -> None:
        _, given = NewFilesTrigger(**arguments).serialize()
        self._events = NewFilesTrigger(**given).run()
        self._hook = ClickHouseS3Hook(clickhouse_conn_id=arguments["clickhouse_conn_id"])
        self._waiting: Any = None
        self._asked: Any = None
        self.seen: tuple[Set[File], int] | None = None

    def poll(self) -> Mapping[str, Any] | Exception | None:
        """Poll once; returns the event, or why the poll failed."""
        if self._waiting is None:
            self._go_on()
        item, read = self._asked
        (answer,) = read(self._hook, [item], None).values()
        if isinstance(answer, Exception):
            self._hook.close()
        event: Mapping[str, Any] | None = self._go_on(answer)
        return answer if isinstance(answer, Exception) else event

    def _go_on(self, answer: Any = None) -> Any:
        """Run the trigger until it polls again, or has an event."""
        if self._waiting is None:
            self._waiting = anext(self._events)
        try:
            self._asked = self._waiting.send(answer)
        except StopIteration as event:
            self._waiting = None
            return event.value.payload
        return None


@dataclass(kw_only=True)
class Run:
    """A load of the files of some events.

    :param files: of its source, when it began.
    :param has_seen: it saw the source as it is.
    """

    number: int
    path: Path
    files: Set[File]
    has_seen: bool
    id: str = ""

    @property
    def is_planned(self) -> bool:
        """Whether the load has surely planned its files, and neither committed nor abandoned them."""
        trace = [line for line in read_lines(self.path.with_suffix(".trace")) if not line["read"]]
        names = [(line["place"].partition("#")[0], line["when"]) for line in trace]
        return ("write_event_planned", "after") in names and not any(name in DISCARDED for name, _ in names)


@dataclass(kw_only=True)
class Walk:
    """One run: the world, and what may happen in it.

    :param points: at which a load may die.
    :param events: sources of events that nobody has loaded yet, or that come twice.
    :param waiting: a load that stands still at a point.
    :param underway: the last load, which may have planned files; ``underway_times``: how often ``again_after`` had
        passed then.
    :param wrong: what was wrong; '' if nothing.
    """

    harness: Harness
    slot: Slot
    number: int
    random: random.Random
    points: list[str] = field(default_factory=list)
    clock: Clock = field(default_factory=Clock)
    arrivals: Arrivals = field(default_factory=Arrivals)
    watchers: list[Watcher] = field(default_factory=list)
    events: list[list[str]] = field(default_factory=list)
    waiting: Run | None = None
    underway: Run | None = None
    underway_times: int = 0
    trouble: str = ""
    acts: list[str] = field(default_factory=list)
    files: int = 0
    loads: int = 0
    told: int = 0
    hit: int = 0
    wrong: str = ""

    def __str__(self) -> str:
        seen = f"run {self.number}: {self.files} files, {self.told} events, {self.loads} loads"
        return "\n    ".join([seen, *self.acts, f"WRONG: {self.wrong}"]) if self.wrong else seen

    def __post_init__(self) -> None:
        self.name = f"w{self.harness.token}_{self.number}"
        self.source = f"s3://{BUCKET}/{self.name}/*.csv"
        self.is_sorted = self.random.random() < 0.25
        self.watchers = [self._watcher() for _ in range(WATCHERS)]
        sandbox = self.harness.sandbox
        for node in range(sandbox.nodes):
            sandbox.create_database(self.name, node=node)
        engine = "ReplicatedMergeTree" if sandbox.replicas > 1 else "MergeTree"
        columns = f"k String, v UInt32, r UInt8, {oracle.PROVENANCE}"
        oracle.run_everywhere(sandbox, f"CREATE TABLE {self.name}.t {{}} ({columns}) ENGINE = {engine} ORDER BY k")

    def run(self, steps: int) -> None:
        """Do random acts, then let everything end."""
        try:
            self._load_first()
            self._act(steps)
            self._calm_down()
        except WrongError as error:
            self.wrong = str(error)

    def _load_first(self) -> None:
        """Load without a fault, which creates the ledger, and shows the points."""
        self.put()
        event = self._poll(0)
        assert event is not None
        run = self._load(event["source"], "")
        self.points = read_points(run.path.with_suffix(".trace")).all

    def _act(self, steps: int) -> None:
        acts: dict[Callable[[], None], int] = {
            self.put: 6,
            self.put_odd: 1,
            self.poll: 14,
            self.load: 5,
            self.let_time_pass: 1,
            self.kill_watcher: 1,
            self.toggle_trouble: 2,
        }
        if not self.is_sorted:
            acts |= {self.change: 3, self.delete: 1}
        for _ in range(steps):
            (act,) = self.random.choices([*acts], [*acts.values()])
            act()

    def put(self) -> None:
        self.files += 1
        self._put(f"part{self.files:03}.csv", 1)

    def put_odd(self) -> None:
        self.files += 1
        kind = self.random.choice(ODD[:1] if self.is_sorted else ODD)
        name = kind.format(f"{self.files:03}")
        if name.startswith(("_", "empty")):
            self.acts.append(f"put {name}")
            self.harness.stores[S3].put(f"{self.name}/{name}", b"")
        else:
            self._put(name, 0 if name.startswith("no rows") else 1)

    def change(self) -> None:
        if names := [name for name, version in self.arrivals.versions.items() if version]:
            name = self.random.choice(names)
            self._put(name, self.arrivals.versions[name] + 1)

    def delete(self) -> None:
        if names := [*self.arrivals.versions]:
            name = self.random.choice(names)
            self.acts.append(f"delete {name}")
            self.harness.stores[S3].delete(f"{self.name}/{name}")
            del self.arrivals.versions[name]

    def _put(self, name: str, version: int) -> None:
        self.acts.append(f"put {name} v{version}")
        self.harness.stores[S3].put(
            f"{self.name}/{name}", write_rows((name, version)) if version else HEADER.encode()
        )
        self.arrivals.versions[name] = version

    def let_time_pass(self) -> None:
        self.acts.append("again_after passes")
        self.clock.go_on()

    def kill_watcher(self) -> None:
        """The triggerer dies; at times with an event, which nobody gets then."""
        number = self.random.randrange(WATCHERS)
        if self.random.random() < 0.5:
            self._poll(number)
        self.acts.append(f"watcher {number} is killed")
        self.watchers[number] = self._watcher()

    def _watcher(self) -> Watcher:
        return Watcher(
            source=self.source,
            table=f"{self.name}.t",
            list_after_loaded=self.is_sorted,
            again_after=AGAIN_SECONDS,
            clickhouse_conn_id=f"faults_ch_{self.slot.number}",
            aws_conn_id=f"faults_s3_{self.slot.number}",
        )

    def toggle_trouble(self) -> None:
        store, was = self.slot.stores[S3], self.trouble
        self.slot.heal()
        self.trouble = "" if was else self.random.choice(["empty", "away", "500", "servers away"])
        self.acts.append(f"trouble: {self.trouble or 'none'}")
        match self.trouble:
            case "empty" | "500":
                store.trouble(self.trouble, ALWAYS)
            case "away":
                store.cut()
            case "servers away":
                for node in self.slot.nodes:
                    node.cut()

    def poll(self) -> None:
        """Poll, and keep the event for a load, at times twice."""
        event = self._poll(self.random.randrange(WATCHERS))
        if event:
            self.events += [event["source"]] * self.random.choice([1, 1, 1, 2])

    def _poll(self, number: int) -> Mapping[str, Any] | None:
        """Poll, and check the event."""
        watcher, rows, times = self.watchers[number], self._rows(), self.clock.times
        event = watcher.poll()
        if isinstance(event, Exception):
            self.acts.append(f"watcher {number} polls, and fails")
            if not self.trouble or self.trouble == "empty":
                raise WrongError(f"a poll fails without a reason: {event!r}")
            return None
        listed = set() if self.trouble == "empty" else self.arrivals.files
        is_due = watcher.seen != (listed, times)
        underway = set()
        if self.underway and self.underway.is_planned and self.underway_times == times and not self.is_sorted:
            underway = {*self.underway.files}
        source = event["source"] if event else []
        self.acts.append(f"watcher {number} polls: {source or 'nothing'}")
        versions = self.arrivals.versions
        named = (
            event["files"]
            if event and self.source in source
            else {(key, versions.get(key, GONE)) for key in self._keys(source)}
        )
        self.arrivals.check_event(named, listed=listed, underway=underway, rows=rows, is_due=is_due, times=times)
        watcher.seen = (listed, times)
        self.told += event is not None
        return event

    def _keys(self, source: Iterable[str]) -> list[str]:
        """Return the names of files from their addresses."""
        return [address.removeprefix(self.source.removesuffix("*.csv")) for address in source]

    def load(self) -> None:
        """Load the files of one or two events, late or at once; the load may fail, die, or wait for a while."""
        if not self.events:
            return
        if self.trouble == "servers away":
            self.toggle_trouble()
        if self.waiting:
            self._end_waiting()
        chosen = [self.events.pop(self.random.randrange(len(self.events))) for _ in range(min(len(self.events), 2))]
        if len(chosen) == 2 and self.random.random() < 0.7:
            self.events.append(chosen.pop())
        source = [*dict.fromkeys(address for event in chosen for address in event)]
        self._load(source, self.random.choice(["", "", "kill", "kill for good", "fail", "wait", "wait"]))

    def _load(self, source: list[str], fault: str) -> Run:
        run = self._start(source, fault)
        hit = run.path.with_suffix(".hit")
        if not wait_for(lambda: self._is_over(run) or (fault == "wait" and hit.exists()), LOAD_SECONDS):
            raise WrongError("a load does not end")
        self.underway_times = self.clock.times
        if self._is_over(run):
            self._end(run)
        else:
            self.acts.append("the load waits")
            self.arrivals.end_load(run.files, self._rows(), is_sure=False, times=self.clock.times)
            self.waiting = run
        self.underway = run
        return run

    def _start(self, source: list[str], fault: str) -> Run:
        self.loads += 1
        point = self.random.choice(self.points) if fault in ("kill", "kill for good", "wait") else ""
        path = self.harness.directory / f"{self.name}_{self.loads}.json"
        mode = {"append": {} if self.is_sorted else {"on_changed": "replace"}}
        arguments = {
            "source": source,
            "table": f"{self.name}.t",
            "mode": mode,
            "data_format": "CSVWithNames",
            "provenance": {"source_file": "path", "load_id": "load"},
            "arrivals": {"on_none": "succeed"},
            "settings": {**SETTINGS, **FEW_REQUESTS[S3]},
            "poll_interval": 0.25,
            "clickhouse_conn_id": f"faults_ch_{self.slot.number}",
            "aws_conn_id": f"faults_s3_{self.slot.number}",
            **({"checks": {"none": "count() = 0"}} if fault == "fail" else {}),
        }
        spec = {
            "operator": S3,
            "arguments": arguments,
            "point": point,
            "action": "wait" if fault == "wait" else "kill",
            "slow": "",
            "retries": int(fault == "kill"),
            "denies_disposal": False,
            "has_newer_profile": False,
            "timing": TIMING,
            "again": 0,
        }
        path.write_text(json.dumps(spec))
        self.acts.append(f"load {self.loads} of {source} {fault} {point}".rstrip())
        files = self.arrivals.files if self.source in source else self.arrivals.name(self._keys(source))
        run = Run(number=self.loads, path=path, files=files, has_seen=not self.trouble)
        run.id = self.harness.runner.start(path)
        return run

    def _is_over(self, run: Run) -> bool:
        return self.harness.runner.state(run.id)[0] in OVER

    def _end(self, run: Run) -> None:
        state, _ = self.harness.runner.state(run.id)
        self.hit += run.path.with_suffix(".hit").exists()
        self.acts.append(f"load {run.number} is over: {state}")
        is_sure = state == "success" and run.has_seen
        self.arrivals.end_load(run.files, self._rows(), is_sure=is_sure, times=self.clock.times)

    def _end_waiting(self) -> None:
        """Kill the waiting load, or let it go on."""
        run, self.waiting = self.waiting, None
        assert run is not None
        if self.trouble or self._is_over(run):  # it waits for a minute
            run.has_seen = False
        (hit,) = read_lines(run.path.with_suffix(".hit"))
        if self.random.random() < 0.5:
            self.acts.append(f"load {run.number} is killed")
            with suppress(ProcessLookupError):
                os.kill(hit["pid"], signal.SIGKILL)
        run.path.with_suffix(".go").touch()
        if not wait_for(lambda: self._is_over(run), LOAD_SECONDS):
            raise WrongError("a load does not end")
        self._end(run)

    def _rows(self) -> Rows:
        sandbox = self.harness.sandbox
        found = Rows()
        for node in oracle.first_replicas(sandbox):
            for row in sandbox.query(f"SELECT k, v, r FROM {self.name}.t", node=node):
                found[row["k"], row["v"], row["r"]] += 1
        return found

    def _calm_down(self) -> None:
        """End all trouble, deliver what is late, and let ``again_after`` pass until nothing is told any more."""
        self.acts.append("calm")
        if self.trouble:
            self.toggle_trouble()
        if self.waiting:
            self._end_waiting()
        for source in self.events:
            self._load(source, "")
        self.watchers.append(self._watcher())
        for _ in range(ROUNDS):
            self.clock.go_on()
            told = list(filter(None, map(self._poll, range(len(self.watchers)))))
            for event in told:
                self._load(event["source"], "")
            if not told:
                break
        else:
            raise WrongError("a watcher never rests")
        self.arrivals.check_table(self._rows())


def walk_all(harness: Harness, seed: int, numbers: Iterable[int], steps: int = STEPS) -> Iterator[Walk]:
    """Do runs one after the other, each with so many acts before the calm."""
    slot = harness.slots.get()
    store = f"AIRFLOW_CONN_FAULTS_S3_{slot.number}"
    connection = json.loads(harness.environment[store])
    connection["extra"]["config_kwargs"] = FEW_TRIES
    try:
        with (
            patch.dict(os.environ, {**harness.environment, store: json.dumps(connection)}),
            patch.object(polling, "join_poller", _join_polls),
            patch.object(watch, "MAX_NAMED_FILES", FEW_NAMES),
        ):
            for number in numbers:
                slot.heal()
                walk = Walk(harness=harness, slot=slot, number=number, random=random.Random(f"{seed} {number}"))
                with walk.clock.valid():
                    walk.run(steps)
                oracle.drop_tables(harness.sandbox, walk.name)
                yield walk
    finally:
        slot.heal()
        harness.slots.put(slot)


def format_walks(walks: Sequence[Walk]) -> str:
    """Format the verdict on a series."""
    wrong = sum(bool(walk.wrong) for walk in walks)
    numbers = {
        "runs": len(walks),
        "files": sum(walk.files for walk in walks),
        "events": sum(walk.told for walk in walks),
        "loads": sum(walk.loads for walk in walks),
        "hit": sum(walk.hit for walk in walks),
        "wrong": wrong,
    }
    return (
        f"watchers: {'FAILED' if wrong else 'OK'} {' '.join(f'{name}={number}' for name, number in numbers.items())}"
    )
