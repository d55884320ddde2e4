"""A node without room for the rows: the load is refused before anything is staged."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from airflow_provider_ch_s3.arguments import Format
from airflow_provider_ch_s3.errors import LoadError
from ch_s3_lab.sandbox import Sandbox, SandboxConfig
from ch_s3_lab.sandbox.launch import running_sandbox
from tests.failures import coded
from tests.sandbox.conftest import lab_in
from tests.sandbox.node_settings import write_settings

pytestmark = pytest.mark.sandbox

# A disk that has to keep all of its room free.
FULL = """
<clickhouse>
  <storage_configuration>
    <disks>
      <full><path>{path}/</path><keep_free_space_ratio>1</keep_free_space_ratio></full>
    </disks>
    <policies><full><volumes><tiny><disk>full</disk></tiny></volumes></full></policies>
  </storage_configuration>
</clickhouse>
"""


@pytest.fixture(scope="module")
def full_sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """Two nodes, of which the second has a full disk."""
    config = SandboxConfig(shards=2, directory=tmp_path_factory.mktemp("full"), memory_bytes_per_node=2 * 1024**3)
    assert config.directory is not None
    for node, ratio in ((1, "0"), (2, "1")):
        disk = FULL.format(path=config.directory / f"disk{node}").replace(">1</keep", f">{ratio}</keep")
        write_settings(config, "full.xml", disk, nodes=[node])
    with running_sandbox(config) as sandbox:
        yield sandbox


@pytest.mark.thorough
def test_the_refusal_names_node_and_volume(full_sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = lab_in(full_sandbox, monkeypatch)
    lab.put("in/1.csv", b"1\n2\n")
    for policy in ("default", "full"):
        lab.create(policy, "n UInt32", f"MergeTree ORDER BY n SETTINGS storage_policy = '{policy}'")
    how = {"data_format": Format("CSV", structure="n UInt32")}
    lab.load("in/*.csv", f"{lab.database}.default", task_id="roomy", **how)
    node = f":{full_sandbox.tcp_ports[1]}"
    with pytest.raises(LoadError, match=coded("disk-too-full", node, "'tiny' (0 B free)", "'full'")):
        lab.load("in/*.csv", f"{lab.database}.full", **how)
    assert lab.left_overs() == []
