"""The settings of a SELECT over files in place."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_ch_s3.common.text import count_of
from airflow_provider_ch_s3.tuning.read import input_format_tsv_crlf_end_of_line
from airflow_provider_ch_s3.tuning.rule import Citation, Decision, PlanFacts, Rule, computed, fixed
from airflow_provider_ch_s3.tuning.rules import EVERY_QUERY

# With 100 ms per request, two per core took 0.84 to 0.88 of the time of one, and four no less than two; near the
# store there was no difference (2 cores, medians of 9).
READERS_PER_CORE = 2

MEASURED_IN_PLACE = Citation("measured", "s3-query.md#threads")


@dataclass(frozen=True, kw_only=True)
class InPlaceFacts(PlanFacts):
    """The reading node, and the files."""

    vcpus: int


def max_threads(facts: InPlaceFacts) -> Decision:
    """Two per core: while one thread waits for the store, the second computes. More gained nothing, near or far."""
    reason = f"{count_of(facts.vcpus, 'core')}: while one thread waits for the store, another one computes"
    return Decision(READERS_PER_CORE * facts.vcpus, reason)


IN_PLACE_RULES: tuple[Rule[InPlaceFacts], ...] = (
    computed(max_threads, source=MEASURED_IN_PLACE),
    fixed(
        "s3_throw_on_zero_files_match",
        1,
        "files that disappear between listing and reading must fail the query, not be missing from its result",
        protects_data=True,
    ),
    computed(input_format_tsv_crlf_end_of_line, is_pinned=True, protects_data=True),
    *EVERY_QUERY,
)
