"""What commands print: coloured on a terminal, and the same text where it is piped."""

from __future__ import annotations

import io
import re
import sys

import pytest

from airflow_provider_ch_s3.cli.screen import confirm, fit_columns, print_table, print_text
from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.reporting.text import HEADS, IMPORTANT, WHY
from tests.failures import coded

TEXT = f"  max_threads = 4  [measured]\n      {'a reason of many words ' * 10}\nhttp://127.0.0.1:8123 [/b]"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_the_text_in_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    print_text(TEXT)
    assert "\x1b[" in terminal.getvalue()
    assert re.sub(r"\x1b\[[\d;]*m", "", terminal.getvalue()) == f"{TEXT}\n"


def test_a_pipe_gets_the_text_alone(capsys: pytest.CaptureFixture[str]) -> None:
    print_text(TEXT)
    assert capsys.readouterr().out == f"{TEXT}\n"


LOAD = {
    "load": "ch-s3-94e0a3c1d9fd0e6e0f4c",
    "try": "1",
    "started (UTC)": "2026-01-31 02:00",
    "table": "analytics.flights",
    "DAG.task": "flights.load",
    "run": "scheduled__2026-01-30T02:00:00+00:00",
    "mode": "append",
    "state": "abandoned",
    "files": "365",
    "rows": "",
    "seconds": "",
    WHY: "the check 'sane' found 3 rows; " * 4 + "\nrow 7 of x",
}


@pytest.mark.parametrize(
    ("columns", "shown", "left_out"),
    [
        pytest.param(80, ["load", "try", "started (UTC)", "table", "state", "rows"], 5, id="80"),
        pytest.param(20, ["load"], 10, id="narrower-than-an-id"),
        pytest.param(300, list(LOAD)[:-1], 0, id="wide"),
    ],
)
def test_a_terminal_shows_the_columns_that_fit(
    columns: int, shown: list[str], left_out: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    print_table(HEADS, [tuple(LOAD[head] for head in HEADS)], important=IMPORTANT, note=WHY)
    text = re.sub(r"\x1b\[[\d;]*m", "", terminal.getvalue())
    heads, row, *rest = (line.rstrip() for line in text.splitlines())
    assert heads.split() == " ".join(shown).split()
    assert row.split() == " ".join(LOAD[head] for head in shown).split()
    assert len(row) <= max(columns, len(LOAD["load"]))
    if left_out:
        assert rest.pop().count(", ") == left_out - 1
    assert " ".join(rest).split() == LOAD[WHY].split()
    assert "  row 7 of x" in rest or columns == 20
    assert all(len(line) <= columns for line in rest)


def test_the_first_column_and_the_most_important_ones_stay() -> None:
    widths = {"a": 10, "b": 5, "c": 3, "d": 2}
    assert fit_columns(widths, ["a", "c", "b"], 20) == ["a", "b", "c"]
    assert fit_columns(widths, ["a", "c", "b"], 17) == ["a", "c", "d"]
    assert fit_columns(widths, ["a", "c", "b"], 5) == ["a"]


@pytest.mark.parametrize(
    ("answer", "is_sure"), [("y", True), ("YES ", True), ("", False), ("n", False), (None, False)]
)
def test_only_a_yes_confirms(answer: str | None, is_sure: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO() if answer is None else Terminal(f"{answer}\n"))
    if is_sure:
        confirm("3 rows go", "remove them?", otherwise="nothing was removed")
        return
    with pytest.raises(ConfigError, match=coded("not-confirmed")) as caught:
        confirm("3 rows go", "remove them?", otherwise="nothing was removed")
    assert "nothing was removed" in str(caught.value)
