"""ClickHouse's own example data sets, in the form in which they are published, into tables that the load creates.

The rows are generated, and stay as Python values beside the files: the table is compared with them column by column.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_ch_s3.arguments import Format
from airflow_provider_ch_s3.table.new_table import CreateTable
from tests.sandbox.conftest import Lab

pytestmark = pytest.mark.sandbox

ROWS = 300
Columns = dict[str, list[Any]]

# https://github.com/ClickHouse/ClickBench, clickhouse/create.sql: 105 columns, in their order
HITS = """
WatchID Int64 JavaEnable Int16 Title String GoodEvent Int16 EventTime DateTime EventDate Date CounterID Int32
ClientIP Int32 RegionID Int32 UserID Int64 CounterClass Int16 OS Int16 UserAgent Int16 URL String Referer String
IsRefresh Int16 RefererCategoryID Int16 RefererRegionID Int32 URLCategoryID Int16 URLRegionID Int32
ResolutionWidth Int16 ResolutionHeight Int16 ResolutionDepth Int16 FlashMajor Int16 FlashMinor Int16
FlashMinor2 String NetMajor Int16 NetMinor Int16 UserAgentMajor Int16 UserAgentMinor String CookieEnable Int16
JavascriptEnable Int16 IsMobile Int16 MobilePhone Int16 MobilePhoneModel String Params String IPNetworkID Int32
TraficSourceID Int16 SearchEngineID Int16 SearchPhrase String AdvEngineID Int16 IsArtifical Int16
WindowClientWidth Int16 WindowClientHeight Int16 ClientTimeZone Int16 ClientEventTime DateTime
SilverlightVersion1 Int16 SilverlightVersion2 Int16 SilverlightVersion3 Int32 SilverlightVersion4 Int16
PageCharset String CodeVersion Int32 IsLink Int16 IsDownload Int16 IsNotBounce Int16 FUniqID Int64
OriginalURL String HID Int32 IsOldCounter Int16 IsEvent Int16 IsParameter Int16 DontCountHits Int16 WithHash Int16
HitColor String LocalEventTime DateTime Age Int16 Sex Int16 Income Int16 Interests Int16 Robotness Int16
RemoteIP Int32 WindowName Int32 OpenerName Int32 HistoryLength Int16 BrowserLanguage String BrowserCountry String
SocialNetwork String SocialAction String HTTPError Int16 SendTiming Int32 DNSTiming Int32 ConnectTiming Int32
ResponseStartTiming Int32 ResponseEndTiming Int32 FetchTiming Int32 SocialSourceNetworkID Int16
SocialSourcePage String ParamPrice Int64 ParamOrderID String ParamCurrency String ParamCurrencyID Int16
OpenstatServiceName String OpenstatCampaignID String OpenstatAdID String OpenstatSourceID String UTMSource String
UTMMedium String UTMCampaign String UTMContent String UTMTerm String FromTag String HasGCLID Int16 RefererHash Int64
URLHash Int64 CLID Int32
"""
HITS_TYPES = dict(zip(HITS.split()[::2], HITS.split()[1::2], strict=True))
HITS_TIMES = {name: kind for name, kind in HITS_TYPES.items() if kind in ("DateTime", "Date")}
KEYS = ("CounterID", "EventDate", "UserID", "EventTime", "WatchID")
START = datetime(2013, 7, 1, tzinfo=UTC)


def hits_value(row: int, place: int, kind: str) -> Any:
    """Generate a value; the extreme ones of each type are among them."""
    bits = {"Int16": 16, "Int32": 32, "Int64": 64}.get(kind)
    if bits:
        extremes = {0: -(2 ** (bits - 1)), 1: 2 ** (bits - 1) - 1}
        return extremes.get(row, (row * 7919 + place) % 2 ** (bits - 1))
    match kind:
        case "DateTime":
            return START + timedelta(seconds=row * 997 + place)
        case "Date":
            return (START + timedelta(seconds=row * 997)).date()
    return "" if place % 4 == 0 else f"tab\t, line\n, \\ and “{row} {place}”" if row % 50 == 0 else f"{place} {row}"


def hits() -> Columns:
    return {
        name: [hits_value(row, place, kind) for row in range(ROWS)]
        for place, (name, kind) in enumerate(HITS_TYPES.items())
    }


def found_in(lab: Lab, table: str, order: str) -> tuple[dict[str, str], Columns]:
    """Read the types of a table's columns, and all values, in an order."""
    where = f"database = '{lab.database}' AND table = '{table}'"
    types = {row["name"]: row["type"] for row in lab.query(f"SELECT name, type FROM system.columns WHERE {where}")}
    rows = lab.query(f"SELECT * FROM {lab.database}.{table} ORDER BY {order}")
    return types, {name: [row[name] for row in rows] for name in types}


def printed(value: Any) -> Any:
    """Write a value as the sandbox's client does."""
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    return str(value) if isinstance(value, date) else value


def check(found: Columns, wanted: Columns, order: str, read: Callable[[Any], Any] = printed) -> None:
    """Compare values column by column; all columns are named whose values differ."""
    places = sorted(range(ROWS), key=lambda place: wanted[order][place])
    differing = {
        name: next((a, b) for a, b in zip(found[name], wanted_values, strict=True) if a != b)
        for name, values in wanted.items()
        if found[name] != (wanted_values := [read(values[place]) for place in places])
    }
    assert differing == {}
    assert list(found) == list(wanted)


def hits_parquet(columns: Columns) -> pa.Table:
    """Build the published file: times and dates are plain integers, and texts are marked as bytes."""
    arrow = {
        "Int16": pa.int16(),
        "Int32": pa.int32(),
        "Int64": pa.int64(),
        "DateTime": pa.int64(),
        "Date": pa.uint16(),
    }
    fields = [pa.field(name, arrow.get(kind, pa.binary()), nullable=False) for name, kind in HITS_TYPES.items()]
    values = {name: [as_integer(value) for value in columns[name]] for name in HITS_TYPES}
    return pa.table(values, schema=pa.schema(fields))


def as_integer(value: Any) -> Any:
    if isinstance(value, datetime):
        return int(value.timestamp())
    return (value - date(1970, 1, 1)).days if isinstance(value, date) else value


def without_low_cardinality(types: Mapping[str, str]) -> dict[str, str]:
    return {name: re.sub(r"^LowCardinality\((.*)\)$", r"\1", kind) for name, kind in types.items()}


@pytest.mark.thorough
def test_hits_as_parquet(lab: Lab) -> None:
    columns = hits()
    lab.put_parquet("in/hits_0.parquet", hits_parquet({name: v[: ROWS // 2] for name, v in columns.items()}))
    lab.put_parquet("in/hits_1.parquet", hits_parquet({name: v[ROWS // 2 :] for name, v in columns.items()}))
    lab.load("in/*.parquet", "hits", create_table="auto")
    types, found = found_in(lab, "hits", "FetchTiming")
    # nothing in the files says that these are times
    integers = {name: {"DateTime": "Int64", "Date": "UInt16"}[kind] for name, kind in HITS_TIMES.items()}
    assert without_low_cardinality(types) == {**HITS_TYPES, **integers}
    check(found, columns, "FetchTiming", as_integer)

    times = {name: f"to{kind}({name})" for name, kind in HITS_TIMES.items()}
    lab.load("in/*.parquet", "official", create_table=CreateTable(order_by=KEYS), select=times, task_id="official")
    types, found = found_in(lab, "official", "FetchTiming")
    assert without_low_cardinality(types) == HITS_TYPES
    check(found, columns, "FetchTiming")


def tsv_field(value: Any) -> str:
    if value is None:
        return r"\N"
    text = str(printed(value))
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")


def tsv_gz(columns: Columns, *, has_names: bool) -> bytes:
    lines = ["\t".join(map(tsv_field, row)) for row in zip(*columns.values(), strict=True)]
    return gzip.compress(
        "".join(f"{line}\n" for line in (["\t".join(columns)] if has_names else []) + lines).encode()
    )


@pytest.mark.thorough
def test_hits_as_tsv(lab: Lab) -> None:
    columns = hits()
    lab.put("in/hits.tsv.gz", tsv_gz(columns, has_names=False))
    structure = ", ".join(f"{name} {kind}" for name, kind in HITS_TYPES.items())
    lab.load("in/*.tsv.gz", "hits", create_table=CreateTable(order_by=KEYS), data_format=Format(structure=structure))
    types, found = found_in(lab, "hits", "FetchTiming")
    assert types == HITS_TYPES
    check(found, columns, "FetchTiming")


PAYMENTS = ("CSH", "CRE", "NOC", "DIS", "UNK")
# official type, and what can be told from the files
TRIPS = {
    "trip_id": ("UInt32", "Int64"),
    "pickup_datetime": ("DateTime", "DateTime"),
    "dropoff_datetime": ("DateTime", "DateTime"),
    "pickup_longitude": ("Nullable(Float64)", "Nullable(Float64)"),
    "pickup_latitude": ("Nullable(Float64)", "Nullable(Float64)"),
    "dropoff_longitude": ("Nullable(Float64)", "Nullable(Float64)"),
    "dropoff_latitude": ("Nullable(Float64)", "Nullable(Float64)"),
    "passenger_count": ("UInt8", "Int64"),
    "trip_distance": ("Float32", "Float64"),
    "fare_amount": ("Float32", "Float64"),
    "extra": ("Float32", "Float64"),
    "tip_amount": ("Float32", "Float64"),
    "tolls_amount": ("Float32", "Float64"),
    "total_amount": ("Float32", "Float64"),
    "payment_type": (
        "Enum8('CSH' = 1, 'CRE' = 2, 'NOC' = 3, 'DIS' = 4, 'UNK' = 5)",
        "String",
    ),
    "pickup_ntaname": ("LowCardinality(String)", "String"),
    "dropoff_ntaname": ("LowCardinality(String)", "String"),
}
TRIP_FILES = 3


def trips() -> Columns:
    """Generate the columns of https://clickhouse.com/docs/get-started/sample-datasets/nyc-taxi.

    All fractions are ones that a Float32 holds.
    """

    def value(name: str, row: int) -> Any:
        match TRIPS[name][0]:
            case "DateTime":
                return datetime(2015, 7, 1, tzinfo=UTC) + timedelta(seconds=row * 61 + len(name))
            case "Nullable(Float64)":
                return None if row % 40 == 7 else -73.98 - row / 100_000
            case "Float32":
                return row / 4 + len(name)
            case "UInt32":
                return 1_200_000_000 + row
            case "UInt8":
                return row % 7
        return PAYMENTS[row % 5] if name == "payment_type" else f"Turtle Bay-East Midtown {row % 60 or ''}".strip()

    return {name: [value(name, row) for row in range(ROWS)] for name in TRIPS}


@pytest.mark.thorough
def test_trips(lab: Lab) -> None:
    """The published files are named ``trips_0.gz``, so their format has to be said."""
    columns = trips()
    for number in range(TRIP_FILES):
        part = {name: values[number::TRIP_FILES] for name, values in columns.items()}
        lab.put(f"in/trips_{number}.gz", tsv_gz(part, has_names=True))
    published: dict[str, Any] = {"data_format": Format("TabSeparatedWithNames", compression="gz")}
    lab.load("in/trips_{0..2}.gz", "trips", create_table="auto", **published)
    types, found = found_in(lab, "trips", "trip_id")
    assert without_low_cardinality(types) == {name: kind for name, (_, kind) in TRIPS.items()}
    check(found, columns, "trip_id")

    official = {name: kind for name, (kind, _) in TRIPS.items()}
    create = CreateTable(order_by="pickup_datetime, dropoff_datetime", types=official)
    lab.load("in/trips_{0..2}.gz", "official", create_table=create, task_id="official", **published)
    types, found = found_in(lab, "official", "trip_id")
    assert types == official
    check(found, columns, "trip_id")


# https://clickhouse.com/docs/get-started/sample-datasets/uk-price-paid: what its INSERT computes from the 16 fields
PRICE_PAID_FIELDS = (
    "uuid_string String, price_string String, time String, postcode String, a String, b String, c String,"
    " addr1 String, addr2 String, street String, locality String, town String, district String, county String,"
    " d String, e String"
)
KINDS = {"T": "terraced", "S": "semi-detached", "D": "detached", "F": "flat", "O": "other"}
DURATIONS = {"F": "freehold", "L": "leasehold", "U": "unknown"}
PRICE_PAID = {
    "price": ("UInt32", "toUInt32(price_string)"),
    "date": ("Date", "toDate(parseDateTimeBestEffortUS(time))"),
    "postcode1": ("LowCardinality(String)", "splitByChar(' ', postcode)[1]"),
    "postcode2": ("LowCardinality(String)", "splitByChar(' ', postcode)[2]"),
    "type": (
        "Enum8('other' = 0, 'terraced' = 1, 'semi-detached' = 2, 'detached' = 3, 'flat' = 4)",
        f"transform(a, {list(KINDS)}, {list(KINDS.values())})",
    ),
    "is_new": ("UInt8", "b = 'Y'"),
    "duration": (
        "Enum8('unknown' = 0, 'freehold' = 1, 'leasehold' = 2)",
        f"transform(c, {list(DURATIONS)}, {list(DURATIONS.values())})",
    ),
    "addr1": ("String", "addr1"),
    "addr2": ("String", "addr2"),
    **{name: ("LowCardinality(String)", name) for name in ("street", "locality", "town", "district", "county")},
}


def price_paid() -> tuple[str, Columns]:
    """Generate the file, and what has to be in the table."""
    text, rows = io.StringIO(), []
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    for row in range(ROWS):
        day, kind, duration = date(1995, 1, 1) + timedelta(days=row * 31), "TSDFO"[row % 5], "FLU"[row % 3]
        places = [f'{word} {row % 9}, “the” "{word}"' for word in ("STREET", "", "TOWN", "DISTRICT", "COUNTY")]
        address = (f"FLAT {row}", "" if row % 2 else f"{row}A")
        postcode = "" if row % 50 == 3 else f"AB{row % 20} {row % 9}XY"
        price = 2**32 - 1 if row == 0 else 10_000 + row
        fields = [price, f"{day} 00:00", postcode, kind, "NY"[row % 2], duration, *address, *places, "A", "A"]
        writer.writerow([f"{{{row:032X}}}", *fields])
        split = (*postcode.split(), "", "")[:2]
        rows.append((price, day, *split, KINDS[kind], row % 2, DURATIONS[duration], *address, *places))
    return text.getvalue(), {name: [row[place] for row in rows] for place, name in enumerate(PRICE_PAID)}


def test_uk_price_paid(lab: Lab) -> None:
    """16 fields of text without a header, of which the official INSERT makes 14 columns."""
    text, columns = price_paid()
    lab.put("in/pp-complete.csv", text.encode())
    create = CreateTable(
        order_by="postcode1, postcode2, addr1, addr2", types={name: kind for name, (kind, _) in PRICE_PAID.items()}
    )
    select = {name: expression for name, (_, expression) in PRICE_PAID.items() if name != expression}
    lab.load(
        "in/pp-complete.csv",
        "uk_price_paid",
        create_table=create,
        data_format=Format(structure=PRICE_PAID_FIELDS),
        columns=list(PRICE_PAID),
        select=select,
    )
    types, found = found_in(lab, "uk_price_paid", "price")
    assert types == {name: kind for name, (kind, _) in PRICE_PAID.items()}
    check({name: found[name] for name in columns}, columns, "price")
