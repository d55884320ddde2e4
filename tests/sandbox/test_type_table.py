"""Each cell of the table of types, with edge values: kept as worked out by hand, or the statement fails."""

from __future__ import annotations

import pytest

from airflow_provider_ch_s3.clickhouse.type_table import TABLE, Kind, Rule
from airflow_provider_ch_s3.errors import ServerError
from ch_s3_lab.sandbox import Sandbox
from tests.failures import coded
from tests.sandbox.type_cells import CELLS, Cell

pytestmark = pytest.mark.sandbox

# The server may only have these types, or read these values, with them.
SETTINGS = {
    "allow_suspicious_low_cardinality_types": 1,
    "allow_experimental_dynamic_type": 1,
    "allow_experimental_variant_type": 1,
    "allow_experimental_json_type": 1,
    "date_time_overflow_behavior": "throw",
    "input_format_try_infer_dates": 0,
    "input_format_try_infer_datetimes": 0,
    "session_timezone": "UTC",
    "precise_float_parsing": 1,
}


@pytest.mark.every_case
def test_the_values_of_each_cell(engine: tuple[float, Sandbox]) -> None:
    version, sandbox = engine
    settings = SETTINGS | ({"enable_time_time64_type": 1} if version > 26 else {})
    wrong = []

    def ask(cell: Cell, values: list[str]) -> list[str]:
        rows = sandbox.query(cell.statement(values), settings=settings)
        return ["" if row["made"] is None else row["made"] for row in rows]

    for cell in CELLS:
        if cell.version > version:
            continue
        if cell.kept and (found := ask(cell, list(cell.kept))) != list(cell.kept.values()):
            wrong.append((cell.name, found))
        for value in cell.failing:
            try:
                wrong.append((cell.name, value, ask(cell, [value])))
            except ServerError as error:
                # it is the value that is wrong, and not the statement
                if error.server_code in {43, 46, 47, 62, 386}:
                    wrong.append((cell.name, value, str(error)))
    assert wrong == []


@pytest.mark.every_case
def test_long_integers_beside_fractions_keep_their_digits_or_fail(engine: tuple[float, Sandbox]) -> None:
    """25.8 makes an integer a Float64 if a fraction stood under its name before, whatever else has its digits."""
    version, sandbox = engine
    cell = next(cell for cell in CELLS if (cell.source, cell.target) == ("String", "JSON"))
    for before in ("1.5", "0"):
        for number in ("9007199254740993", "-9223372036854775808", "18446744073709551615"):
            rows = [f'{{"a":{before}}}', f'{{"a":{number},"b":"{number}"}}']
            statement = cell.statement([f"'{row}'" for row in rows])
            if before == "1.5" and version < 26:
                with pytest.raises(ServerError, match=coded("server-error", "would not all stay")):
                    sandbox.query(statement, settings=SETTINGS)
            else:
                assert [row["made"] for row in sandbox.query(statement, settings=SETTINGS)] == rows


def test_each_cell_that_is_loaded_has_values() -> None:
    """Those of text have their own tests, and a value of the same type needs no conversion."""

    def is_tried(rule: Rule) -> bool:
        return rule.name not in ("", "same", "text", "bytes or text")

    loaded = {(source, target) for source, cells in TABLE.items() for target, rule in cells.items() if is_tried(rule)}
    of_any = {Kind.NOTHING, Kind.DYNAMIC, Kind.VARIANT}
    left = {pair for pair in loaded - {cell.kinds for cell in CELLS} if not {*pair} & of_any}
    assert {f"{source.value} → {target.value}" for source, target in left} == set()
