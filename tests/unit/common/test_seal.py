"""What the seal of a record shows, and to whom."""

from __future__ import annotations

import json

import pytest

from airflow_provider_ch_s3.common.seal import Login

LOADER = Login(user="loader", secret="secret")
PLAN = {"replace_where": "d = 1", "views": {"_view0": ("d", "t")}, "partitions": {1: 2}, "seconds": 0.1}
WHERE = ("d.t", "ch-s3-a", 7, 0, 8, "committing")


def test_a_record_is_read_with_the_login_that_wrote_it() -> None:
    written = json.loads(json.dumps(LOADER.sealed(PLAN, *WHERE)))
    assert Login(user="loader", secret="secret").has_sealed(written, *WHERE)


@pytest.mark.parametrize(
    "reader",
    [
        Login(user="loader", secret="other"),
        Login(user="other", secret="secret"),
        Login(user="loader"),
        Login(),
    ],
    ids=["other-password", "other-user", "no-password", "nobody"],
)
def test_no_other_login_can_have_sealed_it(reader: Login) -> None:
    assert not reader.has_sealed(LOADER.sealed(PLAN, *WHERE), *WHERE)


@pytest.mark.parametrize("changed", [{"replace_where": "1 = 1"}, {"views": {"_view0": ["pay", "t"]}}, {"more": 1}])
def test_a_changed_record_has_lost_its_seal(changed: dict[str, object]) -> None:
    assert not LOADER.has_sealed({**LOADER.sealed(PLAN, *WHERE), **changed}, *WHERE)


@pytest.mark.parametrize("field", range(len(WHERE)))
def test_a_seal_is_of_one_attempt_and_one_event(field: int) -> None:
    other = (*WHERE[:field], "x", *WHERE[field + 1 :])
    assert not LOADER.has_sealed(LOADER.sealed(PLAN, *WHERE), *other)


@pytest.mark.parametrize("seal", ["", "é", None, 7, ["a"]])
def test_what_is_no_seal(seal: object) -> None:
    assert not LOADER.has_sealed({**PLAN, "seal": seal}, *WHERE)


def test_the_secret_is_not_shown() -> None:
    assert repr(LOADER) == "Login(user='loader')"
    assert "secret" not in json.dumps(LOADER.sealed({}, *WHERE)).replace("seal", "")
