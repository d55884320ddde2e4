"""Rows that are sent to shards with replicas: each arrives once, or nothing is loaded."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.modes import Merge
from tests.failures import coded
from tests.sandbox.conftest import Lab, bag
from tests.sandbox.test_replicas import lab
from tests.sandbox.topologies import only_on

__all__ = ["lab"]

pytestmark = [pytest.mark.sandbox, only_on("on-cluster", "old")]

KEYS = [{"n": n} for n in range(40)]


@contextmanager
def changed_config(lab: Lab, change: Callable[[str], str], of: slice = slice(None)) -> Iterator[None]:
    """Change the configuration of all nodes, or of some, for the length of a block."""
    assert lab.sandbox.directory is not None
    before = {path: path.read_text() for path in sorted(lab.sandbox.directory.glob("node*/config.xml"))[of]}
    try:
        for path, text in before.items():
            path.write_text(changed := change(text))
            assert changed != text
        reload_config(lab)
        yield
    finally:
        for path, text in before.items():
            path.write_text(text)
        reload_config(lab)


def reload_config(lab: Lab) -> None:
    for node in lab.nodes():
        lab.query("SYSTEM RELOAD CONFIG", node=node)


def put_keys(lab: Lab) -> None:
    for number in range(4):
        rows = "".join(f"{row['n']}\n" for row in KEYS[number::4])
        lab.put(f"keys/{number}.csv", f"n\n{rows}".encode())


def add_copying_cluster(config: str) -> str:
    """Add a cluster of the same nodes in which who sends a row writes it to each replica."""
    (own,) = re.findall(r"<sandbox>\s+<!--.*?</sandbox>", config, re.DOTALL)
    copying = own.replace("sandbox>", "copying>").replace("_replication>true", "_replication>false")
    return config.replace(own, own + copying)


def copy_rows(config: str) -> str:
    return config.replace("_replication>true", "_replication>false")


def queue_inserts(config: str) -> str:
    return config.replace("<profiles><default>", "<profiles><default><async_insert>1</async_insert>")


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"where": "n >= 0"},
        {"mode": Merge(key=["n"])},
        {"settings": {"parallel_distributed_insert_select": 1}},
        {"settings": {"parallel_distributed_insert_select": False}},
    ],
    ids=str,
)
def test_a_cluster_that_copies_rows_is_refused(lab: Lab, how: dict[str, object]) -> None:
    put_keys(lab)
    table = lab.create("t", "n UInt32", "MergeTree ORDER BY n")
    key = "rand()" if isinstance(how.get("mode"), Merge) else "n"
    with changed_config(lab, add_copying_cluster):
        lab.connect_clickhouse({"cluster": "copying"})
        engine = f"Distributed(copying, {', '.join(table.split('.'))}, {key})"
        lab.ddl(f"CREATE TABLE {table}_all {{on_cluster}} AS {table} ENGINE = {engine}")
        with pytest.raises(ConfigError, match=coded("internal-replication-off", "'copying'", "2 times")):
            lab.load("keys/*.csv", f"{table}_all", **how)
        assert lab.rows(table) == []
        if key == "rand()":  # an append then sends no row
            lab.load("keys/*.csv", f"{table}_all")
            assert bag(lab.rows(table)) == bag(KEYS)
    assert lab.left_overs() == []


@pytest.mark.thorough
def test_only_one_node_sends_if_another_would_copy_the_rows(lab: Lab) -> None:
    put_keys(lab)
    table = lab.create("t", "n UInt32", "MergeTree ORDER BY n")
    with changed_config(lab, copy_rows, of=slice(3, 4)):
        report = lab.load("keys/*.csv", lab.distribute(table, "n"))
    assert bag(lab.rows(table)) == bag(KEYS)
    assert lab.settings(report)["parallel_distributed_insert_select"]["value"] == 0


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("key", "settings"),
    [
        pytest.param("n", {}, id="by-all"),
        pytest.param("n", {"parallel_distributed_insert_select": 0}, id="by-one"),
    ],
)
def test_shards_write_at_once_what_they_are_sent(lab: Lab, key: str, settings: dict[str, int]) -> None:
    """A queue would write it as another query, so that the log of the load would never be complete."""
    put_keys(lab)
    table = lab.create("t", "n UInt32", "MergeTree ORDER BY n")
    with changed_config(lab, queue_inserts):
        assert lab.query("SELECT getSetting('async_insert') AS a") == [{"a": True}]
        report = lab.load("keys/*.csv", lab.distribute(table, key), settings=settings)
    assert bag(lab.rows(table)) == bag(KEYS)
    assert report["rows_written"] == len(KEYS)
    assert lab.left_overs() == []
