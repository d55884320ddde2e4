"""Combine all rules into the plan of a query, and say how much of a source of any size is loaded at a time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from airflow_provider_ch_s3.clickhouse.statement import SettingValue
from airflow_provider_ch_s3.common.text import GIB, did_you_mean
from airflow_provider_ch_s3.errors import ConfigError, PlanError
from airflow_provider_ch_s3.tuning import insert
from airflow_provider_ch_s3.tuning.facts import LoadFacts, PastLoad, Reduction, Senders
from airflow_provider_ch_s3.tuning.predict import (
    Prediction,
    describe_basis,
    few_parts_seconds,
    predict,
    trusted_range,
)
from airflow_provider_ch_s3.tuning.rule import (
    Decision,
    Facts,
    PlanFacts,
    Rule,
    ServerSetting,
    Setting,
    SettingOrigin,
    is_same,
)
from airflow_provider_ch_s3.tuning.rules import KEPT, RULES


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The settings of a query.

    :param settings: in the order of the rules, followed by further settings given by the user.
    :param left_out: computed settings that the server does not accept, each with the reason.
    :param kept: settings that stay at their defaults, whatever the server's profiles say.
    """

    settings: tuple[Setting, ...]
    left_out: Mapping[str, str]
    kept: tuple[Setting, ...] = ()

    @property
    def all(self) -> tuple[Setting, ...]:
        """All settings with a value."""
        return tuple(setting for setting in (*self.settings, *self.kept) if setting.value is not None)

    @property
    def sent(self) -> dict[str, SettingValue]:
        """The values to send."""
        return {setting.name: setting.value for setting in self.all if setting.is_sent and setting.value is not None}

    @property
    def in_text(self) -> dict[str, SettingValue]:
        """The settings for the SETTINGS clause of a statement that people read."""
        notable = {setting.name for setting in self.all if setting.is_notable}
        return {name: value for name, value in self.sent.items() if name in notable}

    @property
    def guards(self) -> dict[str, SettingValue]:
        """Settings that every node has anyway, sent with the request in case a profile changes."""
        in_text = self.in_text
        return {name: value for name, value in self.sent.items() if name not in in_text}

    def describe(self) -> str:
        """The settings for a log, with their reasons, without guards that have the server's own value."""
        notable = [setting for setting in self.all if setting.is_notable]
        lines = [f"  {s.name} = {s.value}  [{s.origin.value}] {s.reason}" for s in notable]
        return "\n".join([*lines, *(f"  {name} left out: {why}" for name, why in self.left_out.items())])


@dataclass(frozen=True, kw_only=True)
class LoadPlan(Plan):
    """The settings of a load, and the expected outcome.

    :param basis: where the constants of the prediction come from.
    :param few_parts_seconds: seconds from the start of the INSERT until few parts are left; None if few are made, or
        merges leave more.
    :param trusted_range: how many times the predicted seconds the load may take, least and most.
    :param sends_rows: nodes send rows to their shards.
    :param reduction: how far the load is reduced.
    """

    prediction: Prediction
    basis: str
    few_parts_seconds: float | None = None
    trusted_range: tuple[float, float] = (1.0, 1.0)
    sends_rows: bool = False
    reduction: Reduction = field(default_factory=Reduction)


def plan_load(
    facts: LoadFacts,
    *,
    server: Mapping[str, ServerSetting],
    operator: Mapping[str, SettingValue] | None = None,
    connection: Mapping[str, SettingValue] | None = None,
) -> LoadPlan:
    """Compute every setting; the operator's values override the connection's, and both override computed values.

    :param server: all settings of the server (``system.settings``).
    :raises ConfigError: if the user gave a setting that does not exist or may not be changed, or another value for a
        pinned setting.
    :raises PlanError: if a pinned setting has another value, and this user may not change it.
    """
    operator, connection = operator or {}, connection or {}
    facts = replace(facts, given_senders=_given_senders(facts, {**connection, **operator}, server))
    plan = plan_query(RULES, facts, server=server, operator=operator, connection=connection)
    prediction = _predict(facts, plan, server)
    return LoadPlan(
        settings=plan.settings,
        kept=plan.kept,
        left_out=plan.left_out,
        prediction=prediction,
        basis=describe_basis(facts),
        few_parts_seconds=few_parts_seconds(facts, prediction),
        trusted_range=trusted_range(facts),
        sends_rows=facts.senders is not Senders.NONE,
        reduction=facts.reduction,
    )


def _given_senders(
    facts: LoadFacts, given: Mapping[str, SettingValue], server: Mapping[str, ServerSetting]
) -> Senders | None:
    """Which nodes send rows, if the user or a profile decides; None if the plan decides.

    :raises PlanError: if the user's profile would have rows written to shards where they do not belong.
    """
    rule = insert.parallel_distributed_insert_select
    best, reason = rule(facts)
    value, known = given.get(rule.__name__), server.get(rule.__name__)
    if value is None and best is not None and known is not None and not known.takes(best):
        value = known.value
        if not facts.keeps_rows_where_read and not is_same(value, Senders.ONE.value):
            check_profile(Setting(name=rule.__name__, value=best, reason=reason), server)
    if value is None:
        return None
    # ClickHouse takes any other value for 1.
    return next((one for one in (Senders.ONE, Senders.NONE) if is_same(value, one.value)), Senders.ALL)


def plan_query(
    rules: Sequence[Rule[Facts]],
    facts: Facts,
    *,
    server: Mapping[str, ServerSetting],
    operator: Mapping[str, SettingValue],
    connection: Mapping[str, SettingValue],
) -> Plan:
    """Compute the settings of any query by the query's rules, and keep the remaining settings; as :func:`plan_load`.

    :raises ConfigError: as :func:`plan_load`; the same for PlanError.
    """
    given = check_given_settings(server, operator=operator, connection=connection)
    kept = _keep(facts, given, server)
    settings: list[Setting] = []
    left_out: dict[str, str] = {}
    for rule in rules:
        setting = rule.apply(facts)
        if rule.is_pinned:
            _check_pinned(setting, given, server)
        if setting.name in given:
            settings.append(_given_setting(setting.name, given.pop(setting.name), computed=setting.value))
        elif setting.name not in server:
            if setting.value is not None:
                left_out[setting.name] = "this server does not have it"
        elif setting.value is None:
            default = server[setting.name].value
            settings.append(replace(setting, value=default, origin=SettingOrigin.SERVER, is_notable=False))
        elif not server[setting.name].takes(setting.value):
            left_out[setting.name] = f"this user may not change it from {server[setting.name].value}"
        else:
            settings.append(replace(setting, is_notable=not rule.is_guard or _differs(setting, server)))
    settings.extend(_given_setting(name, value, computed=None) for name, value in given.items())
    return Plan(settings=tuple(settings), kept=kept, left_out=left_out)


def check_given_settings(
    server: Mapping[str, ServerSetting],
    *,
    operator: Mapping[str, SettingValue],
    connection: Mapping[str, SettingValue],
) -> dict[str, tuple[SettingValue, SettingOrigin]]:
    """Merge the settings of the operator and of the connection.

    :returns: name → value with origin.
    :raises ConfigError: if a value is None, a setting does not exist on the server, or the user may not change it.
    """
    given = {name: (value, SettingOrigin.CONNECTION) for name, value in connection.items()}
    given |= {name: (value, SettingOrigin.OPERATOR) for name, value in operator.items()}
    for name, (value, origin) in given.items():
        if value is None:
            raise ConfigError(
                "setting-invalid", f"the {origin} sets {name!r} to None; give it a value, or leave it out"
            )
        if name not in server:
            hint = did_you_mean(name, server, otherwise="check its spelling and the server's version")
            raise ConfigError(
                "setting-unknown", f"the {origin} sets {name!r}, which does not exist on this server; {hint}"
            )
        if taken := server[name].refusal(value):
            raise ConfigError("setting-invalid", f"the {origin} sets {name!r} to {value!r}; it takes {taken}")
        if server[name].is_readonly:
            raise ConfigError(
                "setting-not-allowed",
                f"the {origin} sets {name!r}, which the ClickHouse user may not change; leave it out, or change"
                " the user's profile",
            )
    return given


def _check_pinned(
    setting: Setting, given: Mapping[str, tuple[SettingValue, SettingOrigin]], server: Mapping[str, ServerSetting]
) -> None:
    if setting.value is None:
        return
    value, origin = given.get(setting.name, (setting.value, SettingOrigin.COMPUTED))
    if not is_same(value, setting.value):
        raise ConfigError(
            "setting-not-allowed",
            f"the {origin} sets {setting.name!r} to {value!r}, but {_needed(setting)}; leave it out",
        )
    check_profile(setting, server)


def check_profile(setting: Setting, server: Mapping[str, ServerSetting]) -> None:
    """Check that the user may send a setting without which the query would be wrong or fail.

    :raises PlanError: if another value is fixed; names the line of the profile.
    """
    known = server.get(setting.name)
    if known is None or setting.value is None or is_same(known.value, setting.value) or known.takes(setting.value):
        return
    raise PlanError(
        "profile-fixes-setting",
        f"the ClickHouse user's profile fixes {setting.name!r} to {known.value!r}, but {_needed(setting)}; change the"
        f" profile: {setting.name} = {setting.value!r}",
    )


def _needed(setting: Setting) -> str:
    return f"a load needs {setting.value!r}: {setting.reason}"


def _keep(
    facts: PlanFacts, given: dict[str, tuple[SettingValue, SettingOrigin]], server: Mapping[str, ServerSetting]
) -> tuple[Setting, ...]:
    """The settings that keep rows from being dropped; removes them from ``given``."""
    settings = [rule.apply(facts) for rule in KEPT if rule.name in server]
    for setting in settings:
        _check_pinned(setting, given, server)
        if setting.value is not None:
            given.pop(setting.name, None)
    return tuple(
        replace(setting, is_notable=_differs(setting, server))
        for setting in settings
        if setting.value is not None and server[setting.name].takes(setting.value)
    )


def _differs(setting: Setting, server: Mapping[str, ServerSetting]) -> bool:
    """Whether any node's own value differs from the sent value."""
    known = server[setting.name]
    return setting.value is not None and not (known.is_even and is_same(setting.value, known.value))


def _given_setting(name: str, given: tuple[SettingValue, SettingOrigin], *, computed: SettingValue | None) -> Setting:
    value, origin = given
    instead = f", instead of the computed {computed}" if computed not in (None, value) else ""
    return Setting(name=name, value=value, origin=origin, reason=f"set by the {origin}{instead}")


def _predict(facts: LoadFacts, plan: Plan, server: Mapping[str, ServerSetting]) -> Prediction:
    left_out = {name: server[name].value for name in plan.left_out if name in server}
    values = left_out | {setting.name: setting.value for setting in plan.settings}
    threads = facts.senders_per_node * _positive(values.get("max_insert_threads"), insert.max_insert_threads(facts))
    block_bytes = _positive(values.get("min_insert_block_size_bytes"), insert.min_insert_block_size_bytes(facts))
    return predict(facts, threads=threads, block_bytes=block_bytes)


def _positive(in_effect: SettingValue | None, computed: Decision) -> int:
    """The number in effect; the computed number if the value in effect is ``auto``, 0 (no limit) or unknown."""
    for value in (in_effect, computed.value):
        if re.fullmatch(r"[1-9]\d*", str(value)):
            return int(str(value))
    return 1


# What is lost with a node, or fails, is loaded again; what a chunk costs besides its rows is a few seconds.
CHUNK_SECONDS = 600.0
# Rows of Parquet files take about three times their size in memory, and 6.5 core seconds for each GiB of that.
STORED_CORE_SECONDS_PER_GIB = 20.0


def plan_chunk_bytes(cores: int, past: Iterable[PastLoad]) -> int:
    """Return the stored size of the files that a cluster loads in some minutes.

    :param cores: of all nodes.
    :param past: earlier loads into the table; the slowest counts, since the format of the files is not known yet.
    """
    measured = [load.core_seconds_per_gib * load.volume_ratio for load in past]
    return int(CHUNK_SECONDS * cores / max(measured, default=STORED_CORE_SECONDS_PER_GIB) * GIB)
