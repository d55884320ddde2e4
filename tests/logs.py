"""What a reader of a log sees."""

from __future__ import annotations

from collections.abc import Iterable


def unfolded(messages: Iterable[str]) -> list[str]:
    """The lines that Airflow's UI shows without a click: of a group, its title."""
    shown: list[str] = []
    is_folded = False
    for message in messages:
        if message == "::endgroup::":
            is_folded = False
        elif not is_folded:
            shown += message.splitlines()
        is_folded = is_folded or message.startswith("::group::")
    return shown
