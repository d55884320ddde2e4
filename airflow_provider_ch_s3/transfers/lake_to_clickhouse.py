"""What the operators have in common that load tables of a lake in S3."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_ch_s3.common.arguments import check_text
from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.files.addresses import SourcePattern, parse_location
from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator

if TYPE_CHECKING:
    from airflow_provider_ch_s3.files.stores import ReadableStore
    from airflow_provider_ch_s3.lakes.store import LakeStore, OpenTable

# Arguments about files that somebody delivers into a folder, each with the value that asks for nothing.
OF_FOLDERS = {
    "data_format": "Parquet",
    "compression": None,
    "structure": None,
    "csv_dialect": None,
    "on_bad_rows": "fail",
    "on_loaded_files": "skip",
    "on_changed_files": "fail",
    "on_missing_files": "keep",
    "min_file_age": 0,
    "expected_files": None,
    "list_after_loaded": False,
    "after_load": "keep",
    "staging": True,
}


class LakeToClickHouseOperator(S3ToClickHouseOperator):
    """Load a table of a lake in S3 into a ClickHouse table, by snapshots; the base of one operator for each format.

    The snapshot is chosen once, and all of the load reads that one. ``append`` adds the files that were added to the
    lake's table since the snapshot that the ClickHouse table holds; files of a compaction add nothing; snapshots
    that removed rows are refused. The other modes load all rows of the snapshot. The files are read as plain Parquet
    files; a table is refused if these would have other rows than it has.

    All further arguments are those of :class:`S3ToClickHouseOperator`, but for those about files in a folder, such as
    ``min_file_age``, and ``staging``.

    :param source: location of the table, ``s3://bucket/folder/of/the/table``. (templated)
    :param snapshot: ``latest``; the id of a snapshot, or a version; or a time with its zone, such as
        ``"{{ data_interval_end }}"``: the last snapshot of that time. (templated)
    """

    template_fields = (*S3ToClickHouseOperator.template_fields, "snapshot")

    def __init__(self, *, source: str, snapshot: str = "latest", **kwargs: Any) -> None:
        super().__init__(source=source, **{"data_format": OF_FOLDERS["data_format"], **kwargs})
        self.snapshot = snapshot

    def find_table(self, source: str, files: ReadableStore) -> tuple[str, OpenTable]:
        """Find the location of the table, and import what reads its metadata.

        :raises ImportError: if that is not installed.
        """
        raise NotImplementedError

    def open_store(self) -> LakeStore:  # type: ignore[override]
        """Open the table in S3 with the connection.

        :raises ConfigError: if an argument is wrong, or the library of the format is not installed.
        """
        from airflow_provider_ch_s3.lakes.store import LakeStore

        check_text("source", self.source)
        check_text("snapshot", self.snapshot)
        for name, unset in OF_FOLDERS.items():
            if getattr(self, name) != unset:
                raise ConfigError(
                    f"{name}={getattr(self, name)!r} has no meaning for a table of a lake, whose snapshots say which"
                    " files it has and what they contain; remove it (load_mode='replace_table' loads all of a"
                    " snapshot again)"
                )
        files = super().open_store()
        try:
            location, open_table = self.find_table(str(self.source), files)
        except ImportError as error:
            extra = self.scheme.store.lower()
            raise ConfigError(
                f"loading {self.scheme.store} tables needs a library ({error}); on the workers, pip install"
                f" 'airflow-provider-ch-s3[{extra}]'"
            ) from error
        pattern = parse_location(location, self.scheme)
        return LakeStore(files=files, pattern=pattern, open_table=open_table, snapshot=self.snapshot)

    def read_source(self, store: LakeStore) -> SourcePattern:  # type: ignore[override]
        """Return the files in the table's location."""
        return store.pattern
