"""Clusters with replicas, and marks for the ones that a test runs on."""

from __future__ import annotations

import pytest
from _pytest.mark import ParameterSet

from ch_s3_lab.sandbox import SandboxConfig
from tests.marks import thorough

CLOUD = "cloud"
TOPOLOGIES = {
    "on-cluster": SandboxConfig(shards=2, replicas=2, engine="25.8"),
    "database": SandboxConfig(shards=2, replicas=2, engine="25.8", database_engine="Replicated"),
    "old": SandboxConfig(shards=2, replicas=2, engine="24.8"),
    "old-database": SandboxConfig(shards=2, replicas=2, engine="24.8", database_engine="Replicated"),
    CLOUD: SandboxConfig(shards=1, replicas=3, engine="25.8", database_engine="Replicated"),
}


def only_on(*names: str) -> pytest.MarkDecorator:
    """Run a test only in these topologies: others lack what it tests."""
    return pytest.mark.parametrize("replicated_sandbox", names, indirect=True)


def topologies(*usual: str) -> pytest.MarkDecorator:
    """Run a test in each topology; ``make test`` runs it in the usual ones."""
    cases: list[ParameterSet] = [pytest.param(name) if name in usual else thorough(name) for name in TOPOLOGIES]
    return pytest.mark.parametrize("replicated_sandbox", cases, indirect=True)
