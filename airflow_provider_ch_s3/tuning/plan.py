"""All rules together: the plan of a load."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from airflow_provider_ch_s3.errors import ConfigError, PlanError
from airflow_provider_ch_s3.tuning import insert, limits, observe, read
from airflow_provider_ch_s3.tuning.facts import LoadFacts
from airflow_provider_ch_s3.tuning.keep import KEPT
from airflow_provider_ch_s3.tuning.predict import Prediction, describe_basis, predict
from airflow_provider_ch_s3.tuning.setting import ServerSetting, Setting, SettingOrigin, SettingValue

RULES: tuple[Callable[[LoadFacts], Setting], ...] = (
    insert.max_insert_threads,
    insert.min_insert_block_size_bytes,
    insert.min_insert_block_size_rows,
    insert.max_insert_threads_min_free_memory_per_thread,
    insert.max_partitions_per_insert_block,
    insert.insert_deduplicate,
    insert.deduplicate_insert,
    insert.deduplicate_insert_select,
    insert.insert_quorum,
    insert.insert_null_as_default,
    insert.optimize_on_insert,
    insert.parallel_distributed_insert_select,
    insert.distributed_foreground_insert,
    read.max_threads,
    read.max_threads_min_free_memory_per_thread,
    read.cluster_table_function_split_granularity,
    read.input_format_parallel_parsing,
    read.input_format_parquet_max_block_size,
    read.max_download_buffer_size,
    read.s3_throw_on_zero_files_match,
    read.enable_parallel_replicas,
    read.use_hive_partitioning,
    read.date_time_input_format,
    read.date_time_overflow_behavior,
    read.input_format_null_as_default,
    read.input_format_csv_empty_as_default,
    read.input_format_tsv_empty_as_default,
    read.input_format_skip_unknown_fields,
    read.input_format_json_defaults_for_missing_elements_in_named_tuple,
    read.input_format_json_ignore_unknown_keys_in_named_tuple,
    read.input_format_parquet_allow_missing_columns,
    read.input_format_orc_allow_missing_columns,
    read.input_format_arrow_allow_missing_columns,
    limits.max_execution_time,
    limits.timeout_overflow_mode,
    limits.read_overflow_mode,
    limits.read_overflow_mode_leaf,
    observe.log_queries,
    observe.log_queries_min_query_duration_ms,
    observe.log_queries_probability,
    observe.log_queries_min_type,
)

# What a user may not set to another value: the load would write rows twice, lose some, or not be found again.
PINNED = frozenset(
    {
        "enable_parallel_replicas",
        "timeout_overflow_mode",
        "read_overflow_mode",
        "read_overflow_mode_leaf",
        "log_queries",
        "log_queries_min_query_duration_ms",
        "log_queries_probability",
        "log_queries_min_type",
    }
)


@dataclass(frozen=True, kw_only=True)
class LoadPlan:
    """The settings of one load and what they should lead to.

    :param settings: in the order of the rules, then what the user added.
    :param left_out: computed settings that the server does not take, each with the reason.
    :param basis: where the constants of the prediction come from.
    :param kept: settings that stay at their defaults, whatever the server's profiles say.
    """

    settings: tuple[Setting, ...]
    left_out: Mapping[str, str]
    prediction: Prediction
    basis: str
    kept: Mapping[str, SettingValue] = field(default_factory=dict)

    @property
    def sent(self) -> dict[str, SettingValue]:
        """What goes into the SETTINGS clause."""
        chosen = {s.name: s.value for s in self.settings if s.is_sent and s.value is not None}
        return {**chosen, **self.kept}


def plan_load(
    facts: LoadFacts,
    *,
    server: Mapping[str, ServerSetting],
    operator: Mapping[str, SettingValue] | None = None,
    connection: Mapping[str, SettingValue] | None = None,
) -> LoadPlan:
    """Compute every setting; a value of the operator wins over the connection's, that over a computed one.

    :param server: all settings that the server knows (``system.settings``).
    :raises ConfigError: if the user gave a setting that the server does not know or lets nobody change, or
        another value to a pinned one.
    :raises PlanError: if the server forbids to change a pinned setting from another value.
    """
    given = check_given_settings(server, operator=operator or {}, connection=connection or {})
    kept = _keep(given, server)
    settings: list[Setting] = []
    left_out: dict[str, str] = {}
    for setting in (rule(facts) for rule in RULES):
        if setting.name in PINNED:
            _check_pinned(setting, given, server)
        if setting.name in given:
            settings.append(_given_setting(setting.name, given.pop(setting.name), computed=setting.value))
        elif setting.name not in server:
            if setting.value is not None:
                left_out[setting.name] = "this server does not know it"
        elif setting.value is None:
            settings.append(replace(setting, value=server[setting.name].value, origin=SettingOrigin.SERVER))
        elif server[setting.name].is_readonly:
            left_out[setting.name] = f"this user may not change it from {server[setting.name].value}"
        else:
            settings.append(setting)
    settings.extend(_given_setting(name, value, computed=None) for name, value in given.items())
    return LoadPlan(
        settings=tuple(settings),
        kept=kept,
        left_out=left_out,
        prediction=_predict(facts, settings, left_out, server),
        basis=describe_basis(facts),
    )


def check_given_settings(
    server: Mapping[str, ServerSetting],
    *,
    operator: Mapping[str, SettingValue],
    connection: Mapping[str, SettingValue],
) -> dict[str, tuple[SettingValue, SettingOrigin]]:
    """Join what the user gave.

    :returns: name → value and who gave it.
    :raises ConfigError: if a value is None, the server does not know a setting, or the user may not change it.
    """
    given = {name: (value, SettingOrigin.CONNECTION) for name, value in connection.items()}
    given |= {name: (value, SettingOrigin.OPERATOR) for name, value in operator.items()}
    for name, (value, origin) in given.items():
        if value is None:
            raise ConfigError(f"the {origin} sets {name!r} to None; give it a value, or leave it out")
        if name not in server:
            near = difflib.get_close_matches(name, server, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else "; check its spelling and the server's version"
            raise ConfigError(f"the {origin} sets {name!r}, which this server does not know{hint}")
        if server[name].is_readonly:
            raise ConfigError(
                f"the {origin} sets {name!r}, and the ClickHouse user may not change it; leave it out, or change"
                " the user's profile"
            )
    return given


def _check_pinned(
    setting: Setting, given: Mapping[str, tuple[SettingValue, SettingOrigin]], server: Mapping[str, ServerSetting]
) -> None:
    value, origin = given.get(setting.name, (setting.value, SettingOrigin.COMPUTED))
    needed = f"a load needs {setting.value!r}: {setting.reason}"
    if not _is_same(value, setting.value):
        raise ConfigError(f"the {origin} sets {setting.name!r} to {value!r}, and {needed}; leave it out")
    known = server.get(setting.name)
    if known is not None and known.is_readonly and not _is_same(known.value, setting.value):
        raise PlanError(
            f"the ClickHouse user's profile fixes {setting.name!r} to {known.value!r}, and {needed}; change the"
            " profile"
        )


def _keep(
    given: dict[str, tuple[SettingValue, SettingOrigin]], server: Mapping[str, ServerSetting]
) -> dict[str, SettingValue]:
    """What to send so that no setting drops rows; takes those settings out of ``given``."""
    kept: dict[str, SettingValue] = {}
    for name, keep in KEPT.items():
        if name not in server:
            continue
        setting = Setting(name=name, value=keep.value, reason=keep.reason)
        _check_pinned(setting, given, server)
        given.pop(name, None)
        if not server[name].is_readonly:
            kept[name] = keep.value
    return kept


def _is_same(value: SettingValue | None, other: SettingValue | None) -> bool:
    return value == other or str(value).lower() == str(other).lower() or _number(value) == _number(other)


def _number(value: SettingValue | None) -> float | SettingValue | None:
    """The value as a number, where it is one: ``"0.0"`` and ``False`` are 0."""
    try:
        return float({"true": "1", "false": "0"}.get(str(value).lower(), str(value)))
    except ValueError:
        return value


def _given_setting(name: str, given: tuple[SettingValue, SettingOrigin], *, computed: SettingValue | None) -> Setting:
    value, origin = given
    instead = f", instead of the computed {computed}" if computed not in (None, value) else ""
    return Setting(name=name, value=value, origin=origin, reason=f"set by the {origin}{instead}")


def _predict(
    facts: LoadFacts,
    settings: Sequence[Setting],
    left_out: Mapping[str, str],
    server: Mapping[str, ServerSetting],
) -> Prediction:
    values = {name: server[name].value for name in left_out if name in server} | {s.name: s.value for s in settings}
    threads = _positive(values, insert.max_insert_threads(facts))
    block_bytes = _positive(values, insert.min_insert_block_size_bytes(facts))
    return predict(facts, threads=threads, block_bytes=block_bytes)


def _positive(values: Mapping[str, SettingValue | None], computed: Setting) -> int:
    """The number in force; the computed one where that is ``auto``, 0 for no limit, or not known."""
    for value in (values.get(computed.name), computed.value):
        if re.fullmatch(r"[1-9]\d*", str(value)):
            return int(str(value))
    return 1
