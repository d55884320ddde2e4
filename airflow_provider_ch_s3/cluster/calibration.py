"""The constants of one cluster, as ``ch-s3 tune`` measured them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from airflow_provider_ch_s3.common.text import did_you_mean
from airflow_provider_ch_s3.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Constants of a cluster; None for the rules' own constants.

    :param blocks_per_thread: blocks into which each inserting thread divides the thread's share of the rows.
    :param core_seconds_per_gib: core seconds of a load per GiB of rows in memory.
    """

    insert_threads_per_core: float | None = None
    readers_per_core: float | None = None
    blocks_per_thread: float | None = None
    core_seconds_per_gib: float | None = None

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Calibration:
        """Read the JSON printed by ``ch-s3 tune``.

        :raises ConfigError: if a key is unknown, or a value is not a number above 0.
        """
        names = [field.name for field in fields(cls)]
        for name, value in values.items():
            if name not in names:
                remedy = did_you_mean(name, names, otherwise=f"use {', '.join(names)}")
                raise ConfigError("connection-invalid", f"the key {name!r} is unknown; {remedy}")
            if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
                raise ConfigError("connection-invalid", f"{name} is {value!r}, which is not a number above 0")
        return cls(**values)

    def as_dict(self) -> dict[str, float]:
        """Return the values in use: the inverse of :meth:`from_dict`."""
        return {name: value for name, value in asdict(self).items() if value is not None}
