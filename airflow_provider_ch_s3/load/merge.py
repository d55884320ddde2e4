"""Check what a merge by key needs: keys and versions that decide, and rows that can be kept as they are."""

from __future__ import annotations

import difflib
from collections.abc import Collection

from airflow_provider_ch_s3.clickhouse.column_types import base_type
from airflow_provider_ch_s3.clickhouse.expressions import split_expressions
from airflow_provider_ch_s3.common.text import count_of, format_count, show_name
from airflow_provider_ch_s3.errors import CheckFailedError, ConfigError, ServerError, TargetError
from airflow_provider_ch_s3.exactly_once.target import Target
from airflow_provider_ch_s3.introspection.explain import is_about_expression
from airflow_provider_ch_s3.load.checks import check_all_seen
from airflow_provider_ch_s3.load.replace_where import check_keepable
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.sql import check_queries, merge_queries
from airflow_provider_ch_s3.sql.filters import identifier, short_identifier
from airflow_provider_ch_s3.table.merge_rule import MergeRule
from airflow_provider_ch_s3.table.row_check import describe_row
from airflow_provider_ch_s3.table.target import TableName, TargetSpec

SHOWN_ROWS = 5
FLOATS = frozenset({"Float32", "Float64", "BFloat16"})


def check_merge(target: Target, request: LoadRequest) -> None:
    """Check, before anything is staged, that the table has these keys, and that its other rows can be kept.

    :raises ConfigError: if a key or a version is not a stored column of the table, or cannot be compared.
    :raises TargetError: if the engine folds rows in another way, or this user does not see all rows of the table.
    :raises LoadError: if a change has not been written into the table's parts yet.
    """
    rule = request.merge
    if rule is None:
        return
    _check_columns(target.spec, rule)
    _check_engine(target.spec, rule)
    try:
        target.client.query(merge_queries.render_try_merge_key(target.spec.local, rule=rule))
    except ServerError as error:
        if not is_about_expression(str(error)):
            raise
        raise ConfigError(
            f"rows of {target.spec.name} cannot be compared by key={list(rule.key)!r}"
            f" and version={rule.version!r}: {error}; name columns of other types"
        ) from error
    check_keepable(target, "mode='merge'")


def _check_engine(target: TargetSpec, rule: MergeRule) -> None:
    engine = target.engine.removeprefix("Replicated").removeprefix("Shared")
    if engine not in ("MergeTree", "ReplacingMergeTree"):
        raise TargetError(
            f"{target.local} is a {target.engine} table, whose merges make other rows of those with the same sorting"
            " key, so that nobody can say which one is replaced; use mode='append', or a MergeTree table"
        )
    if engine == "MergeTree":
        return
    sorted_by = split_expressions(target.sorting_key)
    if lacking := [name for name in map(short_identifier, rule.key) if name not in sorted_by]:
        raise TargetError(
            f"{target.local} is a {target.engine} table sorted by {target.sorting_key}, without {lacking[0]} of"
            " key, so that its own merges leave one row of several keys; give as key only columns of the"
            " sorting key, or use a MergeTree table"
        )
    version = short_identifier(rule.version) if rule.version else ""
    own = next(iter(target.engine_arguments), "")
    if rule.collapses and version and own != version:
        kept = f"the greatest {own}" if own else "the row that was written last"
        raise TargetError(
            f"{target.local} is a {target.engine} table, whose merges keep {kept} of a key, not the greatest"
            f" {version}, perhaps while this load reads it; leave out Merge(duplicates='collapse'), and remove rows"
            f" that are too many with OPTIMIZE TABLE {target.local} FINAL"
        )


def _check_columns(target: TargetSpec, rule: MergeRule) -> None:
    stored = [column.name for column in target.columns if column.is_insertable]
    for argument, names in (("key", rule.key), ("version", rule.columns[len(rule.key) :])):
        for name in names:
            if name not in stored:
                raise ConfigError(
                    f"Merge({argument}=…) names {name!r}, which is not a stored column of {target.name};"
                    f" {_hint(name, stored)}"
                )
    if reserved := [name for name in stored if name.startswith("ch_s3_")]:
        raise TargetError(
            f"column {reserved[0]!r} of {target.name} begins with ch_s3_, which mode='merge' needs for itself;"
            " rename it"
        )
    if len(set(rule.columns)) < len(rule.columns):
        raise ConfigError(f"Merge(key=…, version=…) names a column twice ({', '.join(rule.columns)}); name it once")


def check_filled(target: TargetSpec, rule: MergeRule | None, filled: Collection[str]) -> None:
    """Check that the files give each row a key and a version.

    :param filled: columns of the table that the load fills.
    :raises ConfigError: if a column would get its DEFAULT in every row.
    """
    if rule is None:
        return
    for name in rule.columns:
        if name not in filled:
            raise ConfigError(
                f"Merge(key=…, version=…) names {name!r}, and the load does not fill this column of"
                f" {target.name}; add it to the files, to columns, or to select"
            )


def _hint(name: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"it has {', '.join(map(show_name, sorted(known)))}"


def check_staged_keys(target: Target, staged: TableName, rule: MergeRule) -> str:
    """Check that the staged rows say which one of a key is the newest; returns what was checked.

    :raises CheckFailedError: if a row has no key or no version, or two rows of a key contradict each other.
    :raises LoadError: if this user does not see all staged rows.
    """
    client, cluster = target.client, target.cluster.name
    condition = _is_unmergeable(target.spec, rule)
    counted = client.query(merge_queries.render_count_unmergeable(staged, cluster, condition=condition))[0]
    if unmergeable := counted["ch_s3_unmergeable"]:
        rows = client.query(
            check_queries.render_read_counted(
                staged, cluster, columns=rule.columns, condition=condition, limit_rows=SHOWN_ROWS
            )
        )
        raise CheckFailedError(
            f"{format_count(unmergeable)} of {count_of(counted['ch_s3_rows'], 'row')} from the files have no value"
            f" (NULL or NaN) in {', '.join(rule.columns)}, for example {', '.join(map(describe_row, rows))};"
            f" {target.spec.name} was not changed: correct the files, or leave those rows out with where",
            [],
        )
    check_all_seen(target, staged, seen=counted["ch_s3_rows"], unchecked="their keys cannot be compared")
    _check_zeros(target, staged, rule)
    rows = client.query(
        merge_queries.render_read_ambiguous(
            staged,
            cluster,
            rule=rule,
            columns=rule.compared_of([column.name for column in target.spec.columns if column.is_insertable]),
            limit_rows=SHOWN_ROWS,
        )
    )
    if rows:
        what, remedy = (
            "contain a key more than once",
            "name the column that says which row is newer in Merge(version=…)",
        )
        if rule.version:
            what = "contain a key more than once in the same version with different values"
            remedy = "correct the files"
        raise CheckFailedError(
            f"the files {what}, for example {', '.join(map(describe_row, rows))}, so that nobody can say which row is"
            f" the newest; {target.spec.name} was not changed: {remedy}, or leave the others out with where",
            [],
        )
    return f"the newest row of each {', '.join(rule.key)} is known"


def _check_zeros(target: Target, staged: TableName, rule: MergeRule) -> None:
    """Check that no key is -0.0: some servers (26.7) group it apart from 0.0, and find both where one is looked for.

    :raises CheckFailedError: if one is, in the files or in the table.
    """
    types = target.spec.column_types
    floats = [identifier(name) for name in rule.key if base_type(types[name]) in FLOATS]
    condition = " OR ".join(f"({name} = 0 AND 1 / {name} < 0)" for name in floats)
    if not condition:
        return
    for table, where in ((staged, "the files"), (target.spec.local, str(target.spec.local))):
        statement = merge_queries.render_count_unmergeable(table, target.cluster.name, condition=condition)
        if count := target.client.query(statement)[0]["ch_s3_unmergeable"]:
            raise CheckFailedError(
                f"{count_of(count, 'row')} of {where} have the key -0.0 in {', '.join(floats)}, and servers do not"
                f" agree whether that is 0.0; {target.spec.name} was not changed: make them 0.0 (in the files with"
                " select, in the table with ALTER TABLE … UPDATE), or leave them out with where",
                [],
            )


def _is_unmergeable(target: TargetSpec, rule: MergeRule) -> str:
    """Write the SQL condition that a row has no key or no version. NaN is neither: nothing is equal to it."""
    types = target.column_types
    floats = [name for name in rule.columns if base_type(types[name]) in FLOATS]
    return " OR ".join(
        [f"{identifier(name)} IS NULL" for name in rule.columns] + [f"isNaN({identifier(name)})" for name in floats]
    )
