"""What a commit is to do, as the ledger keeps it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from airflow_provider_ch_s3.codec import decode
from airflow_provider_ch_s3.exactly_once.moved import Before

# Role of a staging table → node → partition → what the table held there that its rows go to.
Snapshot = Mapping[str, Mapping[str, Mapping[str, Before]]]


@dataclass(frozen=True, kw_only=True)
class CommitPlan:
    """What a commit does; whoever finds it in the ledger can carry it out.

    :param partitions: staged rows of each partition, over all nodes.
    :param table_uuids: of the target, on all nodes.
    :param allow_empty: the servers know the setting that lets an empty partition replace a full one.
    :param keeps_all_rows: merges of the target leave every row as it is.
    :param replace_where: for ``replace_where``.
    :param touched: for ``replace_where``, the partitions that change.
    :param views: role of a staging table → database and name of the table that its rows go to, beside the target.
    :param report: of the load, as far as it is known before the commit.
    :param before: what the tables held right before the first step of the process that wrote this.
    :param is_untouched: no earlier process had changed the target by then.
    :param replaced: partition → rows that the new ones take the place of, over all nodes.
    """

    load_mode: str
    partitions: Mapping[str, int]
    table_uuids: Sequence[str]
    allow_empty: bool
    keeps_all_rows: bool = False
    replace_where: str = ""
    touched: Sequence[str] = ()
    views: Mapping[str, Sequence[str]] = field(default_factory=dict)
    report: Mapping[str, Any] = field(default_factory=dict)
    before: Snapshot = field(default_factory=dict)
    is_untouched: bool = True
    replaced: Mapping[str, int] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values, for the ledger."""
        return asdict(self)

    def as_done(self, commit_seconds: float) -> dict[str, Any]:
        """The same when all is done: nobody needs to know any more what was there before."""
        return {**replace(self, before={}).as_dict(), "commit_seconds": commit_seconds}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> CommitPlan:
        """The reverse of :meth:`as_dict`, by any release."""
        before = {
            role: {node: {p: decode(Before, one) for p, one in found.items()} for node, found in nodes.items()}
            for role, nodes in values.get("before", {}).items()
        }
        return decode(cls, {**values, "before": before})
