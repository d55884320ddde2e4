"""What a sandbox is started with, without a sandbox."""

from __future__ import annotations

from pathlib import Path

import pytest

from ch_s3_lab.errors import SandboxError
from ch_s3_lab.sandbox.config import SandboxConfig
from ch_s3_lab.sandbox.info import GIVEN_VARIABLE
from ch_s3_lab.sandbox.launch import start_detached
from tests.failures import coded
from tests.unit.lab.sandbox.test_sandbox_info import SANDBOX


def test_the_installed_package_runs_in_a_folder_with_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "airflow_provider_ch_s3"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text("import sys; sys.exit('the package of the folder')")
    monkeypatch.chdir(tmp_path)
    library = tmp_path / "no-engine"
    with pytest.raises(SandboxError) as caught:
        start_detached(SandboxConfig(directory=tmp_path / "sandbox", library=library))
    assert "the package of the folder" not in str(caught.value)
    assert str(library) in str(caught.value)


def test_a_sandbox_is_not_a_cluster_that_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(GIVEN_VARIABLE, SANDBOX.to_json())
    with pytest.raises(SandboxError, match=coded("sandbox-not-started", "no-engine")):
        start_detached(SandboxConfig(directory=tmp_path / "sandbox", library=tmp_path / "no-engine"))
