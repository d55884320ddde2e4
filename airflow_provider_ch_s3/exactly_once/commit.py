"""The commit: move staged partitions into the target on every node, without copying a row.

Any process can finish an interrupted commit. Others may have written to the target in between, so the process looks
at each partition first, moves only parts that have not arrived, and replaces only partitions that have not been
replaced. If others have changed a partition to be replaced, the commit collects the new content again from the rows
there now.

How the rows get there is a matter of the load mode: :mod:`.modes`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from airflow_provider_ch_s3.common.text import count_of
from airflow_provider_ch_s3.errors import LoadError, UnknownStateError
from airflow_provider_ch_s3.exactly_once.history import AttemptId
from airflow_provider_ch_s3.exactly_once.ledger import read_uuids
from airflow_provider_ch_s3.exactly_once.moved import Before
from airflow_provider_ch_s3.exactly_once.records import CommitPlan
from airflow_provider_ch_s3.exactly_once.tables import AttemptTables, Place, place_of, read_digests
from airflow_provider_ch_s3.sql import staging_queries

Record = Callable[[CommitPlan], None]
"""Writes the plan of a commit to the ledger."""


@dataclass(kw_only=True)
class Commit(ABC):
    """The commit of one attempt, by the owner of one epoch.

    :param began: when the commit began, by the clock of :class:`.Timing` that never goes back.
    :param began_at: Unix time when the ledger recorded the beginning, if another process began the commit.
    :ivar seconds: what the steps by this owner have taken so far.
    """

    tables: AttemptTables
    plan: CommitPlan
    began: float
    began_at: float = 0.0
    seconds: float = field(default=0.0, init=False)

    @property
    def attempt(self) -> AttemptId:
        """The attempt whose rows are committed."""
        return self.tables.attempt

    @property
    def is_owing(self) -> bool:
        """Whether rows are left to move, or partitions to replace; after :meth:`prepare`, or :meth:`resume`."""
        return any(self.plan.before.values())

    def is_possible(self) -> bool:
        """Whether the rows were staged for this table: the target was not re-created or exchanged since."""
        found = read_uuids(self.tables.client, self.tables.target, self.tables.cluster)
        return found == set(self.plan.table_uuids)

    def prepare(self) -> None:
        """Prepare what the commit needs besides the staged rows, and read the tables; the target does not change.

        :raises LoadError: if the rows to keep cannot be kept unchanged.
        """
        self._make_ready()
        self.plan = replace(self.plan, before={role: self._read_before(role) for role in self.tables.roles})
        if not self.plan.replaced:
            self.plan = replace(self.plan, replaced=self._count_replaced())

    def _make_ready(self) -> None:
        """Prepare the tables with the partitions for the target."""
        for role in self.tables.roles:
            # If the commit is interrupted, each staged part must still be the one that was cloned.
            self.tables.hold_merges(self.tables.staged(role))

    def check_staged(self) -> None:
        """Check that no row was lost or added since the rows were verified, which may have been long ago.

        After :meth:`prepare`, and only before anything was moved.

        :raises LoadError: if the numbers of rows differ.
        """
        staged = self._count_staged()
        if self.plan.keeps_all_rows and staged != Counter(self.plan.partitions):
            raise LoadError(
                "staged-rows-changed",
                f"{self.tables.staged()} holds {count_of(staged.total(), 'row')}, and held"
                f" {count_of(self.plan.staged_rows, 'row')} when they were verified; nothing was"
                " committed: load again",
            )

    @abstractmethod
    def run(self) -> Collection[str]:
        """Bring the target to its new state; after :meth:`prepare`, or :meth:`resume`.

        :return: nodes that hold each row of the target once.
        """

    @abstractmethod
    def resume(self, record: Record) -> None:
        """Prepare to finish an interrupted commit; afterwards the ledger has the plan of what is left to do.

        :raises UnknownStateError: if it is unknown what the target has already.
        :raises LoadError: if rows written by others would be lost.
        """

    def has_changed_nothing(self) -> bool:
        """Whether no step has reached the target.

        :raises UnknownStateError: if this cannot be determined.
        """
        return self.plan.is_untouched and self._is_unchanged()

    @abstractmethod
    def _is_unchanged(self) -> bool:
        """Whether the target has nothing of this commit, if no earlier process has resumed the commit."""

    def fit_staged(self) -> bool:
        """Alter the staging tables of a half-done commit as the columns of the target were altered meanwhile.

        :returns: whether a table was altered; False if no table differs, or if an ALTER is not possible.
        """
        return False  # what replaces partitions is repeated as a whole

    @abstractmethod
    def _changed(self, held: Collection[str]) -> Collection[str]:
        """Return the partitions to change, with or without staged rows.

        :param held: partitions of the target.
        """

    @abstractmethod
    def _count_replaced(self) -> dict[str, int]:
        """Count the rows to be replaced in each partition, over all nodes; leave out partitions without any."""

    def _rows_lost(self, node: str, partition: str, lost: int) -> UnknownStateError:
        staged = self.tables.staged()
        return UnknownStateError(
            "partition-rows-lost",
            f"{node} died while partition {partition} was committed, and {count_of(lost, 'row')} of it are in neither"
            f" {staged} nor {self.tables.target}: look at system.detached_parts there for parts that"
            " ClickHouse has set aside as broken, as happens on S3 disks, attach what can be repaired, and load"
            f" again; or give the rest of this commit up: drop {staged} on every node, then load the files of"
            " its partitions with mode='replace_partitions'",
        )

    def _check_nodes(self, role: str, nodes: Mapping[str, str]) -> None:
        """Check that the nodes of an interrupted commit are still there.

        :raises UnknownStateError: if not.
        """
        staged = self.tables.staged(role)
        if gone := self.plan.before[role].keys() - nodes.keys():
            raise UnknownStateError(
                "commit-nodes-gone",
                f"the commit of {self.attempt.query_id} was interrupted, and it used nodes that are no longer in the"
                f" cluster, or no longer first replicas: {', '.join(sorted(gone))}; find out which rows of"
                f" {staged} are in {self.tables.destination(role)} already, move the rest by hand, and drop"
                f" {staged}",
            )

    def _before(self, role: str) -> Iterator[tuple[Place, Before]]:
        for node, partitions in self.plan.before.get(role, {}).items():
            for partition, before in partitions.items():
                yield (node, partition), before

    def _read_before(self, role: str) -> dict[str, dict[str, Before]]:
        """Read, for each node and each partition to change, what the table holds and how much is staged."""
        tables = {
            table: self.tables.agree(table, role)
            for table in (self.tables.staged(role), self.tables.destination(role))
        }
        rows = self.tables.client.query(staging_queries.render_read_blocks(list(tables), self.tables.cluster))
        coming, held = (
            {place_of(row): row for row in rows if row["table"] == table.table and row["node"] in nodes}
            for table, nodes in tables.items()
        )
        staged = {place: row["rows"] for place, row in coming.items() if row["rows"]}
        changed = self._changed({partition for _, partition in held})
        places = {*staged, *(place for place in held if place[1] in changed)}
        digests = read_digests(self.tables.client, self.tables.target, self.tables.cluster, changed)
        found: dict[str, dict[str, Before]] = {}
        for node, partition in sorted(places):
            row = held.get((node, partition), {"last_block": -1, "rows": 0, "version": -1})
            found.setdefault(node, {})[partition] = Before(
                last_block=row["last_block"],
                rows=row["rows"],
                staged_rows=staged.get((node, partition), 0),
                version=row["version"],
                digests=digests.get((node, partition), ()),
            )
        return found

    def _count_staged(self) -> Counter[str]:
        """Count the staged rows of each partition, as they were when the commit was prepared."""
        staged: Counter[str] = Counter()
        for (_, partition), before in self._before(""):
            staged[partition] += before.staged_rows
        return staged
