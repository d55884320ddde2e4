"""Decide whether the first line of a file names the columns."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from airflow_provider_ch_s3.clickhouse.column_types import base_type, family
from airflow_provider_ch_s3.common.text import count_of, fold_name, show_name
from airflow_provider_ch_s3.errors import SourceError

REMEDY = "give data_format=Csv(header=True) or Csv(header=False) (data_format='TSVWithNames' or 'TSV' for TSV)"
_WITHOUT = (
    "leave it out: of CSV with data_format=Csv(header=False, skip_lines=1, structure='name Type, …'), of TSV with"
    " data_format=Format('TSV', structure='name Type, …') and settings={'input_format_tsv_skip_first_lines': 1}"
)
_YEAR = re.compile(r"(?:19|20)\d\d")


@dataclass(frozen=True, kw_only=True)
class FirstLine:
    """The first line of a file that may be a header.

    :param key: of the file.
    :param fields: without quotes and the spaces around them.
    :param next_fields: fields of the second line; empty without a second line.
    """

    key: str
    fields: Sequence[str]
    next_fields: Sequence[str] = ()

    def names_columns(self, columns: Mapping[str, str], others: Collection[str]) -> bool | None:
        """Whether the fields are the names of columns.

        Yes, if all fields are names, capitals and punctuation aside; or all but one, and at least two; or if the
        fields name all columns of a table with several columns. No, if no field is a name, and the types of the
        table's columns fit the fields.

        :param columns: the columns that would take the fields, in this order, with their types; empty if unknown.
        :param others: further names that the files may have, for example names in expressions.
        :returns: None if unknown.
        :raises SourceError: if the fields may be names as well as values.
        """
        known = {*map(fold_name, (*columns, *others))}
        matches = [field for field in self.fields if fold_name(field) in known]
        are_enough = len(matches) >= len(columns) > 1  # columns may be alike, such as x1 and x_1
        names_all = are_enough and {*map(fold_name, columns)} <= {*map(fold_name, matches)}
        if names_all or (matches and len(matches) >= max(len(self.fields) - 1, min(2, len(self.fields)))):
            return True
        has_values = any(is_value(field) for field in self.fields)
        line = ", ".join(map(show_name, self.fields))
        if self._is_comment(known):
            raise SourceError(
                "header-ambiguous",
                f"the first line of {self.key!r} looks like a comment: {line}; leave it out with"
                " data_format=Csv(skip_lines=1) (of TSV with settings={'input_format_tsv_skip_first_lines': 1}), or"
                f" {REMEDY}",
            )
        if not columns and not has_values and self.fields[:1] == [""] and all(self.fields[1:]):
            return True  # the index of pandas has no name
        if columns and matches and not (has_values and not self._is_in_its_place(columns)):
            raise SourceError(
                "header-ambiguous",
                f"the first line of {self.key!r} may be a header or a row: of {line} only"
                f" {', '.join(map(show_name, matches))} may name columns of the table; correct the names, or"
                f" {REMEDY}",
            )
        if self._has_years():
            raise SourceError(
                "header-ambiguous",
                f"the first line of {self.key!r} may be a header with years or a row: {line}; {REMEDY}",
            )
        return False if has_values and self._fits(columns) else None

    def check_count(self) -> None:
        """Check that there are as many fields as in the row below, at least.

        :raises SourceError: if there are fewer.
        """
        if (count := len(self.fields)) < len(self.next_fields):
            raise SourceError(
                "header-incomplete",
                f"the header of {self.key!r} has {count_of(count, 'field')}, and the row below it has"
                f" {len(self.next_fields)}; correct the header, or the delimiter at the end of the rows, or"
                f" {_WITHOUT}",
            )

    def check_names(self) -> None:
        """Check that each field is a name, and no name is there twice.

        :raises SourceError: if a field is none.
        """
        names = f"the header of {self.key!r}"
        if twice := [name for name, found in Counter(self.fields).items() if name and found > 1]:
            raise SourceError(
                "header-incomplete",
                f"{names} has {show_name(twice[0])} more than once; rename one of them, or {_WITHOUT}",
            )
        if "" in self.fields:
            place = self.fields.index("") + 1
            raise SourceError(
                "header-incomplete",
                f"{names} has no name for field {place}: an index that pandas wrote, or a delimiter at the end of the"
                " line; leave it out when the files are written (index=False), or name what to load with columns=[…]",
            )

    def _is_comment(self, known: Collection[str]) -> bool:
        """Whether the line begins with ``#``, and the line below has names, or another number of fields."""
        if not self.fields or not self.fields[0].startswith("#") or len(self.next_fields) < 2:
            return False
        is_named = bool(known) and all(fold_name(field) in known for field in self.next_fields)
        return is_named or len(self.fields) != len(self.next_fields)

    def _is_in_its_place(self, columns: Mapping[str, str]) -> bool:
        pairs = zip(self.fields, columns, strict=False)
        return any(fold_name(field) == fold_name(name) for field, name in pairs)

    def _fits(self, columns: Mapping[str, str]) -> bool:
        """Whether each column, except texts, would take a field that looks like a value of the column."""
        if len(self.fields) != len(columns):
            return False
        typed = [
            f for f, kind in zip(self.fields, columns.values(), strict=True) if family(base_type(kind)) != "string"
        ]
        return bool(typed) and all(not field or is_value(field) for field in typed)

    def _has_years(self) -> bool:
        """Whether a text is followed by years in a row, and the second line has no years there."""
        years = [int(field) for field in self.fields if _YEAR.fullmatch(field)]
        are_in_a_row = len(years) > 1 and all(b - a == 1 for a, b in pairwise(years))
        below = [field for field in self.next_fields if _YEAR.fullmatch(field)]
        return are_in_a_row and not is_value(self.fields[0]) and len(below) < len(years)


def is_value(text: str) -> bool:
    """Return whether a text looks like a number, a time, a list or a missing value rather than like a name."""
    return bool(re.match(r"[-+.]?\d|[\[({]|\\N$", text))
