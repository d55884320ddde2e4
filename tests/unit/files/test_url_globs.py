"""Globs in URLs: what they name, and what a URL may not contain."""

from __future__ import annotations

import re

import pytest

from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.files.globs import MAX_URLS, UNSAFE_IN_URL, expand_url_globs, glob_regex, read_url_glob
from tests.failures import coded


@pytest.mark.parametrize(
    ("written", "read"),
    [
        pytest.param("d/a.csv", "d/a.csv", id="plain"),
        pytest.param("d/a b.csv", "d/a%20b.csv", id="space"),
        pytest.param("d/a%20b.csv", "d/a%20b.csv", id="encoded-already"),
        pytest.param("d/a,b.csv", "d/a%2Cb.csv", id="comma"),
        pytest.param("d/{a b,c}.csv", "d/{a%20b,c}.csv", id="choices"),
        pytest.param("d/{01..12}.csv", "d/{01..12}.csv", id="numbers"),
        pytest.param("d/{a.csv", "d/%7Ba.csv", id="half-a-brace"),
        pytest.param("d/ü|#.csv", "d/%C3%BC%7C%23.csv", id="others"),
    ],
)
def test_what_a_url_cannot_contain_is_encoded(written: str, read: str) -> None:
    assert read_url_glob(written) == read


@pytest.mark.parametrize(
    ("globs", "keys"),
    [
        pytest.param(["a.csv"], ["a.csv"], id="one"),
        pytest.param(["b", "a", "b"], ["a", "b"], id="several"),
        pytest.param(["{b,a}/{1..3}.csv"], [f"{d}/{n}.csv" for d in "ab" for n in (1, 2, 3)], id="product"),
        pytest.param(["{08..10}"], ["08", "09", "10"], id="leading-zeros"),
        pytest.param(["{3..1}"], ["1", "2", "3"], id="backwards"),
        pytest.param(["{0..2}"], ["0", "1", "2"], id="from-zero"),
        pytest.param(["{a}"], ["a"], id="one-choice"),
    ],
)
def test_what_globs_name(globs: list[str], keys: list[str]) -> None:
    assert expand_url_globs(globs) == keys
    assert all(any(re.fullmatch(glob_regex(glob), key) for glob in globs) for key in keys)
    assert not any(UNSAFE_IN_URL.search(key) for key in keys)


def test_too_many_are_counted_and_not_written_out() -> None:
    assert len(expand_url_globs([f"{{1..{MAX_URLS}}}"])) == MAX_URLS
    with pytest.raises(ConfigError, match=coded("files-too-many", "100,000,000,000,000,000,001", "10,000")):
        expand_url_globs(["{1..10000000000}/{1..10000000000}", "one"])


@pytest.mark.parametrize("glob", ["a/*.csv", "a/**", "{*,a}"])
def test_a_server_lists_no_files(glob: str) -> None:
    with pytest.raises(ConfigError, match=coded("address-invalid", "HTTP", "{a,b}")):
        read_url_glob(glob)


def test_a_query_string_is_refused_and_not_shown() -> None:
    with pytest.raises(ConfigError, match=coded("address-invalid", "'a.csv?…'")) as raised:
        read_url_glob("a.csv?sig=SECRET")
    assert "SECRET" not in raised.value.sentence
