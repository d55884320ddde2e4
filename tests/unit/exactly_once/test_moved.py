"""What a MOVE that broke off has moved, told by parts: s1, s2, s3 are staged, of 10 rows each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from airflow_provider_ch_s3.errors import UnknownStateError
from airflow_provider_ch_s3.exactly_once.moved import Before, Part, count_lost, find_moved
from tests.failures import coded

# The target had 20 rows in blocks up to 7.
BEFORE = Before(last_block=7, rows=20, staged_rows=30)


def part(digest: str, first: int, last: int | None = None, *, rows: int = 10, **more: Any) -> Part:
    last = first if last is None else last
    given = {"version": first, "is_fresh": first == last, **more}
    return Part(name=f"p_{first}_{last}", rows=rows, first_block=first, last_block=last, digest=digest, **given)


def mutated(digest: str, first: int, last: int | None = None, *, rows: int = 10) -> Part:
    return part(digest, first, last, rows=rows, is_fresh=False, version=20)


def find(
    staged: Sequence[Part],
    target: Sequence[Part],
    before: Before = BEFORE,
    *,
    keeps_all_rows: bool = True,
    same_rows: int | None = None,
) -> list[str]:
    return list(
        find_moved(
            staged,
            target,
            before,
            keeps_all_rows=keeps_all_rows,
            is_patched=False,
            count_same_rows=lambda _: same_rows,
        )
    )


STAGED = [part("s1", 1), part("s2", 2), part("s3", 5)]
OLD = [part("o1", 6), part("o2", 7)]
MERGED_AWAY = {"is_active": False}


@pytest.mark.parametrize(
    ("target", "moved"),
    [
        pytest.param(OLD, [], id="nothing"),
        pytest.param([], [], id="nothing-and-the-old-rows-are-gone"),
        pytest.param([*OLD, part("s1", 8), part("s2", 9)], ["p_1_1", "p_2_2"], id="two-of-three"),
        pytest.param([*OLD, part("s1", 8), part("s2", 9), part("s3", 10)], ["p_1_1", "p_2_2", "p_5_5"], id="all"),
        pytest.param(
            [*OLD, part("s1", 8), part("x", 9, rows=7), part("s2", 10)], ["p_1_1", "p_2_2"], id="beside-others"
        ),
        pytest.param([*OLD, part("x", 8, rows=30)], [], id="others-wrote-as-many-rows"),
        pytest.param([part("s1", 6), part("s2", 7)], [], id="equal-parts-that-were-there-before"),
        pytest.param(
            [part("s1", 8, **MERGED_AWAY), part("s2", 9, **MERGED_AWAY), part("m", 6, 9, rows=40)],
            ["p_1_1", "p_2_2"],
            id="merged-with-old-ones-and-still-in-sight",
        ),
        pytest.param(
            [
                *(part(f"s{n}", 7 + n, **MERGED_AWAY) for n in (1, 2)),
                part("m1", 8, 9, rows=20, **MERGED_AWAY),
                part("s3", 10, **MERGED_AWAY),
                part("m2", 6, 10, rows=50),
            ],
            ["p_1_1", "p_2_2", "p_5_5"],
            id="merged-twice-and-still-in-sight",
        ),
        pytest.param([part("m", 6, 10, rows=50)], ["p_1_1", "p_2_2", "p_5_5"], id="hidden-but-as-many-rows-came"),
        pytest.param([*OLD, part("s1", 8, **MERGED_AWAY)], [], id="what-a-move-left-that-failed"),
    ],
)
def test_what_was_moved(target: list[Part], moved: list[str]) -> None:
    assert find(STAGED, target) == moved


@pytest.mark.parametrize(
    ("target", "keeps_all_rows"),
    [
        pytest.param([part("m", 6, 9, rows=40)], True, id="some-rows-came"),
        pytest.param([part("m", 6, 10, rows=50)], False, id="rows-do-not-count"),
        pytest.param(
            [part("m1", 8, 9, rows=20, is_active=False), part("s3", 10, is_active=False), part("m2", 6, 10, rows=57)],
            True,
            id="merged-twice-and-the-first-ones-are-out-of-sight",
        ),
        pytest.param([*OLD, mutated("d1", 8)], True, id="some-mutated-since"),
        pytest.param([*OLD, mutated("d1", 8)], False, id="mutated-and-rows-do-not-count"),
        pytest.param(
            # the others went out of sight first: after a restart each is as old as its files
            [*OLD, part("x", 10, rows=7, is_active=False), part("m", 8, 10, rows=27)],
            True,
            id="merged-and-only-the-last-one-is-in-sight",
        ),
    ],
)
def test_what_nobody_can_tell(target: list[Part], keeps_all_rows: bool) -> None:
    with pytest.raises(UnknownStateError, match=coded("partition-state-unknown", "30 rows", "30")):
        find(STAGED, target, keeps_all_rows=keeps_all_rows)


ALL = ["p_1_1", "p_2_2", "p_5_5"]
SEEN = [part(f"s{n}", 7 + n, **MERGED_AWAY) for n in (1, 2, 3)]


@pytest.mark.parametrize(
    ("target", "same_rows", "moved"),
    [
        pytest.param([mutated("m", 6, 9, rows=25)], 0, [], id="others-wrote-and-deleted"),
        pytest.param([part("m", 6, 9, rows=20)], 0, [], id="as-many-rows-went-as-came"),
        pytest.param([part("m", 6, 9, rows=20)], 5, None, id="as-many-rows-went-as-came-and-some-are-the-same"),
        pytest.param([part("m", 6, 9, rows=20)], None, None, id="as-many-rows-went-as-came-and-nobody-can-compare"),
        pytest.param([part("m", 6, 10, rows=50)], 0, [], id="others-wrote-as-many-rows"),
        pytest.param([part("m", 6, 10, rows=50)], 29, None, id="others-wrote-as-many-rows-and-some-are-the-same"),
        pytest.param([part("m", 6, 10, rows=50)], 30, ALL, id="as-many-rows-and-all-are-the-same"),
        pytest.param([mutated(f"d{n}", 7 + n) for n in (1, 2, 3)] + OLD, 30, None, id="all-mutated-since"),
        # others wrote 40 rows and deleted 10
        pytest.param([mutated("m", 6, 10, rows=50)], None, None, id="changed-and-nobody-can-compare"),
        # 20 rows arrived, others wrote 7 and deleted 27
        pytest.param([mutated("m", 6, 10, rows=20)], 20, None, id="as-many-deleted-as-came"),
        pytest.param([*OLD, SEEN[0], mutated("m", 8, 9, rows=5)], 0, None, id="in-sight-but-no-row-is-the-same"),
        pytest.param([*SEEN, mutated("m", 6, 10, rows=20)], 20, ALL, id="all-in-sight-and-rows-deleted"),
        # a MOVE failed and left clones, which others' rows seem to cover
        pytest.param([*SEEN, part("m", 6, 11, rows=27)], 0, None, id="what-a-move-left-and-rows-of-others"),
        # all arrived and were merged, and somebody detached and attached the part
        pytest.param([part("a", 11, rows=50)], 50, ALL, id="attached-again"),
        # somebody deletes old rows, if any, while a part has arrived and the other two have not
        pytest.param([mutated("d", 6), OLD[1], SEEN[0], mutated("s1+", 8)], None, ["p_1_1"], id="mutated-in-sight"),
        pytest.param([mutated("d", 6), OLD[1], part("x", 8, rows=7)], None, [], id="others-wrote-in-sight"),
    ],
)
def test_the_rows_tell_what_parts_and_their_numbers_do_not(
    target: list[Part], same_rows: int | None, moved: list[str] | None
) -> None:
    if moved is None:
        with pytest.raises(UnknownStateError):
            find(STAGED, target, same_rows=same_rows)
    else:
        assert find(STAGED, target, same_rows=same_rows) == moved


@pytest.mark.parametrize(
    ("target", "asked"),
    [
        pytest.param([part("m", 6, 10, rows=27)], [False], id="rows"),
        pytest.param([mutated("m", 6, 10, rows=27)], [True], id="keys-once-somebody-has-changed-rows"),
        pytest.param([*OLD, part("x", 8, rows=7), part("y", 9, rows=3)], [], id="nothing-if-the-parts-tell"),
    ],
)
def test_what_is_compared(target: list[Part], asked: list[bool]) -> None:
    found: list[bool] = []

    def count(by_key: bool) -> int:
        found.append(by_key)
        return 0

    assert find_moved(STAGED, target, BEFORE, keeps_all_rows=True, is_patched=False, count_same_rows=count) == ()
    assert found == asked


def test_rows_that_were_patched_are_compared_by_their_keys() -> None:
    """A lightweight UPDATE has changed rows, and leaves the versions of the parts."""

    def count(by_key: bool) -> int:
        return 30 if by_key else 0

    hidden = [part("m", 6, 10, rows=50)]
    with pytest.raises(UnknownStateError):
        find_moved(STAGED, hidden, BEFORE, keeps_all_rows=True, is_patched=True, count_same_rows=count)


def test_equal_parts_are_counted() -> None:
    staged = [part("same", 1), part("same", 2), part("same", 3)]
    assert find(staged, [*OLD, part("same", 8)]) == ["p_1_1"]


TWICE = [part("same", 1), part("same", 2)]
TO_ARRIVE = Before(last_block=7, rows=20, staged_rows=20)


def test_a_copy_by_a_mutation_is_no_second_clone() -> None:
    """One of two equal parts has arrived, and somebody has deleted rows of an old part."""
    target = [OLD[0], mutated("d", 7, rows=5), part("same", 8, **MERGED_AWAY), mutated("same", 8)]
    with pytest.raises(UnknownStateError):
        find(TWICE, target, TO_ARRIVE, same_rows=10)
    assert find(TWICE, target, TO_ARRIVE, keeps_all_rows=False) == ["p_1_1"]


def test_an_equal_part_that_was_attached_again_is_no_second_clone() -> None:
    gone = [part("o2", 7, **MERGED_AWAY), *(part("same", block, **MERGED_AWAY) for block in (8, 9))]
    with pytest.raises(UnknownStateError):
        find(TWICE, [OLD[0], *gone, part("m", 7, 9, rows=20)], TO_ARRIVE, same_rows=10)


def test_equal_parts_of_which_some_were_dropped_by_an_earlier_owner() -> None:
    # two were staged, one has arrived and was dropped from the staging table: the other one has to be moved
    before = Before(last_block=7, rows=20, staged_rows=20)
    assert find([part("same", 2)], [*OLD, part("same", 8)], before) == []


def test_what_somebody_dropped_by_hand_is_no_longer_unknown() -> None:
    # 20 of 30 rows have arrived, hidden by a merge, and the 20 were dropped from the staging table
    assert find(STAGED[:1], [part("m", 6, 9, rows=40)]) == []


@pytest.mark.parametrize("keeps_all_rows", [True, False])
def test_some_were_retired_already(keeps_all_rows: bool) -> None:
    target = [*OLD, *(part(f"s{n}", 7 + n) for n in (1, 2, 3))]
    assert find(STAGED[1:], target, keeps_all_rows=keeps_all_rows) == ["p_2_2", "p_5_5"]


@pytest.mark.parametrize(
    ("staged", "target", "lost"),
    [
        pytest.param(STAGED, OLD, 0, id="nothing-moved"),
        pytest.param(STAGED, [], 0, id="others-removed-old-rows"),
        pytest.param(STAGED[2:], [*OLD, part("s1", 8), part("s2", 9)], 0, id="two-moved"),
        pytest.param(STAGED[2:], [*OLD, part("s2", 9)], 10, id="one-of-two-broken"),
        pytest.param([], OLD, 30, id="all-broken"),
        pytest.param([], [*OLD, part("s1", 8), part("s2", 9), part("s3", 10), part("x", 11)], 0, id="others-wrote"),
    ],
)
def test_what_is_in_neither_table(staged: list[Part], target: list[Part], lost: int) -> None:
    assert count_lost(staged, target, BEFORE) == lost


def test_a_partition_that_did_not_exist() -> None:
    assert find(STAGED, [part("s1", 0)], Before(staged_rows=30)) == ["p_1_1"]
