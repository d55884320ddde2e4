"""The filters that templates name: jinja2 finds a missing filter in a condition only when it renders the branch."""

from __future__ import annotations

from importlib.resources import files

from jinja2 import nodes

from airflow_provider_ch_s3.sql import render


def test_each_filter_exists() -> None:
    environment = render._ENVIRONMENT
    folder = files("airflow_provider_ch_s3.sql") / "templates"
    named = {
        one.name
        for template in folder.iterdir()
        if template.name.endswith(".jinja")
        for one in environment.parse(template.read_text()).find_all(nodes.Filter)
    }
    assert "kept_if" in named
    assert named - environment.filters.keys() == set()
