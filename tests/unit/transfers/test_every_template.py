"""Each templated argument of each operator and sensor is the same in each DAG, however the argument arrives."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG, XComArg

from airflow_provider_ch_s3.errors import ChS3Error
from airflow_provider_ch_s3.operators.held import HeldLoadOperator
from airflow_provider_ch_s3.operators.s3_query import S3QueryOperator
from airflow_provider_ch_s3.sensors.parts_settled import ClickHousePartsSettledSensor
from airflow_provider_ch_s3.transfers.clickhouse_to_s3 import ClickHouseToS3Operator
from airflow_provider_ch_s3.transfers.files_to_clickhouse import FilesToClickHouseOperator
from airflow_provider_ch_s3.transfers.lake_to_clickhouse import OF_FOLDERS, LakeToClickHouseOperator
from airflow_provider_ch_s3.transfers.templates import RendersArguments
from docs._site.reference_page import OPERATORS
from tests.unit.transfers.test_arguments_alone import read_example
from tests.unit.transfers.test_templates import make_dag

TEMPLATED = [one for one in OPERATORS if issubclass(one, RendersArguments) and one is not FilesToClickHouseOperator]
TEXTS = ("20231023", "['20230101']", "1.5e3", "007", "'id'", "None", "True", '{"a": null}', "[a", "merge")
"""What Python or JSON reads as something else than a text, and a word."""
FORMATS = ("CSVWithNames", '{"csv": {"delimiter": "1"}}', "None", "[a")
"""For ``data_format``: a text is the name of a format, which neither Python nor JSON reads as something else."""
FEW_TEXTS = TEXTS[:2]
"""For an argument that an operator before has tried with all texts."""
AS_GIVEN = ("written", "expand", "expand_kwargs")
"""The operator's constructor sees the text, and may refuse the text for the sake of another argument."""
WAYS = (*AS_GIVEN, "template", "upstream")


@cache
def shared_dag(*, is_native: bool) -> tuple[DAG, XComArg]:
    """A DAG with a task whose result others take; a DAG for each argument would take most of the time."""
    with make_dag(is_native=is_native) as dag:
        return dag, XComArg(ClickHousePartsSettledSensor(task_id="upstream", table="t"))


def arguments_of(operator: Any) -> list[str]:
    refused = OF_FOLDERS if issubclass(operator, LakeToClickHouseOperator) else set()
    return [name for name in operator.kinds if name not in refused]


EACH = pytest.mark.parametrize(
    ("operator", "name"),
    [pytest.param(one, name, id=f"{one.__name__}-{name}") for one in TEMPLATED for name in arguments_of(one)],
)


def required_arguments(operator: type, name: str) -> dict[str, Any]:
    """The arguments without which the operator cannot be made."""
    if issubclass(operator, FilesToClickHouseOperator):
        return {"source": read_example(operator, "source").replace("{{ ds }}", "2024-01-31"), "table": "t"}
    if issubclass(operator, HeldLoadOperator):
        return {"load": "ch-s3-abc-0-1", "table": "t"}
    if issubclass(operator, ClickHouseToS3Operator):
        return {"destination": "s3://b/d/"} | ({"query": "SELECT 1"} if name != "table" else {})
    return {S3QueryOperator: {"sql": "SELECT 1", "source": "s3://b/*"}, ClickHousePartsSettledSensor: {"table": "t"}}[
        operator
    ]


def render(operator: Any, name: str, given: Any, *, way: str, is_native: bool) -> Any:
    """Return the rendered argument of a task.

    :param given: the argument, or the result of the task upstream, or what the template renders.
    """
    dag, upstream = shared_dag(is_native=is_native)
    arguments = {"task_id": f"t{len(dag.task_dict)}", **required_arguments(operator, name)}
    arguments.pop(name, None)
    context: Any = {
        "x": given,
        "run_id": "r",
        "dag": dag,
        "dag_run": SimpleNamespace(conf=None),
        "ti": SimpleNamespace(map_index=0, xcom_pull=lambda **_which: given),
    }
    with dag:
        if way == "expand":
            task = operator.partial(**arguments).expand(**{name: [given]})
        elif way == "expand_kwargs":
            task = operator.partial(**arguments).expand_kwargs([{name: given}])
        else:
            task = operator(**arguments, **{name: {"template": "{{ x }}", "upstream": upstream}.get(way, given)})
    task.render_template_fields(context)
    return getattr(context.get("task", task), name)


def parse(operator: Any, name: str, given: Any, *, way: str, is_native: bool) -> str:
    """Return the parsed argument; ``refused`` if the argument cannot be parsed."""
    try:
        return repr(operator.kinds[name].parse(name, render(operator, name, given, way=way, is_native=is_native)))
    except ChS3Error:
        return "refused"


@EACH
def test_an_argument_is_the_same_however_it_arrives(operator: Any, name: str) -> None:
    is_first = next(one for one in TEMPLATED if one.kinds.get(name) is operator.kinds[name]) is operator
    different = {}
    for text in FORMATS if name == "data_format" else TEXTS if is_first else FEW_TEXTS:
        found: dict[str, set[str]] = {
            way: {parse(operator, name, text, way=way, is_native=is_native) for is_native in (False, True)}
            for way in WAYS
        }
        given = set().union(*(found[way] for way in AS_GIVEN))
        rendered = found["template"] | found["upstream"]
        if len(rendered) > 1 or len(given) > 1 or (given != rendered and given != {"refused"}):
            different[text] = found
    assert different == {}


@EACH
def test_a_template_without_a_value_is_the_same_in_both_dags(operator: Any, name: str) -> None:
    plain, native = (render(operator, name, None, way="template", is_native=is_native) for is_native in (False, True))
    assert plain == native
