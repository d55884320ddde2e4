"""What a REPLACE that broke off has replaced: c1 and c2, of 10 rows each, come; o1 and o2 were there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_ch_s3.exactly_once.modes.replaced import Replacement, find_foreign, find_replacement
from airflow_provider_ch_s3.exactly_once.moved import Before, Part

OWED, TOUCHED, HALF, DONE, UNKNOWN = Replacement


def part(digest: str, first: int, last: int | None = None, *, rows: int = 10, **more: Any) -> Part:
    last = first if last is None else last
    given = {"is_fresh": first == last, "version": last, **more}
    return Part(name=f"p_{first}_{last}", rows=rows, first_block=first, last_block=last, digest=digest, **given)


GONE = {"is_active": False}
COMING = [part("c1", 1), part("c2", 2)]
OLD = [part("o1", 6), part("o2", 7)]
OLD_GONE = [part("o1", 6, **GONE), part("o2", 7, **GONE)]
CLONES = [part("c1", 8), part("c2", 9)]
BEFORE = Before(last_block=7, rows=20, version=7, digests=("o1", "o2"))
NEW_PARTITION = Before(version=-1)
MUTATED = {"is_fresh": False, "version": 12}


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        pytest.param(OLD, OWED, id="nothing-happened"),
        pytest.param([part("m", 6, 7, rows=20)], OWED, id="merged"),
        pytest.param([*OLD, part("x", 8)], TOUCHED, id="insert"),
        pytest.param([part("m", 6, 8, rows=30)], TOUCHED, id="insert-and-merge-long-ago"),
        pytest.param(OLD[:1], TOUCHED, id="drop-part"),
        pytest.param([OLD[0], part("d", 7, **MUTATED)], TOUCHED, id="lightweight-delete-or-update"),
        pytest.param([OLD[0], part("d", 7, rows=9, **MUTATED)], TOUCHED, id="delete"),
        pytest.param([*OLD, part("c1", 8, **GONE)], OWED, id="what-a-replace-left-that-failed"),
        pytest.param(OLD_GONE, TOUCHED, id="drop-partition"),
        pytest.param([*OLD_GONE, part("x", 8)], TOUCHED, id="drop-partition-and-insert"),
        pytest.param([], UNKNOWN, id="drop-partition-long-ago-or-replaced-before-that"),
        pytest.param([part("m", 8, 9)], UNKNOWN, id="drop-partition-inserts-and-merge-long-ago"),
        pytest.param([part("x", 10)], UNKNOWN, id="drop-partition-long-ago-or-replaced-before-that-and-insert"),
        pytest.param([*OLD_GONE, *CLONES], DONE, id="replaced"),
        pytest.param(CLONES, DONE, id="replaced-long-ago"),
        pytest.param([*CLONES, part("x", 10)], DONE, id="replaced-and-insert"),
        pytest.param([part("c1", 8, **GONE), CLONES[1], part("d", 8, **MUTATED)], DONE, id="replaced-and-mutated"),
        pytest.param([part("c1", 8, **GONE), part("c2", 9, **GONE), part("m", 8, 9)], DONE, id="replaced-and-merged"),
        pytest.param(
            [part("c1", 8, **GONE), CLONES[1], part("d", 8, rows=0, **MUTATED)],
            DONE,
            id="replaced-and-all-rows-deleted",
        ),
        pytest.param([part("c1", 8), part("x", 9)], UNKNOWN, id="an-equal-part-may-be-of-others"),
        pytest.param([part("m", 8, 10, rows=30)], UNKNOWN, id="replaced-or-not-and-merged-long-ago"),
        pytest.param([part("c1", 8, **GONE), part("c2", 9, **GONE)], UNKNOWN, id="failed-or-dropped-since"),
    ],
)
def test_of_a_server_that_was_not_restarted(held: list[Part], expected: Replacement) -> None:
    assert find_replacement(COMING, held, BEFORE, is_whole=True) is expected


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        pytest.param(OLD, OWED, id="nothing-happened"),
        pytest.param([*OLD, CLONES[0]], HALF, id="killed-between-two-clones"),
        pytest.param([*OLD, *CLONES], HALF, id="killed-before-the-old-parts-went"),
        pytest.param(
            [*OLD_GONE, *(part(f"c{n}", 7 + n, **GONE) for n in (1, 2)), part("m", 6, 9, rows=40)],
            HALF,
            id="and-merged",
        ),
        pytest.param([OLD_GONE[0], OLD[1], *CLONES], HALF, id="killed-while-the-old-parts-went"),
        pytest.param(
            [*OLD_GONE, *(part(f"c{n}", 7 + n, **GONE) for n in (1, 2)), part("m", 7, 9, rows=30)],
            HALF,
            id="killed-while-the-old-parts-went-and-merged",
        ),
        pytest.param([OLD_GONE[0], OLD[1], CLONES[0]], UNKNOWN, id="an-old-part-went-before-all-clones-came"),
        pytest.param(
            [*OLD_GONE, part("c1", 8, **GONE), part("x", 9, **GONE), part("m", 6, 9, rows=40)],
            UNKNOWN,
            id="and-insert-and-merged",
        ),
        pytest.param([*OLD, *CLONES, part("x", 10)], UNKNOWN, id="and-insert"),
        pytest.param([part("m", 6, 7, rows=19), *CLONES], UNKNOWN, id="and-delete"),
        pytest.param([part("m", 6, 9, rows=40)], UNKNOWN, id="and-merged-long-ago"),
        pytest.param([part("m", 6, 8, rows=30)], UNKNOWN, id="insert-and-merge-long-ago"),
        pytest.param([*OLD, part("x", 8)], TOUCHED, id="insert"),
        pytest.param(CLONES, DONE, id="replaced"),
    ],
)
def test_of_a_server_that_was_killed(held: list[Part], expected: Replacement) -> None:
    assert find_replacement(COMING, held, BEFORE, is_whole=False) is expected


@pytest.mark.parametrize(
    ("held", "is_whole", "expected"),
    [
        pytest.param([], True, OWED, id="nothing-happened"),
        pytest.param([part("x", 0)], True, TOUCHED, id="insert"),
        pytest.param([part("c1", 0), part("c2", 1)], False, DONE, id="replaced"),
        pytest.param([part("c1", 0)], False, HALF, id="killed-between-two-clones"),
        pytest.param([part("c1", 0), part("x", 1)], False, UNKNOWN, id="killed-and-insert"),
        pytest.param([part("c1", 0), part("x", 1)], True, UNKNOWN, id="replaced-delete-and-insert-long-ago"),
    ],
)
def test_of_a_partition_that_was_empty(held: list[Part], is_whole: bool, expected: Replacement) -> None:
    assert find_replacement(COMING, held, NEW_PARTITION, is_whole=is_whole) is expected


def test_of_a_server_that_was_killed_an_empty_part_comes_too() -> None:
    coming = [*COMING, part("nothing", 3, rows=0)]
    clones = [*(part(f"c{n}", 7 + n, **GONE) for n in (1, 2)), part("nothing", 10, rows=0, **GONE)]
    assert find_replacement(coming, [*clones, part("m", 7, 10, rows=30), *OLD_GONE], BEFORE, is_whole=False) is HALF


@pytest.mark.parametrize("is_whole", [True, False])
@pytest.mark.parametrize(
    ("held", "expected"),
    [
        pytest.param(OLD, OWED, id="nothing-happened"),
        pytest.param([part("m", 6, 9, rows=30)], TOUCHED, id="insert-and-merge-long-ago"),
        pytest.param([], DONE, id="emptied-or-dropped"),
        pytest.param([part("x", 8)], DONE, id="emptied-or-dropped-and-insert"),
    ],
)
def test_of_a_partition_that_is_emptied(held: list[Part], is_whole: bool, expected: Replacement) -> None:
    coming = [part("nothing", 1, rows=0)]
    assert find_replacement(coming, held, BEFORE, is_whole=is_whole) is expected


@pytest.mark.parametrize(
    ("held", "before", "is_logged", "expected"),
    [
        pytest.param([part("m", 8, 10, rows=30)], BEFORE, True, DONE, id="replaced-and-merged-long-ago"),
        pytest.param([part("m", 8, 9)], BEFORE, False, TOUCHED, id="drop-partition-inserts-and-merge-long-ago"),
        pytest.param([], BEFORE, True, DONE, id="replaced-and-dropped"),
        pytest.param([part("c1", 8), part("x", 9)], BEFORE, True, DONE, id="replaced-delete-and-insert-long-ago"),
        pytest.param([part("c1", 8), part("x", 9)], BEFORE, False, TOUCHED, id="dropped-and-equal-part-inserted"),
        pytest.param([], BEFORE, False, TOUCHED, id="dropped"),
        pytest.param([], NEW_PARTITION, True, DONE, id="new-and-dropped-long-ago"),
        pytest.param([], NEW_PARTITION, False, OWED, id="new-and-not-there-yet"),
    ],
)
def test_what_the_log_of_parts_tells(
    held: list[Part], before: Before, is_logged: bool, expected: Replacement
) -> None:
    assert find_replacement(COMING, held, before, is_whole=True, is_logged=is_logged) is expected


ATTACHED = [replace(one, first_block=10 + n, last_block=10 + n) for n, one in enumerate(OLD)]


@pytest.mark.parametrize(
    ("coming", "held", "is_logged", "expected"),
    [
        pytest.param([], ATTACHED, None, TOUCHED, id="nothing-to-come"),
        pytest.param(COMING, ATTACHED, None, TOUCHED, id="not-replaced"),
        pytest.param(COMING, ATTACHED, False, TOUCHED, id="not-logged"),
        pytest.param(COMING, [*CLONES, *ATTACHED], None, DONE, id="replaced-and-equal-rows-inserted-again"),
        pytest.param(COMING, [*CLONES[:1], *ATTACHED], None, UNKNOWN, id="perhaps-replaced-and-a-part-dropped"),
        pytest.param(COMING, ATTACHED, True, DONE, id="replaced-and-dropped-and-attached"),
        pytest.param([*COMING, OLD[0]], ATTACHED, None, TOUCHED, id="a-part-stays-as-it-is"),
        pytest.param([], [part("x", 8)], None, DONE, id="emptied-and-inserted"),
    ],
)
def test_parts_that_were_detached_and_attached_again(
    coming: list[Part], held: list[Part], is_logged: bool | None, expected: Replacement
) -> None:
    """They have new numbers, like what a REPLACE adds."""
    assert find_replacement(coming, held, BEFORE, is_whole=True, is_logged=is_logged) is expected


# Others have dropped the partition, and the server has been restarted: numbers begin again at 5.
ANEW = part("x", 5)


@pytest.mark.parametrize("is_whole", [True, False])
@pytest.mark.parametrize(
    ("held", "before", "is_logged", "expected"),
    [
        pytest.param([ANEW], BEFORE, True, DONE, id="replaced-and-inserted"),
        pytest.param([part("m", 5, 6)], BEFORE, True, DONE, id="replaced-and-inserted-and-merged"),
        pytest.param([ANEW], BEFORE, False, TOUCHED, id="inserted"),
        pytest.param([replace(ANEW, rows=20)], BEFORE, False, TOUCHED, id="inserted-as-many-rows"),
        pytest.param([ANEW], BEFORE, None, UNKNOWN, id="nothing-tells"),
        pytest.param([ANEW], Before(last_block=7, version=-1), False, TOUCHED, id="inserted-where-nothing-was"),
        pytest.param([part("c1", 5), part("c2", 6)], BEFORE, None, DONE, id="replaced-after-the-restart"),
    ],
)
def test_numbers_that_begin_again(
    held: list[Part], before: Before, is_logged: bool | None, is_whole: bool, expected: Replacement
) -> None:
    assert find_replacement(COMING, held, before, is_whole=is_whole, is_logged=is_logged) is expected


def test_rows_of_others_whose_numbers_begin_again() -> None:
    assert find_foreign(COMING, [OLD[0], ANEW], BEFORE) == [ANEW]


def test_equal_parts_have_to_be_there_each() -> None:
    """A node was killed within the REPLACE of a new partition: it renames the clones one by one."""
    twice = [part("c", 1), part("c", 2)]
    assert find_replacement(twice, [part("c", 0)], NEW_PARTITION, is_whole=False) is HALF
    assert find_replacement(twice, [part("c", 0), part("c", 1)], NEW_PARTITION, is_whole=False) is DONE


def test_a_record_of_an_earlier_release_has_no_version() -> None:
    assert find_replacement(COMING, OLD, replace(BEFORE, version=None), is_whole=True) is OWED


def test_rows_of_others() -> None:
    held = [OLD[0], CLONES[0], part("x", 10), part("y", 11, **GONE), part("m", 7, 12)]
    assert [one.digest for one in find_foreign(COMING, held, BEFORE)] == ["x", "m"]


def test_equal_parts_are_counted_and_their_mutated_copies_are_not() -> None:
    """A part that a mutation has copied has the same blocks and files; two equal files give two parts."""
    clone = part("c1", 8)
    twice = [part("c1", 1), part("c1", 2)]
    copied = [replace(clone, is_active=False), replace(clone, version=9, is_fresh=False)]
    assert find_replacement(twice, copied, BEFORE, is_whole=True) is UNKNOWN
    assert find_replacement(twice, [clone, part("c1", 9)], BEFORE, is_whole=True) is DONE
