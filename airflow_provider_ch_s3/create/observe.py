"""Choose the type of a new column from the looks of a sample of values.

A type is chosen only if it keeps every value of the sample: ``007`` stays text, and so does a number with more digits
than a Float64 has. A later value that does not fit fails the load.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from decimal import Decimal

from airflow_provider_ch_s3.clickhouse import text_grammar
from airflow_provider_ch_s3.clickhouse.column_types import base_type, family, integer_range, is_nested, is_nullable
from airflow_provider_ch_s3.common.text import shorten

_DAY = r"[0-9]{4}-(02-(0[1-9]|[12][0-9])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|(0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01]))"
_CLOCK = r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?(Z|[+-][0-9]{2}:?[0-9]{2})?"

FORMS = {
    "Int64": "^(0|-?[1-9][0-9]{0,17})$",
    "UInt64": "^(0|[1-9][0-9]{0,18})$",
    # A value also has no more digits than a Float64 keeps.
    "Float64": r"^-?(0|[1-9][0-9]{0,17})(\.[0-9]+)?([eE][+-]?[0-9]{1,2})?$",
    "Bool": "^(true|false|True|False|TRUE|FALSE)$",
    "Date": f"^{_DAY}$",
    "DateTime": f"^{_DAY}[T ]{_CLOCK}$",
}
"""Type → the form of its texts; the first type that fits all values is chosen."""

ANY_NUMBER = rf"^(?:{text_grammar.NUMBER}(?:[eE][+-]?[0-9]+)?|{text_grammar.NOT_FINITE})$"
"""The form of a Float64 of a column for which the table says no type."""

# Beyond it, numbers instead of texts no longer pay: https://clickhouse.com/docs/sql-reference/data-types/lowcardinality
MAX_LOW_CARDINALITY = 10_000
# A value seen less often may be a value among millions.
MIN_REPETITIONS = 100
# Characters of a value in a reason.
MAX_SHOWN = 40


@dataclass(frozen=True, kw_only=True)
class Observation:
    """A sample of a column's values, as text; the columns of the reading statement have the names of these fields.

    :param null_count: missing values; ``empty_count``: empty texts.
    :param hashes: of the different values; ``fits``: how many values have each of ``FORMS``, in their order.
    :param odd: a text without any of these forms; '' if there is none.
    :param low: the first of the texts in alphabetical order, without empty texts; ``high``: the last.
    :param digits: most digits after a decimal point.
    """

    row_count: int
    null_count: int = 0
    empty_count: int = 0
    hashes: Collection[int] = ()
    fits: Sequence[int] = (0,) * len(FORMS)
    odd: str = ""
    low: str = ""
    high: str = ""
    digits: int = 0

    @property
    def filled_count(self) -> int:
        return self.row_count - self.null_count - self.empty_count

    def __or__(self, other: Observation) -> Observation:
        """Join the observations of one column in different files."""
        return Observation(
            row_count=self.row_count + other.row_count,
            null_count=self.null_count + other.null_count,
            empty_count=self.empty_count + other.empty_count,
            hashes={*self.hashes, *other.hashes},
            fits=tuple(map(sum, zip(self.fits, other.fits, strict=True))),
            odd=self.odd or other.odd,
            low=min(filter(None, (self.low, other.low)), default=""),
            high=max(self.high, other.high),
            digits=max(self.digits, other.digits),
        )


def observe_texts(texts: Collection[str]) -> Observation:
    """Observe the values of a folder, each once."""
    filled = [text for text in texts if text]
    return Observation(
        row_count=len(texts),
        empty_count=len(texts) - len(filled),
        hashes={*map(hash, texts)},
        fits=tuple(sum(_has_form(text, kind) for text in filled) for kind in FORMS),
        low=min(filled, default=""),
        high=max(filled, default=""),
    )


def _has_form(text: str, kind: str) -> bool:
    return re.match(FORMS[kind], text) is not None and (
        kind != "Float64" or Decimal(repr(float(text))) == Decimal(text)
    )


def is_scalar(type_name: str) -> bool:
    """Whether values of a type can be observed as texts, one by one."""
    return not is_nested(type_name) and family(base_type(type_name)) in {"number", "string", "time"}


def choose_text_type(seen: Observation, *, is_text: bool = False) -> str:
    """Choose the type of a column of text files.

    :param is_text: the format marks texts, and these values are marked.
    """
    kind = "String" if is_text or not seen.filled_count else _fitting_type(seen)
    if kind == "String":
        return _string_type(seen, may_be_null=seen.null_count > 0 or not seen.filled_count)
    return f"Nullable({kind})" if seen.filled_count < seen.row_count else kind


def explain_text(seen: Observation) -> str:
    """Say why the values of a text column have no other type."""
    if not seen.filled_count:
        return "the files have no values"
    if seen.odd:
        return f"values like {_show(seen.odd)} are no number, date, time, true or false"
    return f"no other type keeps all values from {_show(seen.low)} to {_show(seen.high)}"


def _show(text: str) -> str:
    return repr(shorten(text, MAX_SHOWN))


_WHOLE = "^(0|-?[1-9][0-9]*)$"
_NOT_FINITE = "^[+-]?([iI][nN][fF]([iI][nN][iI][tT][yY])?|[nN][aA][nN])$"


def kept_form(type_name: str) -> str:
    """Return the form of later texts of a column whose type was chosen by a sample; '' for any form.

    ``007`` does not fit then, nor does a number with more digits than a Float64 has.
    """
    base = base_type(type_name)
    if integer_range(base):
        return _WHOLE
    match base.partition("(")[0]:
        case "Float64":
            return f"{FORMS['Float64']}|{_NOT_FINITE}"
        case "Bool" | "Date" | "DateTime":
            return FORMS[base.partition("(")[0]]
        case "Date32":
            return FORMS["Date"]
        case "DateTime64":
            return FORMS["DateTime"]
    return ""


def choose_typed_type(type_name: str, seen: Observation, *, has_null: bool) -> str:
    """Choose the type of a column whose files have types.

    :param type_name: a type for the values of all files.
    """
    base = base_type(type_name)
    if base == "String":
        return _string_type(seen, may_be_null=has_null and is_nullable(type_name))
    return type_name if has_null or not is_nullable(type_name) else base


def choose_folder_type(seen: Observation, *, may_be_null: bool, known: str = "") -> str:
    """Choose the type of a column of the path.

    :param may_be_null: a folder stands for a missing value.
    :param known: the type of the values, if known from elsewhere than their text.
    """
    kind = known or (_fitting_type(seen) if seen.filled_count else "String")
    kind = f"Nullable({kind})" if may_be_null else kind
    return f"LowCardinality({kind})" if kind.endswith(("String", "String)")) else kind


def _fitting_type(seen: Observation) -> str:
    fitting = (kind for kind, count in zip(FORMS, seen.fits, strict=True) if count == seen.filled_count)
    kind = next(fitting, "String")
    if kind == "Date":
        return _date_type(seen)
    return _time_type(seen) if kind == "DateTime" else kind


def _date_type(seen: Observation) -> str:
    if seen.low >= "1970" and seen.high < "2149":
        return "Date"
    return "Date32" if seen.low >= "1900" and seen.high < "2300" else "String"


def _time_type(seen: Observation) -> str:
    if not seen.digits and seen.low >= "1970-01-02" and seen.high < "2106":
        return "DateTime"
    is_held = seen.low >= "1900-01-02" and seen.high < ("2262" if seen.digits == 9 else "2299")
    return f"DateTime64({seen.digits})" if is_held else "String"


def _string_type(seen: Observation, *, may_be_null: bool) -> str:
    kind = "Nullable(String)" if may_be_null else "String"
    is_repeated = 0 < len(seen.hashes) * MIN_REPETITIONS <= seen.row_count - seen.null_count
    return f"LowCardinality({kind})" if is_repeated and len(seen.hashes) <= MAX_LOW_CARDINALITY else kind
