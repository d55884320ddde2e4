"""The verdict on a run: its rows, its errors, and what it left behind."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from airflow_provider_ch_s3.common.text import count_of
from airflow_provider_ch_s3.errors import UnknownStateError
from airflow_provider_ch_s3.modes import LoadMode
from tests.faults import oracle
from tests.faults.faults import replace_object
from tests.faults.folder_judge import Folder
from tests.faults.plans import Kind, Plan
from tests.faults.runners import OVER
from tests.faults.scene import Scene, read_lines, wait_for
from tests.faults.tasks import LOADS
from tests.sandbox.processes import all_answer

# 2,000 changed files take four minutes on 24.8
END_SECONDS = 600.0
LEFTOVER_SECONDS = 5.0
FIRST_VERSIONS = dict.fromkeys(range(oracle.FILES), 0)
_REMEDIES = "clear the task,then,use ,give ,check,correct,look,raise,wait,restore,allow,remove it"
REMEDY = tuple(_REMEDIES.split(","))


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
        if scene.has_outlasted_the_load and not (scene.plan.is_export and state == "success"):
            # Only the next load can remove what arrives after the end: it has to, and rows must not change. An export
            # into a complete folder is refused.
            self._check_clear("after the next load")
        self._check_what_is_left(is_over=state == "success")
        if outcome.notes:
            outcome.state = "wrong"
            outcome.notes += [f"try {e['try']}: {e['type']}: {e['message'][:300]}" for e in read_errors(scene)]

    def _judge_success(self) -> None:
        self.outcome.state = "committed"
        if self.scene.plan.mode == oracle.FAILED_CHECK:
            self._note("it succeeded, although a check fails")
        if self.scene.plan.is_export:
            self._check_folder(must_be_complete=True)
            return
        self._compare(self._allowed(), "after the load")
        if wrong := oracle.find_wrong_defaults(self.scene.sandbox, self.scene.database):
            self._note(f"{count_of(wrong, 'row')} without the default of the added column")
        sequels = {
            Kind.SAME_RUN_AGAIN: self._run_again,
            Kind.DROPPED_LEDGER: self._drop_ledger,
            Kind.RENAMED_TABLE: self._rename,
            Kind.ONLY_MARKERS: self._leave_only_markers,
            Kind.MERGED_FILE_CHANGED: self._change_a_merged_file,
            Kind.RENAMED_AND_CHANGED: self._rename_and_change,
            Kind.MANY_CHANGED: self._change_many,
        }
        if follow := sequels.get(self.scene.plan.kind):
            follow()

    def _judge_unknown(self) -> None:
        """Check that no row is there twice: it cannot always be known what a killed node has kept of a MOVE."""
        self.outcome.state = "unknown"
        self._check_error()
        old = self._before()
        (new,) = self._allowed()
        found = self._read_rows()
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
        if plan.is_export:
            self._check_folder(must_be_complete=False)
        else:
            # The commit may be complete, and the fault may have kept every later try from finding that out, or from
            # deleting the files.
            denies = bool(plan.kind.trouble) or plan.kind is Kind.DENIED_DISPOSAL
            may_be_done = plan.kind.takes_servers_away or (plan.mode == oracle.DELETE and denies)
            after = self._allowed() if may_be_done else []
            self._compare([self._before(), *self._first_commits(), *after], "after the failed load")
        # A scheduler that takes the end of a deferral for the end of the task kills it, even in its last try.
        if plan.kind.leaves_servers_alone and self._last_error().get("try") == self.outcome.tries:
            self._check_leftovers()
        self._check_clear("after the clear")

    def _run_again(self) -> None:
        """Delete the committed run and trigger one with the same name, which has to find out what there is to load.

        In between, an object changes, or the table is re-created, or nothing happens.
        """
        scene = self.scene
        is_append = scene.plan.mode.startswith("append")
        number = scene.plan.amount % oracle.FILES
        wanted, end = self._allowed(), "success"
        oracle.age_ledger(scene.sandbox, scene.database)
        match scene.plan.amount % 3:
            case 0:
                oracle.drop_table(scene.sandbox, scene.database)
                oracle.make_tables(scene.sandbox, scene.database, scene.plan.mode)
                if scene.plan.mode not in (oracle.NEW_TABLE, LoadMode.REPLACE_TABLE.value):
                    # nobody knows of which files the rows of the new table are
                    wanted, end = [self._before()], "failed"
            case 1:
                replace_object(scene, number)
                if is_append:
                    end = "failed"  # the rows of the old version would stay
                else:
                    wanted = [self._expected({**FIRST_VERSIONS, number: 1})]
        self._start_again("the same run, triggered again", end=end, wanted=wanted)

    def _start_again(self, what: str, *, end: str = "success", wanted: list[oracle.Bag] | None = None) -> None:
        scene = self.scene
        scene.runner.start_again(scene.run_id, scene.run_file)
        self._wait_for_the_end()
        if (state := scene.runner.state(scene.run_id)[0]) != end:
            self._note(f"{what}, ended as {state}: {self._last_error()}")
        self._compare(self._allowed() if wanted is None else wanted, f"after {what}")

    def _drop_ledger(self) -> None:
        """Drop ledger and table, which the servers' logs remember, and trigger the same run again."""
        scene = self.scene
        oracle.drop_table(scene.sandbox, scene.database)
        oracle.drop_ledger(scene.sandbox, scene.database)
        oracle.make_tables(scene.sandbox, scene.database, scene.plan.mode)
        for number in range(oracle.FILES):
            scene.objects.put(scene.key(number), oracle.write_file(number, 0, scene.ending))
        self._start_again("the same run without its ledger")

    def _rename(self) -> None:
        """Load again into the table under another name, or into an empty one that has changed names with it."""
        scene, is_append = self.scene, self.scene.plan.mode.startswith("append")
        sandbox, database = scene.sandbox, scene.database
        if scene.plan.amount % 2:
            oracle.rename_table(sandbox, database, "events_local", "renamed_local")
            scene.edit_arguments(table=f"{database}.renamed_local")
            scene.runner.start_again(scene.run_id, scene.run_file)
            self._wait_for_the_end()
            oracle.rename_table(sandbox, database, "renamed_local", "events_local")
            scene.edit_arguments(table=f"{database}.events")
            self._compare(self._allowed(), "after a load under another name")
        elif is_append and scene.plan.mode != oracle.DELETE:
            oracle.make_spare(sandbox, database)
            oracle.exchange_with_spare(sandbox, database)
            added = [self._allowed()[0] - self._before()]
            self._start_again("a load into the other table", wanted=added)
            oracle.exchange_with_spare(sandbox, database)
        self._start_again("a load under the first name again")

    def _leave_only_markers(self) -> None:
        """Empty the folder but for what is no data file: no file at all is rather a mistake, and rows stay."""
        scene = self.scene
        for name in scene.objects.read(scene.prefix):
            scene.objects.delete(name)
        for name in (f"{scene.prefix}/_SUCCESS", f"{scene.prefix}/.part-00.parquet.crc"):
            scene.objects.put(name, b"1")
        succeeds = bool(scene.plan.amount % 2)
        scene.edit_arguments(arrivals={"on_none": "succeed" if succeeds else "fail"})
        self._start_again("a load of markers alone", end="success" if succeeds else "failed")

    def _change_a_merged_file(self) -> None:
        """Merge the files, then change one of them: its rows cannot be replaced any more, and stay."""
        scene = self.scene
        arguments = json.loads(scene.run_file.read_text())["arguments"]
        scene.edit_arguments(**LOADS[oracle.MERGE])
        merged = self._allowed()[0] - oracle.bag([row for row in oracle.rows_of(FIRST_VERSIONS) if row.id % 10 == 3])
        self._start_again("a merge of the same files", wanted=[merged])
        replace_object(scene, scene.plan.amount % oracle.FILES, scene.plan.changed_version)
        scene.edit(arguments=arguments)
        self._start_again("a load of a merged file that changed", end="failed", wanted=[merged])

    def _rename_and_change(self) -> None:
        """Change a file after the table was renamed: its rows are replaced under the new name."""
        scene, number = self.scene, self.scene.plan.amount % oracle.FILES
        changed = [self._expected({**FIRST_VERSIONS, number: scene.plan.changed_version})]
        oracle.rename_table(scene.sandbox, scene.database, "events_local", "renamed_local")
        scene.edit_arguments(table=f"{scene.database}.renamed_local")
        replace_object(scene, number, scene.plan.changed_version)
        scene.runner.start_again(scene.run_id, scene.run_file)
        self._wait_for_the_end()
        oracle.rename_table(scene.sandbox, scene.database, "renamed_local", "events_local")
        self._compare(changed, "after a file changed under another name")
        scene.edit_arguments(table=f"{scene.database}.events")
        self._start_again("a load under the first name again", wanted=changed)

    def _change_many(self) -> None:
        """Load 2,000 files more, and again when all of them have changed, with a kill in the middle of its commit."""
        scene, many = self.scene, oracle.MANY
        for version in (0, 1):
            for number in many:
                replace_object(scene, number, version)
            if version:
                scene.edit(point=scene.plan.point, action="kill")
            wanted = [self._expected({**FIRST_VERSIONS, **dict.fromkeys(many, version)})]
            self._start_again(f"version {version} of {len(many)} more files", wanted=wanted)

    def _check_clear(self, when: str) -> None:
        self.scene.runner.clear(self.scene.run_id)
        self._wait_for_the_end()
        end = "failed" if self.scene.plan.mode == oracle.FAILED_CHECK else "success"
        if self.scene.runner.state(self.scene.run_id)[0] != end:
            self._note(f"{when}, without the fault: {self._last_error()}")
        if self.scene.plan.is_export:
            self._check_folder(must_be_complete=True)
        else:
            self._compare([*self._allowed(), *self._loaded_again()], when)

    def _loaded_again(self) -> list[oracle.Bag]:
        """List what the table may hold if a clear loads the files once more, after people have removed rows."""
        plan, people = self.scene.plan, self.scene.people
        if plan.mode.startswith("append") or plan.mode == oracle.UNDO:
            return []
        shards, gone = self.scene.sandbox.shards, people.removed
        again = oracle.expected(plan.mode, shards, FIRST_VERSIONS, without=gone) + people.added
        return self._with_what_a_merge_finds([again])

    def _check_folder(self, *, must_be_complete: bool) -> None:
        """Check that the folder of an export is complete, or does not claim to be, and holds nothing else then."""
        plan, folder = self.scene.plan, Folder.read(self.scene.objects, self.scene.prefix)
        if not folder.is_complete:
            if must_be_complete:
                self._note(f"no complete folder, but {sorted(folder.objects)}")
            elif plan.kind.leaves_servers_alone and not plan.kind.trouble and folder.objects:
                self._note(f"left in the folder: {sorted(folder.objects)}")
            return
        wanted = self._before()
        difference, notes = folder.find_wrong(wanted)
        self.outcome.notes += notes
        self._add(difference, "in the folder")
        # A statement of a dead process may arrive after the end.
        if plan.kind is not Kind.LATE_STATEMENT and (doubled := folder.find_doubled(wanted)):
            self._add(oracle.Difference(lost=0, extra=doubled), "in all files of the folder")

    def _check_deleted(self, *, is_over: bool) -> None:
        """Check that exactly the files whose rows are in the table have been deleted.

        :param is_over: whether the load has had its chance to delete them.
        """
        scene, found = self.scene, self._read_rows() + self.scene.people.removed
        there = scene.objects.read(scene.prefix)

        def is_loaded(number: int, version: int) -> bool:
            return oracle.file_rows(number, version)[1].text in found

        for number in range(oracle.FILES):
            body = there.get(scene.key(number))
            versions = [v for v in (0, 1) if body == oracle.write_file(number, v, scene.ending)]
            if body is None and not is_loaded(number, 0) and not is_loaded(number, 1):
                if scene.plan.kind is not Kind.OBJECT_DELETED or number != scene.plan.amount % oracle.FILES:
                    self._note(f"file {number} is gone, and its rows are not in the table")
            elif is_over and any(is_loaded(number, version) for version in versions):
                self._note(f"file {number} was loaded and is still there")

    def _wait_for_the_end(self) -> None:
        wait_for(lambda: not self.scene.has_ended(), 10)
        wait_for(self.scene.has_ended, END_SECONDS)

    def _check_what_is_left(self, *, is_over: bool) -> None:
        if self.outcome.state != "unknown":
            self._check_leftovers()
        if self.scene.plan.kind is Kind.NEW_VIEW and self.outcome.reached:
            self._check_view()
        if self.scene.plan.mode == oracle.DELETE:
            self._check_deleted(is_over=is_over)
        if shared := oracle.find_shared_epochs(self.scene.sandbox, self.scene.database):
            self._note(f"the lock had more than one owner in epochs {shared}")

    def _check_view(self) -> None:
        """Check that a view that was there before the commit has each loaded row once."""
        wanted = Counter(row.id for number in FIRST_VERSIONS for row in oracle.file_rows(number))
        found = oracle.read_view(self.scene.sandbox, self.scene.database)
        if found != wanted:
            lost, extra = (wanted - found).total(), (found - wanted).total()
            self._note(f"the view: {count_of(lost, 'row')} lost, {extra} too many")

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
        elif "DB::" in error["message"]:
            self._note(f"the error has the server's raw text: {error}")

    def _compare(self, allowed: list[oracle.Bag], when: str) -> None:
        self._add(oracle.closest(self._read_rows(), allowed), when)

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
        listed = [FIRST_VERSIONS]
        number = plan.amount % oracle.FILES
        match plan.kind:
            case Kind.OBJECT_CHANGED:
                listed.append({**FIRST_VERSIONS, number: plan.changed_version})
            case Kind.OBJECT_DELETED:
                listed.append({n: version for n, version in FIRST_VERSIONS.items() if n != number})
            case Kind.OBJECT_NEW:
                listed.append({**FIRST_VERSIONS, oracle.FILES: 0})
        allowed = [self._expected(versions) for versions in listed]
        if plan.kind is Kind.EDITED_ARGUMENTS:
            allowed.append(self._expected(FIRST_VERSIONS, is_edited=True))
        return self._with_what_a_merge_finds([*allowed, *self._come_again()])

    def _come_again(self) -> list[oracle.Bag]:
        """List what the table may hold if people have taken away rows of an unfinished commit.

        Rows of an unfinished append count as not loaded if people delete all of them in a partition. A merge that
        finds no newer row any more adds the row of the file.
        """
        plan, people, shards = self.scene.plan, self.scene.people, self.scene.sandbox.shards
        of_files = oracle.bag(oracle.rows_of(FIRST_VERSIONS))
        if plan.mode == oracle.MERGE and people.removed and not people.removed & of_files:
            return self._loaded_again()
        if not people.takes_partitions or plan.mode not in oracle.ADDING:
            return []
        step = oracle.FILES_PER_CHUNK if plan.mode == oracle.CHUNKS else oracle.FILES
        commits = [range(first, first + step) for first in range(0, oracle.FILES, step)]
        rows = [oracle.bag(oracle.rows_of(dict.fromkeys(numbers, 0))) for numbers in commits]
        loaded = oracle.expected(plan.mode, shards, FIRST_VERSIONS)
        return [people.with_rows_again(one).change(loaded) for one in rows]

    def _with_what_a_merge_finds(self, allowed: list[oracle.Bag]) -> list[oracle.Bag]:
        """Add what the table may hold if a merge has found newer rows of people with keys of a file."""
        beaten = self.scene.people.beaten
        return [*allowed, *(one - beaten for one in allowed)] if beaten else allowed

    def _first_commits(self) -> list[oracle.Bag]:
        """List what the table may hold after a load of several commits that failed with a later one."""
        if self.scene.plan.mode == oracle.MISSING:
            return [self._expected({**FIRST_VERSIONS, oracle.GONE_FILE: 0})]
        if self.scene.plan.mode != oracle.CHUNKS:
            return []
        ends = range(oracle.FILES_PER_CHUNK, oracle.FILES, oracle.FILES_PER_CHUNK)
        return [self._expected(dict.fromkeys(range(end), 0)) for end in ends]

    def _expected(self, versions: Mapping[int, int], *, is_edited: bool = False) -> oracle.Bag:
        mode, shards = self.scene.plan.mode, self.scene.sandbox.shards
        return self.scene.people.change(oracle.expected(mode, shards, versions, is_edited=is_edited))

    def _before(self) -> oracle.Bag:
        return self.scene.people.change(oracle.before(self.scene.plan.mode, self.scene.sandbox.shards))

    def _read_rows(self) -> oracle.Bag:
        return oracle.read_rows(self.scene.sandbox, self.scene.database, self.scene.plan.mode)

    def _last_error(self) -> dict[str, Any]:
        return next(reversed(read_errors(self.scene)), {})


def read_errors(scene: Scene) -> list[dict[str, Any]]:
    """Read why each failed try has failed."""
    return read_lines(scene.run_file.with_suffix(".errors"))


def remove_cause(scene: Scene) -> None:
    """End the fault if it would last."""
    scene.slot.heal()
    wait_for(lambda: all_answer(scene.sandbox, scene.database))
    settings = json.loads(scene.run_file.read_text())["arguments"]["settings"]
    if settings.pop("max_memory_usage", None):
        scene.edit_arguments(settings=settings)
    scene.edit(denies_disposal=False, has_newer_profile=False)


def judge_copy(copy: subprocess.Popen[bytes], log: Path) -> list[str]:
    """Check that a copy has succeeded, or failed with an error of this package."""
    if copy.poll() is None:
        return ["the second copy never ended"]
    last = log.read_text().strip().splitlines()[-1:]
    if copy.returncode and not any(line.startswith("airflow_provider_ch_s3.errors.") for line in last):
        return [f"the second copy crashed: {last}"]
    return []
