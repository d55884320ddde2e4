"""Objects of JSON in text, as SQL values: ClickHouse's parser rounds numbers to Float64."""

from __future__ import annotations

from airflow_provider_ch_s3.clickhouse.column_types import base_type, parse_type, parts
from airflow_provider_ch_s3.sql.filters import Sql, literal
from airflow_provider_ch_s3.sql.text_values import digits_of
from airflow_provider_ch_s3.sql.typed_values import cast, failing_text, plain_cast

# A text in quotes, with the colon after a name; or a number, or a truth value.
_TOKEN = r'"(?:[^"\\]|\\.)*"\s*:?|-?[0-9][0-9.eE+-]*|true|false'
# What a number contains that may be rounded; objects without such a number need no closer look.
_MAY_BE_ROUNDED = r"[1-9](?:[0-9]{17}|[0-9.]{18})|[eE]-[0-9]{3}"
# As many digits tell each Float64 from all others.
_MAX_DIGITS = 17
# Below the first number with so many digits.
_LEAST = "2.3e-308"
_LONG_INTEGER = "[1-9][0-9]{15}"
_DOT = r"(?:\.|\\u002[eE])"
# What the server may change: a fraction makes an integer of the same list a Float64, which has fewer digits (before
# 26.7, so does a fraction in an earlier object under the same name). In lists of several types, truth values become
# numbers or texts, and numbers texts (24.8). A name with a dot becomes an object in an object.
_MAY_CHANGE = "|".join(
    [
        _LONG_INTEGER,
        r"[\[,]\s*(?:true|false)",
        rf'"[^"]*{_DOT}[^"]*"\s*:',
        # a number after a text, or a text after a number, with nothing but brackets and null between them
        r'"[\s\]]*,(?:\s*null\s*,)*[\s\[]*-?[0-9]',
        r'[0-9][\s\]]*,(?:\s*null\s*,)*[\s\[]*"(?:[^"\\]|\\.)*"\s*[,\]]',
    ]
)


# The parser makes these bytes of the second half of a pair of surrogates without the first half.
_HALF_PAIR = "^(?:..)*EDB"
_QUOTED = r"'(?:[^'\\]|\\.)*'"


def unbroken(value: Sql, kind: str) -> Sql:
    """Render a value that a parser of JSON has read; fails for half a surrogate pair, and for too large a number.

    :param kind: a type with texts or Dynamic values.
    """
    shown = f"toValidUTF8(ifNull(toString({value}), ''))"
    why = literal(", with half a surrogate pair or a number beyond Float64, does not fit")
    is_broken = _is_broken(value, kind, 0)
    if base_type(kind) == "String":
        refused = cast(Sql(f"concat({shown}, {why})"), "UInt8")
        return Sql(f"if({is_broken}, arrayElement([{value}], {refused}), {value})")
    # conversions of such values have conditions, in which ClickHouse would compute the failing branch for all rows
    number = cast(Sql(f"if({is_broken}, concat({shown}, {why}), '1')"), "UInt8")
    return Sql(f"arrayElement([{value}], {number})")


def _is_broken(value: str, kind: str, depth: int) -> str:
    base, each = base_type(kind), f"ch_s3_{depth}"
    inner = [(key, inside) for key, inside in parts(base).items()]
    match parse_type(base)[0]:
        case "String" | "FixedString":
            # position() does not find some bytes (26.7)
            return f"ifNull(NOT isValidUTF8({value}) AND match(hex({value}), {literal(_HALF_PAIR)}), 0)"
        case "Dynamic":
            shown = f"toString(tuple({value}))"  # texts in quotes
            is_infinite = f"match(replaceRegexpAll({shown}, {literal(_QUOTED)}, ''), 'inf')"
            return f"({_is_broken(shown, 'String', depth)} OR {is_infinite})"
        case "Array":
            lists = [(value, inner[0][1])]
        case "Map":
            lists = [(f"mapKeys({value})", inner[0][1]), (f"mapValues({value})", inner[1][1])]
        case "Nested":
            lists = [(value, f"Tuple({base[len('Nested(') : -1]})")]
        case _:
            fields = [_is_broken(f"tupleElement({value}, {n})", one, depth) for n, (_, one) in enumerate(inner, 1)]
            return f"({' OR '.join(filter(None, fields))})" if any(fields) else ""
    found = [(values, is_one) for values, one in lists if (is_one := _is_broken(each, one, depth + 1))]
    return " OR ".join(f"arrayExists({each} -> {is_one}, {values})" for values, is_one in found)


def object_of(text: Sql, kind: str) -> Sql:
    """Render the object in a text; fails for a number with more digits than the server keeps.

    Also fails for values that the server would store as values of another type, and for names with a dot, unless the
    setting ``json_type_escape_dots_in_keys`` keeps these names.

    :param kind: a JSON type without typed paths.
    """
    rounded = Sql(f"arrayFirst(token -> {_is_rounded('token')}, {_tokens(text)})")
    checked = f"if({rounded} = '', {text}, {failing_text(rounded)})"
    parsed = plain_cast(Sql(f"if(match({text}, {literal(_MAY_BE_ROUNDED)}), {checked}, {text})"), kind)
    before, after = (_kept(Sql(one)) for one in (text, f"toString({parsed})"))
    # ignore() has all rows parsed at once: servers would otherwise parse the compared rows again, by themselves.
    is_compared = f"match({text}, {literal(_MAY_CHANGE)}) > ignore({parsed})"
    is_lost = f"if({is_compared}, {before} != {after}, 0)"
    shown = Sql(f"concat(arrayStringConcat(arrayDistinct({before}), ', '), ' would not all stay, so the object')")
    lost = plain_cast(failing_text(shown), kind)
    return Sql(f"if({is_lost}, {lost}, {parsed})")


def _tokens(text: Sql) -> str:
    return f"extractAll({text}, {literal(_TOKEN)})"


def _kept(text: Sql) -> str:
    """What an object has, as far as the server may change it: numbers, truth values in lists, dotted names."""
    written = "if(match(token, '[.eE]'), toString(toFloat64OrZero(token)), token)"
    number = f"if(match({written}, {literal(f'^-?{_LONG_INTEGER}')}), {written}, 'a number')"
    shown = f"multiIf(startsWith(token, '\"'), 'a name with a dot', token IN ('true', 'false'), token, {number})"
    is_kept = f"NOT startsWith(token, '\"') OR match(token, {literal(f'{_DOT}.*:$')})"
    return f"arraySort(arrayMap(token -> {shown}, arrayFilter(token -> {is_kept}, {_tokens(text)})))"


def _is_rounded(token: str) -> str:
    number = f"toFloat64OrZero({token})"
    is_integer = " OR ".join(f"accurateCastOrNull({token}, '{kind}') IS NOT NULL" for kind in ("Int64", "UInt64"))
    return (
        f"NOT startsWith({token}, '\"') AND ((length({digits_of(token)}) > {_MAX_DIGITS} AND NOT ({is_integer}))"
        f" OR (abs({number}) < {_LEAST} AND {digits_of(token)} != {digits_of(f'toString({number})')}))"
    )
