"""REPLACE PARTITION on each node, and how to complete a broken commit: shared by all modes that replace rows.

A mode that replaces only some rows of a partition first collects the rows to keep and the new rows in a table.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import ClassVar

from airflow_provider_ch_s3.common.text import count_of
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import ChS3Error, LoadError, ServerError, UnknownStateError
from airflow_provider_ch_s3.exactly_once.commit import Commit, Record
from airflow_provider_ch_s3.exactly_once.modes.replaced import Replacement, find_foreign, find_replacement
from airflow_provider_ch_s3.exactly_once.modes.survivors import (
    MERGE_ROUNDS,
    Collected,
    Survivors,
    check_changes_applied,
)
from airflow_provider_ch_s3.exactly_once.moved import Before, Part
from airflow_provider_ch_s3.exactly_once.staging import MERGED
from airflow_provider_ch_s3.exactly_once.tables import Place, parts_of
from airflow_provider_ch_s3.sql import staging_queries
from airflow_provider_ch_s3.sql.load_queries import render_flush_logs
from airflow_provider_ch_s3.table.target import TableName

log = get_log(__name__)

LOG_MARGIN_SECONDS = 60
"""How far the clock of a node may be behind; `ch-s3 doctor` warns of more."""
LOG_REACH_SECONDS = 86_400
"""How long before a commit to look for an entry: with an earlier entry, the log is whole."""

Found = tuple[Mapping[Place, Replacement], Mapping[Place, Sequence[Part]]]
"""How far the replacement of each partition is, and the parts written by others where no replacement has begun."""


@dataclass(kw_only=True)
class ReplacingCommit(Commit):
    """Replaces partitions of the target with partitions of the staging table.

    :cvar source: role of the table with the new partitions.
    """

    source: ClassVar[str] = ""
    _owed: Collection[Place] | None = field(default=None, init=False)

    def run(self) -> Collection[str]:
        """Replace the partitions named by the mode."""
        return self._replace(self._replaced())

    def resume(self, record: Record) -> None:
        """Owe only the partitions not replaced yet; refuse if third parties have written there since."""
        found, foreign = self._find_replacements()
        self._check_nothing_lost()
        for place, parts in foreign.items():
            raise self._would_remove(place, parts)
        ready, touched = _take_stock(found)
        self._limit_to(ready | touched)  # all their rows go
        record(self.plan)

    def _is_unchanged(self) -> bool:
        found, _ = self._find_replacements()
        return not {Replacement.DONE, Replacement.HALF} & set(found.values())

    def _replaced(self) -> Collection[str]:
        """Return the partitions to be replaced, or emptied, on all nodes."""
        return self.plan.partitions

    def _changed(self, held: Collection[str]) -> Collection[str]:
        return self._replaced()

    def _count_replaced(self) -> dict[str, int]:
        replaced: Counter[str] = Counter()
        for (_, partition), before in self._before(""):
            replaced[partition] += before.rows
        return {partition: rows for partition, rows in sorted(replaced.items()) if rows > 0}

    def _check_nothing_lost(self) -> None:
        """Check that an interrupted commit still has all rows for the partitions to replace.

        :raises UnknownStateError: if rows are gone.
        """
        found: Counter[str] = Counter()
        for (_, partition), row in self.tables.read_partitions(self.tables.staged(), "").items():
            found[partition] += row["rows"]
        nodes = {partition: node for (node, partition), _ in self._before("")}
        for partition, rows in self.plan.partitions.items():
            if self.plan.keeps_all_rows and found[partition] < rows:
                raise self._rows_lost(nodes.get(partition, "a node"), partition, rows - found[partition])

    def _replace(self, partitions: Collection[str] = ()) -> Collection[str]:
        """Replace partitions on all nodes; of an interrupted commit, only the partitions still owed.

        :return: as of :meth:`run`.
        """
        role = self.source
        nodes = self.tables.agree(self.tables.staged(role), role)
        render = partial(
            staging_queries.render_replace_partitions,
            self.tables.staged(role),
            self.tables.target,
            allow_empty=self.plan.allow_empty,
        )
        for hosts, some in self._split(partitions, nodes):
            self.tables.alter(hosts, some, render, self._check_unchanged)
        return self.tables.agree(self.tables.target, role)

    def _split(
        self, partitions: Collection[str], nodes: Mapping[str, str]
    ) -> Iterator[tuple[Collection[str], Collection[str]]]:
        """Yield nodes with the partitions to replace there; each partition once."""
        if self._owed is None:
            yield nodes.values(), partitions
            return
        self._check_nodes("", nodes)
        owed: dict[str, set[str]] = {}
        for node, partition in self._owed:
            owed.setdefault(partition, set()).update(nodes if self.tables.staging.alters_all_nodes else [node])
        for hosts in sorted({tuple(sorted(hosts)) for hosts in owed.values()}):
            yield [nodes[host] for host in hosts], [one for one, its in owed.items() if its == set(hosts)]

    def _check_unchanged(self, partitions: Collection[str]) -> None:
        """Check, right before a REPLACE, for rows of others written since.

        :raises LoadError: if the REPLACE would remove such rows.
        """

    def _limit_to(self, places: Collection[Place]) -> None:
        """Limit the plan to the places not replaced yet."""
        self._owed = places
        before: dict[str, dict[str, Before]] = {}
        for (node, partition), one in self._before(""):
            if (node, partition) in places:
                before.setdefault(node, {})[partition] = one
        self.plan = replace(self.plan, before={"": before})

    def _owed_places(self) -> Mapping[Place, Before]:
        """Return the places that the plan still owes a replacement."""
        return dict(self._before(""))

    def _find_replacements(self) -> Found:
        """Find how far the replacement is, for each place that the plan still owes.

        :raises UnknownStateError: if this cannot be determined.
        """
        places = self._owed_places()
        if not places:
            return {}, {}
        source = self.tables.staged(self.source)
        nodes = {table: self.tables.agree(table, self.source) for table in (source, self.tables.target)}
        self._check_nodes("", nodes[self.tables.target])
        partitions = sorted({partition for _, partition in places})
        rows = self.tables.client.query(
            staging_queries.render_read_parts(list(nodes), self.tables.cluster, partitions=partitions)
        )
        elapsed = self.tables.staging.replicas.timing.now() - self.began
        restarted = self.tables.staging.replicas.hosts - {
            row["node"] for row in rows if row["uptime_seconds"] > elapsed
        }
        coming, held = (parts_of([row for row in rows if row["table"] == table.table]) for table in nodes)
        logged = self._read_logged(partitions, restarted)
        found: dict[Place, Replacement] = {}
        foreign: dict[Place, Sequence[Part]] = {}
        for place, before in places.items():
            parts = coming.get(place, ()), held.get(place, ())
            found[place] = find_replacement(
                *parts,
                before,
                is_whole=self.tables.staging.replicas.exist or place[0] not in restarted,
                is_logged=logged.get(place),
            )
            if found[place] is Replacement.UNKNOWN:
                if not self.tables.holds_staged(place, self.source, *parts):
                    raise self._unknown(place, source)
                found[place] = Replacement.DONE
            if found[place] is Replacement.TOUCHED and (theirs := find_foreign(*parts, before)):
                foreign[place] = theirs
        if self.tables.staging.alters_all_nodes:
            found = self._join(found, source)
        return found, foreign

    def _join(self, found: Mapping[Place, Replacement], source: TableName) -> dict[Place, Replacement]:
        """Join the states of a partition on all nodes, because a statement replaces the partition on all nodes.

        A node without old and new rows of the partition looks the same before and after.

        :raises UnknownStateError: if only some nodes have replaced a partition.
        """
        joined, owed = dict(found), self._owed_places()
        for _, group in groupby(sorted(found, key=itemgetter(1)), key=itemgetter(1)):
            places = list(group)
            telling = [place for place in places if owed[place].rows or owed[place].staged_rows]
            done = [place for place in telling if found[place] is Replacement.DONE]
            if done and len(done) < len(telling):
                raise self._unknown(next(place for place in telling if place not in done), source)
            if done:
                joined |= dict.fromkeys(places, Replacement.DONE)
            elif Replacement.TOUCHED in map(found.get, places):
                joined |= dict.fromkeys(places, Replacement.TOUCHED)
        return joined

    def _read_logged(self, partitions: Sequence[str], restarted: Collection[str]) -> dict[Place, bool]:
        """Read from the servers' part logs where statements of this commit have added parts to the target.

        A place is missing if the log cannot tell: the log has no entry of the partition since, or does not reach back
        to the time before, or has lost entries in a restart.
        """
        alters_all_nodes = self.tables.staging.alters_all_nodes
        nodes = self.tables.staging.replicas.nodes
        groups = {
            node.host: {one.host for one in nodes if one.shard == node.shard}
            if self.tables.staging.replicas.exist
            else {node.host}
            for node in nodes
        }
        statement = staging_queries.render_read_logged_parts(
            self.plan.table_uuids,
            self.tables.cluster,
            partitions=partitions,
            query_prefix=self.attempt.commit_prefix,
            named=_without_epoch(self.tables.staged()) if alters_all_nodes else "",
            began_at=int(self.began_at),
            margin_seconds=LOG_MARGIN_SECONDS,
            reach_seconds=LOG_REACH_SECONDS,
        )
        try:
            # all logs, because older servers know no other form
            self.tables.client.broadcast(lambda cluster: render_flush_logs(cluster, None))
        except ChS3Error as error:
            log.debug("the part logs are as old as the servers keep them: %s", error)
        try:
            logs = {row["node"]: row for row in self.tables.client.query(statement)}
        except ServerError as error:
            log.info("cannot read the part logs, so only the parts tell what has been replaced: %s", error)
            return {}
        found: dict[Place, bool] = {}
        for node, group in groups.items():
            known = [logs[one] for one in group if one in logs]
            is_whole = not group & set(restarted) and all(one["reaches_back"] for one in known)
            if alters_all_nodes:  # which server has run the statements, only the logged statements tell
                is_whole = is_whole and len(known) == len(group) and any(one["has_named"] for one in known)
            for partition in partitions:
                if any(partition in one["added"] for one in known):
                    found[node, partition] = True
                elif is_whole and any(partition in one["seen"] for one in known):
                    found[node, partition] = False
        return found

    def _unknown(self, place: Place, source: TableName) -> UnknownStateError:
        node, partition = place
        beginning = _without_epoch(self.tables.staged())
        return UnknownStateError(
            "partition-state-unknown",
            f"the commit of {self.attempt.query_id} was interrupted, others have changed partition {partition} of"
            f" {self.tables.target} on {node} since, and whether it had been replaced by then can no longer be"
            f" determined; compare it with {source}, which is what the commit puts there: if it was replaced, replace"
            f" the others of {', '.join(sorted({partition for (_, partition), _ in self._before('')}))} by hand; then"
            f" drop all tables {self.tables.staged().database}.{beginning}… on every node, and load again",
        )

    def _would_remove(self, place: Place, parts: Sequence[Part]) -> LoadError:
        node, partition = place
        target = self.tables.target
        return LoadError(
            "partition-written-since",
            f"the commit of {self.attempt.query_id} was interrupted, and others have written to partition {partition}"
            f" of {target} on {node} since, or attached parts there, which the commit would remove; copy the rows"
            f" that are to stay into another table, then remove their parts on {node} with ALTER TABLE {target}"
            f" {', '.join(f'DROP PART {part.name!r}' for part in parts)}, then load again",
        )


@dataclass(kw_only=True)
class KeepingCommit(ReplacingCommit):
    """Replaces partitions with the rows to keep and the new rows, collected in a table of the attempt."""

    source: ClassVar[str] = MERGED
    _collected: Collected | None = field(default=None, init=False)

    @abstractmethod
    def _survivors(self, only: Collection[str] | None = None) -> Survivors:
        """Return what collects the rows.

        :param only: as in :class:`Survivors`.
        """

    def prepare(self) -> None:
        """Collect again if others have changed the target before the state of the target was read."""
        for _ in range(MERGE_ROUNDS):
            super().prepare()
            if self._is_up_to_date():
                return
            self.plan = replace(self.plan, replaced={})
        raise self._changed_meanwhile("nothing was committed: load again when they are done")

    def _make_ready(self) -> None:
        self._collected = self._survivors().collect()
        report = replace(self.plan.report, merge=self._collected.counts)
        self.plan = replace(self.plan, touched=self._collected.partitions, report=report)

    def _is_up_to_date(self, partitions: Collection[str] = ()) -> bool:
        """Whether others have not changed the collected partitions, or some of these partitions, since.

        :raises LoadError: if a change is missing in the parts: the REPLACE would undo the change.
        """
        assert self._collected
        check_changes_applied(self.tables.client, self.tables.target, self.tables.cluster)
        chosen = partitions or self._collected.partitions
        return self._collected.is_up_to_date(self._survivors().read_versions(chosen), chosen)

    def _check_unchanged(self, partitions: Collection[str]) -> None:
        if not self._is_up_to_date(partitions):
            raise self._changed_meanwhile("try again: the next try collects these rows, too")

    def _changed_meanwhile(self, remedy: str) -> LoadError:
        return LoadError(
            "table-changed-meanwhile",
            f"others have changed {self.tables.target} since this load copied the rows to keep; {remedy}",
        )

    def _replaced(self) -> Collection[str]:
        return self.plan.touched

    def _changed(self, held: Collection[str]) -> Collection[str]:
        return {*self.plan.partitions, *self.plan.touched}

    def resume(self, record: Record) -> None:
        """Replace what can be replaced as prepared, and work out the rest again."""
        # Before the comparison with the plan: what others write afterwards is noticed right before the REPLACE.
        versions = self._survivors().read_versions(self.plan.touched)
        self._collected = Collected(partitions=self.plan.touched, versions=versions)
        found, _ = self._find_replacements()
        ready, touched = _take_stock(found)
        if not touched and self._is_set_aside():
            self._limit_to(ready)
        else:
            self._set_aside_again(ready, touched, record)
        record(self.plan)

    def _set_aside_again(self, ready: Collection[Place], touched: Collection[Place], record: Record) -> None:
        if self.plan.is_untouched:
            self.plan = replace(self.plan, is_set_aside=False)
            record(self.plan)
            self.plan = replace(self.plan, replaced={})
            self.prepare()
        else:
            if ready:
                # The plan keeps the other places, so that no process forgets what is still owed there.
                self._owed = ready
                self._replace()
            self._work_out(touched, record)
        self.plan = replace(self.plan, is_set_aside=True)

    def _work_out(self, places: Collection[Place], record: Record) -> None:
        """Collect the rows for some places again, because others have changed these places; the rest is done."""
        self._limit_to(places)
        self.plan = replace(self.plan, is_set_aside=False)
        record(self.plan)
        if not places:
            return
        only = sorted({partition for _, partition in places})
        for _ in range(MERGE_ROUNDS):
            self._collected = self._survivors(only).collect()
            self.plan = replace(self.plan, before={"": self._read_before("")})
            if self._is_up_to_date():
                self._limit_to(places)
                return
        raise self._changed_meanwhile("load again when they are done")

    def _is_set_aside(self) -> bool:
        """Whether every node still has the collected rows, which replace the rows of the target."""
        table, staging = self.tables.staging_table(MERGED), self.tables.staging
        return self.plan.is_set_aside and staging.replicas.hosts <= staging.find().get(table, set())

    def _owed_places(self) -> Mapping[Place, Before]:
        return {place: before for place, before in self._before("") if place[1] in self.plan.touched}

    def _find_replacements(self) -> Found:
        if not self._is_set_aside():
            # An owner died, or lost the lock, while it set them aside: none of these has been replaced.
            return dict.fromkeys(self._owed_places(), Replacement.TOUCHED), {}
        return super()._find_replacements()


def _without_epoch(staged: TableName) -> str:
    """The beginning of the names of an attempt's staging tables: each owner has its own epoch at the end."""
    return staged.table.rpartition("_")[0] + "_"


def _take_stock(found: Mapping[Place, Replacement]) -> tuple[set[Place], set[Place]]:
    """Find the places to replace as prepared, and the places that others have changed meanwhile."""
    ready = {place for place, state in found.items() if state in (Replacement.OWED, Replacement.HALF)}
    touched = {place for place, state in found.items() if state is Replacement.TOUCHED}
    log.info(
        "%s of %s have been replaced already, and others have changed %s of the rest",
        len(found) - len(touched) - len(ready),
        count_of(len(found), "partition"),
        len(touched),
    )
    return ready, touched
