"""The verdict on a run: its rows, its errors, and what it left behind."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from airflow_provider_ch_s3.errors import UnknownStateError
from airflow_provider_ch_s3.units import count_of
from tests.faults import oracle
from tests.faults.faults import replace_object
from tests.faults.plans import Kind, Plan
from tests.faults.runners import OVER
from tests.faults.scene import Scene, read_lines, wait_for
from tests.sandbox.processes import all_answer

END_SECONDS = 240.0
LEFTOVER_SECONDS = 5.0
REMEDY = ("clear the task", "then", "use ", "give ", "check", "correct", "look", "raise", "wait", "restore")


@dataclass(kw_only=True)
class Outcome:
    """How one run ended.

    :param state: ``committed``; ``failed_clean``; ``unfinished``: it failed within its commit, which the next try
        continues; ``unknown``: it failed, and reported that what a killed node has kept is unknown; ``wrong``;
        ``stuck``: it never ended; ``broken``: the harness failed.
    :param notes: descriptions of everything that is wrong; empty for a good run.
    """

    plan: Plan
    state: str
    reached: bool
    lost: int = 0
    doubled: int = 0
    leftovers: int = 0
    tries: int = 0
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        text = f"{self.plan}: {self.state} in try {self.tries}, {self.seconds:.1f} s"
        if self.plan.point and not self.reached:
            text += ", point not reached"
        return "\n  ".join((text, *self.notes))


@dataclass(kw_only=True)
class Judge:
    """Compares one run with the promised behaviour, and records what is wrong."""

    scene: Scene
    outcome: Outcome

    def judge(self) -> None:
        scene, outcome = self.scene, self.outcome
        state, outcome.tries = scene.runner.state(scene.run_id)
        if state not in OVER:
            self._note(f"the task is {state} after {END_SECONDS:.0f} s; {self._last_error()}")
            return
        remove_cause(scene)
        if scene.copy is not None:
            outcome.notes += judge_copy(scene.copy, scene.run_file.with_suffix(".copy"))
        if state == "success":
            self._judge_success()
        elif scene.plan.kind.kills_nodes and self._last_error().get("type") == UnknownStateError.__name__:
            self._judge_unknown()
        elif oracle.has_open_commit(scene.sandbox, scene.database):
            self._judge_unfinished()
        else:
            self._judge_failure()
        if scene.has_outlasted_the_load:
            # Only the next load can remove what arrives after the end: it has to, and rows must not change.
            self._check_clear("after the next load")
        if outcome.state != "unknown":
            self._check_leftovers()
        if shared := oracle.find_shared_epochs(scene.sandbox, scene.database):
            self._note(f"the lock had more than one owner in epochs {shared}")
        if outcome.notes:
            outcome.state = "wrong"
            outcome.notes += [f"try {e['try']}: {e['type']}: {e['message'][:300]}" for e in read_errors(scene)]

    def _judge_success(self) -> None:
        self.outcome.state = "committed"
        self._compare(self._allowed(), "after the load")
        if wrong := oracle.find_wrong_defaults(self.scene.sandbox, self.scene.database):
            self._note(f"{count_of(wrong, 'row')} without the default of the added column")
        if self.scene.plan.kind is Kind.SAME_RUN_AGAIN:
            self._run_again()

    def _judge_unknown(self) -> None:
        """Check that no row is there twice: it cannot always be known what a killed node has kept of a MOVE."""
        self.outcome.state = "unknown"
        self._check_error()
        old = oracle.bag(self._old_rows())
        (new,) = self._allowed()
        found = oracle.read_rows(self.scene.sandbox, self.scene.database)
        self._add(oracle.between(found, old & new, old | new), "after the failed load")

    def _judge_unfinished(self) -> None:
        """Judge a fault that lasted from the middle of the commit until after the last retry.

        Until its end, the commit can be neither undone nor continued. A clear has to continue it.
        """
        self.outcome.state = "unfinished"
        self._check_error()
        if not self.scene.plan.kind.takes_servers_away:
            self._note("the commit was left unfinished, although nothing prevented a retry from finishing it")
        self._check_clear("after the clear")

    def _judge_failure(self) -> None:
        plan = self.scene.plan
        self.outcome.state = "failed_clean"
        self._check_error()
        # The commit may be complete, and the fault may have kept every later try from finding that out.
        after = self._allowed() if plan.kind.takes_servers_away else []
        self._compare([oracle.bag(self._old_rows()), *self._first_chunks(), *after], "after the failed load")
        # A scheduler that takes the end of a deferral for the end of the task kills it, even in its last try.
        if plan.kind.leaves_servers_alone and self._last_error().get("try") == self.outcome.tries:
            self._check_leftovers()
        self._check_clear("after the clear")

    def _run_again(self) -> None:
        """Delete the committed run and trigger one with the same name, which has to find out what there is to load.

        In between, an object changes, or the table is re-created, or nothing happens.
        """
        scene = self.scene
        is_append = scene.plan.mode in ("append", oracle.CHUNKS)
        number = scene.plan.amount % oracle.FILES
        wanted, end = self._allowed(), "success"
        oracle.age_ledger(scene.sandbox, scene.database)
        match scene.plan.amount % 3:
            case 0:
                oracle.drop_table(scene.sandbox, scene.database)
                oracle.make_tables(scene.sandbox, scene.database)
            case 1:
                replace_object(scene, number)
                if is_append:
                    end = "failed"  # the rows of the old version would stay
                else:
                    wanted = [self._expected({**plain_files(), number: oracle.file_rows(number, 1)})]
        scene.runner.start_again(scene.run_id, scene.run_file)
        self._wait_for_the_end()
        if (state := scene.runner.state(scene.run_id)[0]) != end:
            self._note(f"the same run, triggered again, ended as {state}: {self._last_error()}")
        self._compare(wanted, "after the same run, triggered again")

    def _check_clear(self, when: str) -> None:
        self.scene.runner.clear(self.scene.run_id)
        self._wait_for_the_end()
        if self.scene.runner.state(self.scene.run_id)[0] != "success":
            self._note(f"{when}, without the fault: {self._last_error()}")
        self._compare(self._allowed(), when)

    def _wait_for_the_end(self) -> None:
        wait_for(lambda: not self.scene.has_ended(), 10)
        wait_for(self.scene.has_ended, END_SECONDS)

    def _check_leftovers(self) -> None:
        found: list[str] = []

        def is_clean() -> bool:
            found[:] = oracle.find_leftovers(self.scene.sandbox, self.scene.database)
            return not found

        wait_for(is_clean, LEFTOVER_SECONDS)
        self.outcome.leftovers += len(found)
        self.outcome.notes += found

    def _check_error(self) -> None:
        error = self._last_error()
        if not error:
            self._note("the task failed without an error")
        elif not error["ours"] or not any(word in error["message"] for word in REMEDY):
            self._note(f"the error does not say what to do: {error}")

    def _compare(self, allowed: list[oracle.Bag], when: str) -> None:
        self._add(oracle.closest(oracle.read_rows(self.scene.sandbox, self.scene.database), allowed), when)

    def _add(self, difference: oracle.Difference, when: str) -> None:
        if difference:
            self.outcome.lost += difference.lost
            self.outcome.doubled += difference.extra
            self._note(f"{when}: {count_of(difference.lost, 'row')} lost, {difference.extra} too many")

    def _note(self, text: str) -> None:
        self.outcome.notes.append(text)

    def _allowed(self) -> list[oracle.Bag]:
        """List what the table may hold after a load: the objects before or after their change, never a mixture."""
        plan = self.scene.plan
        files = plain_files()
        versions = [files]
        number = plan.amount % oracle.FILES
        match plan.kind:
            case Kind.OBJECT_CHANGED:
                versions.append({**files, number: oracle.file_rows(number, 1)})
            case Kind.OBJECT_DELETED:
                versions.append({n: rows for n, rows in files.items() if n != number})
            case Kind.OBJECT_NEW:
                versions.append({**files, oracle.FILES: oracle.file_rows(oracle.FILES)})
        return [self._expected(version) for version in versions]

    def _first_chunks(self) -> list[oracle.Bag]:
        """List what the table may hold after a load in chunks that failed with a later one."""
        if self.scene.plan.mode != oracle.CHUNKS:
            return []
        ends = range(oracle.FILES_PER_CHUNK, oracle.FILES, oracle.FILES_PER_CHUNK)
        return [self._expected(dict(list(plain_files().items())[:end])) for end in ends]

    def _expected(self, files: Mapping[int, list[oracle.Row]]) -> oracle.Bag:
        shards = self.scene.sandbox.shards
        return oracle.expected(self.scene.plan.mode, shards, [row for rows in files.values() for row in rows])

    def _old_rows(self) -> list[oracle.Row]:
        return [row for rows in oracle.old_rows(self.scene.sandbox.shards) for row in rows]

    def _last_error(self) -> dict[str, Any]:
        return next(reversed(read_errors(self.scene)), {})


def read_errors(scene: Scene) -> list[dict[str, Any]]:
    """Read why each failed try has failed."""
    return read_lines(scene.run_file.with_suffix(".errors"))


def remove_cause(scene: Scene) -> None:
    """End the fault if it would last."""
    scene.slot.heal()
    wait_for(lambda: all_answer(scene.sandbox))
    spec = json.loads(scene.run_file.read_text())
    if spec["arguments"]["settings"].pop("max_memory_usage", None):
        new = scene.run_file.with_suffix(".new")
        new.write_text(json.dumps(spec))
        os.replace(new, scene.run_file)


def judge_copy(copy: subprocess.Popen[bytes], log: Path) -> list[str]:
    """Check that a copy has succeeded, or failed with an error of this package."""
    if copy.poll() is None:
        return ["the second copy never ended"]
    last = log.read_text().strip().splitlines()[-1:]
    if copy.returncode and not any(line.startswith("airflow_provider_ch_s3.errors.") for line in last):
        return [f"the second copy crashed: {last}"]
    return []


def plain_files() -> dict[int, list[oracle.Row]]:
    return {number: oracle.file_rows(number) for number in range(oracle.FILES)}
