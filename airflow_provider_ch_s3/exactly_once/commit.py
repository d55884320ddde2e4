"""The commit: move staged partitions into the target on every node, without copying a row.

Any process can finish a commit that was interrupted. Others may have written to the target in between, so it looks at
each partition first: it moves only parts that have not arrived, and replaces only partitions that have not been
replaced. If others have changed one of these, what the commit puts there is worked out again from the rows that are
there now.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import Any, assert_never

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.common.text import count_of
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import ChS3Error, LoadError, ServerError, UnknownStateError
from airflow_provider_ch_s3.exactly_once.commit_plan import CommitPlan
from airflow_provider_ch_s3.exactly_once.history import AttemptId
from airflow_provider_ch_s3.exactly_once.ledger import read_uuids
from airflow_provider_ch_s3.exactly_once.merge import SurvivorsOfMerge
from airflow_provider_ch_s3.exactly_once.moved import (
    Before,
    Part,
    count_lost,
    find_moved,
    parse_part,
)
from airflow_provider_ch_s3.exactly_once.replaced import Replacement, find_foreign, find_replacement
from airflow_provider_ch_s3.exactly_once.staging import MERGED, Staging, StagingTable
from airflow_provider_ch_s3.exactly_once.survivors import Survivors, SurvivorsOfCondition, check_changes_applied
from airflow_provider_ch_s3.introspection.table import read_columns
from airflow_provider_ch_s3.modes import LoadMode
from airflow_provider_ch_s3.sql import staging_queries
from airflow_provider_ch_s3.sql.load_queries import render_flush_logs
from airflow_provider_ch_s3.table.new_table import NewColumn
from airflow_provider_ch_s3.table.target import TableColumn, TableName

log = get_log(__name__)

# The clocks of two servers may differ.
CLOCK_MARGIN_SECONDS = 5.0

Place = tuple[str, str]
"""A node, and a partition there."""

Record = Callable[[CommitPlan], None]
"""Writes the plan of a commit to the ledger."""


@dataclass(kw_only=True)
class Commit:
    """The commit of one attempt, by the owner of one epoch.

    :param epoch: of the lock that this process holds; the staging tables are named after it already.
    :param began_at: Unix time when the ledger recorded that it began, if another process began it.
    :ivar seconds: what its steps by this owner have taken so far.
    """

    client: ClickHouseClient
    staging: Staging
    attempt: AttemptId
    epoch: int
    plan: CommitPlan
    began_at: float = 0.0
    seconds: float = field(default=0.0, init=False)
    _count: int = field(default=0, init=False)
    _owed: Collection[Place] | None = field(default=None, init=False)

    def is_possible(self) -> bool:
        """Whether the target is still the table that the rows were staged for: not re-created, nor exchanged."""
        found = read_uuids(self.client, self.staging.target, self.staging.cluster)
        return found == set(self.plan.table_uuids)

    def prepare(self) -> None:
        """Prepare what the commit needs besides the staged rows, and read the tables; the target stays as it is.

        :raises LoadError: if the rows to keep cannot be kept as they are.
        """
        if self.plan.sets_rows_aside:
            touched, merged = self._set_aside(only=None)
            self.plan = replace(self.plan, touched=touched, report=replace(self.plan.report, merge=merged))
        else:
            for role in self._roles:
                # If the commit is interrupted, each staged part must still be the one that was cloned.
                render = partial(staging_queries.render_hold_merges, self._staged(role))
                self.client.execute_everywhere(render, query_id=self._query_id())
                if self.plan.mode is LoadMode.APPEND:
                    self.staging.agree(self._staged(role), is_exact=self._is_exact(role), with_merges=True)
        self.plan = replace(self.plan, before={role: self._read_before(role) for role in self._roles})
        if not self.plan.replaced:
            self.plan = replace(self.plan, replaced=self._count_replaced())

    def check_staged(self) -> None:
        """Check that no row was lost or added since the rows were verified, which may have been long ago.

        After :meth:`prepare`, and only before anything was moved.

        :raises LoadError: if the numbers of rows differ.
        """
        staged = self._count_staged()
        if self.plan.keeps_all_rows and staged != Counter(self.plan.partitions):
            raise LoadError(
                f"{self._staged()} holds {count_of(staged.total(), 'row')}, and held"
                f" {count_of(self.plan.staged_rows, 'row')} when they were verified; nothing was"
                " committed: load again"
            )

    def run(self) -> None:
        """Bring the target to its new state; after :meth:`prepare`, or :meth:`resume`."""
        match self.plan.mode:
            case LoadMode.APPEND:
                for role in self._roles:
                    self._move(role)
            case LoadMode.REPLACE_PARTITIONS:
                self._replace(self.plan.partitions)
            case LoadMode.REPLACE_TABLE:
                self._replace({p for (_, p), before in self._before("") if before.rows or before.staged_rows})
            case LoadMode.REPLACE_WHERE | LoadMode.MERGE:
                self._replace(self.plan.touched)
            case _:
                assert_never(self.plan.mode)

    def resume(self, record: Record) -> None:
        """Prepare to finish an interrupted commit; afterwards the ledger has the plan of what is left to do.

        :raises UnknownStateError: if it cannot be determined what the target has already.
        :raises LoadError: if what others have written would be lost.
        """
        if self.plan.mode is LoadMode.APPEND:
            for role in self.plan.before:
                self._drop_moved(role)
            self.prepare()
        else:
            self._resume_replacing(record)
        record(self.plan)

    def has_changed_nothing(self) -> bool:
        """Whether no step has reached the target.

        :raises UnknownStateError: if that cannot be determined.
        """
        if not self.plan.is_untouched:
            return False
        if self.plan.mode is LoadMode.APPEND:
            return self._is_all_staged() and not any(self._find_moved(role) for role in self.plan.before)
        found, _ = self._find_replacements()
        return not {Replacement.DONE, Replacement.HALF} & set(found.values())

    def fit_staged(self) -> bool:
        """Alter the staging tables of a half-done append as the columns of the target were altered meanwhile.

        So the rest has what it would have if it had been committed before the ALTER. The modes that replace need none
        of this: they are repeated as a whole.

        :returns: whether a table was altered; False if none differs, or if that is not possible.
        """
        if self.plan.mode is not LoadMode.APPEND:
            return False
        is_altered = False
        for role in self._roles:
            staged, cluster = self._staged(role), self.staging.cluster
            wanted = read_columns(self.client, self._destination(role), cluster)
            found = read_columns(self.client, staged, cluster)
            for node, address in self._agree(staged, role).items():
                changes = find_changes(found[node], wanted.get(node, ()))
                if changes is None:
                    continue
                log.warning("%s: altering %s as its target was altered meanwhile: %s", node, staged, changes)
                statement = staging_queries.render_alter_staging(
                    staged, added=changes.added, dropped=changes.dropped, modified=changes.modified
                )
                try:
                    self.client.execute_on([address], statement, query_id=self._query_id())
                except ServerError as error:
                    log.warning("%s cannot be altered on %s: %s", staged, node, error)
                    return False
                is_altered = True
        return is_altered

    def _count_replaced(self) -> dict[str, int]:
        if self.plan.mode in (LoadMode.APPEND, LoadMode.MERGE):
            return {}
        replaced: Counter[str] = Counter()
        for (_, partition), before in self._before(""):
            replaced[partition] += before.rows
        if self.plan.mode is LoadMode.REPLACE_WHERE:
            for (_, partition), row in self._read_partitions(self._staged(MERGED), MERGED).items():
                replaced[partition] -= row["rows"]
            for partition, rows in self.plan.partitions.items():
                replaced[partition] += rows
        return {partition: rows for partition, rows in sorted(replaced.items()) if rows > 0}

    def _move(self, role: str) -> None:
        staged, target = self._staged(role), self._destination(role)
        partitions = {partition for (_, partition), _ in self._before(role)}
        render = partial(staging_queries.render_move_partitions, staged, target)
        self.staging.alter(self._agree(staged, role).values(), partitions, render, self._query_id)
        if left := self._read_partitions(staged, role):
            raise LoadError(
                f"{staged} still holds rows of {count_of(len(left), 'partition')} after they were moved to"
                f" {target}, so the commit is incomplete; load again, which finishes it"
            )
        self._agree(target, role)

    def _drop_moved(self, role: str) -> None:
        """Drop staged parts that the target already has, because their node died while it moved them."""
        nodes = self._agree(self._staged(role), role)
        self._check_nodes(role, nodes)
        for node, moved in self._find_moved(role):
            log.warning("%s: dropping %s that the target already has", node, count_of(len(moved), "staged part"))
            statement = staging_queries.render_drop_parts(self._staged(role), parts=moved)
            self.client.execute_on([nodes[node]], statement, query_id=self._query_id())

    def _find_moved(self, role: str) -> list[tuple[str, Sequence[str]]]:
        """Find the nodes, and the staged parts there, whose rows the target has already.

        :raises UnknownStateError: if that cannot be determined.
        """
        # In this order: a part that moves between the two reads is then seen twice, and never not at all.
        staged = self._read_parts(self._staged(role), role)
        target = self._read_parts(self._destination(role), role)
        found: list[tuple[str, Sequence[str]]] = []
        for (node, partition), before in self._before(role):
            parts = [part for part in staged.get((node, partition), ()) if part.is_active and part.rows]
            keeps_all_rows = self.plan.keeps_all_rows and not role
            arrived = target.get((node, partition), ())
            if keeps_all_rows and (lost := count_lost(parts, arrived, before)):
                self._check_not_broken(node, partition, lost)
            try:
                moved = find_moved(parts, arrived, before, keeps_all_rows=keeps_all_rows)
            except UnknownStateError as error:
                raise UnknownStateError(
                    f"{node} died while it moved partition {partition} from {self._staged(role)} to"
                    f" {self._destination(role)}, and what has arrived can no longer be determined: {error}; compare"
                    " the two tables there, drop from the staging table what the target has, and load again"
                ) from error
            if moved:
                found.append((node, moved))
        return found

    def _check_not_broken(self, node: str, partition: str, lost: int) -> None:
        """Check that rows which are in neither table were not lost with a part that the server could not read.

        Otherwise somebody has deleted them since, or a merge has removed what was deleted before.

        :raises UnknownStateError: if they were.
        """
        tables = [self._staged(), self.staging.target]
        try:
            rows = self.client.query(
                staging_queries.render_read_broken_parts(tables, self.staging.cluster, partition=partition)
            )
        except ServerError as error:
            log.warning("could not check %s for broken parts: %s", node, error)
            rows = []
        if any(row["node"] == node for row in rows):
            raise self._rows_lost(node, partition, lost)
        log.warning(
            "%s: partition %s has %s fewer than it had with the moved ones: they were deleted meanwhile",
            node,
            partition,
            count_of(lost, "row"),
        )

    def _rows_lost(self, node: str, partition: str, lost: int) -> UnknownStateError:
        return UnknownStateError(
            f"{node} died while partition {partition} was committed, and {count_of(lost, 'row')} of it are in neither"
            f" {self._staged()} nor {self.staging.target}: look at system.detached_parts there for parts that"
            " ClickHouse has set aside as broken, as happens on S3 disks, attach what can be repaired, and load"
            f" again; or give the rest of this commit up: drop {self._staged()} on every node, then load the files of"
            " its partitions with mode='replace_partitions'"
        )

    def _check_nothing_lost(self) -> None:
        """Check that an interrupted commit that replaces partitions still has all rows to replace them with.

        :raises UnknownStateError: if some are gone.
        """
        found: Counter[str] = Counter()
        for (_, partition), row in self._read_partitions(self._staged(), "").items():
            found[partition] += row["rows"]
        nodes = {partition: node for (node, partition), _ in self._before("")}
        for partition, rows in self.plan.partitions.items():
            if self.plan.keeps_all_rows and found[partition] < rows:
                raise self._rows_lost(nodes.get(partition, "a node"), partition, rows - found[partition])

    def _is_all_staged(self) -> bool:
        found = [(self._read_partitions(self._staged(role), role), role) for role in self.plan.before]
        return all(
            staged.get(place, {"rows": 0})["rows"] == before.staged_rows
            for staged, role in found
            for place, before in self._before(role)
        )

    def _replace(self, partitions: Collection[str] = ()) -> None:
        """Replace partitions on all nodes; of a commit that was interrupted, only what it still owes."""
        role = self._source_role
        nodes = self._agree(self._staged(role), role)
        render = partial(
            staging_queries.render_replace_partitions,
            self._staged(role),
            self.staging.target,
            allow_empty=self.plan.allow_empty,
        )
        if self._owed is None:
            self.staging.alter(nodes.values(), partitions, render, self._query_id)
        else:
            self._check_nodes("", nodes)
            for node, places in groupby(sorted(self._owed), key=_node):
                owed = [partition for _, partition in places]
                self.staging.alter([nodes[node]], owed, render, self._query_id)
        self._agree(self.staging.target, role)

    def _resume_replacing(self, record: Record) -> None:
        """Replace what has to be replaced as it was prepared, and work out the rest again."""
        found, foreign = self._find_replacements()
        if not self.plan.sets_rows_aside:
            self._check_nothing_lost()
            for place, parts in foreign.items():
                raise self._would_remove(place, parts)
        touched = {place for place, state in found.items() if state is Replacement.TOUCHED}
        ready = {place for place, state in found.items() if state in (Replacement.OWED, Replacement.HALF)}
        done = len(found) - len(touched) - len(ready)
        log.info(
            "%s of %s have been replaced already, and others have changed %s of the rest",
            done,
            count_of(len(found), "partition"),
            len(touched),
        )
        if not self.plan.sets_rows_aside:
            ready, touched = ready | touched, set()  # all their rows go
        elif ready:
            check_changes_applied(self.client, self.staging.target, self.staging.cluster)
        if not touched and self._is_set_aside():
            self._limit_to(ready)
            return
        if self.plan.is_untouched:
            self.plan = replace(self.plan, is_set_aside=False)
            record(self.plan)
            self.plan = replace(self.plan, replaced={})
            self.prepare()
        else:
            if ready:
                self._limit_to(ready)
                self._replace()
            self._work_out(touched, record)
        self.plan = replace(self.plan, is_set_aside=True)

    def _work_out(self, places: Collection[Place], record: Record) -> None:
        """Set aside again what some places are to hold, because others have changed these; the rest is done."""
        self._limit_to(places)
        self.plan = replace(self.plan, is_set_aside=False)
        record(self.plan)
        self._set_aside(only=sorted({partition for _, partition in places}))
        self.plan = replace(self.plan, before={"": self._read_before("")})
        self._limit_to(places)

    def _limit_to(self, places: Collection[Place]) -> None:
        """Limit the plan to the places that have not been replaced yet."""
        self._owed = places
        before: dict[str, dict[str, Before]] = {}
        for (node, partition), one in self._before(""):
            if (node, partition) in places:
                before.setdefault(node, {})[partition] = one
        self.plan = replace(self.plan, before={"": before})

    def _set_aside(self, *, only: Collection[str] | None) -> tuple[list[str], Mapping[str, int]]:
        """Set aside what partitions are to hold.

        :param only: these partitions, of a commit that has replaced others; None for all that change.
        :returns: the partitions, and what became of the rows of a merge.
        """
        survivors: Survivors
        if self.plan.merge is None:
            survivors = SurvivorsOfCondition(only=only, **self._of_commit)
            return survivors.collect(), {}
        survivors = SurvivorsOfMerge(rule=self.plan.merge, only=only, **self._of_commit)
        return survivors.collect(), survivors.counts

    def _is_set_aside(self) -> bool:
        """Whether every node still has the rows that replace those of the target."""
        if not self.plan.sets_rows_aside:
            return True
        table = StagingTable(attempt=self.attempt, epoch=self.epoch, role=MERGED)
        nodes = {node.host for node in self.staging.replicas.nodes}
        return self.plan.is_set_aside and nodes <= self.staging.find().get(table, set())

    @property
    def _of_commit(self) -> dict[str, Any]:
        """What the survivors need to know, whichever rows these are."""
        return {
            "client": self.client,
            "staging": self.staging,
            "attempt": self.attempt,
            "epoch": self.epoch,
            "plan": self.plan,
            "next_query_id": self._query_id,
        }

    def _find_replacements(self) -> tuple[dict[Place, Replacement], dict[Place, Sequence[Part]]]:
        """Find how far the replacement of each partition is, where the plan says that it is owed.

        :returns: that, and the parts that others have written since to partitions that have not been replaced.
        :raises UnknownStateError: if that cannot be determined.
        """
        places = {
            place: before
            for place, before in self._before("")
            if not self.plan.sets_rows_aside or place[1] in self.plan.touched
        }
        if not self._is_set_aside():
            # An owner died, or lost the lock, while it set them aside: none of these has been replaced.
            return dict.fromkeys(places, Replacement.TOUCHED), {}
        if not places:
            return {}, {}
        source, role = self._staged(self._source_role), self._source_role
        nodes = {table: self._agree(table, role) for table in (source, self.staging.target)}
        self._check_nodes("", nodes[self.staging.target])
        partitions = sorted({partition for _, partition in places})
        rows = self.client.query(
            staging_queries.render_read_parts(list(nodes), self.staging.cluster, partitions=partitions)
        )
        restarted = {node.host for node in self.staging.replicas.nodes} - {
            row["node"] for row in rows if row["up_since"] < self.began_at - CLOCK_MARGIN_SECONDS
        }
        coming, held = (
            {place: list(map(parse_part, group)) for place, group in groupby(_of(table, rows), key=_place)}
            for table in nodes
        )
        logged = self._read_logged(partitions, restarted)
        found: dict[Place, Replacement] = {}
        foreign: dict[Place, Sequence[Part]] = {}
        for place, before in places.items():
            parts = coming.get(place, ()), held.get(place, ())
            found[place] = find_replacement(
                *parts,
                before,
                is_whole=self.staging.replicas.exist or place[0] not in restarted,
                is_logged=logged.get(place),
            )
            if found[place] is Replacement.UNKNOWN:
                raise self._unknown(place, source)
            if found[place] is Replacement.TOUCHED and (theirs := find_foreign(*parts, before)):
                foreign[place] = theirs
        return found, foreign

    def _read_logged(self, partitions: Sequence[str], restarted: Collection[str]) -> dict[Place, bool]:
        """Read from the servers' part logs where statements of this commit have added parts to the target.

        What the log of a node does not tell is missing: it has no entry since, or lost some when it was restarted.
        """
        nodes = self.staging.replicas.nodes
        groups = {
            node.host: {one.host for one in nodes if one.shard == node.shard}
            if self.staging.replicas.exist
            else {node.host}
            for node in nodes
        }
        statement = staging_queries.render_read_logged_parts(
            self.plan.table_uuids,
            self.staging.cluster,
            partitions=partitions,
            query_prefix=self.attempt.commit_prefix,
            since=int(self.began_at - CLOCK_MARGIN_SECONDS),
        )
        try:
            # all logs, because older servers know no other form
            self.client.broadcast(lambda cluster: render_flush_logs(cluster, None))
        except ChS3Error as error:
            log.debug("the part logs are as old as the servers keep them: %s", error)
        try:
            rows = {_place(row): bool(row["is_logged"]) for row in self.client.query(statement)}
        except ServerError as error:
            log.info("cannot read the part logs, so only the parts tell what has been replaced: %s", error)
            return {}
        found: dict[Place, bool] = {}
        for node, group in groups.items():
            for partition in partitions:
                known = [rows[place] for one in group if (place := (one, partition)) in rows]
                if any(known) or (known and not group & set(restarted)):
                    found[node, partition] = any(known)
        return found

    def _unknown(self, place: Place, source: TableName) -> UnknownStateError:
        node, partition = place
        beginning, *_ = str(self._staged()).rpartition("_")  # each owner has its own epoch at the end
        return UnknownStateError(
            f"the commit of {self.attempt.query_id} was interrupted, others have changed partition {partition} of"
            f" {self.staging.target} on {node} since, and whether it had been replaced by then can no longer be"
            f" determined; compare it with {source}, which is what the commit puts there: if it was replaced, replace"
            f" the others of {', '.join(sorted({partition for (_, partition), _ in self._before('')}))} by hand; then"
            f" drop all tables {beginning}… on every node, and load again"
        )

    def _would_remove(self, place: Place, parts: Sequence[Part]) -> LoadError:
        node, partition = place
        target = self.staging.target
        return LoadError(
            f"the commit of {self.attempt.query_id} was interrupted before it replaced partition {partition} of"
            f" {target} on {node}, and others have written there since, which the commit would remove; copy the rows"
            f" that are to stay into another table, then remove their parts on {node} with ALTER TABLE {target}"
            f" {', '.join(f'DROP PART {part.name!r}' for part in parts)}, then load again"
        )

    def _check_nodes(self, role: str, nodes: Mapping[str, str]) -> None:
        """Check that the nodes that an interrupted commit used are still there.

        :raises UnknownStateError: if not.
        """
        if gone := self.plan.before[role].keys() - nodes.keys():
            raise UnknownStateError(
                f"the commit of {self.attempt.query_id} was interrupted, and it used nodes that are no longer in the"
                f" cluster, or no longer first replicas: {', '.join(sorted(gone))}; find out which rows of"
                f" {self._staged(role)} are in {self._destination(role)} already, move the rest by hand, and drop"
                f" {self._staged(role)}"
            )

    def _query_id(self) -> str:
        self._count += 1
        return f"{self.attempt.commit_prefix}{self.epoch}-{self._count}"

    @property
    def _source_role(self) -> str:
        """Role of the table whose partitions replace those of the target."""
        return MERGED if self.plan.sets_rows_aside else ""

    @property
    def _roles(self) -> Sequence[str]:
        """Roles of the staging tables that are committed: the target's, and one for each view."""
        return ("", *self.plan.views)

    def _before(self, role: str) -> Iterator[tuple[Place, Before]]:
        for node, partitions in self.plan.before.get(role, {}).items():
            for partition, before in partitions.items():
                yield (node, partition), before

    def _read_before(self, role: str) -> dict[str, dict[str, Before]]:
        """Read what the table holds, on each node, of each partition that will change, and what is staged for it."""
        tables = {table: self._agree(table, role) for table in (self._staged(role), self._destination(role))}
        rows = self.client.query(staging_queries.render_read_blocks(list(tables), self.staging.cluster))
        coming, held = (
            {_place(row): row for row in rows if row["table"] == table.table and row["node"] in nodes}
            for table, nodes in tables.items()
        )
        staged = {place: row["rows"] for place, row in coming.items() if row["rows"]}
        match self.plan.mode:
            case LoadMode.APPEND:
                changed = set()
            case LoadMode.REPLACE_TABLE:
                changed = {partition for _, partition in held}
            case _:
                changed = {*self.plan.partitions, *self.plan.touched}
        places = {*staged, *(place for place in held if place[1] in changed)}
        found: dict[str, dict[str, Before]] = {}
        for node, partition in sorted(places):
            row = held.get((node, partition), {"last_block": -1, "rows": 0, "version": -1})
            found.setdefault(node, {})[partition] = Before(
                last_block=row["last_block"],
                rows=row["rows"],
                staged_rows=staged.get((node, partition), 0),
                version=row["version"],
            )
        return found

    def _count_staged(self) -> Counter[str]:
        """Count the staged rows of each partition, as they were when the commit was prepared."""
        staged: Counter[str] = Counter()
        for (_, partition), before in self._before(""):
            staged[partition] += before.staged_rows
        return staged

    def _read_partitions(self, table: TableName, role: str) -> dict[Place, Mapping[str, Any]]:
        return {_place(row): row for row in self._read(table, role, staging_queries.render_read_partitions)}

    def _read_parts(self, table: TableName, role: str) -> dict[Place, list[Part]]:
        """Read all parts of the partitions that change."""
        partitions = sorted({partition for (_, partition), _ in self._before(role)})
        if not partitions:
            return {}
        rows = self._read(
            table,
            role,
            lambda one, cluster: staging_queries.render_read_parts([one], cluster, partitions=partitions),
        )
        return {place: list(map(parse_part, group)) for place, group in groupby(rows, key=_place)}

    def _read(
        self, table: TableName, role: str, render: Callable[[TableName, str | None], Statement]
    ) -> list[dict[str, Any]]:
        return self.staging.query_agreed(table, render, is_exact=self._is_exact(role))

    def _agree(self, table: TableName, role: str) -> Mapping[str, str]:
        return self.staging.agree(table, is_exact=self._is_exact(role))

    def _is_exact(self, role: str) -> bool:
        return self.plan.keeps_all_rows and role not in self.plan.views

    def _destination(self, role: str) -> TableName:
        if not role:
            return self.staging.target
        database, table = self.plan.views[role]
        return TableName(database=database, table=table)

    def _staged(self, role: str = "") -> TableName:
        return self.staging.name(StagingTable(attempt=self.attempt, epoch=self.epoch, role=role))


def _place(row: Mapping[str, Any]) -> Place:
    return row["node"], row["partition_id"]


def _node(place: Place) -> str:
    return place[0]


def _of(table: TableName, rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [row for row in rows if row["table"] == table.table]


@dataclass(frozen=True, kw_only=True)
class ColumnChanges:
    """What an ALTER has to change of the columns of a staging table.

    :param added: with their defaults, which are the values of the staged rows.
    """

    added: Sequence[NewColumn] = ()
    dropped: Sequence[str] = ()
    modified: Sequence[NewColumn] = ()

    def __str__(self) -> str:
        return ", ".join(
            (
                *(f"ADD COLUMN {column.name} {column.type}" for column in self.added),
                *(f"DROP COLUMN {name}" for name in self.dropped),
                *(f"MODIFY COLUMN {column.name} {column.type}" for column in self.modified),
            )
        )


def find_changes(staged: Sequence[TableColumn], target: Sequence[TableColumn]) -> ColumnChanges | None:
    """Find how to give a staging table the columns that its target has by now.

    :returns: None if it has them, or if a column is gone and another one is new: it may have been renamed, and the
        staged values would be lost.
    """
    types = {column.name: column.type for column in staged}
    names = {column.name for column in target}
    changes = ColumnChanges(
        added=[
            NewColumn(name=one.name, type=f"{one.type} {one.default_kind} {one.default_expression}".strip())
            for one in target
            if one.name not in types
        ],
        dropped=[one.name for one in staged if one.name not in names],
        modified=[
            NewColumn(name=one.name, type=one.type) for one in target if types.get(one.name, one.type) != one.type
        ],
    )
    return None if (changes.added and changes.dropped) or not str(changes) else changes
