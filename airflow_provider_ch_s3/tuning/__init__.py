"""Compute the settings of a load: one function per setting, and the plan that combines them. Pure."""

from airflow_provider_ch_s3.tuning.facts import LoadFacts, PastLoad
from airflow_provider_ch_s3.tuning.plan import LoadPlan, check_given_settings, plan_load
from airflow_provider_ch_s3.tuning.predict import Prediction
from airflow_provider_ch_s3.tuning.setting import ServerSetting, Setting, SettingOrigin, SettingValue
from airflow_provider_ch_s3.tuning.sharing import LoadLimit, MemorySharing

__all__ = [
    "LoadFacts",
    "LoadLimit",
    "LoadPlan",
    "MemorySharing",
    "PastLoad",
    "Prediction",
    "ServerSetting",
    "Setting",
    "SettingOrigin",
    "SettingValue",
    "check_given_settings",
    "plan_load",
]
