"""What Airflow learns about the package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import airflow
import jsonschema
import pytest

from airflow_provider_ch_s3.cluster.fields import CONNECTION_FIELDS
from airflow_provider_ch_s3.get_provider_info import get_provider_info
from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook

SCHEMA = Path(airflow.__file__).parent / "provider.yaml.schema.json"


@pytest.fixture(name="connection_type")
def connection_type_fixture() -> dict[str, Any]:
    (connection_type,) = get_provider_info()["connection-types"]
    return dict(connection_type)


def test_info_is_what_the_schema_allows() -> None:
    of_the_yaml_only = {"state": "ready", "source-date-epoch": 0, "versions": ["0.1.0"]}
    jsonschema.validate(get_provider_info() | of_the_yaml_only, json.loads(SCHEMA.read_text()))


def test_info_agrees_with_the_hook(connection_type: dict[str, Any]) -> None:
    assert connection_type["connection-type"] == ClickHouseS3Hook.conn_type == "clickhouse_s3"
    assert connection_type["hook-name"] == ClickHouseS3Hook.hook_name == "ClickHouse S3 cluster"
    assert connection_type["hook-class-name"] == f"{ClickHouseS3Hook.__module__}.{ClickHouseS3Hook.__name__}"


def test_every_key_of_the_design_is_a_field(connection_type: dict[str, Any]) -> None:
    assert list(connection_type["conn-fields"]) == [
        "cluster",
        "secure",
        "verify",
        "ca_cert",
        "replicas",
        "node_count",
        "vcpus_per_node",
        "memory_gib_per_node",
        "ingest_memory_ratio",
        "max_concurrent_loads",
        "ddl_mode",
        "http_endpoints",
        "ledger_table",
        "calibration",
        "play_url",
        "client_cert",
        "client_cert_key",
        "server_host_name",
        "connect_timeout",
        "send_receive_timeout",
        "compress",
        "client_name",
        "session_settings",
        "client_kwargs",
    ]


def test_fields_are_of_the_types_that_the_form_does_not_change(connection_type: dict[str, Any]) -> None:
    fields = connection_type["conn-fields"]
    for number in ("ingest_memory_ratio", "max_concurrent_loads"):
        assert fields[number]["schema"] == {"type": ["string", "null"], "section": "Rarely needed"}
    assert fields["ddl_mode"]["schema"]["enum"] == ["auto", "single", "on_cluster", "per_host", "database"]
    assert fields["http_endpoints"]["schema"]["type"] == ["array", "null"]
    assert fields["http_endpoints"]["schema"]["items"] == {"type": "string"}


def test_the_form_shows_cluster_and_tls_and_folds_the_rest(connection_type: dict[str, Any]) -> None:
    fields = connection_type["conn-fields"]
    shown = [name for name, field in fields.items() if "section" not in field["schema"]]
    assert shown == ["cluster", "secure", "verify", "ca_cert"]


def test_only_verify_is_filled_in_and_so_saved_by_the_form(connection_type: dict[str, Any]) -> None:
    fields = connection_type["conn-fields"]
    assert {name: f["schema"]["default"] for name, f in fields.items() if "default" in f["schema"]} == {
        "verify": True
    }


def test_field_names_do_not_look_like_secrets() -> None:
    # Airflow masks by name: a plain field with such a name would be shown as ***
    assert [f.name for f in CONNECTION_FIELDS if any(word in f.name for word in ("secret", "token", "passw"))] == []


def test_airflow_finds_connection_type_and_hook() -> None:
    from airflow.providers_manager import ProvidersManager

    manager = ProvidersManager()
    assert manager.providers["airflow-provider-ch-s3"].data["name"] == "ClickHouse S3 loads"
    hook = manager.hooks["clickhouse_s3"]
    assert hook is not None
    assert hook.hook_class_name == "airflow_provider_ch_s3.hooks.clickhouse_s3.ClickHouseS3Hook"
    assert hook.connection_id_attribute_name == "clickhouse_conn_id"
