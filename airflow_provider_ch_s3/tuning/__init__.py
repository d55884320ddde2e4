"""Compute the settings of a load: a function for each setting, and a plan of all settings. Pure."""

from airflow_provider_ch_s3.clickhouse.statement import SettingValue
from airflow_provider_ch_s3.tuning.export import EXPORT_RULES, ExportFacts
from airflow_provider_ch_s3.tuning.facts import LoadFacts, LoadLimit, MemorySharing, PastLoad, Reduction
from airflow_provider_ch_s3.tuning.in_place import IN_PLACE_RULES, InPlaceFacts
from airflow_provider_ch_s3.tuning.plan import (
    LoadPlan,
    Plan,
    check_given_settings,
    check_profile,
    plan_chunk_bytes,
    plan_load,
    plan_query,
)
from airflow_provider_ch_s3.tuning.predict import Prediction
from airflow_provider_ch_s3.tuning.rule import ServerSetting, Setting, SettingOrigin

__all__ = [
    "EXPORT_RULES",
    "IN_PLACE_RULES",
    "ExportFacts",
    "InPlaceFacts",
    "LoadFacts",
    "LoadLimit",
    "LoadPlan",
    "MemorySharing",
    "PastLoad",
    "Plan",
    "Prediction",
    "Reduction",
    "ServerSetting",
    "Setting",
    "SettingOrigin",
    "SettingValue",
    "check_given_settings",
    "check_profile",
    "plan_chunk_bytes",
    "plan_load",
    "plan_query",
]
