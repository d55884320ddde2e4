"""What ``ch-s3 demo`` prints of Airflow's log."""

from __future__ import annotations

import pytest

from ch_s3_lab.demo.command import echo_our_lines


def test_the_demo_prints_what_is_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    for event, logger in (
        ('5 rows, 1 node at work [ch-s3 {"rows": 5}]', "airflow_provider_ch_s3.monitoring.monitor"),
        ("submitting ch-s3-1", "airflow_provider_ch_s3.load.base"),
        ("::group::plan", "airflow_provider_ch_s3.common.work"),
        ("Done. Returned value", "airflow.task"),
    ):
        echo_our_lines(f"2026-01-01T00:00:00Z [info     ] {event:<40} [{logger}] loc=x.py:1\n")
    assert capsys.readouterr().out == "  monitoring: 5 rows, 1 node at work\n  load: submitting ch-s3-1\n"
