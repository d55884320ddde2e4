"""From the operator's arguments, with all templates rendered, to the request of a load."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

from airflow_provider_ch_s3.common.declared import declared_fields, parse_field
from airflow_provider_ch_s3.files.addresses import SourcePattern
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.transfers.task import timeout_of
from airflow_provider_ch_s3.tuning import LoadLimit, SettingValue

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import BaseOperator


def build_request(
    operator: BaseOperator,
    pattern: SourcePattern,
    connection_settings: Mapping[str, SettingValue],
    limit: LoadLimit,
) -> LoadRequest:
    """Build the request: each declared field of it from the operator's argument of the same name.

    :param pattern: the operator's source.
    :param limit: how many loads of the task Airflow may run at once.
    :raises ConfigError: if an argument has a wrong value.
    """
    fields = declared_fields(LoadRequest)
    request = LoadRequest(
        pattern=pattern,
        snapshot=getattr(operator, "snapshot", ""),
        connection_settings=connection_settings,
        timeout_seconds=timeout_of(operator),
        limit=limit,
        **{name: parse_field(name, field, getattr(operator, name, None)) for name, field in fields.items()},
    )
    return dataclasses.replace(request, settings={**request.csv.settings, **request.settings})
