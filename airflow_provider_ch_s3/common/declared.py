"""Declare arguments once: how an argument is read, rendered, compared and shown follows from the declaration.

A :class:`Kind` says what an argument may be. A :class:`Value` is an argument made of several fields, such as a load
mode with a key and a version; each field is declared with a kind.
"""

from __future__ import annotations

import ast
import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Any, ClassVar, Self

from airflow_provider_ch_s3.common import arguments
from airflow_provider_ch_s3.common.arguments import refuse_argument
from airflow_provider_ch_s3.common.text import find_nearest
from airflow_provider_ch_s3.errors import ConfigError

Parse = Callable[[str, Any], Any]


class Form(Enum):
    """What a text is as a template: ``SQL`` may be the name of a ``.sql`` file, ``TEXT`` stays a text in every DAG.

    ``ANY`` becomes what the DAG's templates render, such as a list or a number.
    """

    SQL = "sql"
    TEXT = "text"
    ANY = "any"


def _keep(_name: str, value: Any) -> Any:
    return value


@dataclasses.dataclass(frozen=True)
class Kind:
    """What an argument may be.

    :param parse: name and value → the parsed value; raises ConfigError.
    :param form: the form of a text given for the argument.
    :param of: the kind of the items of a list, or of the values of a dict; None if none are rendered differently.
    :param shape: name and value → the :class:`Value` that a text or a dict stands for; any other value unchanged.
    """

    parse: Parse
    form: Form = Form.ANY
    of: Kind | None = None
    shape: Parse = _keep


class Value:
    """An argument made of several fields: a frozen dataclass whose fields are :func:`declared`."""

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]
    name: ClassVar[str] = ""
    """The name of the class in a text or a dict."""

    def parsed(self, name: str) -> Self:
        """Parse each field; None means not given.

        :param name: of the argument, for messages.
        :raises ConfigError: if a field has a wrong value.
        """
        found = self.with_fields(lambda field, value: parse_field(f"{name}.{field.name}", field, value))
        found.check(name)
        return found

    def check(self, name: str) -> None:
        """Check the fields together.

        :raises ConfigError: if fields contradict each other.
        """

    def with_fields(self, make: Callable[[dataclasses.Field[Any], Any], Any]) -> Self:
        """Make a copy with other values.

        :param make: field and value → the new value.
        """
        fields = dataclasses.fields(self)
        return type(self)(**{field.name: make(field, getattr(self, field.name)) for field in fields})

    def __repr__(self) -> str:
        """Show the value as a DAG would write it."""
        shown = [
            (field, getattr(self, field.name))
            for field in dataclasses.fields(self)
            if getattr(self, field.name) != default_of(field)
        ]
        texts = [
            ("" if not field.kw_only else f"{field.name}=") + ("'***'" if _is_secret(field) else _show(value))
            for field, value in shown
        ]
        return f"{type(self).__name__}({', '.join(texts)})"


def declared(
    kind: Kind,
    default: Any = dataclasses.MISSING,
    *,
    decides_rows: bool = True,
    is_of_folders: bool = False,
    is_secret: bool = False,
    kw_only: bool = True,
) -> Any:
    """Declare a field of a frozen dataclass, as :func:`dataclasses.field` does.

    :param default: a field without a default is required.
    :param decides_rows: whether a retry with another value has to stage the rows again.
    :param is_of_folders: a lake table, whose snapshots name the files, does not take the field.
    :param is_secret: the value is shown nowhere.
    """
    metadata = {
        "kind": kind,
        "decides_rows": decides_rows,
        "is_of_folders": is_of_folders,
        "is_secret": is_secret,
    }
    if isinstance(default, (dict, list)):
        return dataclasses.field(default_factory=lambda: default, metadata=metadata, kw_only=kw_only)
    return dataclasses.field(default=default, metadata=metadata, kw_only=kw_only)


def declared_fields(kind: type[Any]) -> dict[str, dataclasses.Field[Any]]:
    """Return name → field, of all declared fields of a dataclass."""
    return {field.name: field for field in dataclasses.fields(kind) if "kind" in field.metadata}


def kind_of(field: dataclasses.Field[Any]) -> Kind:
    """Return the declared kind of a field."""
    kind: Kind = field.metadata["kind"]
    return kind


def default_of(field: dataclasses.Field[Any]) -> Any:
    """Return the value of a field that is not given; MISSING if the field is required."""
    made = field.default_factory
    return field.default if made is dataclasses.MISSING else made()


def secrets_of(value: object) -> list[str]:
    """Return the contents of a value's secret fields."""
    if not isinstance(value, Value):
        return []
    fields = [field for field in dataclasses.fields(value) if _is_secret(field)]
    return [str(text) for field in fields if (text := getattr(value, field.name))]


def parse_field(name: str, field: dataclasses.Field[Any], value: Any) -> Any:
    """Parse the value of a declared field.

    :param name: for messages.
    :raises ConfigError: if the value is wrong, or None for a required field.
    """
    if value is None:
        value = default_of(field)
        if value is dataclasses.MISSING:
            raise ConfigError("argument-missing", f"{name} is missing; give it")
        if value is None:
            return None
    return kind_of(field).parse(name, value)


def deciding_fields(value: Any) -> Iterator[tuple[str, object]]:
    """Yield name and value of each declared field that decides which rows are staged; nested fields by path."""
    for name, field in declared_fields(type(value)).items():
        if not field.metadata["decides_rows"]:
            continue
        found = getattr(value, name)
        if isinstance(found, Value):
            yield name, found.name or type(found).__name__
            yield from ((f"{name}.{inner}", one) for inner, one in deciding_fields(found))
        else:
            yield name, found


def parse_literal(name: str, value: Any) -> Any:
    """Parse the list, dict, number or word that a template has turned into a text; leave any other value unchanged.

    :raises ConfigError: if a text begins like a list or dict and cannot be parsed.
    """
    if not isinstance(value, str):
        return value
    text = value.strip()
    for parse in (ast.literal_eval, json.loads):  # Jinja writes Python, further tools write JSON
        try:
            return parse(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
    if text[:1] in ("[", "{"):
        raise ConfigError(
            "argument-invalid", f"{name}={value!r} is neither a list nor a dict; correct its brackets and quotes"
        )
    return value


def parse_list(name: str, value: Any) -> Any:
    """Parse the list that a template has turned into a text; any other value stays unchanged, also a text of digits.

    :raises ConfigError: if a text begins like a list and cannot be parsed.
    """
    return parse_literal(name, value) if isinstance(value, str) and value.lstrip()[:1] in ("[", "(") else value


def value_of(
    kind: type[Value], *, short: Callable[[Any], Value | None] = lambda _value: None, remedy: str = ""
) -> Kind:
    """Return the kind of an argument: a value of a class, or a dict of the value's fields.

    :param short: returns the value that a shorter notation stands for, or None.
    :param remedy: what to give instead of a wrong value; '' for the value or a dict.
    """

    def shape(name: str, value: Any) -> Any:
        if isinstance(value, kind) or value is None:
            return value
        if (found := short(value)) is not None:
            return found
        return arguments.build_value(name, kind, value) if isinstance(value, Mapping) else value

    def parse(name: str, value: Any) -> Value:
        found = shape(name, parse_literal(name, value))
        if not isinstance(found, kind):
            raise refuse_argument(name, value, remedy or f"give {kind.__name__}(…), or a dict of its fields")
        return found.parsed(name)

    return Kind(parse, shape=shape)


def one_of(*kinds: type[Value], short: Callable[[Any], Value | None] = lambda _value: None, remedy: str = "") -> Kind:
    """Return the kind of an argument: a value of any of several classes.

    A text names a class without arguments. A dict has the name of the class as its key:
    ``{"move": {"folder": "in"}}``, or ``{"move": "done"}`` for the only required field.

    :param short: returns the value that a shorter notation stands for, or None.
    :param remedy: what to give instead of a wrong value; '' for the names of the classes.
    """
    known = {kind.name: kind for kind in kinds}

    def shape(name: str, value: Any) -> Any:
        if isinstance(value, kinds) or value is None:
            return value
        if isinstance(value, type) and value in kinds:  # a value without its parentheses
            value = value.name
        if (found := short(value)) is not None:
            return found
        if isinstance(value, str) and value in known and not arguments.required_fields(known[value]):
            return known[value]()
        if isinstance(value, Mapping) and len(value) == 1 and (key := next(iter(value))) in known:
            return _build(f"{name}[{key!r}]", known[key], value[key])
        return value

    def parse(name: str, value: Any) -> Value:
        found = shape(name, parse_literal(name, value))
        if isinstance(found, str) and found in known:
            raise ConfigError(
                "argument-missing", f"{name}={found!r} lacks what it needs; give {_form_of(known[found])}"
            )
        if not isinstance(found, kinds):
            raise ConfigError("argument-invalid", f"{name}={value!r} is unknown; {_advise(found, known, remedy)}")
        return found.parsed(name)

    return Kind(parse, shape=shape)


def _advise(found: object, known: Mapping[str, type[Value]], remedy: str) -> str:
    """Say what to give instead of a value of no known class."""
    keys = ""
    if isinstance(found, Mapping):
        kind = max(known.values(), key=lambda kind: len(found.keys() & declared_fields(kind)))
        if found.keys() & declared_fields(kind):
            fields = ", ".join(f"{key!r}: …" for key in found if key not in known)
            return f"write {{{kind.name!r}: {{{fields}}}}}, or {kind.__name__}(…)"
        if near := next(filter(None, (find_nearest(str(key), known) for key in found if key not in known)), ""):
            return f"did you mean the key {near!r}?"
        keys = f", or a dict with one key: {' or '.join(map(repr, known))}"
    elif near := find_nearest(str(found), known):
        return f"did you mean {_form_of(known[near])}?"
    return f"{remedy or 'give ' + ' or '.join(map(_form_of, known.values()))}{keys}"


def _build(name: str, kind: type[Value], given: Any) -> Value:
    if given is None:
        given = {}
    if not isinstance(given, Mapping):
        required = arguments.required_fields(kind)
        if len(required) != 1:
            raise refuse_argument(name, given, f"give a dict of the fields of {kind.__name__}")
        given = {required[0]: given}
    return arguments.build_value(name, kind, given)


def _form_of(kind: type[Value]) -> str:
    """Show how to write a value of a class, for messages."""
    required = arguments.required_fields(kind)
    return f"{kind.__name__}({', '.join(f'{name}=…' for name in required)})" if required else f"{kind.name!r}"


def _is_secret(field: dataclasses.Field[Any]) -> bool:
    return bool(field.metadata.get("is_secret"))


def _show(value: object) -> str:
    return repr(value.value) if isinstance(value, Enum) else repr(value)


def count(*, least: int = 0, most: int | None = None) -> Kind:
    """Return the kind of a whole number."""
    return Kind(lambda name, value: arguments.parse_count(name, parse_literal(name, value), least=least, most=most))


def choice(kind: type[Enum]) -> Kind:
    """Return the kind of an argument with a few allowed words."""
    return Kind(
        lambda name, value: value if isinstance(value, kind) else arguments.parse_choice(name, value, kind), Form.TEXT
    )


TEXT = Kind(arguments.parse_text, Form.TEXT)
NAME = Kind(arguments.parse_name, Form.TEXT)
SQL = Kind(arguments.parse_text, Form.SQL)
CONNECTION = Kind(lambda name, value: None if value is None else arguments.parse_text(name, value), Form.TEXT)
FLAG = Kind(lambda name, value: arguments.parse_flag(name, parse_literal(name, value)))
SECONDS = Kind(lambda name, value: arguments.parse_seconds(name, parse_literal(name, value)))
RATIO = Kind(lambda name, value: arguments.parse_ratio(name, parse_literal(name, value)))
TEXTS = Kind(lambda name, value: arguments.parse_texts(name, parse_list(name, value)), Form.TEXT, TEXT)
FILE_NAMES = Kind(lambda name, value: arguments.parse_file_names(name, parse_list(name, value)), Form.TEXT, TEXT)
EXPRESSIONS = Kind(lambda name, value: arguments.parse_expressions(name, parse_literal(name, value)), of=SQL)
SETTINGS = Kind(lambda name, value: arguments.parse_settings(name, parse_literal(name, value)), of=TEXT)
