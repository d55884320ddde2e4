"""The verdict on the folder of an export, by what a reader finds there: it is complete, or it is not there."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field

from airflow_provider_ch_s3.export.manifest import MANIFEST, SUCCESS
from tests.faults import oracle
from tests.faults.oracle import Bag, Difference
from tests.faults.sources import Objects


@dataclass(frozen=True, kw_only=True)
class Folder:
    """All objects of a folder, as they were read once."""

    objects: dict[str, bytes] = field(repr=False)

    @classmethod
    def read(cls, store: Objects, prefix: str) -> Folder:
        found = store.read(f"{prefix}/")
        return cls(objects={key.removeprefix(f"{prefix}/"): body for key, body in found.items()})

    @property
    def is_complete(self) -> bool:
        return SUCCESS in self.objects

    @property
    def files(self) -> list[str]:
        return sorted(key for key in self.objects if key not in (MANIFEST, SUCCESS))

    def find_wrong(self, wanted: Bag) -> tuple[Difference, list[str]]:
        """Compare a complete folder with the rows that it has to hold, for readers that go by the manifest.

        :returns: the difference, and what else is wrong.
        """
        manifest = json.loads(self.objects[MANIFEST])
        notes = []
        if self.objects[SUCCESS].decode().strip() != manifest["query_id"]:
            notes.append("_SUCCESS is not that of the manifest")
        # keys in the manifest begin with the folder
        named = [file["key"].partition("/")[2] for file in manifest["files"]]
        found = self._rows([name for name in named if name in self.objects])
        if manifest["rows"] != found.total():
            notes.append(f"the manifest says {manifest['rows']} rows, and its files hold {found.total()}")
        return Difference.between(found, wanted), notes

    def find_doubled(self, wanted: Bag) -> int:
        """Count the rows that readers of all files see, beyond those that the folder has to hold."""
        return Difference.between(self._rows(self.files), wanted).extra

    def _rows(self, names: list[str]) -> Bag:
        return Counter(line for name in names for line in oracle.read_parquet(self.objects[name]))
