"""Check the SQL that users write: one flat expression over columns. The text is tokenized, not parsed.

A load's SELECT must stay flat: with a subquery, all rows would pass through a single node. An expression must not end
the surrounding statement, and must read only rows of the statement. Tokens are enough to check this.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from airflow_provider_ch_s3.clickhouse.tokens import Token, TokenKind, refuse, split_at_commas, tokenize
from airflow_provider_ch_s3.errors import ConfigError

_SUBQUERY_WORDS = frozenset({"select", "union"})
# Each of them starts a clause if an operand precedes or follows it, and is a column's name otherwise.
_CLAUSE_WORDS = frozenset(
    {
        *("from", "final", "sample", "join", "using", "prewhere", "where", "group", "having", "window", "qualify"),
        *("order", "limit", "offset", "fetch", "with", "except", "intersect", "settings", "into", "format"),
    }
)
_INFIX_WORDS = frozenset({"and", "or", "xor", "in", "like", "ilike", "regexp", "between", "is", "div", "mod", "as"})
_AFTER_OPERAND = _INFIX_WORDS | {"not", "global", "when", "then", "else", "end"}
_BEFORE_OPERAND = _INFIX_WORDS | {"not", "case", "when", "then", "else", "interval"}
_DISTINCT_FROM = (["is", "distinct"], ["not", "distinct"])
_FIRST_WORDS = frozenset({"distinct", "all", "top"})
_CONSTANTS = frozenset({"null", "true", "false", "nan", "inf"})
# Dictionaries are allowed: they are meant for lookups from expressions, and each needs a grant of its own.
_READERS = {
    "joinget": "another table",
    "joingetornull": "another table",
    "hascolumnintable": "another table, even one on another server",
    "file": "a file on the server",
}
# A bare or quoted name from this list, if no column has the name, calls the function (26.7). ClickHouse's own check
# for functions with changing results does not see these calls.
_CALLED_BY_NAME = frozenset(
    {
        *("now", "today", "curdate", "current_date", "current_timestamp", "localtime", "localtimestamp"),
        *("user", "currentuser", "current_user", "session_user"),
        *("database", "schema", "currentdatabase", "current_database"),
    }
)
# Their values depend on nothing but their arguments: on no time zone, setting or dictionary. So functions that turn
# times into dates or texts are missing. No server lets users define functions with these names.
_SAME_EVERYWHERE = frozenset(
    {
        *("cityHash64", "farmHash64", "farmFingerprint64", "metroHash64", "sipHash64", "sipHash128", "halfMD5"),
        *("xxHash32", "xxHash64", "xxh3", "wyHash64", "intHash32", "intHash64", "javaHash", "hiveHash", "CRC32"),
        *("murmurHash2_32", "murmurHash2_64", "murmurHash3_32", "murmurHash3_64", "gccMurmurHash", "kafkaMurmurHash"),
        *("CRC64", "CRC32IEEE", "MD5", "SHA1", "SHA256", "jumpConsistentHash"),
        *("plus", "minus", "multiply", "intDiv", "modulo", "positiveModulo", "negate", "abs"),
        *("bitAnd", "bitOr", "bitXor", "bitNot", "bitShiftLeft", "bitShiftRight"),
        *(f"to{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64, 128, 256)),
        *("lower", "upper", "lowerUTF8", "upperUTF8", "substring", "tuple", "coalesce", "ifNull", "assumeNotNull"),
    }
)
_COMPARISONS = frozenset({"=", "==", "!=", "<>", "<", "<=", ">", ">="})
# These words bind less tightly than a comparison, or begin an expression that contains a comparison.
_LOOSER_WORDS = frozenset(
    {*("and", "or", "xor", "not", "between", "in", "is", "like", "ilike", "regexp", "global"), *("case", "as")}
)
_IN_FUNCTION = re.compile(r"(?:global)?(?:not)?(?:null)?in(?:ignoreset)?")

_ONLY_COLUMNS = "use only the columns of the rows, or dictGet() to look values up in a dictionary"
_QUOTE_COLUMN = "write one flat SQL expression; if this is a column's name, put it in back-quotes"
_IN_REMEDY = (
    "ClickHouse takes a name there for a table: list values in brackets, or write x = name for a column, has(name, x)"
    " for an array, position(text, part) for a part of a text"
)


def is_type(text: str) -> bool:
    """Whether a text is a single word, perhaps followed by brackets."""
    outside = [token for token in tokenize(text) if token.depth == 0]
    word, *brackets = outside
    return word.kind is TokenKind.WORD and [token.text for token in brackets] in ([], ["(", ")"])


def split_expressions(text: str) -> list[str]:
    """Split a text at the commas outside of quotes and brackets.

    ``"a, f(b, 'c,d')"`` becomes ``["a", "f(b, 'c,d')"]``.

    :raises ConfigError: if :func:`tokenize` rejects the text.
    """
    commas = [t.start for t in tokenize(text) if t.kind is TokenKind.COMMA and t.depth == 0]
    return [text[start + 1 : end].strip() for start, end in zip([-1, *commas], [*commas, len(text)], strict=True)]


def parse_expression(text: str) -> str:
    """Check that a text is a flat SQL expression, and reads only columns.

    :returns: the text without surrounding white space.
    :raises ConfigError: if the text is empty, several expressions, not flat, or reads anything except columns.
    """
    tokens = tokenize(text)
    elements = split_at_commas(tokens)
    if len(elements) != 1 or not elements[0]:
        count = len([element for element in elements if element])
        raise ConfigError("expression-invalid", f"expected one SQL expression and found {count} in {text!r}")
    for n, token in enumerate(tokens):
        _check_call(text, tokens, n)
        if token.text == "*" and not (n and (_is_operand(tokens[n - 1]) or tokens[n - 1].kind is TokenKind.CLOSE)):
            raise refuse(text, "contains a * that stands for any number of columns", "name one column")
        if token.kind is TokenKind.WORD:
            _check_word(text, tokens, n)
            _check_in(text, tokens, n)
    return text.strip()


def _check_word(text: str, tokens: Sequence[Token], n: int) -> None:
    """Refuse a word if it starts a subquery or a clause, or names a result."""
    word, after = tokens[n].text, _at(tokens, n + 1)
    if word == "as" and not _is_in_cast(tokens, n):
        raise refuse(text, "names a result with AS", "leave the name out: it would replace a column elsewhere")
    is_keyword = (
        word in _SUBQUERY_WORDS
        or (word in _FIRST_WORDS and n == 0)
        or (word == "values" and after is not None and after.text == "(")
        or (word == "explain" and after is not None and after.kind is TokenKind.WORD)
        or (word in _CLAUSE_WORDS and tokens[n].depth == 0 and _begins_clause(tokens, n))
    )
    if is_keyword:
        raise refuse(text, f"contains the keyword {word.upper()}", _QUOTE_COLUMN)


def _is_in_cast(tokens: Sequence[Token], n: int) -> bool:
    """Whether a token is directly in the brackets of CAST(x AS type)."""
    opened = next((i for i in range(n - 1, -1, -1) if tokens[i].depth < tokens[n].depth), 0)
    return opened > 0 and tokens[opened - 1].text == "cast"


def _begins_clause(tokens: Sequence[Token], n: int) -> bool:
    before, after = _at(tokens, n - 1), _at(tokens, n + 1)
    if tokens[n].text == "from" and [t.text for t in tokens[max(0, n - 2) : n]] in _DISTINCT_FROM:
        return False
    if before is not None and _ends_operand(before):
        return True
    if after is None or (after.text == "(" and tokens[n].text == "format"):  # format('{}', x) is a function
        return False
    return after.text in ("(", "{") or (_is_operand(after) and after.text not in _AFTER_OPERAND)


def _ends_operand(token: Token) -> bool:
    return token.kind is TokenKind.CLOSE or (_is_operand(token) and token.text not in _BEFORE_OPERAND)


def _check_call(text: str, tokens: Sequence[Token], n: int) -> None:
    """Refuse a function if it reads anything except the arguments."""
    after = _at(tokens, n + 1)
    if after is None or after.text != "(":
        return
    name, kind = tokens[n].text, tokens[n].kind
    if kind is TokenKind.NAME:
        raise refuse(text, f"calls {name} by a quoted name", "write the function's name without quotes")
    if kind is not TokenKind.WORD:
        return
    written = text[tokens[n].start :][: len(name)]
    if name in _READERS:
        raise refuse(text, f"calls {written}(), which reads {_READERS[name]}", _ONLY_COLUMNS)
    if name != "in" and _IN_FUNCTION.fullmatch(name):
        raise refuse(text, f"calls {written}()", "write x IN (value, …) or x NOT IN (value, …)")
    if name == "columns":
        raise refuse(text, "calls COLUMNS(), which stands for any number of columns", "name one column")


def _check_in(text: str, tokens: Sequence[Token], n: int) -> None:
    """Refuse IN on a table: ``x IN t``, ``x IN (t)`` or ``in(x, t)``."""
    after, called = _at(tokens, n + 1), _at(tokens, n + 2)
    if tokens[n].text != "in" or after is None:
        return
    elements: list[Sequence[Token]] = []
    if after.text == "(":
        elements = split_at_commas(_group(tokens, n + 1), after.depth + 1)
    elif called is None or called.text != "(":
        elements = [(after,)]
    for element in elements:
        if _is_name_alone(element):
            raise refuse(text, "has a name after IN", _IN_REMEDY)


def _group(tokens: Sequence[Token], n: int) -> Sequence[Token]:
    """Return the tokens between an opening bracket and the matching closing bracket."""
    end = next(i for i in range(n + 1, len(tokens)) if tokens[i].depth == tokens[n].depth)
    return tokens[n + 1 : end]


def _is_name_alone(element: Sequence[Token]) -> bool:
    """Whether an element may be the name of a table: ``t``, ``d.t``, ``((t))``, ``t AS x``."""
    if not element or (len(element) == 1 and element[0].text in _CONSTANTS):
        return False
    is_call = any(_is_name(token) and after.text == "(" for token, after in pairwise(element))
    return not is_call and all(_is_name(token) or token.text in (".", "(", ")") for token in element)


def _is_operand(token: Token) -> bool:
    return token.kind in (TokenKind.WORD, TokenKind.NAME, TokenKind.STRING)


def _is_name(token: Token) -> bool:
    is_number = token.text[0].isdecimal()
    return token.kind is TokenKind.NAME or (token.kind is TokenKind.WORD and not is_number)


def _at(tokens: Sequence[Token], n: int) -> Token | None:
    return tokens[n] if 0 <= n < len(tokens) else None


def find_names(text: str) -> Iterator[str]:
    """Yield the names in an expression, except called functions: columns, and words like AND.

    ``"f(day) > `a b` AND t.n = 1"`` has day, a b, AND, t, 1.
    """
    tokens = tokenize(text)
    for n, token in enumerate(tokens):
        before, after = _at(tokens, n - 1), _at(tokens, n + 1)
        is_part = before is not None and before.text == "."
        is_called = after is not None and after.text == "("
        if token.kind in (TokenKind.WORD, TokenKind.NAME) and not is_part and not is_called:
            yield text[token.start :][: len(token.text)].strip('`"')


def find_renamed(select: Mapping[str, str], others: Iterable[str]) -> dict[str, str]:
    """Find the columns that expressions rename and do not use otherwise.

    :param select: new name → expression.
    :param others: further expressions.
    :returns: old name → new name.
    """
    uses = Counter(name for text in (*select.values(), *others) for name in find_names(text))
    bare = {text.strip().strip('`"'): new for new, text in select.items()}
    return {old: new for old, new in bare.items() if uses[old] == 1}


def find_called_by_name(text: str, columns: Collection[str]) -> str:
    """Return a function with changing results called by name alone, such as ``today``; '' if there is none.

    :param columns: names of columns.
    """
    called = {name for name in find_names(text) if name.lower() in _CALLED_BY_NAME} - set(columns)
    return min(called, default="")


def find_server_bound(text: str, columns: Collection[str]) -> str:
    """Return a part of an expression whose value may differ between servers, such as ``toDate()``.

    Only hashes and arithmetic are known to be the same everywhere; anything else is returned.

    :param columns: whose values are given.
    :returns: '' if every part is the same everywhere.
    """
    tokens = tokenize(text)
    for n, token in enumerate(tokens):
        after, written = _at(tokens, n + 1), text[token.start :][: len(token.text)]
        match token.kind:
            case TokenKind.WORD | TokenKind.NAME if after is not None and after.text == "(":
                is_same, part = written in _SAME_EVERYWHERE, f"{written}()"
            case TokenKind.WORD | TokenKind.NAME:
                is_same, part = written[0].isdecimal() or written.strip('`"') in columns, written
            case TokenKind.OPERATOR:
                is_same, part = token.text in "+-*/%", written
            case _:
                continue
        if not is_same:
            return part
    return ""


def calls(text: str, function: str) -> bool:
    """Whether an expression calls a function; the function's name is given in lower case."""
    return any(token.text == function and after.text == "(" for token, after in pairwise(tokenize(text)))


def replace_calls(text: str, owner: str, replace: Callable[[str], str]) -> str:
    """Replace the calls of a word's functions: ``"old.sum(a) > 1"`` becomes ``replace("sum(a)") + " > 1"``.

    :param owner: the word, in lower case.
    """
    tokens, done, position = tokenize(text), [], 0
    for n, token in enumerate(tokens):
        words = [one.text for one in tokens[n : n + 4]]
        if token.kind is not TokenKind.WORD or words[:2] != [owner, "."] or words[3:] != ["("]:
            continue
        last = n + 3
        while (bracket := _at(tokens, last)) is not None and bracket.text == "(":  # quantile(0.5)(a) has two pairs
            end, last = bracket.start, last + len(_group(tokens, last)) + 2
            end = tokens[last - 1].start + 1
        done += [text[position : token.start], replace(text[tokens[n + 2].start : end])]
        position = end
    return "".join([*done, text[position:]])


def split_comparison(text: str) -> tuple[str, str, str] | None:
    """Split a comparison of two values: ``"sum(a) <= 3"`` becomes ``("sum(a)", "<=", "3")``.

    :returns: None for anything else, such as two comparisons joined by AND.
    """
    outside = [token for token in tokenize(text) if token.depth == 0]
    if any(token.text in _LOOSER_WORDS or token.text == "?" for token in outside):
        return None
    signs: list[tuple[int, str]] = []
    for before, token in zip([None, *outside], outside, strict=False):
        if token.kind is not TokenKind.OPERATOR or token.text not in "=<>!":
            continue
        is_next = before is not None and before.start + 1 == token.start and before.kind is TokenKind.OPERATOR
        if is_next and before is not None and before.text not in "=<>!":
            return None  # the arrow of a lambda
        if is_next:
            signs[-1] = (signs[-1][0], signs[-1][1] + token.text)
        else:
            signs.append((token.start, token.text))
    if len(signs) != 1 or signs[0][1] not in _COMPARISONS:
        return None
    ((start, sign),) = signs
    left, right = text[:start].strip(), text[start + len(sign) :].strip()
    return (left, sign, right) if left and right else None


def find_counted(text: str) -> str:
    """Return the condition of ``countIf(condition) = 0``; '' for anything else."""
    match split_comparison(text):
        case (left, "=" | "==", "0"):
            tokens = tokenize(left)
        case _:
            return ""
    first, *others = [token for token in tokens if token.depth == 0]
    if first.text != "countif" or [token.text for token in others] != ["(", ")"]:
        return ""
    arguments = split_expressions(left[others[0].start + 1 : others[1].start])
    return arguments[0] if len(arguments) == 1 else ""
