"""Run a case on real servers: two nights of loads, and what each leaves, compared with the oracle."""

from __future__ import annotations

import asyncio
import io
import json
import re
import signal
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from airflow.providers.common.compat.sdk import AirflowSkipException, TaskDeferred

from airflow_provider_ch_s3.arguments import CreateTable
from airflow_provider_ch_s3.common.work import batches
from airflow_provider_ch_s3.errors import ChS3Error, ErrorCode, ServerError
from airflow_provider_ch_s3.operators.held import ClickHouseCommitHeldOperator
from airflow_provider_ch_s3.plugins import ledger_api
from airflow_provider_ch_s3.transfers.clickhouse_to_s3 import ClickHouseToS3Operator
from airflow_provider_ch_s3.transfers.files_to_clickhouse import FilesToClickHouseOperator
from tests.combinations import oracle
from tests.combinations.factors import COLUMN_TYPES, ESCAPED, FOLDER, LAKES, PROVENANCE_TYPES, Case
from tests.combinations.files import BAD_LINE, write
from tests.combinations.oracle import DAYS, DELETED, ELSEWHERE, Expected, World
from tests.combinations.stores import Store, opened_store
from tests.combinations.together import NEW, apart_of, but
from tests.failures import own_errors
from tests.sandbox.conftest import Lab
from tests.sandbox.worker import running_worker

WORKER_SECONDS = 120
NIGHTS = (1, 2)
AGE_SECONDS = 2.2
EXPORTED = "out/"
NOT_IN_STAR = ("twice", "half")
"""Columns that the table computes, and that ``SELECT *`` leaves out."""
COMMITS = ("move_partitions", "replace_partitions", "replace_partitions_by_nothing")
KILLED = {"killed while staging": ("insert_load", "insert_lines"), "killed in the commit": COMMITS}
TAG = "ch-s3-load"
LAKE_RECORD = "/~snapshot"
"""The name under which the ledger has the loaded snapshots of a lake table, like a file."""
LEDGER = r"ch_s3_"
"""``left_overs`` looks for other tables of the provider."""
GIVEN_TABLES = rf"(t(_all)?|seen|mv)$|{LEDGER}"
"""What a case makes before the first night, and the ledger."""
KNOWN_TABLES = rf"t(_all|_local)?(_rejected)?$|{GIVEN_TABLES}"
"""What a case makes, or asks for."""
RECORDED = {
    "files": "files",
    "rows": "rows",
    "rows_rejected": "rejected",
    "files_skipped": "skipped",
    "files_too_young": "young",
}
"""Number in the ledger → what the oracle calls this number."""
_DIE = """
import os
from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
real = ClickHouseS3Hook._run
def run(hook, statement, *given, **named):
    if statement.name in {names!r}:
        os.kill(os.getpid(), {signal})
    return real(hook, statement, *given, **named)
ClickHouseS3Hook._run = run
"""


@dataclass(kw_only=True)
class Outcome:
    """What a case has shown."""

    case: Case
    refused: bool = False
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def __str__(self) -> str:
        return "\n".join([f"{self.case or 'the usual levels'}:", *(f"  {one}" for one in self.failures)])


@dataclass(kw_only=True)
class Runner:
    """Runs cases in the database and the bucket of a lab, one after the other."""

    lab: Lab

    def run(self, case: Case) -> Outcome:
        """Run a case from an empty database to the verdict."""
        started = time.monotonic()
        lab = replace(self.lab, has_cluster=case["cluster"] != "one node")
        outcome = Outcome(case=case)
        try:
            with opened_store(case, lab) as store:
                Trial(lab=lab, case=case, store=store).run(outcome)
        except Exception as error:  # of the harness: it must not end the series
            outcome.failures.append(f"broken: {type(error).__name__}: {error}")
        outcome.seconds = time.monotonic() - started
        return outcome


@dataclass(kw_only=True)
class Trial:
    """One case."""

    lab: Lab
    case: Case
    store: Store
    world: World = field(default_factory=World)
    last_load: str = ""
    moved: list[str] = field(default_factory=list)

    @property
    def local(self) -> str:
        """The table with the rows on each node."""
        is_made = self.case.is_in(kind=NEW) and self.is_distributed
        return f"{self.lab.database}.t_local" if is_made else f"{self.lab.database}.t"

    @property
    def is_distributed(self) -> bool:
        return self.case.is_in(cluster=("distributed", "sharded by id"))

    @property
    def table(self) -> str:
        is_old = not self.case.is_in(kind=NEW)
        return f"{self.lab.database}.t_all" if self.is_distributed and is_old else f"{self.lab.database}.t"

    @property
    def columns(self) -> list[str]:
        """The columns that are compared."""
        return [*oracle.table_columns(self.case), *self.world.added]

    @property
    def replicas(self) -> int:
        """Nodes with the same rows."""
        return self.lab.sandbox.replicas if self.lab.has_cluster else 1

    @property
    def shards(self) -> Sequence[Sequence[int]]:
        """The nodes of each shard."""
        return list(batches(self.lab.nodes(), self.replicas))

    def run(self, outcome: Outcome) -> None:
        self._create()
        for night in NIGHTS:
            before = dict(self.world.files)
            new = oracle.files_of(self.case, night, before)
            if night == 2:
                self._remove({"gone": [oracle.key_of(self.case, 2)], "all gone": before}.get(self.case["night"], ()))
            self._put(new)
            outcome.refused = self._run_night(night, outcome)
            if outcome.failures or outcome.refused:
                return
        if self.case["afterwards"] == "undo" and self.last_load:
            self._undo(outcome)
        if self.case["afterwards"] == "export" and (self.world.commits or not self.case.is_in(kind=NEW)):
            self._export(outcome)

    def _run_night(self, night: int, outcome: Outcome) -> bool:
        """Load once; returns whether the levels cannot go together, and were to be refused."""
        code = self._refusal()
        commits, files, markers = self.world.commits, self.world.files, self.world.markers
        reads_changes = self._version >= (26, 7)
        expected = (
            Expected(error=code) if code else oracle.run_night(self.case, self.world, reads_changes=reads_changes)
        )
        error, report, skips = self._load(night)
        where = f"night {night}: "
        if code:
            if error is None or error.code != code:
                outcome.failures.append(f"{where}was not refused ({code}): {_show(error, report)}")
            outcome.failures += [f"{where}{one}" for one in self._judge_refusal()]
        elif expected.error:
            if error is None or error.code != expected.error:
                outcome.failures.append(f"{where}no error {expected.error!r}: {_show(error, report)}")
        elif error is not None:
            outcome.failures.append(f"{where}failed: {_show(error, report)}")
            return False
        elif skips != expected.skips:
            outcome.failures.append(f"{where}skipped: {skips}, expected: {expected.skips}")
        elif report is not None:
            outcome.failures += [f"{where}{one}" for one in self._judge_report(expected, report)]
            if self.world.commits > commits and self.case["mode"] != "direct":
                self.last_load = report["query_id"].rsplit("-", 3)[0]
                outcome.failures += [f"{where}{one}" for one in self._judge_ledger(expected)]
        if not (code and self.case.is_in(kind=NEW)):
            self._compare(where, outcome)
        outcome.failures += [f"{where}{one}" for one in self._judge_store(files, markers)]
        return bool(code)

    def _refusal(self) -> str:
        """Return the code of the error that refuses the levels, also for servers as old as these; '' if none does."""
        if apart := apart_of(self.case):
            return apart.code
        version = self._version
        if version < (26, 7) and self.case["bad_rows"] != "fail":
            return "server-too-old"
        if version < (26, 7) and self.case["provenance"] == "row":
            return "provenance-not-possible"
        if version < (25, 8) and self.case.is_in(store="azure"):  # by the account's key
            return "server-too-old"
        if version < (26, 7) and self.case.is_in(feature="s3 disk", cluster="one node", mode=but("mode", "direct")):
            return "server-too-old"
        if version < (25, 8) and self.case.is_in(format=ESCAPED, where="own"):  # the header
            return "query-failed" if self.case["store"] == "web" else "value-does-not-fit"
        return ""

    @cached_property
    def _version(self) -> tuple[int, int]:
        """The version of the servers: those before 26.7 do not number the rows of files."""
        year, release = self.lab.query("SELECT version() AS version")[0]["version"].split(".")[:2]
        return int(year), int(release)

    # The store

    def _put(self, files: dict[str, oracle.File]) -> None:
        for key, file in files.items():
            self.store.put(key, write(self.case, file))
        self.world.files.update(files)
        self.world.markers = set(oracle.markers_of(self.case))
        for key in self.world.markers:
            self.store.put(key, b"")
        if key := oracle.young_key(self.case):
            self.store.put(key, write(self.case, next(iter(oracle.files_of(self.case, NIGHTS[0], {}).values()))))

    def _remove(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.store.remove(key)
            self.world.files.pop(key, None)

    # The table

    def _create(self) -> None:
        case, sandbox, database = self.case, self.lab.sandbox, self.lab.database
        for node in range(sandbox.nodes):
            sandbox.drop_database(database, node=node)
            sandbox.create_database(database, node=node)
        if self.lab.has_cluster:
            self.lab.connect_clickhouse()
        else:
            self.lab.connect_one_node()
        if case.is_in(kind=NEW):
            return
        columns = [f"{name} {COLUMN_TYPES[name]}" for name in COLUMN_TYPES if name not in ("extra", "op")]
        columns += {
            "default": ["made String DEFAULT concat('made ', kind)"],
            "materialized": ["twice UInt64 MATERIALIZED id * 2"],
            "alias": ["half UInt32 ALIAS intDiv(id, 2)"],
            "check": ["CONSTRAINT small CHECK id < 1000000"],
            "projection": ["PROJECTION kinds (SELECT kind, count() GROUP BY kind)"],
        }.get(case["feature"], [])
        columns += [f"{name} {PROVENANCE_TYPES[word]}" for name, word in case.provenance.items()]
        self._make("t", ", ".join(columns), self._engine())
        if case["feature"] == "view":
            self._make("seen", "id UInt32, amount Nullable(Int64)", "MergeTree ORDER BY id")
            self.lab.ddl(
                f"CREATE MATERIALIZED VIEW {database}.mv {{on_cluster}} TO {database}.seen"
                f" AS SELECT id, amount FROM {self.local}"
            )
        if self.is_distributed:
            self.lab.distribute(self.local, "id" if case["cluster"] == "sharded by id" else "rand()")
        held = oracle.held_rows(case, len(self.shards))
        for (node, *_), rows in zip(self.shards, held, strict=True):
            self._insert(rows, node)
        self.world.rows = [row for rows in held for row in rows]
        self.world.fed = list(self.world.rows)
        if case["feature"] == "lightweight delete":
            days = [ELSEWHERE] if case["held"] == "elsewhere" else [ELSEWHERE, DAYS[0]]
            doomed = [{**oracle._row(DELETED, day, kind="kept"), "op": None, "extra": None} for day in days]
            self._insert(doomed, 0)
            self.lab.query(f"DELETE FROM {self.local} WHERE id = {DELETED}")

    def _make(self, name: str, columns: str, engine: str) -> None:
        """Create a table on each node, with replicas if shards have several nodes."""
        replicated = "Replicated" if self.replicas > 1 else ""
        self.lab.ddl(
            f"CREATE TABLE {self.lab.database}.{name} {{on_cluster}} ({columns}) ENGINE = {replicated}{engine}"
        )

    def _engine(self) -> str:
        """Return the clauses after the columns of the table."""
        case = self.case
        engine = {
            "replacing": "ReplacingMergeTree(v)",
            "summing": "SummingMergeTree(amount)",
            "collapsing": "CollapsingMergeTree(sign)",
        }.get(case["kind"], "MergeTree")
        partition = {"unpartitioned": "", "by expression": " PARTITION BY intDiv(id, 10)"}
        order = "(id, v)" if case["kind"] == "collapsing" else "id"
        ttl = " TTL day + INTERVAL 100 YEAR" if case["feature"] == "ttl" else ""
        settings = ["deduplicate_merge_projection_mode = 'rebuild'"] if engine != "MergeTree" else []
        settings += [self._s3_disk()] if case["feature"] == "s3 disk" else []
        told = f" SETTINGS {', '.join(settings)}" if settings else ""
        by = partition.get(case["kind"], " PARTITION BY day")
        return f"{engine}{by} ORDER BY {order}{ttl}{told}"

    def _s3_disk(self) -> str:
        """Return the setting of a disk: the table's own, or for replicas, the disk of the servers."""
        if self.replicas > 1:
            return "storage_policy = 's3'"
        sandbox, bucket = self.lab.sandbox, f"{self.lab.bucket}-{time.time_ns()}"
        self.lab.s3.create_bucket(Bucket=bucket)
        keys = f"access_key_id = '{sandbox.s3_access_key}', secret_access_key = '{sandbox.s3_secret_key}'"
        endpoint = f"{sandbox.s3_endpoint}/{bucket}/t/"
        return f"disk = disk(name = '{bucket}', type = 's3', endpoint = '{endpoint}', {keys})"

    def _insert(self, rows: Sequence[oracle.Row], node: int) -> None:
        if not rows:
            return
        names = [name for name in COLUMN_TYPES if name not in ("extra", "op")]
        lines = "\n".join(json.dumps({name: row[name] for name in names}) for row in rows)
        settings = {"optimize_on_insert": 0, "insert_quorum": self.replicas if self.replicas > 1 else 0}
        self.lab.query(
            f"INSERT INTO {self.local} ({', '.join(names)}) FORMAT JSONEachRow\n{lines}\n",
            node=node,
            settings=settings,
        )

    # The load

    def _load(self, night: int) -> tuple[ChS3Error | None, dict[str, Any] | None, bool]:
        """Load as a task does; returns the error, the report, and whether the task was skipped."""
        if self.case["arrivals"] == "min_age":
            time.sleep(AGE_SECONDS)
        names = KILLED.get(self.case["retry"], ()) if night == 2 else ()
        tries = 2 if names and self._load_and_die(night, names) else 1
        try:
            with own_errors():
                return None, self._execute(night, tries), False
        except AirflowSkipException:
            return None, None, True
        except ChS3Error as error:
            return error, None, False

    def _execute(self, night: int, tries: int) -> dict[str, Any] | None:
        """Run the operator, and while it is deferred, its trigger, each time in a new operator."""
        deferred: TaskDeferred | None = None
        while True:
            operator = self._operator()
            context = self._context(operator, night, try_number=tries)
            try:
                if deferred is None:
                    report = operator.execute(context)
                else:
                    event = asyncio.run(asyncio.wait_for(_first_event(deferred.trigger), WORKER_SECONDS))
                    report = operator.execute_complete(context, event, **(deferred.kwargs or {}))
            except TaskDeferred as again:
                deferred = again
            else:
                return self._commit_held(report, night) if report and report.get("is_held") else report

    def _commit_held(self, report: dict[str, Any], night: int) -> dict[str, Any]:
        """Commit what the load holds, as the next task does; returns the report of the commit."""
        operator = ClickHouseCommitHeldOperator(
            task_id="commit", load=report["query_id"], table=self.table, clickhouse_conn_id="ch"
        )
        return operator.execute(self._context(operator, night, try_number=1))

    def _load_and_die(self, night: int, names: Sequence[str]) -> bool:
        """Load in a process that dies before one of these statements; returns False if the load sends none."""
        given = {**self._arguments(), "deferrable": False}
        operator = self._operator()
        ti = vars(self._context(operator, night, try_number=1)["ti"])
        del ti["xcom_push"]  # which no other process can be given
        before = _DIE.format(names=tuple(names), signal=int(signal.SIGKILL))
        with running_worker(given, ti, self.lab.started, before, self.store.operator) as worker:
            return worker.wait(WORKER_SECONDS) == -signal.SIGKILL

    def _arguments(self) -> dict[str, Any]:
        return {
            **self.store.arguments(self.case),
            "table": self.table,
            "clickhouse_conn_id": "ch",
            "poll_interval": 0.25,
            **self.case.arguments,
            **self._replicated_table(),
        }

    def _replicated_table(self) -> dict[str, Any]:
        """Return ``create_table`` with an engine for replicas, where the nodes are replicas."""
        created = self.case.arguments.get("create_table")
        if self.replicas == 1 or not isinstance(created, CreateTable) or not created.engine:
            return {}
        return {"create_table": replace(created, engine=f"Replicated{created.engine}")}

    def _operator(self) -> FilesToClickHouseOperator:
        operator = self.store.operator(task_id="load", **self._arguments())
        operator.timing = replace(operator.timing, lock_patience_seconds=1.0, lock_poll_seconds=0.1)
        return operator

    def _context(self, operator: Any, night: int, *, try_number: int) -> Any:
        context = self.lab.context(operator, try_number=try_number, max_tries=1)
        context["ti"].run_id = f"{self.lab.database}_{night}"
        context["ti"].xcom_push = lambda **_: None
        return context

    def _undo(self, outcome: Outcome) -> None:
        """Take back the last load, by the command."""
        with redirect_stderr(io.StringIO()) as said:
            code = self.lab.loads("undo", "--yes", self.last_load)
        if code != int(not self.world.can_undo):
            outcome.failures.append(f"undo ended with {code}: {said.getvalue()[:900]}")
        oracle.undo(self.world)
        self._compare("after the undo: ", outcome)

    def _export(self, outcome: Outcome) -> None:
        """Export the table, and compare the rows in the files."""
        case, lab = self.case, self.lab
        operator = ClickHouseToS3Operator(
            task_id="export",
            table=self.table,
            destination=f"s3://{lab.bucket}/{EXPORTED}",
            clickhouse_conn_id="ch",
            aws_conn_id="aws",
            data_format="JSONEachRow",
            settings={"output_format_json_quote_64bit_integers": 0},
            poll_interval=0.25,
        )
        with own_errors():
            operator.execute(self._context(operator, NIGHTS[-1] + 1, try_number=1))
        found: Counter[Any] = Counter()
        for one in lab.s3.list_objects_v2(Bucket=lab.bucket, Prefix=EXPORTED).get("Contents", []):
            if not one["Key"].rpartition("/")[2].startswith("_"):  # the manifest, and the sign of the end
                lines = lab.s3.get_object(Bucket=lab.bucket, Key=one["Key"])["Body"].read().splitlines()
                found.update(tuple(sorted(self._exported(json.loads(line)).items())) for line in lines)
        expected = Counter(tuple(pair for pair in row if pair[0] not in NOT_IN_STAR) for row in self._shown_rows())
        outcome.failures += [f"the export: {one}" for one in oracle.compare(case, expected, found)]

    def _exported(self, row: oracle.Row) -> oracle.Row:
        """Return an exported row with what the oracle knows of its origin."""
        known = {"load": lambda text: int(text.startswith("ch-s3-")), "time": lambda text: int(text > "2000")}
        changes = {name: known[word](row[name]) for name, word in self.case.provenance.items() if word in known}
        names = (*self.columns, "made", *self.case.provenance)
        return {name: value for name, value in {**row, **changes}.items() if name in names}

    # The verdict

    def _judge_refusal(self) -> list[str]:
        """Compare the tables, and what runs, with what was there before a refused load."""
        known = LEDGER if self.case.is_in(kind=NEW) else GIVEN_TABLES
        left = self._left_behind(known if apart_of(self.case) else KNOWN_TABLES)  # old servers refuse late
        return [f"was refused, and left behind: {left}"] if left else []

    def _judge_ledger(self, expected: Expected) -> list[str]:
        """Compare what the list of loads, and the page in Airflow, tell of the last load."""
        with redirect_stdout(io.StringIO()) as said:
            self.lab.loads("--json")
        page = ledger_api.read_loads("ch", table=self.table)
        files = ledger_api.read_load_files("ch", self.last_load)
        wanted = {name: getattr(expected, field) for name, field in RECORDED.items()}
        wrong = []
        for teller, loads in (("list", json.loads(said.getvalue())["loads"]), ("page", page["loads"])):
            attempts = [one for one in loads if one["load_id"] == self.last_load]
            chunks = [one for one in attempts if one["state"] != "abandoned"]
            told = {name: sum(chunk[name] for chunk in chunks) for name in RECORDED}
            if {chunk["state"] for chunk in chunks} != {"committed"} or told != wanted:
                wrong.append(f"the {teller} of loads tells {told} instead of {wanted}: {attempts}"[:900])
        if page["open"] or page["locks"]:
            wrong.append(f"the page has open loads {page['open']}, and locks {page['locks']}"[:900])
        loaded = [one for one in files["files"] if not one["path"].endswith(LAKE_RECORD)]
        states = Counter(one["state"] for one in loaded if one["state"] != "abandoned")
        skipped = sum(one["files"] for one in files["skipped"])
        if states != {"held": expected.files} or skipped != expected.skipped + expected.young:
            wrong.append(f"the page of files has {states}, and {skipped} skipped, instead of {wanted}")
        return wrong

    def _judge_report(self, expected: Expected, report: dict[str, Any]) -> list[str]:
        told = {
            "files": report["files_listed"],
            "skipped": report["files_skipped"],
            "young": report["files_too_young"],
            "rejected": report["rows_rejected"],
        }
        if self.case["mode"] != "direct":
            told["rows"] = sum(report["partitions"].values())
        # nobody knows how many rows a table has physically that folds rows, or whose rows are deleted lightly
        if self.case["kind"] not in oracle.FOLDING and self.case["feature"] != "lightweight delete":
            told |= {"replaced": sum(report["replaced"].values()), "rows_now": report["rows_now"]}
        wrong = {name: (one, getattr(expected, name)) for name, one in told.items() if one != getattr(expected, name)}
        return [f"the report has other numbers than expected: {wrong}"] if wrong else []

    def _judge_store(self, before: Mapping[str, oracle.File], markers: Set[str]) -> list[str]:
        """Compare which files are there, which are moved and which have tags.

        :param before: the files before the load, and ``markers``.
        """
        if self.case.is_in(store=("web", *LAKES)):
            return []
        if self.case["after_load"] == "move":
            gone = (before.keys() | markers) - (self.world.files.keys() | self.world.markers)
            self.moved += [f"{FOLDER}{key}" for key in gone]
        tags, world = self.store.tags(), self.world
        there = [re.sub(f"^({FOLDER})[^/]+/", r"\1", key) for key in tags]  # each INSERT has a folder of its own
        wanted = [*world.files, *world.markers, *self.moved]
        wrong = []
        if sorted(there) != sorted(wanted):
            wrong.append(f"the store has {sorted(tags)} instead of {sorted(wanted)}")
        loaded = {key for key, file in world.files.items() if file.version in world.loaded.get(key, ())}
        tagged = {key for key, names in tags.items() if TAG in names}
        if tagged != (loaded & tags.keys() if self.case["after_load"] == "tag" else set()):
            wrong.append(f"tags are at {sorted(tagged)}, and {sorted(loaded)} are loaded")
        return wrong

    def _shown_rows(self) -> list[tuple[tuple[str, Any], ...]]:
        """Return the rows that the table has to show."""
        case, path = self.case, self.store.path
        return [oracle.shown(case, row, path=path, columns=self.columns) for row in self.world.rows]

    def _compare(self, where: str, outcome: Outcome) -> None:
        if self.case["mode"] == "direct":  # which does not wait for replicas
            self._wait_for_replicas()
        case, expected = self.case, Counter(self._shown_rows())
        items = [*self.columns]
        items += {"default": ["made"], "materialized": ["twice"], "alias": ["half"]}.get(case["feature"], [])
        items += [
            {
                "load": f"toUInt8(startsWith({name}, 'ch-s3-')) AS {name}",
                "time": f"toUInt8(toUnixTimestamp({name}) > 0) AS {name}",
            }.get(word, name)
            for name, word in case.provenance.items()
        ]
        found: Counter[Any] = Counter()
        for shard, rows in enumerate(self._read(f"SELECT {', '.join(items)} FROM {self.local}", outcome)):
            found.update(tuple(sorted(row.items())) for row in rows)
            if case["cluster"] == "sharded by id" and (
                stray := [row for row in rows if row["id"] % len(self.shards) != shard]
            ):
                outcome.failures.append(f"{where}rows on the wrong shard {shard}: {stray[:3]}")
        outcome.failures += [f"{where}{one}" for one in oracle.compare(case, expected, found)]
        self._compare_others(where, outcome)

    def _compare_others(self, where: str, outcome: Outcome) -> None:
        database = self.lab.database
        if self.case["feature"] == "view":
            expected = Counter((row["id"], row["amount"]) for row in self.world.fed)
            seen = self._read(f"SELECT id, amount FROM {database}.seen", outcome)
            found = Counter((row["id"], row["amount"]) for rows in seen for row in rows)
            if expected != found:
                outcome.failures.append(f"{where}the view lacks {expected - found}, and has {found - expected}")
        if self.case["bad_rows"] != "fail" and self.world.rejected:
            path = self.store.path
            bad = Counter((path(key, version), number, BAD_LINE) for key, version, number in self.world.rejected)
            read = self._read(f"SELECT file, row, line FROM {self.local}_rejected", outcome)
            rejected = Counter((row["file"], row["row"], row["line"]) for rows in read for row in rows)
            if rejected != bad:
                outcome.failures.append(f"{where}the rejected lines are {rejected} instead of {bad}")
        if self.case["checks"] != "failed" and (left := self._left_behind(KNOWN_TABLES)):
            outcome.failures.append(f"{where}left behind: {left}")

    def _left_behind(self, known: str) -> list[object]:
        """List what nobody asked for, on any node: tables and views, what the provider needs for a load, and queries.

        :param known: an expression for the names of other tables.
        """
        found = self.lab.everywhere(f"SELECT name FROM system.tables WHERE database = '{self.lab.database}'")
        unknown = [row["name"] for row in found if not re.match(known, row["name"])]
        return [*self.lab.left_overs(), *unknown, *self.lab.running()]

    def _wait_for_replicas(self) -> None:
        for node in self.lab.nodes():
            replicated = f"database = '{self.lab.database}' AND startsWith(engine, 'Replicated')"
            for row in self.lab.query(f"SELECT name FROM system.tables WHERE {replicated}", node=node):
                self.lab.query(f"SYSTEM SYNC REPLICA {self.lab.database}.{row['name']}", node=node)

    def _read(self, select: str, outcome: Outcome) -> list[list[dict[str, Any]]]:
        """Read rows of each shard; no rows of a table that no load has made, because there was nothing to load."""
        settings = {"output_format_json_quote_64bit_integers": 0}
        found = []
        for nodes in self.shards:
            try:
                first, *others = [self.lab.query(select, node=node, settings=settings) for node in nodes]
            except ServerError as error:
                if error.server_code == ErrorCode.UNKNOWN_TABLE and not self.world.rows:
                    continue
                raise
            if any(sorted(first, key=str) != sorted(other, key=str) for other in others):
                outcome.failures.append(f"the replicas {nodes} differ: {select}")
            found.append(first)
        return found


async def _first_event(trigger: Any) -> Any:
    async for event in trigger.run():
        return event.payload
    return None


def _show(error: BaseException | None, report: Any) -> str:
    if error is not None:
        return f"{type(error).__name__}: {error}"[:900]
    return f"it succeeded: {report['partitions'] if report else 'skipped'}"
