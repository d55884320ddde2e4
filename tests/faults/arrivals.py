"""The files of a watched source, what the table has to hold of them, and which files an event may name and has to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Set
from dataclasses import dataclass, field

ROWS_PER_FILE = 3
HEADER = "k,v,r\n"

File = tuple[str, int]
"""Name and version."""
Rows = Counter[tuple[str, int, int]]
"""Name and version of the file, and number of the row."""


def rows_of(file: File) -> Rows:
    return Counter((*file, number) for number in range(ROWS_PER_FILE))


def write_rows(file: File) -> bytes:
    return (HEADER + "".join(f"{name},{version},{row}\n" for name, version, row in rows_of(file))).encode()


class WrongError(AssertionError):
    """A file is lost or doubled, or an event is too much or missing."""


@dataclass(kw_only=True)
class Arrivals:
    """One source and one table.

    :param versions: of each file now in the source. Version 0 has no rows, so nobody sees whether it is loaded.
    :param held: versions of files that a successful load has put into the table.
    :param tried: versions of files that an unsuccessful load may have planned or committed, and how often
        ``again_after`` had passed by then.
    """

    versions: dict[str, int] = field(default_factory=dict)
    held: set[File] = field(default_factory=set)
    tried: dict[File, int] = field(default_factory=dict)

    @property
    def files(self) -> set[File]:
        return {*self.versions.items()}

    def name(self, keys: Iterable[str]) -> set[File]:
        """Find the present versions of some files; those that are gone are left out."""
        return {(key, self.versions[key]) for key in keys if key in self.versions}

    def end_load(self, files: Set[File], rows: Rows, *, is_sure: bool, times: int) -> None:
        """Note what a load leaves.

        :param files: of its source, when it began.
        :param rows: of the table, after its end.
        :param is_sure: it was successful, and has seen the source.
        :param times: how often ``again_after`` has passed.
        """
        whole = {file for file in files if file[1] and rows_of(file) <= rows}
        lost = {file for file in files & self.files if file[1]} - whole
        if is_sure and lost:
            raise WrongError(f"a load succeeded without the rows of {sorted(lost)}")
        self.held |= whole if is_sure else set()
        self.tried |= dict.fromkeys(files - self.held, times)

    def check_event(
        self, named: Set[File] | int, *, listed: Set[File], underway: Set[File], rows: Rows, is_due: bool, times: int
    ) -> None:
        """Check the event of a poll, empty if there was none.

        :param named: the files that the event names, or only how many they are.
        :param listed: what the poll has listed.
        :param underway: files that a load has surely planned since ``again_after`` passed last.
        :param rows: of the table, during the poll.
        :param is_due: whether the listing differs from the watcher's last, or ``again_after`` has passed since.
        """
        may = listed - self.held - underway if is_due else set()
        must = {file for file in may if not self._is_doubtful(file, rows, times)}
        at_least, at_most = (must, may) if isinstance(named, Set) else (len(must), len(may))
        if not at_least <= named <= at_most:  # type: ignore[operator]
            raise WrongError(f"an event names {named!r}, has to name {at_least!r}, and may name {at_most!r}")

    def _is_doubtful(self, file: File, rows: Rows, times: int) -> bool:
        """Whether an unsuccessful load may have added the file, or may still be about to."""
        if file not in self.tried:
            return False
        return not file[1] or self.tried[file] == times or bool(rows_of(file) & rows)

    def check_table(self, rows: Rows) -> None:
        """Check that the table holds each file once; of a file that is gone, no row twice."""
        expected = sum((rows_of(file) for file in self.files if file[1]), Rows())
        present = Rows({row: count for row, count in rows.items() if row[0] in self.versions})
        gone = rows - present
        if lost := expected - present:
            raise WrongError(f"lost: {sorted(lost)}")
        if doubled := present - expected + Rows({row: count - 1 for row, count in gone.items() if count > 1}):
            raise WrongError(f"doubled: {sorted(doubled.elements())}")
