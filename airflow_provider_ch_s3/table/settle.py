"""The rule for when a table's parts have settled.

Two simple rules do not work: "no merge is running", since the selector may pause for minutes between merges, and "one
part is left", which never happens. Parts have settled when every node has few enough parts, no merge is running, no
part is younger than a given age, and no replica has changes left to apply. A part's modification time is the time of
the insert or merge that wrote the part. So a single poll is enough to decide, and a sensor needs no state between two
pokes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from airflow_provider_ch_s3.common.text import count_of, format_count, format_seconds, with_facts
from airflow_provider_ch_s3.errors import ConfigError, SettleError

# ClickHouse slows down inserts into partitions with 1,000 parts or more; the published goal for bulk loads is 3,000
# active parts in a table.
DEFAULT_MAX_PARTS = 3000
DEFAULT_STABLE_SECONDS = 10.0
# The merge selector sleeps for up to a minute when there is nothing to do; ten times as long is not just a pause.
DEFAULT_STALLED_SECONDS = 600.0


@dataclass(frozen=True, kw_only=True)
class NodeParts:
    """The active parts of one table on one node.

    :param node: the node, as ``host:port``.
    :param active_parts: active parts.
    :param max_partition_parts: active parts of the partition with the most parts.
    :param rows: rows in the active parts.
    :param unchanged_seconds: age of the newest part in seconds; None without parts.
    :param running_merges: running merges and mutations.
    :param merge_left_seconds: estimated seconds until the longest merge ends; None without merges, or if the merge
        has only just begun.
    :param failed_mutation: error of the latest failing mutation; '' if none fails.
    :param queued_changes: replicated changes that the replica has not applied yet, merges included.
    :param queued_merges: the merges and mutations in ``queued_changes``.
    :param is_read_only: whether the replica is read-only.
    :param read_only_seconds: for how many seconds the replica has been read-only; None if it is not, or if the server
        does not tell.
    :param failing_seconds: age in seconds of the oldest queued change that keeps failing; 0 if none fails.
    :param failed_change: error of the oldest failing change; '' if none fails.
    :param absent_partitions: ids of watched partitions without a part on this node; empty if the whole table is
        watched.
    """

    node: str
    active_parts: int = 0
    max_partition_parts: int = 0
    rows: int = 0
    unchanged_seconds: float | None = None
    running_merges: int = 0
    merge_left_seconds: float | None = None
    failed_mutation: str = ""
    queued_changes: int = 0
    queued_merges: int = 0
    is_read_only: bool = False
    read_only_seconds: float | None = None
    failing_seconds: float = 0.0
    failed_change: str = ""
    absent_partitions: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SettleRule:
    """When parts count as settled.

    :param max_parts: active parts per node.
    :param max_parts_per_partition: active parts per partition and node; None for any number.
    :param wait_for_merges: wait until no merge is running or queued, and no part is young. False: the number of parts
        decides.
    :param stable_seconds: no part may be younger, if the sensor waits for merges.
    :param stalled_seconds: too many parts without a merge for so long are an error.
    """

    max_parts: int = DEFAULT_MAX_PARTS
    max_parts_per_partition: int | None = None
    wait_for_merges: bool = True
    stable_seconds: float = DEFAULT_STABLE_SECONDS
    stalled_seconds: float = DEFAULT_STALLED_SECONDS

    def __post_init__(self) -> None:
        """:raises ConfigError: if a limit can never be reached."""
        for name in ("max_parts", "max_parts_per_partition"):
            limit = getattr(self, name)
            if limit is not None and limit < 1:
                raise ConfigError(
                    "argument-invalid",
                    f"{name}={limit} can never be reached: a partition keeps at least 1 part; give 1 or more",
                )
        for name in ("stable_seconds", "stalled_seconds"):
            if getattr(self, name) < 0:
                raise ConfigError(
                    "argument-invalid", f"{name}={getattr(self, name)} is not a duration; give seconds, 0 or more"
                )

    def awaited_changes(self, node: NodeParts) -> int:
        """Count the queued changes that a replica must apply before the parts have settled."""
        return node.queued_changes if self.wait_for_merges else node.queued_changes - node.queued_merges

    def excess(self, node: NodeParts) -> str:
        """Describe the limit exceeded by a node; '' if the node exceeds no limit."""
        if node.active_parts > self.max_parts:
            return f"{count_of(node.active_parts, 'part')}, {format_count(self.max_parts)} allowed"
        limit = self.max_parts_per_partition
        if limit is not None and node.max_partition_parts > limit:
            return f"{count_of(node.max_partition_parts, 'part')} in one partition, {format_count(limit)} allowed"
        return ""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether the parts of a table have settled.

    :param reason: one line for people.
    :param parts: active parts on all nodes.
    :param merges: running merges and mutations on all nodes.
    :param waiting: what the sensor waits for; '' if the parts have settled.
    :param left_seconds: estimated time until the parts settle; None if no estimate is possible.
    """

    is_settled: bool
    reason: str
    parts: int
    merges: int
    waiting: str = ""
    left_seconds: float | None = None

    @property
    def line(self) -> str:
        """The reason for the log, with the facts for the tab "Load report"."""
        return with_facts(self.reason, {"parts": self.parts, "merges": self.merges, "waiting": self.waiting})


def find_absent(by_node: Iterable[Collection[str]]) -> set[str]:
    """Find the watched partitions without a part on any node.

    :param by_node: the watched partitions without a part on each node.
    """
    absent = [set(partitions) for partitions in by_node]
    return set.intersection(*absent) if absent else set()


def judge_parts(rule: SettleRule, nodes: Sequence[NodeParts]) -> Verdict:
    """Decide whether the parts have settled, and if not, why.

    :raises SettleError: if they never will: too many parts, and no merge reduces them.
    """
    waiting = [(node, why) for node in nodes if (why := _why_waiting(rule, node))]
    parts = sum(node.active_parts for node in nodes)
    merges = sum(node.running_merges for node in nodes)
    summary = f"{count_of(parts, 'part')} on {count_of(len(nodes), 'node')}, {count_of(merges, 'merge')} running"
    if absent := sorted(find_absent(node.absent_partitions for node in nodes)):
        summary += f", no parts in {', '.join(absent)} (dropped, expired, or not a partition of system.parts)"
    if not waiting:
        return Verdict(is_settled=True, reason=f"settled: {summary}", parts=parts, merges=merges, left_seconds=0.0)
    for node, _ in waiting:
        _check_alive(rule, node)
    estimates = [_left_seconds(rule, node) for node, _ in waiting]
    known = [estimate for estimate in estimates if estimate is not None]
    left_seconds = max(known) if len(known) == len(estimates) else None
    left = f"; about {format_seconds(left_seconds)} left" if left_seconds is not None else ""
    awaited = "; ".join(f"{node.node}: {why}" for node, why in waiting) + left
    return Verdict(
        is_settled=False,
        reason=f"{summary}; waiting for {awaited}",
        parts=parts,
        merges=merges,
        waiting=awaited,
        left_seconds=left_seconds,
    )


def _why_waiting(rule: SettleRule, node: NodeParts) -> str:
    if node.read_only_seconds is not None:
        return f"the replica has been read-only for {format_seconds(node.read_only_seconds)}"
    if node.is_read_only:
        return "the replica is read-only"
    if excess := rule.excess(node):
        return excess
    if changes := rule.awaited_changes(node):
        return f"{count_of(changes, 'change')} in the replication queue"
    if not rule.wait_for_merges:
        return ""
    if node.running_merges:
        return count_of(node.running_merges, "merge")
    if node.unchanged_seconds is not None and node.unchanged_seconds < rule.stable_seconds:
        return f"parts changed {format_seconds(node.unchanged_seconds)} ago"
    return ""


def _check_alive(rule: SettleRule, node: NodeParts) -> None:
    if node.read_only_seconds is not None and node.read_only_seconds >= rule.stalled_seconds:
        raise SettleError(
            "replica-behind",
            f"the replica on {node.node} has been read-only for {format_seconds(node.read_only_seconds)}: it has lost"
            " its connection to Keeper, or has other parts than Keeper lists; see its server's log",
        )
    if node.failed_change and node.failing_seconds >= rule.stalled_seconds:
        raise SettleError(
            "replica-behind",
            f"the replica on {node.node} has failed to apply a change for {format_seconds(node.failing_seconds)}:"
            f" {node.failed_change}; see system.replication_queue there",
        )
    excess = rule.excess(node)
    if not excess or node.running_merges:
        return
    if node.failed_mutation:
        raise SettleError(
            "parts-not-merged",
            f"{node.node} has {excess}, and a mutation of the table fails: {node.failed_mutation}; fix or kill it"
            " (system.mutations, KILL MUTATION)",
        )
    if node.unchanged_seconds is not None and node.unchanged_seconds >= rule.stalled_seconds:
        raise SettleError(
            "parts-not-merged",
            f"{node.node} has {excess}, and no merge has run for {format_seconds(node.unchanged_seconds)}; merges may"
            " be stopped (SYSTEM START MERGES), the disk may be full (system.disks), or the limit may be lower than"
            " what the server merges down to (raise it); see `ch-s3 docs sensor`",
        )


def _left_seconds(rule: SettleRule, node: NodeParts) -> float | None:
    """Time until the running merges end, then the quiet time; later merges cannot be foreseen."""
    if node.is_read_only or rule.awaited_changes(node):
        return None
    if rule.excess(node) and not node.running_merges:
        return None
    if node.running_merges:
        quiet_seconds = rule.stable_seconds if rule.wait_for_merges else 0.0
        return None if node.merge_left_seconds is None else node.merge_left_seconds + quiet_seconds
    return rule.stable_seconds - (node.unchanged_seconds or 0.0)
