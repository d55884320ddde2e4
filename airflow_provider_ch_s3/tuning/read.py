"""How each node reads: threads, buffers, parsing.

Sources: ClickHouse's S3 performance guide; Altinity, "Tips for high-performance ClickHouse clusters with S3
object storage"; docs/architecture.md.
"""

from __future__ import annotations

from airflow_provider_ch_s3.tuning.facts import LoadFacts
from airflow_provider_ch_s3.tuning.setting import Setting
from airflow_provider_ch_s3.units import MIB, count_of, format_bytes

# The threads that read also sort and write, and what comes next is fetched meanwhile. With two for each core a load
# of 12 M rows took 1.0 to 1.1 times as long, with files in text, too, and with 30 ms for each request, and 1.3 times
# the memory (2 cores, medians of 3 to 6).
READERS_PER_CORE = 1
# What a reader holds of its file, decoded and not: 20 to 50 MiB for Parquet with row groups of 20 to 80 MiB.
READER_BYTES = 25 * MIB
# Fewer and larger pieces pass through the load: 2.36 s instead of 2.45 s on one node, 1.91 s instead of 2.06 s on
# three (12 M rows, medians of 6). Wide rows end a piece before, at 16 MiB.
PARQUET_CHUNK_ROWS = 262_144
SMALL_FILE_BYTES = 100 * MIB
SMALL_FILE_BUFFER_BYTES = 50 * MIB

# What lets files of a format lack columns that others have.
MISSING_COLUMNS_SETTINGS = {
    "Parquet": "input_format_parquet_allow_missing_columns",
    "ORC": "input_format_orc_allow_missing_columns",
    "Arrow": "input_format_arrow_allow_missing_columns",
    "ArrowStream": "input_format_arrow_allow_missing_columns",
    "Avro": "input_format_avro_allow_missing_fields",
}

_OTHER_FILES = "characters in the file names make ClickHouse open other files too, which may have other columns"


def count_readers(facts: LoadFacts) -> int:
    """Threads of one node that read; they sort and write, too."""
    return max(1, round(facts.vcpus * (facts.calibration.readers_per_core or READERS_PER_CORE)))


def readers_bytes(facts: LoadFacts) -> int:
    """Memory of all readers of one node, which the published formula leaves out; no more than they have to read."""
    return int(count_readers(facts) * min(READER_BYTES, facts.volume_bytes / facts.file_count))


def max_threads(facts: LoadFacts) -> Setting:
    """One a core. More are advised for queries on S3 (ClickHouse's S3 performance guide); a load was no faster."""
    if facts.calibration.readers_per_core is not None:
        reason = f"{facts.calibration.readers_per_core:g} a core were fastest when this cluster was tuned"
    else:
        reason = "one thread a core reads, sorts and writes; more only take turns, and hold more in memory"
    return Setting(name="max_threads", value=count_readers(facts), reason=reason)


def max_threads_min_free_memory_per_thread(_: LoadFacts) -> Setting:
    """What a reader holds; by default (26.7) the server drops readers that have less than 1 GiB."""
    return Setting(
        name="max_threads_min_free_memory_per_thread",
        value=READER_BYTES,
        reason=f"a reader holds some {format_bytes(READER_BYTES)}; with less free memory the server uses fewer, by"
        " default already below 1 GiB for each",
    )


def cluster_table_function_split_granularity(facts: LoadFacts) -> Setting:
    """Row groups instead of files where files are too few to keep all readers of all nodes busy.

    2 files with 12 M rows on 3 nodes settle after 2.5 s instead of 4.3 s: without it one node has nothing to do.
    """
    name = "cluster_table_function_split_granularity"
    readers = facts.node_count * facts.vcpus
    if not facts.is_clustered or facts.node_count == 1:
        return Setting(name=name, value=None, reason="one node reads all files")
    if facts.data_format != "Parquet":
        return Setting(name=name, value=None, reason=f"files in {facts.data_format} are read whole by one node each")
    if facts.file_count >= readers:
        reason = f"{facts.file_count} files are enough for the {readers} cores of {facts.node_count} nodes"
        return Setting(name=name, value=None, reason=reason)
    reason = f"{count_of(facts.file_count, 'file')} for {readers} cores: so nodes share the row groups of each file"
    return Setting(name=name, value="bucket", reason=reason)


def input_format_parallel_parsing(facts: LoadFacts) -> Setting:
    """Off where there are more files than readers: each file then has a thread of its own anyway.

    Source: Altinity measured 20 %.
    """
    name = "input_format_parallel_parsing"
    if not facts.is_text:
        return Setting(name=name, value=None, reason=f"{facts.data_format} is not parsed as text")
    if facts.files_per_node >= count_readers(facts):
        reason = f"with {count_of(facts.files_per_node, 'file')} per node every thread has one to itself"
        return Setting(name=name, value=0, reason=reason)
    reason = f"with {count_of(facts.files_per_node, 'file')} per node, pieces of files keep more threads busy"
    return Setting(name=name, value=None, reason=reason)


def input_format_parquet_max_block_size(facts: LoadFacts) -> Setting:
    """Larger pieces than the default's 65,409 rows."""
    name = "input_format_parquet_max_block_size"
    if facts.data_format != "Parquet":
        return Setting(name=name, value=None, reason=f"the files are {facts.data_format}")
    reason = "fewer, larger pieces cost less on their way from file to block; wide rows end one at 16 MiB"
    return Setting(name=name, value=PARQUET_CHUNK_ROWS, reason=reason)


def max_download_buffer_size(facts: LoadFacts) -> Setting:
    """A larger buffer, so that a small file arrives in one piece.

    Source: Altinity, for files under 100 MiB.
    """
    name, size = "max_download_buffer_size", format_bytes(facts.file_bytes)
    if facts.file_bytes < SMALL_FILE_BYTES:
        reason = f"files of {size} on average arrive in one piece"
        return Setting(name=name, value=SMALL_FILE_BUFFER_BYTES, reason=reason)
    return Setting(name=name, value=None, reason=f"files of {size} on average are read in pieces")


def s3_throw_on_zero_files_match(_: LoadFacts) -> Setting:
    """On: files that vanish after the listing are an error, not an empty success."""
    return Setting(
        name="s3_throw_on_zero_files_match",
        value=1,
        reason="files that vanish between listing and reading must fail the load, not empty it",
    )


def enable_parallel_replicas(_: LoadFacts) -> Setting:
    """Pinned off: the cluster function already spreads the files (ClickHouse issue 120488 inserted doubly)."""
    return Setting(
        name="enable_parallel_replicas",
        value=0,
        reason="the files are spread over the nodes already; replicas that spread them again read them twice",
    )


def use_hive_partitioning(facts: LoadFacts) -> Setting:
    """Off: the load takes the text of ``name=value/`` folders itself, where the server guesses a type for it."""
    name = "use_hive_partitioning"
    if facts.has_path_columns:
        return Setting(name=name, value=0, reason="the server would read code=007/ as the number 7")
    return Setting(name=name, value=None, reason="no folder is named like name=value")


def date_time_input_format(facts: LoadFacts) -> Setting:
    """Accept ISO 8601, with ``T``, ``Z`` and offsets, where text becomes a time."""
    name = "date_time_input_format"
    if facts.parses_times:
        reason = "text such as 2013-01-01T10:00:00Z becomes a time, which the basic parser refuses"
        return Setting(name=name, value="best_effort", reason=reason)
    return Setting(name=name, value=None, reason="no text becomes a time")


def date_time_overflow_behavior(_: LoadFacts) -> Setting:
    """A time that a column cannot hold is an error in a cast; by default it wraps, 2300-01-01 to 2120-07-26."""
    return Setting(
        name="date_time_overflow_behavior",
        value="throw",
        reason="a date or time that a column cannot hold must fail the load, not become another one",
    )


def input_format_null_as_default(_: LoadFacts) -> Setting:
    """Off: the same as ``insert_null_as_default``, where the files are parsed."""
    return Setting(
        name="input_format_null_as_default",
        value=0,
        reason="a NULL for a column that is not Nullable must fail the load, not become 0 or an empty text",
    )


def input_format_csv_empty_as_default(facts: LoadFacts) -> Setting:
    """On, as by default: the parser makes 0 of an empty field otherwise."""
    return _empty_as_default("input_format_csv_empty_as_default", ("CSV",), facts)


def input_format_tsv_empty_as_default(facts: LoadFacts) -> Setting:
    """On: the parser makes 0 of an empty field otherwise."""
    return _empty_as_default("input_format_tsv_empty_as_default", ("TSV", "TabSeparated"), facts)


def _empty_as_default(name: str, formats: tuple[str, ...], facts: LoadFacts) -> Setting:
    if facts.data_format.startswith(formats):
        return Setting(name=name, value=1, reason="an empty field is a NULL, not the number 0")
    return Setting(name=name, value=None, reason=f"{facts.data_format} has no empty fields of that kind")


def input_format_skip_unknown_fields(facts: LoadFacts) -> Setting:
    """Off unless the user chose columns: a column of a later file, or a row taken for a header, is not dropped."""
    name = "input_format_skip_unknown_fields"
    if facts.reads_other_files:
        return Setting(name=name, value=None, reason=_OTHER_FILES)
    if facts.takes_all_columns:
        reason = "a column that only some of the files have must fail the load, not be dropped"
        return Setting(name=name, value=0, reason=reason)
    return Setting(name=name, value=None, reason="columns or select say which columns are wanted")


def input_format_json_defaults_for_missing_elements_in_named_tuple(facts: LoadFacts) -> Setting:
    """Off: a field that a JSON object lacks would become 0 or an empty text inside of the Tuple."""
    name = "input_format_json_defaults_for_missing_elements_in_named_tuple"
    if facts.data_format.startswith("JSON"):
        return Setting(name=name, value=0, reason="a field that an object lacks must fail the load, not become 0")
    return Setting(name=name, value=None, reason=f"the files are {facts.data_format}")


def input_format_json_ignore_unknown_keys_in_named_tuple(facts: LoadFacts) -> Setting:
    """Off unless the user chose columns: a field that the Tuple lacks is not dropped."""
    name = "input_format_json_ignore_unknown_keys_in_named_tuple"
    if facts.data_format.startswith("JSON") and facts.takes_all_columns and not facts.reads_other_files:
        return Setting(name=name, value=0, reason="a field that the table lacks must fail the load, not be dropped")
    return Setting(name=name, value=None, reason="no field of an object has to find its place in a Tuple")


def input_format_parquet_allow_missing_columns(facts: LoadFacts) -> Setting:
    """Off: a file without a column that the others have would fill it with 0 or NULL."""
    return _allow_missing_columns("input_format_parquet_allow_missing_columns", facts)


def input_format_orc_allow_missing_columns(facts: LoadFacts) -> Setting:
    """Off, as for Parquet."""
    return _allow_missing_columns("input_format_orc_allow_missing_columns", facts)


def input_format_arrow_allow_missing_columns(facts: LoadFacts) -> Setting:
    """Off, as for Parquet."""
    return _allow_missing_columns("input_format_arrow_allow_missing_columns", facts)


def _allow_missing_columns(name: str, facts: LoadFacts) -> Setting:
    if facts.reads_other_files:
        return Setting(name=name, value=None, reason=_OTHER_FILES)
    if MISSING_COLUMNS_SETTINGS.get(facts.data_format) == name:
        return Setting(name=name, value=0, reason="a file that lacks a column of the load must fail it")
    return Setting(name=name, value=None, reason=f"the files are {facts.data_format}")
