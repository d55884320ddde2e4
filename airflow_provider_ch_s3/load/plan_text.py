"""A plan as text, for the log of a load, where Airflow's UI folds it, and for ``ch-s3 plan``."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from airflow_provider_ch_s3.cluster.spec import ClusterSpec
from airflow_provider_ch_s3.common.text import GIB, count_of, format_bytes, format_count, format_estimate, with_facts
from airflow_provider_ch_s3.common.work import log_folded
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.files.file_format import file_extension, is_compressed
from airflow_provider_ch_s3.files.source import SourceFile, SourceSpec
from airflow_provider_ch_s3.load.prepare import PreparedLoad
from airflow_provider_ch_s3.load.selection import ChunkSelection, LeftOut
from airflow_provider_ch_s3.report import describe_snapshot
from airflow_provider_ch_s3.table.merge_rule import MergeRule
from airflow_provider_ch_s3.tuning import Setting
from airflow_provider_ch_s3.tuning.predict import FEW_PARTS

log = get_log(__name__)

# Airflow's UI cuts longer lines off at its right edge, if the window has the width of a laptop's screen.
LINE_LENGTH = 100


def format_summary(prepared: PreparedLoad, selection: ChunkSelection | None, mode: str) -> str:
    """Say in six lines what is listed, what the table holds already, what would be loaded, and what to expect.

    :param selection: what is new; None if the table does not exist yet.
    """
    source, target, left_out = prepared.source, prepared.target, selection.left_out if selection else LeftOut()
    new = selection.files if selection else source.files
    chunk = "" if prepared.chunk.is_only else f"; chunk {prepared.chunk.describe_share()}"
    rows = f", {count_of(source.rows, 'row')}" if source.rows is not None else ""
    young = f"{count_of(left_out.young_count, 'file')} younger than min_age" if left_out.young_count else ""
    skipped = "; ".join(filter(None, [left_out.describe_skipped().removeprefix("skipping "), young]))
    listed = f"{count_of(len(new) + left_out.count, f'{source.data_format} file')}{' and more' if chunk else ''}"
    found = f"{count_of(len(new), 'file')}, {format_bytes(source.size_bytes)}{rows}{chunk}"
    lines = [
        f"source    {source.origin}",
        f"listed    {listed}",
        f"skipped   {skipped or 'no file'}",
        f"new       {found if new else 'no file'}",
        f"table     {target.name} ({target.engine}), {count_of(len(prepared.mapping), 'column')}, mode {mode}",
        f"expected  {prepared.plan.prediction if new else 'nothing to load'}",
    ]
    advice = advise(prepared) if new else []
    return "\n".join([*lines, *(_wrap(f"advice    {text}", indent=10) for text in advice)])


def format_elsewhere(prepared: PreparedLoad) -> str:
    """Say what a load would take on the cluster that it was planned for, and how far to trust the answer."""
    node, plan = prepared.cluster.weakest, prepared.plan
    settings = ", ".join(
        f"{name} = {plan.sent[name]}"
        for name in ("max_insert_threads", "min_insert_block_size_bytes", "max_threads")
        if name in plan.sent
    )
    least, most = (plan.prediction.load_seconds * factor for factor in plan.trusted_range)
    few = (
        [f"merges    leave {count_of(FEW_PARTS, 'part')} after {format_estimate(plan.few_parts_seconds)}"]
        if plan.few_parts_seconds is not None
        else []
    )
    lines = [
        f"on        {prepared.cluster.node_count} x {count_of(node.vcpus, 'core')},"
        f" {format_bytes(node.memory_bytes)}: {plan.prediction}; {plan.basis}",
        f"with      {settings}",
        *few,
        f"trust     {format_estimate(least)} to {format_estimate(most)} to load: published loads took"
        f" {plan.trusted_range[0]:g} to {plan.trusted_range[1]:g} times the seconds of such a prediction",
    ]
    return "\n".join(_wrap(line, indent=10) for line in lines)


def format_plan(prepared: PreparedLoad, *, show_all: bool = False) -> str:
    """Format a plan: what is loaded, each setting with its origin and reason, what was left out, what to expect.

    :param show_all: include the guards that every node has by itself, and the SQL therefore leaves out.
    """
    source, plan, node = prepared.source, prepared.plan, prepared.cluster.weakest
    rows = count_of(source.rows, "row") if source.rows is not None else "number of rows unknown before reading"
    settings = plan.all
    shown = [setting for setting in settings if show_all or setting.is_notable]
    hidden = count_of(len(settings) - len(shown), "more setting")
    # in one line: an address may be long, and is copied as a whole
    files = (
        f"files     {format_count(len(source.files))} x {source.data_format}, {format_bytes(source.size_bytes)},"
        f" {rows}, from {source.origin}"
    )
    lines = [
        *([] if prepared.chunk.is_only else [f"chunk     {prepared.chunk.describe_share()}"]),
        *([f"snapshot  {describe_snapshot(prepared.chunk.facts)}"] if prepared.chunk.snapshots else []),
        f"table     {prepared.target.name} ({prepared.target.engine}), {count_of(len(prepared.mapping), 'column')}",
        *([f"merge     {_describe_merge(prepared, prepared.merge)}"] if prepared.merge else []),
        f"cluster   {prepared.cluster.node_count} x {count_of(node.vcpus, 'core')},"
        f" {format_bytes(node.memory_bytes)};"
        f" cores: {prepared.cluster.vcpus_origin.value}, memory: {prepared.cluster.memory_origin.value}",
        f"memory    {prepared.cluster.ingest_memory_ratio:.0%} per node, {prepared.sharing}",
        "settings",
        _format_settings(shown),
        *([] if show_all else [f"  {hidden} as the server has them: see `ch-s3 plan --all`"]),
        *(f"  {name} left out: {reason}" for name, reason in plan.left_out.items()),
        f"expected  {plan.prediction}; {plan.basis}",
        *(f"advice    {text}" for text in advise(prepared)),
    ]
    return "\n".join([files, *(_wrap(line, indent=10) for line in "\n".join(lines).splitlines())])


def _describe_merge(prepared: PreparedLoad, rule: MergeRule) -> str:
    newest = f", the newest by {rule.version}" if rule.version else ""
    expected = f"about {prepared.rewritten} by a sample of them, " if prepared.rewritten else ""
    return (
        f"by {', '.join(rule.key)}{newest}; rewrites the partitions that hold rows of these keys,"
        f" {expected}at most {prepared.held}"
    )


def advise(prepared: PreparedLoad) -> list[str]:
    """Say what would be faster or cheaper, in a sentence for each."""
    return [*_advise_files(prepared.source, prepared.cluster), *_advise_merge(prepared)]


def _advise_merge(prepared: PreparedLoad) -> list[str]:
    rule, target = prepared.merge, prepared.target
    if rule is None or not target.replaces_by_itself(rule.key, rule.version):
        return []
    return [
        f"{target.name} is a {target.engine}, whose own merges leave the newest row of a key some time after"
        " mode='append': that is cheaper, where queries read with FINAL, and no row deletes"
    ]


_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
# Of a compressed text file: one thread is busy with it for minutes, whatever else there is to do.
HUGE_FILE_BYTES = GIB


def _advise_files(source: SourceSpec, cluster: ClusterSpec) -> list[str]:
    """Say what about the files keeps the load from being fast, and the remedy, in a sentence for each."""
    compressed = [file for file in source.files if _is_compressed(file, source.compression)]
    is_parquet_like = source.format.is_read_in_parts
    split = "split the file" if len(source.files) == 1 else "split the files"
    advice = []
    waiting = cluster.node_count - len(source.files) if cluster.name else 0
    if waiting > 0 and (compressed or not source.format.has_footers):
        read = f"{_number(len(source.files))} node{'s read' if len(source.files) > 1 else ' reads'}"
        remedy = split if is_parquet_like else f"{split}, or write Parquet"
        advice.append(f"{read}, {_number(waiting)} wait{'' if waiting > 1 else 's'}: {remedy}")
    if compressed and is_parquet_like:
        advice.append(
            f"{compressed[0].key!r} is compressed twice: {source.data_format} compresses its own columns, and as a"
            " compressed file it is read by one thread from its first byte to its last: store it without"
        )
    if xz := [file for file in compressed if file_extension(file.key) == "xz" or source.compression in _XZ]:
        advice.append(f"{xz[0].key!r} is compressed with xz, which takes long to unpack: write .zst, or Parquet")
    largest = max(compressed, key=lambda file: file.size_bytes, default=None)
    if largest and not is_parquet_like and largest.size_bytes >= HUGE_FILE_BYTES:
        size = format_bytes(largest.size_bytes)
        advice.append(f"{largest.key!r} has {size}, which one thread unpacks: split the file, or write Parquet")
    return advice


_XZ = frozenset({"xz", "LZMA", "lzma"})


def _is_compressed(file: SourceFile, compression: str) -> bool:
    return is_compressed(file.key) if compression == "auto" else compression != "none"


def _number(count: int) -> str:
    return _NUMBERS[count] if count < len(_NUMBERS) else format_count(count)


def log_plan(prepared: PreparedLoad) -> None:
    """Log what is loaded and how, and what to do better; the settings are folded. Later chunks get one line."""
    if prepared.chunk.number > 1:
        log_folded(log, _describe_files(prepared), format_plan(prepared))
        return
    for note in prepared.cluster.notes:
        log.warning("%s", note)
    log.info("%s", _describe_files(prepared))
    facts = {"planned_seconds": prepared.plan.prediction.load_seconds}
    log.info("%s", with_facts(f"plan: {_summarize(prepared)}", facts))
    if prepared.merge:
        log.info("merge: %s", _describe_merge(prepared, prepared.merge))
    for text in advise(prepared):
        log.info("advice: %s", text)
    log_folded(log, "the settings that matter, with their reasons", format_plan(prepared))
    others = [setting for setting in prepared.plan.all if not setting.is_notable]
    log_folded(log, f"the other {count_of(len(others), 'setting')}", _format_settings(others))


def _describe_files(prepared: PreparedLoad) -> str:
    source = prepared.source
    rows = f", {count_of(source.rows, 'row')}" if source.rows is not None else ""
    chunk = "" if prepared.chunk.is_only else f", chunk {prepared.chunk.describe_share()}"
    return (
        f"{count_of(len(source.files), source.data_format + ' file')}, {format_bytes(source.size_bytes)}{rows}, from"
        f" {source.origin} into {prepared.target.name}{chunk}"
    )


def _summarize(prepared: PreparedLoad) -> str:
    values = {setting.name: setting.value for setting in prepared.plan.all}
    threads, block_bytes = values.get("max_insert_threads"), values.get("min_insert_block_size_bytes")
    pieces = [
        f"{prepared.cluster.node_count} x {count_of(int(threads), 'thread')}" if threads else "",
        f"blocks of {format_bytes(float(block_bytes))}" if block_bytes else "",
        str(prepared.plan.prediction),
    ]
    return ", ".join(filter(None, pieces))


def _format_settings(settings: Sequence[Setting]) -> str:
    return "\n".join(
        f"  {setting.name} = {setting.value}  [{setting.origin.value}]\n{_wrap(f'      {setting.reason}', indent=6)}"
        for setting in settings
    )


def _wrap(line: str, *, indent: int) -> str:
    """Wrap a line between words; further lines begin below the text."""
    return textwrap.fill(
        line,
        LINE_LENGTH,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
