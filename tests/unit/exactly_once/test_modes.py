"""Each load mode has one class, which says what its commits leave of earlier loads."""

from __future__ import annotations

import pytest

from airflow_provider_ch_s3.errors import LoadError
from airflow_provider_ch_s3.exactly_once.holdings import OF_LATER_RELEASE, Replaced
from airflow_provider_ch_s3.exactly_once.modes.registry import EFFECTS, mode_for, mode_of
from airflow_provider_ch_s3.files.addresses import Source
from airflow_provider_ch_s3.modes import Append, LoadMode, Merge, Mode, ReplacePartitions, ReplaceTable, ReplaceWhere
from tests.failures import coded
from tests.load_requests import load_request

PATTERN = Source(bucket="b", globs=("*",))


@pytest.mark.parametrize("mode", LoadMode)
def test_each_mode_is_found_by_its_name(mode: LoadMode) -> None:
    found = mode_of(mode.value)
    assert (found.name, found.effect) == (mode.value, EFFECTS[mode.value])


@pytest.mark.parametrize(
    ("mode", "name"),
    [
        pytest.param(Append(), "append", id="append"),
        pytest.param(Append(on_changed="replace"), "replace_files", id="changed-files"),
        pytest.param(ReplacePartitions(), "replace_partitions", id="partitions"),
        pytest.param(ReplaceWhere("n > 1"), "replace_where", id="where"),
        pytest.param(ReplaceTable(), "replace_table", id="table"),
        pytest.param(Merge(key=["id"]), "merge", id="merge"),
    ],
)
def test_each_request_has_a_mode(mode: Mode, name: str) -> None:
    assert mode_for(load_request(PATTERN, table="t", mode=mode)).name == name


def test_what_is_left_of_earlier_loads() -> None:
    effects = EFFECTS.items()
    assert {name for name, effect in effects if effect.keeps_all} == {"append", "undo"}
    assert {name for name, effect in effects if effect.is_partial} == {"replace_where", "merge", "replace_files"}
    assert {name for name, effect in effects if effect.frees_files} == {"undo", "replace_files"}
    assert {name for name, effect in effects if effect.replaced is Replaced.TABLE} == {"replace_table"}


def test_a_mode_of_a_later_release_is_not_guessed() -> None:
    with pytest.raises(LoadError, match=coded("provider-version-differs", "mode='swap'")):
        mode_of("swap")
    assert OF_LATER_RELEASE.replaced is Replaced.TABLE
