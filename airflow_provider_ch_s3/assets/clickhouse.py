"""A ClickHouse table as an asset, and what a load or a sensor tells in the asset's events."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, quote, unquote, urlsplit

import attrs
from airflow.providers.common.compat.sdk import Asset

from airflow_provider_ch_s3.common.arguments import refuse_argument

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_ch_s3.table.target import TableName

SCHEME = "clickhouse"
# Airflow's limit.
MAX_KEY_LENGTH = 250


@attrs.define(init=False, eq=False)
class ClickHouseAsset(Asset):  # type: ignore[misc]
    """The asset of a table; as an outlet, its events may have partition keys."""

    partition_keys: bool | Callable[[str], str | None] = False

    def __init__(self, uri: str, *, partition_keys: bool | Callable[[str], str | None], extra: Any) -> None:
        super().__init__(uri=uri, extra=extra)
        self.partition_keys = partition_keys

    def map_keys(self, keys: Sequence[str]) -> list[str]:
        """Apply the user's function to the keys of a table's partitions, and leave out keys that Airflow refuses."""
        mapped = map(self.partition_keys, keys) if callable(self.partition_keys) else keys
        return [key for key in mapped if key and key.strip() and len(key) <= MAX_KEY_LENGTH]


def clickhouse_asset(
    host: str,
    database: str,
    table: str,
    *,
    state: str = "",
    partition_keys: bool | Callable[[str], str | None] = False,
    extra: Mapping[str, Any] | None = None,
) -> ClickHouseAsset:
    """Return the asset ``clickhouse://host/database/table``, whose events tell what the load or the sensor did.

    :param host: a name of the cluster, the same in all DAGs; the name is not looked up.
    :param state: for a second asset of the table, added to the URI: ``?state=settled``.
    :param partition_keys: emit an event for each changed partition, with a partition key (Airflow 3.3 or later).
        True: the key is the partition's value, such as ``2026-11-26``. A function: turns this key into another key,
        or into None for no event.
    :param extra: of the asset.
    :raises ConfigError: if ``partition_keys`` is neither.
    """
    if not isinstance(partition_keys, bool) and not callable(partition_keys):
        raise refuse_argument("partition_keys", partition_keys, "give True, or a function of the partition's key")
    query = f"?state={quote(state, safe='')}" if state else ""
    return ClickHouseAsset(
        f"{SCHEME}://{host}/{quote(database, safe='')}/{quote(table, safe='')}{query}",
        partition_keys=partition_keys,
        extra=extra,
    )


def sanitize_uri(uri: SplitResult) -> SplitResult:
    """Write a URI of the scheme ``clickhouse`` in one way only, as Airflow asks of a provider.

    :raises ValueError: if the URI does not name a host, a database and a table.
    """
    host, names = uri.netloc.rpartition("@")[2].lower(), _names(uri)
    if not host or len(names) != 2 or not all(names):
        raise ValueError(f"URI format {SCHEME}:// must contain a host, a database and a table")
    return uri._replace(netloc=host, path="".join(f"/{quote(name, safe='')}" for name in names))


def convert_asset_to_openlineage(asset: Asset, lineage_context: Any) -> Any:
    """Return the data set of the table, with the names that OpenLineage gets from a load."""
    from airflow.providers.common.compat.openlineage.facet import Dataset

    uri = urlsplit(asset.uri)
    return Dataset(namespace=f"{SCHEME}://{uri.netloc}", name=".".join(_names(uri)))


def describe_in_events(
    context: Context,
    outlets: Sequence[Any],
    table: TableName,
    facts: Mapping[str, Any],
    read_keys: Callable[[], Sequence[str]],
) -> None:
    """Add facts to the events of the outlets for a table, and the partition keys that an outlet wants.

    An event with a key has no list of ``partitions``: there may be thousands of such events.

    :param table: as the user names the table.
    :param facts: with the ids of the changed ``partitions``.
    :param read_keys: reads the keys of these partitions; called only for outlets that want keys.
    """
    for outlet in outlets:
        if not is_table(outlet) or _names(urlsplit(outlet.uri)) != (table.database, table.table):
            continue
        event = context["outlet_events"][outlet]
        event.extra.update(facts)
        wants_keys = isinstance(outlet, ClickHouseAsset) and outlet.partition_keys and facts["partitions"]
        # Airflow before 3.3 has no partition keys
        if wants_keys and hasattr(event, "add_partitions") and (keys := outlet.map_keys(read_keys())):
            event.add_partitions(keys)
            del event.extra["partitions"]


def is_table(outlet: Any) -> bool:
    """Whether an outlet is the asset of a ClickHouse table."""
    return isinstance(outlet, Asset) and urlsplit(outlet.uri).scheme == SCHEME


def _names(uri: SplitResult) -> tuple[str, ...]:
    """Database and table."""
    return tuple(map(unquote, uri.path.split("/")[1:]))
