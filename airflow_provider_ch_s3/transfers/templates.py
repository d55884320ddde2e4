"""Templated arguments of an operator: each is rendered by the argument's kind, alike in every DAG."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk.log import mask_secret

from airflow_provider_ch_s3.common.declared import Form, Kind, Value, declared_fields, kind_of, secrets_of
from airflow_provider_ch_s3.discretion import keep_secret
from airflow_provider_ch_s3.errors import ChS3Error, ConfigError

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context
    from jinja2 import Environment, Template

SQL_FILE = ".sql"
_MARKS = ("{{", "{%", "{#")
_PLAIN = Kind(lambda _name, value: value)


class RendersArguments:
    """An operator whose templated arguments are of known kinds.

    A text of SQL arrives as written, and may be the name of a ``.sql`` file. Any other text stays a text, also in a
    DAG with ``render_template_as_native_obj=True``. Values, such as a load mode, are rendered into copies, because
    several tasks may share the same value.
    """

    kinds: ClassVar[Mapping[str, Kind]]
    """Argument → kind; all these arguments are templated."""
    template_ext: Collection[str] = ()  # Airflow would read a file for any argument

    def check_as_written(self, names: Collection[str]) -> None:
        """Check the arguments without templates, so that a mistake is an error of the DAG's import.

        :raises ConfigError: for the first wrong argument.
        """
        for name in names:
            if self.is_as_written(name):
                self.kinds[name].parse(name, getattr(self, name))

    def is_as_written(self, name: str) -> bool:
        """Whether an argument is given, and is what it will be when the task runs."""
        value = getattr(self, name)
        return value is not None and _has_no_template(self.kinds[name].form, self.kinds[name].shape(name, value))

    def _do_render_template_fields(
        self, parent: Any, template_fields: Collection[str], context: Context, jinja_env: Environment, seen_oids: Any
    ) -> None:
        """Render the arguments; Airflow calls the method for a task and for each mapped instance of a task.

        :raises ConfigError: if a template cannot be rendered; names argument and template.
        """
        del seen_oids
        for name in template_fields:
            value = getattr(parent, name)
            if name in self.kinds and value is not None:
                rendered = self._render_argument(name, self.kinds[name], value, context, jinja_env)
                for secret in secrets_of(rendered):
                    keep_secret(secret)
                    mask_secret(secret)
                setattr(parent, name, rendered)

    def _render_argument(self, name: str, kind: Kind, given: Any, context: Context, env: Environment) -> Any:
        given = kind.shape(name, given)

        def render(inner: str, of: Kind, value: Any) -> Any:
            return self._render_argument(inner, of, value, context, env)

        match given:
            case Value():
                return given.with_fields(
                    lambda field, value: (
                        value if value is None else render(f"{name}.{field.name}", kind_of(field), value)
                    )
                )
            case str():
                return self._render_text(name, kind.form, given, context, env)
            case dict():
                return {
                    self._render_text(name, Form.TEXT, key, context, env) if isinstance(key, str) else key: render(
                        f"{name}[{key!r}]", kind.of or _PLAIN, value
                    )
                    for key, value in given.items()
                }
            case list() | tuple():
                of = kind.of or (kind if kind.form is not Form.ANY else _PLAIN)
                return [render(f"{name}[{n}]", of, value) for n, value in enumerate(given)]
            case _:  # for example the result of an upstream task
                return self.render_template(given, context, env, set())  # type: ignore[attr-defined]

    def _render_text(self, name: str, form: Form, given: str, context: Context, env: Environment) -> Any:
        is_file = form is Form.SQL and given.endswith(SQL_FILE)
        if not (is_file or "{" in given):
            return given
        try:
            if form is Form.ANY:
                rendered = self.render_template(given, context, env, set())  # type: ignore[attr-defined]
                # an object such as a table of pandas, of a DAG with native objects, compares with a text by elements
                return None if isinstance(rendered, str) and rendered == "None" else rendered
            template = env.get_template(given) if is_file else env.from_string(given)
            return _as_text(template, context)
        except ChS3Error:
            raise
        except Exception as error:  # whatever a template may raise
            raise ConfigError(
                "template-invalid", f"the template {name}={given!r} cannot be rendered: {error}"
            ) from error


def _has_no_template(form: Form, value: object) -> bool:
    """Whether rendering leaves a value unchanged; not, for example, the result of an upstream task."""
    match value:
        case str():
            is_file = form is Form.SQL and value.endswith(SQL_FILE)
            return not is_file and not any(mark in value for mark in _MARKS)
        case Value():
            return all(
                _has_no_template(kind_of(field).form, getattr(value, name))
                for name, field in declared_fields(type(value)).items()
            )
        case Mapping():
            return all(_has_no_template(Form.SQL, one) for item in value.items() for one in item)
        case list() | tuple():
            return all(_has_no_template(form, one) for one in value)
        case _:
            return value is None or isinstance(value, (bool, int, float, Enum, timedelta, type))


def _as_text(template: Template, context: Context) -> str:
    """Render a template as a text, also if the DAG asks for native objects."""
    return "".join(map(str, template.root_render_func(template.new_context(dict(context)))))


def parse_arguments(operator: RendersArguments, names: Collection[str]) -> dict[str, Any]:
    """Parse arguments by their kinds.

    :raises ConfigError: for the first wrong argument.
    """
    return {name: operator.kinds[name].parse(name, getattr(operator, name)) for name in names}


def renderers_of(kinds: Mapping[str, Kind]) -> dict[str, str]:
    """Argument → the renderer on the page with the rendered fields."""
    found = {}
    for name, kind in kinds.items():
        if kind.form is Form.SQL:
            found[name] = "sql"
        elif kind.of is not None:
            found[name] = "json"
    return found


def declared_kinds(request: type[Any]) -> dict[str, Kind]:
    """Argument → kind, of the declared fields of a request."""
    return {name: kind_of(field) for name, field in declared_fields(request).items()}
