"""An engine that is newer than those of the sandbox, and no server: it answers statements in a process of its own.

``python engine_in_process.py WHEEL DIRECTORY FORMAT`` reads statements from its standard input, a JSON list, and
writes a JSON list of pairs: the error of each, or '', and its answer in the format.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

SECONDS = 300
CLUSTER = "nobody"
# No node of the cluster is there: it can be named, but not be read.
CONFIG = """<clickhouse>
  <remote_servers><nobody><shard><replica><host>127.0.0.1</host><port>1</port></replica></shard></nobody></remote_servers>
  <macros><shard>1</shard><replica>1</replica></macros>
  <query_log><database>system</database><table>query_log</table></query_log>
  <part_log><database>system</database><table>part_log</table></part_log>
</clickhouse>
"""


def ask_each(statements: Sequence[str], directory: Path) -> list[str]:
    """Run statements; returns what the engine said to each: its error, or ''."""
    return [error for error, _ in answer_each(statements, directory, "Null")]


def answer_each(
    statements: Sequence[str], directory: Path, output_format: str = "JSONEachRow"
) -> list[tuple[str, str]]:
    """Run statements; returns the error of each, or '', and the answer."""
    from ch_s3_lab.sandbox.engine import EnginePackage, ensure_library
    from ch_s3_lab.sandbox.registries import Registry

    package = EnginePackage(
        name="chdb-core",
        version="26.9.0",
        integrity="sha256-cH4uw/4PeVO6yXlC6ut6HtHWax5W7O8/CqITD2H25zU=",
        registry=Registry.PYPI,
        library="chdb/_chdb.abi3.so",
        parts=("chdb", "chdb_core.libs"),
    )
    wheel = ensure_library(package).parents[1]
    command = [sys.executable, __file__, str(wheel), str(directory), output_format]
    asked = subprocess.run(
        command, input=json.dumps(statements), capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert asked.returncode == 0, asked.stderr
    said = json.loads(asked.stdout.splitlines()[-1])
    assert len(said) == len(statements)
    return [(str(error), str(answer)) for error, answer in said]


def main(wheel: str, directory: str, output_format: str) -> None:
    sys.path.insert(0, wheel)
    from chdb.session import Session

    config = Path(directory, "config.xml")
    config.write_text(CONFIG)
    session = Session(f"file:{directory}/data?config-file={config}")

    def ask(statement: str) -> tuple[str, str]:
        try:
            return "", session.query(statement, output_format).bytes().decode()
        except RuntimeError as error:
            return str(error), ""

    answers = [ask(statement) for statement in json.load(sys.stdin)]
    sys.stdout.write(f"\n{json.dumps(answers)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
