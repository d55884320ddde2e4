"""Objects of JSON in text, as SQL values: ClickHouse's parser rounds numbers to Float64."""

from __future__ import annotations

from airflow_provider_ch_s3.sql.filters import Sql, literal
from airflow_provider_ch_s3.sql.typed_values import failing_text, plain_cast

# A text in quotes, or a number.
_TOKEN = r'"(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*'
# What a number contains that may be rounded; objects without such a number need no closer look.
_MAY_BE_ROUNDED = r"[1-9](?:[0-9]{17}|[0-9.]{18})|[eE]-[0-9]{3}"
_BEFORE_EXPONENT = r"^-?([0-9.]*)"
# As many digits tell each Float64 from all others.
_MAX_DIGITS = 17
# Below the first number with so many digits.
_LEAST = "2.3e-308"
# A fraction makes an integer of the same list a Float64, which has fewer digits. Before 26.7, so does a fraction in
# an earlier object under the same name.
_LONG_INTEGER = "[1-9][0-9]{15}"


def object_of(text: Sql, kind: str) -> Sql:
    """Render the object in a text; fails for a number with more digits than the server keeps.

    :param kind: a JSON type without typed paths.
    """
    rounded = Sql(f"arrayFirst(token -> {_is_rounded('token')}, {_tokens(text)})")
    checked = f"if({rounded} = '', {text}, {failing_text(rounded)})"
    parsed = plain_cast(Sql(f"if(match({text}, {literal(_MAY_BE_ROUNDED)}), {checked}, {text})"), kind)
    before, after = (_long_integers(Sql(one)) for one in (text, f"toString({parsed})"))
    # ignore() has all rows parsed at once: servers would otherwise parse the compared rows again, by themselves.
    is_compared = f"match({text}, {literal(_LONG_INTEGER)}) > ignore({parsed})"
    is_lost = f"if({is_compared}, {before} != {after}, 0)"
    lost = plain_cast(failing_text(Sql(f"concat(arrayStringConcat({before}, ', '), ' next to fractions')")), kind)
    return Sql(f"if({is_lost}, {lost}, {parsed})")


def _tokens(text: Sql) -> str:
    return f"extractAll({text}, {literal(_TOKEN)})"


def _long_integers(text: Sql) -> str:
    is_long = f"match(token, {literal(f'^-?{_LONG_INTEGER}[0-9]*$')})"
    return f"arraySort(arrayFilter(token -> {is_long}, {_tokens(text)}))"


def _is_rounded(token: str) -> str:
    number = f"toFloat64OrZero({token})"
    is_integer = " OR ".join(f"accurateCastOrNull({token}, '{kind}') IS NOT NULL" for kind in ("Int64", "UInt64"))
    return (
        f"NOT startsWith({token}, '\"') AND ((length({_digits(token)}) > {_MAX_DIGITS} AND NOT ({is_integer}))"
        f" OR (abs({number}) < {_LEAST} AND {_digits(token)} != {_digits(f'toString({number})')}))"
    )


def _digits(number: str) -> str:
    """The digits of a number without zeros before and after them."""
    return f"trim(BOTH '0' FROM replaceOne(extract({number}, {literal(_BEFORE_EXPONENT)}), '.', ''))"
