"""Files of settings for the nodes of a sandbox."""

from __future__ import annotations

from collections.abc import Iterable

from ch_s3_lab.sandbox import SandboxConfig


def write_settings(config: SandboxConfig, name: str, text: str, *, nodes: Iterable[int] | None = None) -> None:
    """Give nodes a file of settings; the sandbox has a directory, and is not running yet.

    :param nodes: their numbers, from 1; None for all nodes.
    """
    assert config.directory is not None
    for number in range(1, config.nodes + 1) if nodes is None else nodes:
        folder = config.directory / f"node{number}" / "config.d"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
