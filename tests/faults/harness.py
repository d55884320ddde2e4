"""The test harness: a cluster, an object store, a real Airflow, and slots in which loads run and faults hit them."""

from __future__ import annotations

import json
import secrets
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from ch_s3_lab.sandbox import Sandbox, SandboxConfig
from ch_s3_lab.sandbox.launch import running_sandbox
from tests.airflow.conftest import AirflowApi
from tests.faults import oracle
from tests.faults.airflow_parts import REPOSITORY, RETRIES, AirflowParts, running_airflow
from tests.faults.judge import END_SECONDS, FIRST_VERSIONS, Judge, Outcome, read_errors, remove_cause
from tests.faults.perform import ACTIONS, PERFORM
from tests.faults.plans import Kind, Plan
from tests.faults.proxies import Loop, Proxy
from tests.faults.runners import OVER, AirflowRunner, ForkRunner, Runner
from tests.faults.scene import Scene, Slot, key, wait_for
from tests.faults.sources import FEW_REQUESTS, S3, Objects, running_stores
from tests.faults.tasks import CONNECTION_ARGUMENTS, KEEPING, OPERATORS, export_arguments, load_arguments
from tests.sandbox.balancer import balancer
from tests.sandbox.hostile_profiles import HOSTILE, write_profiles
from tests.sandbox.node_settings import write_settings
from tests.sandbox.processes import all_answer

SLOTS = 4
POLL_SECONDS = 0.05
STALL_SECONDS = 3.0
SETTINGS = {"max_threads": 2, "max_insert_threads": 1, "max_block_size": 20}
# two rows per part, so that a MOVE takes long enough to be hit
MANY_PARTS = {"max_block_size": 2, "input_format_parquet_max_block_size": 2, "min_insert_block_size_rows": 2}


class SharedFault:
    """A fault that hits all runs of a batch: the first run to take it causes it, and all are judged after its end."""

    def __init__(self) -> None:
        self._taken = threading.Lock()
        self._is_over = threading.Event()

    def take(self) -> bool:
        return self._taken.acquire(blocking=False)

    def end(self) -> None:
        self._is_over.set()

    def wait_for_the_end(self) -> None:
        if self._taken.locked():
            self._is_over.wait(END_SECONDS)


@dataclass(kw_only=True)
class Harness:
    """Runs plans, several at a time.

    :param directory: keeps each run's spec, trace and errors.
    """

    sandbox: Sandbox
    stores: Mapping[str, Objects]
    runner: Runner
    environment: Mapping[str, str]
    airflow: AirflowParts | None
    slots: SimpleQueue[Slot]
    directory: Path
    _is_stopped: threading.Event = field(default_factory=threading.Event)
    token: str = field(default_factory=lambda: secrets.token_hex(3))

    @property
    def nodes(self) -> int:
        return self.sandbox.nodes

    def run_file(self, plan: Plan) -> Path:
        """Return the path of a plan's spec; its trace and errors are beside it."""
        return self.directory / f"{self._database(plan)}.json"

    def _database(self, plan: Plan) -> str:
        return f"f{self.token}_{plan.name}"

    def run_all(self, plans: Iterable[Plan], on_outcome: Callable[[Outcome], None] = print) -> list[Outcome]:
        """Run plans; those whose fault hits every load run last, together with others of their kind."""
        plans = list(plans)
        outcomes = []
        batches = [[plan for plan in plans if not plan.kind.is_for_all]]
        for kind in (kind for kind in Kind if kind.is_for_all):
            same = [plan for plan in plans if plan.kind is kind]
            batches += [same[start : start + SLOTS] for start in range(0, len(same), SLOTS)]
        with ThreadPoolExecutor(SLOTS) as pool:
            try:
                for batch in batches:
                    shared = SharedFault()
                    for future in as_completed([pool.submit(self.run, plan, shared) for plan in batch]):
                        outcomes.append(outcome := future.result())
                        on_outcome(outcome)
                    wait_for(lambda: all_answer(self.sandbox))
            except BaseException:
                self._is_stopped.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        return outcomes

    def run(self, plan: Plan, shared: SharedFault | None = None) -> Outcome:
        """Run one plan from empty tables to the verdict.

        :param shared: the fault of the batch, if it hits all runs of the batch.
        """
        slot = self.slots.get()
        try:
            slot.heal()
            return self._run(plan, slot, shared or SharedFault())
        finally:
            slot.heal()
            self.slots.put(slot)

    def _run(self, plan: Plan, slot: Slot, shared: SharedFault) -> Outcome:
        started = time.monotonic()
        scene = self._set_up(plan, slot)
        outcome = Outcome(plan=plan, state="stuck", reached=False)
        try:
            scene.run_id = self.runner.start(scene.run_file)
            self._watch(scene, shared)
            shared.wait_for_the_end()
            Judge(scene=scene, outcome=outcome).judge()
        except Exception as error:  # an error of the harness in one run must not end the series
            outcome.state = "broken"
            outcome.notes.append(f"the harness failed: {error!r}")
        finally:
            if scene.copy is not None and scene.copy.poll() is None:
                scene.copy.kill()
        outcome.reached = scene.hit is not None
        outcome.seconds = time.monotonic() - started
        # a node of the sandbox may end by itself after another one was killed
        wait_for(lambda: all_answer(self.sandbox))
        oracle.drop_tables(self.sandbox, scene.database)
        return outcome

    def _set_up(self, plan: Plan, slot: Slot) -> Scene:
        name = self._database(plan)
        ending, objects = oracle.file_ending(plan.mode), self.stores[plan.store]
        prefix = shared_prefix(ending)
        if plan.is_export:
            prefix = name
        elif plan.kind.changes_objects or plan.mode in oracle.OWN_FILES:
            prefix = name
            put_files(objects, prefix, ending)
        table = oracle.make_tables(self.sandbox, name, plan.mode, has_slow_fetches=plan.kind is Kind.SLOW_REPLICA)
        scene = Scene(
            plan=plan,
            run_file=self.run_file(plan),
            database=name,
            prefix=prefix,
            ending=ending,
            objects=objects,
            sandbox=self.sandbox,
            runner=self.runner,
            environment=self.environment,
            airflow=self.airflow,
            slot=slot,
        )
        if plan.mode in oracle.AFTER_A_LOAD:
            self._load_before(scene, table)
        mark = f"late-{name}"
        if plan.kind is Kind.LATE_STATEMENT:
            scene.holds = [proxy.hold(mark) for proxy in slot.nodes]
        scene.run_file.write_text(json.dumps(self._spec(scene, table, mark)))
        return scene

    def _load_before(self, scene: Scene, table: str) -> None:
        """Load, without a fault, what the run is to replace or to undo."""
        plan, versions = scene.plan, oracle.earlier_versions(scene.plan.mode)
        if changed := {number: version for number, version in versions.items() if version or number >= oracle.FILES}:
            put_files(scene.objects, scene.prefix, scene.ending, changed)
        earlier = Plan(name=plan.name, mode=oracle.REPLACED, is_deferred=False, store=plan.store)
        run_file = scene.run_file.with_name(f"{scene.run_file.stem}_before.json")
        run_file.write_text(json.dumps(self._spec(replace(scene, plan=earlier), table, "")))
        run_id = self.runner.start(run_file)
        if not self._succeeds(run_id):  # the fault of another run of the batch has hit it
            wait_for(lambda: all_answer(self.sandbox))
            self.runner.clear(run_id)
            assert self._succeeds(run_id), "the load before the run failed"
        if changed:
            put_files(scene.objects, scene.prefix, scene.ending, dict.fromkeys(changed, 0))
        for number in versions.keys() - FIRST_VERSIONS.keys():
            scene.objects.delete(scene.key(number))

    def _succeeds(self, run_id: str) -> bool:
        wait_for(lambda: self.runner.state(run_id)[0] in OVER, END_SECONDS)
        return self.runner.state(run_id)[0] == "success"

    def _spec(self, scene: Scene, table: str, mark: str) -> dict[str, Any]:
        plan = scene.plan
        settings = {**SETTINGS, **FEW_REQUESTS[plan.store]}
        if plan.kind is Kind.OUT_OF_MEMORY:
            settings["max_memory_usage"] = 1_000_000
        if plan.kind is Kind.KILL_IN_MOVE:
            settings.update(MANY_PARTS)
        number = scene.slot.number
        arguments: dict[str, Any] = {
            "clickhouse_conn_id": f"faults_ch_{number}",
            "deferrable": plan.is_deferred,
            "settings": settings,
            "poll_interval": 0.25,
        }
        if plan.kind is Kind.HOSTILE_PROFILE:
            arguments["clickhouse_conn_id"] = f"faults_ch_{HOSTILE}_{number}"
        if plan.store in CONNECTION_ARGUMENTS:
            arguments[CONNECTION_ARGUMENTS[plan.store]] = f"faults_{plan.store}_{number}"
        if plan.is_export:
            is_partitioned = bool(plan.amount % 2)
            arguments |= export_arguments(
                table, scene.prefix, is_slow=plan.has_slow_insert, is_partitioned=is_partitioned
            )
        elif plan.mode == oracle.UNDO:
            arguments |= {
                "database": scene.database,
                "load": oracle.read_load_id(self.sandbox, scene.database),
            }
        else:
            port = scene.slot.stores[plan.store].port
            # what is no data file is seen, too, where rows of files that are gone are removed
            names = "*" if plan.mode == oracle.MISSING else f"*.{scene.ending}"
            arguments["source"] = scene.objects.source(port, scene.prefix, names)
            arguments |= load_arguments(plan.mode, table, is_slow=plan.has_slow_insert)
        if plan.kind is Kind.NEW_VIEW:
            arguments["mode"] = {"append": {"views": "replay", **KEEPING}}
        return {
            "operator": plan.mode if plan.mode in OPERATORS else plan.store,
            "arguments": arguments,
            "point": "" if plan.kind is Kind.MANY_CHANGED else plan.point,
            "action": ACTIONS.get(plan.kind, "wait"),
            "mark": mark,
            # between the check that the lock is free and the record that it is taken, for two loads at the same time
            "slow": "write_event_locked#1" if plan.kind is Kind.OTHER_NAMES else "",
            "retries": RETRIES,
            "denies_disposal": plan.kind is Kind.DENIED_DISPOSAL,
            "has_newer_profile": False,
            "timing": {"stall_seconds": STALL_SECONDS} if plan.kind is Kind.STOPPED_QUEUES else {},
            "again": 5 * plan.amount if plan.kind is Kind.KILL_TWICE else 0,
        }

    def _watch(self, scene: Scene, shared: SharedFault) -> None:
        """Cause the fault when its point is reached, and wait for the end of the task."""
        done = not scene.plan.kind.has_point
        deadline = time.monotonic() + END_SECONDS
        while not scene.has_ended() and time.monotonic() < deadline and not self._is_stopped.is_set():
            if not done and scene.hit is not None:
                done = True
                if not scene.plan.kind.is_for_all:
                    PERFORM[scene.plan.kind](scene)
                elif shared.take():
                    try:
                        PERFORM[scene.plan.kind](scene)
                    finally:
                        shared.end()
                else:
                    scene.go()
            passes = scene.plan.kind in (Kind.OUT_OF_MEMORY, Kind.DENIED_DISPOSAL)
            if passes and not scene.plan.lasts_to_the_end and read_errors(scene):
                remove_cause(scene)
            time.sleep(POLL_SECONDS)


def shared_prefix(ending: str) -> str:
    """Return where the files of all runs are that do not change them."""
    return f"shared-{ending}"


def put_files(objects: Objects, prefix: str, ending: str, versions: Mapping[int, int] = FIRST_VERSIONS) -> None:
    for number, version in versions.items():
        objects.put(key(prefix, number, ending), oracle.write_file(number, version, ending))


@contextmanager
def running_harness(
    config: SandboxConfig | None = None, *, has_airflow: bool = True, is_balanced: bool = False
) -> Iterator[Harness]:
    """Run everything for as long as the block lasts.

    :param config: the cluster; by default three nodes without replicas.
    :param has_airflow: False for the runner that forks.
    :param is_balanced: whether loads use a single address, behind which every statement reaches another node.
    """
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ch-s3-faults-")))
        config = replace(config or SandboxConfig(), directory=directory / "sandbox")
        write_profiles(config)
        if config.engine == "24.8":
            write_few_requests(config)
        sandbox = stack.enter_context(running_sandbox(config))
        stores = stack.enter_context(running_stores(sandbox))
        for objects in stores.values():
            for ending in oracle.ENDINGS:
                put_files(objects, shared_prefix(ending), ending)
        loop = Loop()
        stack.callback(loop.close)
        slots: SimpleQueue[Slot] = SimpleQueue()
        environment = {"PYTHONPATH": str(REPOSITORY)}
        ports: Sequence[int] = sandbox.http_ports
        if is_balanced:
            ports = [stack.enter_context(balancer(ports))]
        for number in range(SLOTS):
            slot = make_slot(stores, loop, number, ports)
            environment.update(connections(sandbox, stores, slot))
            slots.put(slot)
        for name in ("airflow", "runs"):
            (directory / name).mkdir()
        runner: Runner
        parts = None
        if has_airflow:
            # twice the slots: a suspended task still occupies one
            parts = stack.enter_context(
                running_airflow(directory / "airflow", sandbox, parallelism=2 * SLOTS, environment=environment)
            )
            api = AirflowApi(parts.address)
            runner = AirflowRunner(parts=parts, api=api)
            wait_for(lambda: api.call("GET", "dags")["dags"])
        else:
            runner = ForkRunner(environment)
            stack.callback(runner.close)
        yield Harness(
            sandbox=sandbox,
            stores=stores,
            runner=runner,
            environment=environment,
            airflow=parts,
            slots=slots,
            directory=directory / "runs",
        )


def write_few_requests(config: SandboxConfig) -> None:
    """Limit the requests of every query: 24.8 obeys the server's own profile alone."""
    number = FEW_REQUESTS[S3]["s3_retry_attempts"]
    profile = f"<default><s3_retry_attempts>{number}</s3_retry_attempts></default>"
    write_settings(config, "few_requests.xml", f"<clickhouse><profiles>{profile}</profiles></clickhouse>")


def make_slot(stores: Mapping[str, Objects], loop: Loop, number: int, ports: Sequence[int]) -> Slot:
    nodes = [Proxy(loop, port) for port in ports]
    before_stores = {name: Proxy(loop, objects.port) for name, objects in stores.items()}
    for proxy in (*nodes, *before_stores.values()):
        proxy.start()
    return Slot(number=number, nodes=nodes, stores=before_stores)


def connections(sandbox: Sandbox, stores: Mapping[str, Objects], slot: Slot) -> Mapping[str, str]:
    """Build the slot's Airflow connections: the same cluster and stores, through its proxies."""
    clickhouse = json.loads(sandbox.airflow_conn_clickhouse)
    clickhouse["port"] = slot.nodes[0].port
    is_balanced = len(slot.nodes) < sandbox.nodes
    endpoints = [] if is_balanced else [f"127.0.0.1:{proxy.port}" for proxy in slot.nodes]
    clickhouse["extra"]["http_endpoints"] = endpoints
    other = json.loads(json.dumps(clickhouse))
    other["extra"]["http_endpoints"] = other_names(endpoints) if endpoints else []
    hostile = {**clickhouse, "login": HOSTILE, "password": HOSTILE}
    made = {name: objects.connection(slot.stores[name].port) for name, objects in stores.items()}
    return {
        f"AIRFLOW_CONN_FAULTS_CH_{slot.number}": json.dumps(clickhouse),
        f"AIRFLOW_CONN_FAULTS_CH_OTHER_{slot.number}": json.dumps(other),
        f"AIRFLOW_CONN_FAULTS_CH_{HOSTILE.upper()}_{slot.number}": json.dumps(hostile),
        **{
            f"AIRFLOW_CONN_FAULTS_{name.upper()}_{slot.number}": json.dumps(connection)
            for name, connection in made.items()
            if connection
        },
    }


def other_names(endpoints: Sequence[str]) -> list[str]:
    """List the same nodes in another order, with names of which another node's sorts first."""
    first, *others, last = sorted(endpoints)
    return [last, *(name.replace("127.0.0.1", "localhost") for name in (*others, first))]
