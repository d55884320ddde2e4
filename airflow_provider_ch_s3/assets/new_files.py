"""The new files of a run, as the source of a load."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from airflow_provider_ch_s3.errors import ConfigError

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Asset, Context


class _NewFiles:
    """A value that Airflow resolves when the task runs, as the result of an upstream task."""

    def __init__(self, asset: Asset) -> None:
        self._asset = asset

    def iter_references(self) -> Iterable[Any]:
        """Name no upstream task: the events belong to the run."""
        return ()

    def resolve(self, context: Context) -> list[str]:
        """Collect the addresses in the run's events; without an event, the sources of the watchers."""
        events = context["triggering_asset_events"].get(self._asset, ())
        found = [event.extra["payload"]["source"] for event in events if event.extra.get("from_trigger")]
        sources = found or [watcher.trigger.source for watcher in self._asset.watchers]
        return list(dict.fromkeys(address for source in sources for address in source))

    def __str__(self) -> str:
        return f"the new files of {self._asset.uri}"


def new_files_of(asset: Asset) -> Any:
    """Return the ``source`` of an operator to load just the new files of the run's events.

    A run without an event, for example a run started by hand, loads all new files of the watcher's source.

    :param asset: has an ``AssetWatcher`` with a ``NewFilesTrigger``.
    :raises ConfigError: if the asset has no watcher.
    """
    if not asset.watchers:
        raise ConfigError(
            "argument-invalid",
            f"asset {asset.uri!r} has no watcher, so no event names new files; give"
            " Asset(…, watchers=[AssetWatcher(name=…, trigger=NewFilesTrigger(…))])",
        )
    return _NewFiles(asset)
