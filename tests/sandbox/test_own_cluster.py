"""The project's tests on a cluster that the sandbox did not start, described in ``CH_S3_SANDBOX``."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from ch_s3_lab.sandbox import SandboxConfig
from ch_s3_lab.sandbox.info import GIVEN_VARIABLE
from ch_s3_lab.sandbox.launch import running_sandbox

pytestmark = [pytest.mark.sandbox, pytest.mark.thorough]

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "topologies.md"


def test_one_https_address_of_a_cluster_with_replicas() -> None:
    """As a hosted service offers it: neither HTTP nor the individual nodes can be reached."""
    (description,) = (json.loads(line) for line in PAGE.read_text().splitlines() if line.startswith('{"host"'))
    config = SandboxConfig(shards=1, replicas=3, engine="25.8", database_engine="Replicated", tls=True)
    with running_sandbox(config) as sandbox:
        mine = json.loads(sandbox.to_json())
        own = {name: mine[name] for name in (*description, "ca_cert", "has_keeper")}
        own |= {"http": [], "https": mine["https"][1:2]}
        told = {**os.environ, GIVEN_VARIABLE: json.dumps(own)}
        done = subprocess.run(["make", "test-own"], cwd=ROOT, env=told, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
