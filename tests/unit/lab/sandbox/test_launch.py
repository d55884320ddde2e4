"""What a sandbox is started with, without a sandbox."""

from __future__ import annotations

from pathlib import Path

import pytest

from ch_s3_lab.errors import SandboxError
from ch_s3_lab.sandbox.config import SandboxConfig
from ch_s3_lab.sandbox.launch import start_detached


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
