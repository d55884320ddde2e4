"""A bounded search for the constants of a user's own cluster, with a sample of the user's own files.

A candidate is a :class:`Calibration`. The search measures the plan that later loads would derive from the candidate.
The search varies constant after constant, always from the best values so far. Finally the best candidate, the
uncalibrated plan and the server's defaults are measured again in turn.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial

from airflow_provider_ch_s3.cluster.calibration import Calibration
from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.errors import LoadError
from airflow_provider_ch_s3.load import measure
from airflow_provider_ch_s3.load.prepare import PreparedLoad
from airflow_provider_ch_s3.load.staged import StagedLoad
from airflow_provider_ch_s3.sql import staging_queries
from airflow_provider_ch_s3.table.target import TableName, short_hash
from airflow_provider_ch_s3.trials.measure import measure_load, scratch_table, with_settings
from airflow_provider_ch_s3.trials.measurement import DEFAULTS, OURS, Measurement, median_of, rotate

TRIED = {
    "insert_threads_per_core": (0.5, 1.0, 2.0),
    "blocks_per_thread": (1.0, 2.0, 4.0),
    "readers_per_core": (1.0, 2.0, 4.0),
}
ROUNDS = 3
# An upper bound: different constants may lead to the same plan, which is measured only once.
MOST_LOADS = 1 + sum(map(len, TRIED.values())) + 3 * ROUNDS
# A shorter load mostly consists of its start and its end.
SAMPLE_SECONDS = 5.0
# A smaller gain is not worth storing a calibration.
MIN_GAIN = 1.05
CALIBRATED = "calibrated"


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """The result of a search.

    :param seconds: median settled seconds of the server's defaults, the uncalibrated plan and the calibrated plan.
    """

    calibration: Calibration
    seconds: dict[str, float]


def plan_sample(run: StagedLoad) -> PreparedLoad:
    """Plan a load of evenly spaced files: enough files for a few seconds, and for all readers."""
    whole = run.preview()
    files = whole.source.files
    wanted = math.ceil(len(files) * min(1.0, SAMPLE_SECONDS / max(whole.plan.prediction.load_seconds, 0.001)))
    cluster = whole.cluster
    fewest = int(cluster.node_count * cluster.weakest.vcpus * max(TRIED["readers_per_core"]))
    step = max(1, len(files) // max(wanted, fewest))
    return run.preview(files[::step])


def search(
    client: ClickHouseClient, sample: PreparedLoad, on_measured: Callable[[Measurement], None]
) -> SearchResult:
    """Measure candidates, and return the best.

    :param on_measured: called after each load.
    :raises LoadError: if the uncalibrated plan cannot load the sample.
    """

    def plan(calibration: Calibration) -> PreparedLoad:
        return sample.on(dataclasses.replace(sample.cluster, calibration=calibration))

    def measure(prepared: PreparedLoad, name: str) -> Measurement:
        measured = measure_load(client, partial(_scratch_table, client, sample), prepared, name)
        if measured.error and name == OURS:
            raise LoadError("query-failed", f"the sample cannot be loaded: {measured.error}")
        on_measured(measured)
        return measured

    ours = plan(Calibration())
    best, best_plan, best_seconds = Calibration(), ours, measure(ours, OURS).settled_seconds
    known = [ours.plan.sent]
    for name, values in TRIED.items():
        start = best
        for value in values:
            candidate = dataclasses.replace(start, **{name: value})
            prepared = plan(candidate)
            if prepared.plan.sent in known:
                continue
            known.append(prepared.plan.sent)
            found = measure(prepared, describe(candidate))
            if not found.error and found.settled_seconds < best_seconds:
                best, best_plan, best_seconds = candidate, prepared, found.settled_seconds
    finalists = {DEFAULTS: with_settings(ours, {}), OURS: ours}
    if best_plan is not ours:
        finalists[CALIBRATED] = best_plan
    rounds = [measure(finalists[name], name) for number in range(ROUNDS) for name in rotate(list(finalists), number)]
    return _judge(rounds, best, plan(best), ours)


def _judge(
    rounds: Sequence[Measurement], best: Calibration, calibrated: PreparedLoad, ours: PreparedLoad
) -> SearchResult:
    cluster = ours.cluster
    seconds = {name: median_of(rounds, name, "settled_seconds") for name in (DEFAULTS, OURS, CALIBRATED)}
    winner = CALIBRATED if seconds[CALIBRATED] * MIN_GAIN < seconds[OURS] else OURS
    calibration = best if winner == CALIBRATED else Calibration()
    volume_bytes = median_of(rounds, winner, "volume_bytes")
    if volume_bytes >= measure.MIN_VOLUME_BYTES:
        core_seconds = measure.core_seconds_per_gib(
            median_of(rounds, winner, "load_seconds"),
            volume_bytes / cluster.node_count,
            cluster,
            file_count=len(ours.source.files),
            data_format=ours.source.data_format,
            threads=(calibrated if winner == CALIBRATED else ours).plan.sent.get("max_insert_threads"),
        )
        calibration = dataclasses.replace(calibration, core_seconds_per_gib=round(core_seconds, 2))
    measured = {name: value for name, value in seconds.items() if not math.isnan(value)}
    return SearchResult(calibration=calibration, seconds=measured)


def _scratch_table(client: ClickHouseClient, sample: PreparedLoad) -> AbstractContextManager[TableName]:
    """Create a temporary table like the target."""
    target = sample.target.local
    scratch = TableName(database=target.database, table=f"ch_s3_tune_{short_hash(target)}")
    create = partial(
        staging_queries.render_create_staging, scratch, target, comment="created and dropped by ch-s3 tune"
    )
    return scratch_table(client, scratch, create)


def describe(calibration: Calibration) -> str:
    """Describe the constants of a candidate in a few words."""
    return ", ".join(f"{value:g} {name.replace('_', ' ')}" for name, value in calibration.as_dict().items())
