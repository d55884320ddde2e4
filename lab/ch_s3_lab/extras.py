"""Check that the packages of an extra are installed."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec

from airflow_provider_ch_s3.cli import install_lab
from airflow_provider_ch_s3.errors import ConfigError


def check_extra(command: str, extra: str, modules: Iterable[str]) -> None:
    """Check that the modules of an extra can be found, before a command starts anything.

    :raises ConfigError: if a module is not installed.
    """
    if missing := [name for name in modules if find_spec(name) is None]:
        raise ConfigError(
            "library-missing", f"{command} needs {', '.join(missing)}, not installed here: {install_extra(extra)}"
        )


def install_extra(extra: str) -> str:
    """Say how an extra of the lab is installed."""
    return install_lab(f"./lab[{extra}]")
