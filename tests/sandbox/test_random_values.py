"""A slice of ``make values``: the same seed each time, which is known to pass."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from ch_s3_lab.errors import SandboxError
from ch_s3_lab.sandbox import SandboxConfig
from ch_s3_lab.sandbox.config import EMBEDDED, SERVERS
from ch_s3_lab.sandbox.engine import package_of
from ch_s3_lab.sandbox.launch import running_sandbox
from ch_s3_lab.sandbox.zookeeper import find_classpath
from tests.sandbox.conftest import Lab, lab_in
from tests.values.harness import Batch, Harness, draw_pairs, is_wrapped, run_series
from tests.values.lanes import LANES
from tests.values.typed import run_typed

pytestmark = pytest.mark.sandbox

SEED = 7
KINDS_OF_PUSH = 8
BY_NAME = {lane.name: lane for lane in LANES}


@pytest.fixture
def harness(lab: Lab) -> Harness:
    lab.connect_one_node()
    return Harness(lab=lab, version=EMBEDDED, is_whole=True)


@pytest.mark.push
@pytest.mark.every_case
@pytest.mark.parametrize(("lane", "wrapper"), [("json-string", ""), ("csv", "Nullable")])
def test_texts_arrive_as_what_they_mean_or_not_at_all(harness: Harness, lane: str, wrapper: str) -> None:
    chance = random.Random(SEED)
    kinds = chance.sample([kind for kind in harness.kinds if is_wrapped(kind, wrapper)], KINDS_OF_PUSH)
    batch = Batch(lane=BY_NAME[lane], wrapper=wrapper, kinds=kinds)
    outcome = harness.run(batch, draw_pairs(batch, 60, chance))
    assert [str(finding) for finding in outcome.findings] == []
    assert outcome.loaded > 15
    assert outcome.refused > 15


@pytest.mark.push
def test_typed_values_arrive_unchanged_or_not_at_all(harness: Harness) -> None:
    ((_, outcome),) = run_typed(harness, pairs=60, seed=SEED)
    assert [str(finding) for finding in outcome.findings] == []
    assert outcome.loaded > 10


@pytest.fixture
def older_harness(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Harness]:
    """A harness on one server of an older version."""
    config = SandboxConfig(shards=1, engine=request.param)
    try:
        find_classpath(config.zookeeper)
        package_of(config.engine)
    except SandboxError as error:
        pytest.skip(str(error))
    with running_sandbox(config) as sandbox:
        lab = lab_in(sandbox, monkeypatch)
        lab.connect_one_node()
        yield Harness(lab=lab, version=request.param)


@pytest.mark.thorough
@pytest.mark.parametrize("older_harness", SERVERS, indirect=True)
def test_also_on_older_servers(older_harness: Harness) -> None:
    found = [*run_series(older_harness, pairs=600, seed=SEED), *run_typed(older_harness, pairs=200, seed=SEED)]
    assert [str(finding) for _, outcome in found for finding in outcome.findings] == []
