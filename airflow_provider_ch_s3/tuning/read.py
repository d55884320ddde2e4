"""How each node reads: threads, buffers, parsing, and the server's own limit on the duration of a query."""

from __future__ import annotations

import math

from airflow_provider_ch_s3.common.text import MIB, count_of, format_bytes, format_seconds
from airflow_provider_ch_s3.files.access import StoreAccess
from airflow_provider_ch_s3.tuning.facts import LoadFacts
from airflow_provider_ch_s3.tuning.rule import Decision, PlanFacts

# The threads that read also sort and write, while the next data is being fetched. With two threads per core, a load
# of 12 M rows took 1.0 to 1.1 times as long and 1.3 times the memory, also with text files, and with 30 ms per
# request (2 cores, medians of 3 to 6).
READERS_PER_CORE = 1
# Data that a reader holds of a file, decoded or not: 20 to 50 MiB for Parquet with row groups of 20 to 80 MiB.
READER_BYTES = 25 * MIB
# Fewer and larger chunks pass through the load: 2.36 s instead of 2.45 s on one node, 1.91 s instead of 2.06 s on
# three (12 M rows, medians of 6). A chunk of wide rows ends earlier, at 16 MiB.
PARQUET_CHUNK_ROWS = 262_144
SMALL_FILE_BYTES = 100 * MIB
SMALL_FILE_BUFFER_BYTES = 50 * MIB

NULLS = "a NULL for a column that is not Nullable must fail the load, not become 0 or an empty string"
_OTHER_FILES = "characters in the file names make ClickHouse open other files too, which may have other columns"


def count_readers(facts: LoadFacts) -> int:
    """Number of reading threads on a node; they also sort and write."""
    readers = round(facts.vcpus * (facts.calibration.readers_per_core or READERS_PER_CORE))
    return max(1, readers >> (facts.reduction.memory + facts.reduction.readers))


def readers_bytes(facts: LoadFacts) -> int:
    """Memory of all readers of a node; ignored by the published formula; at most the size of the data."""
    return int(count_readers(facts) * min(READER_BYTES, facts.volume_bytes / facts.file_count))


def max_threads(facts: LoadFacts) -> Decision:
    """One per core: ClickHouse recommends more for queries on S3, but loads were no faster with more."""
    if facts.calibration.readers_per_core is not None:
        reason = f"{facts.calibration.readers_per_core:g} per core were fastest when this cluster was tuned"
    else:
        reason = "one thread per core reads, sorts and writes; more would only take turns and use more memory"
    if facts.reduction.memory or facts.reduction.readers:
        reason += f"; {facts.reduction}"
    return Decision(count_readers(facts), reason)


def cluster_table_function_split_granularity(facts: LoadFacts) -> Decision:
    """``bucket`` if there are fewer files than cores in the cluster: then nodes share the row groups of a file.

    2 files with 12 M rows on 3 nodes settle after 2.5 s instead of 4.3 s: otherwise one node would be idle.
    """
    readers = facts.node_count * facts.vcpus
    if facts.is_lake_function:
        return Decision("file", "the servers' function for a lake leaves out deleted rows in whole files only")
    if not facts.is_clustered or facts.node_count == 1:
        return Decision(None, "one node reads all files")
    if facts.file_count >= readers:
        reason = f"{facts.file_count} files are enough for the {readers} cores of {facts.node_count} nodes"
        return Decision(None, reason)
    reason = f"{count_of(facts.file_count, 'file')} for {readers} cores, so nodes share the row groups of each file"
    return Decision("bucket", reason)


def input_format_parallel_parsing(facts: LoadFacts) -> Decision:
    """Off (0) if there are at least as many files as readers: one thread per file is then 20 % faster."""
    if facts.files_per_node >= count_readers(facts):
        reason = f"with {count_of(facts.files_per_node, 'file')} per node every thread has a file of its own"
        return Decision(0, reason)
    reason = (
        f"with {count_of(facts.files_per_node, 'file')} per node, parsing files in pieces keeps more threads busy"
    )
    return Decision(None, reason)


def max_download_buffer_size(facts: LoadFacts) -> Decision:
    """50 MiB for files under 100 MiB, so that a small file arrives in one piece."""
    size = format_bytes(facts.file_bytes)
    if facts.file_bytes < SMALL_FILE_BYTES:
        reason = f"files of {size} on average arrive in one piece"
        return Decision(SMALL_FILE_BUFFER_BYTES, reason)
    return Decision(None, f"files of {size} on average are read in pieces")


def use_hive_partitioning(facts: LoadFacts) -> Decision:
    """Off (0) if folders are named ``name=value``: the load converts their text itself, the server guesses a type."""
    if facts.has_path_columns:
        return Decision(0, "the server would read code=007/ as the number 7")
    return Decision(None, "no folder is named like name=value")


def date_time_input_format(facts: LoadFacts) -> Decision:
    """``best_effort`` if text is converted to times: accepts ISO 8601, with ``T``, ``Z`` and offsets."""
    if facts.parses_times:
        reason = "text is converted to times, and the basic parser rejects text such as 2013-01-01T10:00:00Z"
        return Decision("best_effort", reason)
    return Decision(None, "no text is converted to times")


def input_format_null_as_default(facts: LoadFacts) -> Decision:
    """1 if NULL can only become an array, map or tuple without values: all single values are read as Nullable."""
    if facts.has_null_lists:
        return Decision(
            1, "null in place of a list or an object has no values; a single value that is null stays NULL"
        )
    return Decision(0, NULLS)


def skip_empty_end(facts: LoadFacts) -> Decision:
    """1 unless the files have one column: then an empty line is a row."""
    if facts.has_one_field:
        return Decision(0, "in files of one column, an empty line is an empty text")
    return Decision(1, "rows of several columns have delimiters, so an empty line at the end of a file is not a row")


def input_format_tsv_crlf_end_of_line(facts: PlanFacts) -> Decision:
    """1: a line may end as on Windows; 0 in raw formats."""
    if facts.format.is_escaped_tsv:
        return Decision(1, "a carriage return before the end of a line does not belong to the last field")
    return Decision(
        0, "in raw formats a carriage return belongs to the text; ClickHouse refuses one in the first row"
    )


def input_format_skip_unknown_fields(facts: LoadFacts) -> Decision:
    """Off (0) unless ``columns`` or ``select`` is given: a column that only later files have must not be dropped.

    The same is true for a row mistaken for a header.
    """
    if facts.reads_other_files:
        return Decision(None, _OTHER_FILES)
    if facts.takes_all_columns:
        reason = "a column that only some of the files have must fail the load, not be dropped"
        return Decision(0, reason)
    return Decision(None, "columns, select or Columns(on_new='ignore') say which columns are wanted")


def input_format_json_ignore_unknown_keys_in_named_tuple(facts: LoadFacts) -> Decision:
    """Off (0) unless ``columns`` or ``select`` is given: a field that the Tuple lacks must not be dropped."""
    if facts.takes_all_columns and not facts.reads_other_files:
        return Decision(0, "a field that the table lacks must fail the load, not be dropped")
    return Decision(None, "a field of an object may be left out")


def deny_missing_columns(facts: LoadFacts) -> Decision:
    """Off (0) unless ``Columns(on_missing=…)`` allows it: a column missing in one file is filled with 0 or NULL."""
    if facts.reads_other_files:
        return Decision(None, _OTHER_FILES)
    if facts.may_lack_columns:
        return Decision(1, "Columns(on_missing='default') fills columns that a file lacks")
    return Decision(0, "a file that lacks a column must fail the load")


def s3_allow_server_credentials_in_user_queries(facts: PlanFacts | StoreAccess) -> Decision:
    """1 if the servers read with their own role: from 26.7 on, they refuse this to queries by default."""
    if facts.uses_server_role:
        return Decision(
            1,
            "the servers are to reach the store with their own role, which ClickHouse 26.7 and later refuse to"
            " queries by default; the keys of a connection, NamedCollection(…) or Role(…) do without it",
        )
    return Decision(None, "the servers are given credentials")


def max_execution_time(facts: PlanFacts) -> Decision:
    """The task's ``execution_timeout``, in seconds: a dead worker cannot enforce the timeout, the server can."""
    if facts.timeout_seconds is None:
        return Decision(None, "the task has no execution_timeout")
    return Decision(
        math.ceil(facts.timeout_seconds),
        f"the task's execution_timeout is {format_seconds(facts.timeout_seconds)}, and the server enforces it"
        " even if the worker dies",
    )
