"""The columns of an Iceberg table: data files are read by names, and the table knows columns by ids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from functools import cached_property

from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema, index_by_id, index_name_by_id, sanitize_column_names
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.name_mapping import MappedField, NameMapping
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import ListType, MapType, StructType

from airflow_provider_ch_s3.errors import SnapshotError
from airflow_provider_ch_s3.lakes.functions import ICEBERG, Need, need
from airflow_provider_ch_s3.lakes.parquet import Field

REWRITE = (
    "rewrite the lake's data files (Spark: rewrite_data_files with rewrite-all=true), and load with"
    " mode='replace_table'"
)


_RENAMED = "renamed and re-added columns, and fields of structs"


class SnapshotColumns:
    """The columns of one snapshot, and whether data files have them under their names."""

    def __init__(self, metadata: TableMetadata, schema: Schema) -> None:
        self._metadata = metadata
        self._names = index_name_by_id(schema)
        self._fields = index_by_id(schema)
        self._ids = {name: number for number, name in self._names.items()}
        self.in_files = dict.fromkeys((one.name for one in schema.fields), False)
        self._written = index_name_by_id(sanitize_column_names(schema))

    @cached_property
    def needs(self) -> Sequence[Need]:
        """What the names alone need, whatever the files have."""
        other = next((name for number, name in self._names.items() if self._written[number] != name), "")
        refusal = SnapshotError(
            "lake-columns-renamed",
            f"writers give the column {other!r} another name in Parquet files, because Avro does not allow all of"
            f" its characters, and plain Parquet files are read by names; rename it, {REWRITE}",
        )
        return [need(ICEBERG, "names that Avro does not allow", refusal)] if other else []

    @cached_property
    def _were_always(self) -> bool:
        """Whether no name ever meant two columns, no column had two names, and no struct lost a field."""
        schemas = self._metadata.schemas
        pairs = {pair for schema in schemas for pair in index_name_by_id(schema).items()}
        ids, names = {number for number, _ in pairs}, {name for _, name in pairs}
        in_structs = any("." in name for name in names - self._ids.keys())  # servers read a struct as a whole
        is_known = ids == set(range(1, self._metadata.last_column_id + 1))
        are_all = {one.schema_id for one in schemas} == set(range(len(schemas)))
        return is_known and are_all and not in_structs and len(ids) == len(names) == len(pairs)

    @cached_property
    def _mapping(self) -> NameMapping | None:
        """The names in files without ids; None if the table does not say."""
        return self._metadata.name_mapping()

    @cached_property
    def _filled(self) -> Sequence[int]:
        return [number for number, one in self._fields.items() if one.initial_default is not None]

    def may_differ(self, file: DataFile, spec: PartitionSpec) -> bool:
        """Whether a file, according to the metadata alone, may have columns under wrong names, or lack columns."""
        is_known = self._were_always and self._mapping is None and not self._filled
        return not is_known or any(one not in (file.column_sizes or {}) for one in _identities(spec))

    def find_needs(self, address: str, fields: Sequence[Field], spec: PartitionSpec) -> Iterator[Need]:
        """Find what a file with these fields needs so that each column of the table has its values.

        :raises SnapshotError: if no server would read the values.
        """
        has = set(_ids_in(fields))
        is_mapped = not has
        if is_mapped:
            if self._mapping is not None:
                fields = self._identify(fields, tuple(self._mapping), None)
                if (name := next(_unidentified(fields), "")) and not self._were_always:
                    what = "has no field ids, and the mapping of names does not have the names inside of"
                    raise _unsupported(address, f"{what} the column {name!r}")
            elif self._were_always:
                fields = [Field(name=one.name, id=self._ids.get(one.name), children=()) for one in fields]
            else:
                raise _unsupported(address, "has no field ids, and the columns of the table have changed")
            has = set(_ids_in(fields))
        for feature, what in self._find_lacking(has, spec):
            yield need(ICEBERG, feature, _unsupported(address, what))
        if renamed := next(self._renamed(fields, None), ""):
            if is_mapped and any(one.children for one in fields):  # no server was measured
                raise _unsupported(address, f"has no field ids inside of its columns, and a column {renamed}")
            feature = "files without field ids, with a mapping of names" if is_mapped else _RENAMED
            refusal = SnapshotError(
                "lake-columns-renamed",
                f"{address} has a column {renamed}, and plain Parquet files are read by names; {REWRITE}",
            )
            yield need(ICEBERG, feature, refusal)

    def _identify(
        self, fields: Sequence[Field], mapping: Sequence[MappedField], parent: int | None
    ) -> Sequence[Field]:
        """Give fields the ids that belong to their names.

        :param parent: id of the column around the fields. In lists and maps, groups without a name of the mapping
            have the elements.
        """
        known = {name: one for one in mapping for name in one.names}
        around = self._fields.get(parent) if parent else None
        above = mapping if around and isinstance(around.field_type, ListType | MapType) else ()
        found = []
        for one in fields:
            mapped = known.get(one.name)
            # a name without parts counts as false
            number, inside = (None, above) if mapped is None else (mapped.field_id, mapped.fields)
            children = self._identify(one.children, inside, parent if mapped is None else number)
            found.append(Field(name=one.name, id=number, children=children))
        return found

    def _find_lacking(self, has: Set[int], spec: PartitionSpec) -> Iterator[tuple[str, str]]:
        """Say which values a file lacks that readers of Iceberg take from the metadata."""
        for one in _identities(spec):
            if one in self._names and one not in has:
                what = f"has the values of the partition column {self._names[one]!r} in the metadata only"
                yield "partition values only in the metadata", what
        for one in self._filled:
            if one not in has:
                what = f"lacks the column {self._names[one]!r}, which has an initial default for such rows"
                yield "initial defaults", what

    def _renamed(self, fields: Sequence[Field], parent: int | None) -> Iterator[str]:
        """Names of fields that are not the columns of these names, each with what became of the field."""
        around = self._written.get(parent, "") if parent else ""
        kind = self._fields[parent].field_type if parent else StructType()
        for one in fields:
            if isinstance(kind, ListType | MapType):
                if one.id is None:  # only groups the elements
                    yield from self._renamed(one.children, parent)
                    continue
                name = self._written.get(one.id, one.name)
            else:
                name = f"{around}.{one.name}" if around else one.name
            now = self._written.get(one.id or 0)
            if now == name:
                yield from self._renamed(one.children, one.id)
            elif now or name in self._written.values() or parent:
                yield f"{name!r} that was {f'renamed to {now!r}' if now else 'dropped'}"


def _unsupported(address: str, what: str) -> SnapshotError:
    return SnapshotError("lake-feature-unsupported", f"{address} {what}; {REWRITE}")


def _ids_in(fields: Sequence[Field]) -> Iterator[int]:
    for one in fields:
        if one.id is not None:
            yield one.id
        yield from _ids_in(one.children)


def _unidentified(fields: Sequence[Field]) -> Iterator[str]:
    """Names of the fields with an id whose parts have no ids."""
    for one in fields:
        if one.children and one.id is not None and next(_ids_in(one.children), None) is None:
            yield one.name
        yield from _unidentified(one.children)


def _identities(spec: PartitionSpec) -> Sequence[int]:
    return [one.source_id for one in spec.fields if isinstance(one.transform, IdentityTransform)]
