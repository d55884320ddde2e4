"""What commands print: coloured on a terminal, and the same text where it is piped."""

from __future__ import annotations

import io
import re
import sys

import pytest

from airflow_provider_ch_s3.cli.screen import print_text

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
