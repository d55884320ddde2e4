"""Snapshots that plain Parquet does not tell: loaded by the servers' own functions, where these read them right."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ch_s3.errors import ServerError, SourceError
from airflow_provider_ch_s3.files.access import TableFunction
from airflow_provider_ch_s3.lakes.functions import DELTA, ICEBERG, Version
from airflow_provider_ch_s3.transfers.delta_to_clickhouse import DeltaToClickHouseOperator
from airflow_provider_ch_s3.transfers.iceberg_to_clickhouse import IcebergToClickHouseOperator
from airflow_provider_ch_s3.transfers.lake_to_clickhouse import LakeToClickHouseOperator
from ch_s3_lab.sandbox import Sandbox, SandboxConfig
from ch_s3_lab.sandbox.launch import running_sandbox
from ch_s3_lab.sandbox.s3_server import S3Server
from tests.failures import coded
from tests.lake_features import Case, Iceberg, Written
from tests.lake_shapes import CASES
from tests.lakes import COLUMNS, orders, server_of
from tests.marks import thorough
from tests.sandbox.conftest import Lab
from tests.sandbox.engine_in_process import answer_each
from tests.sandbox.test_lakes import load_by

pytestmark = [pytest.mark.sandbox, pytest.mark.every_case]

FEATURES: Mapping[str, Mapping[str, Version | None]] = {"iceberg": ICEBERG, "delta": DELTA}
OPERATORS: Mapping[str, type[LakeToClickHouseOperator]] = {
    "iceberg": IcebergToClickHouseOperator,
    "delta": DeltaToClickHouseOperator,
}
USUAL = {"iceberg_position_deletes", "delta_mapped_and_deleted"}
"""One case of each format that stands for the others."""
LOCATION = "lake/orders"
BUCKET = "lakes"
AS_NUMBERS = "output_format_json_quote_64bit_integers = 0, output_format_json_quote_decimals = 0"


def since(case: Case) -> Version | None:
    """The first version that reads a case right; plain files are read by all."""
    return FEATURES[case.kind][case.feature] if case.feature else (0, 0)


def bag(rows: Iterable[Mapping[str, Any]]) -> Counter[str]:
    return Counter(json.dumps(row, sort_keys=True, default=str) for row in rows)


class TestLoads:
    """By the operators, on the sandbox's engine."""

    @pytest.fixture
    def written(self, case: Case, lab: Lab, tmp_path: Path) -> Written:
        load_by(lab, OPERATORS[case.kind])
        return case.build(server_of(lab.sandbox), lab.bucket, LOCATION, tmp_path)

    @staticmethod
    def read(lab: Lab) -> list[dict[str, Any]]:
        found = [
            lab.query(f"SELECT * FROM {lab.database}.t_local SETTINGS {AS_NUMBERS}", node=node)
            for node in lab.nodes()
        ]
        return [row for rows in found for row in rows]

    @pytest.mark.thorough
    @pytest.mark.parametrize(
        "case", [case if str(case) in USUAL else thorough(case, id=str(case)) for case in CASES], ids=str
    )
    def test_each_snapshot_is_loaded_right_or_refused(self, lab: Lab, case: Case, written: Written) -> None:
        first = since(case)
        for number, (snapshot, rows) in enumerate(written.snapshots.items()):
            is_last = number == len(written.snapshots) - 1
            arguments = {"mode": "replace_table", "create_table": "auto", "snapshot": snapshot}
            table = f"{lab.database}.t"
            if case.refused or (is_last and (first is None or first > (26, 7))):
                with pytest.raises(SourceError, match=coded(case.refused) if case.refused else ""):
                    lab.load(written.location, table, task_id=f"load{number}", **arguments)
                return
            report = lab.load(written.location, table, task_id=f"load{number}", **arguments)
            assert report["snapshot"]["id"] == snapshot
            assert bag(self.read(lab)) == bag(rows)
            lab.ddl(*(f"DROP TABLE {lab.database}.{name} {{on_cluster}} SYNC" for name in ("t", "t_local")))

    @pytest.mark.thorough
    @pytest.mark.parametrize("case", [CASES[0]], ids=str)
    def test_append_goes_on_from_a_snapshot_with_deleted_rows(self, lab: Lab, case: Case, tmp_path: Path) -> None:
        new = Iceberg(server_of(lab.sandbox), lab.bucket, LOCATION, tmp_path)
        load_by(lab, OPERATORS[case.kind])
        lake = new.create(COLUMNS)
        table = lab.distribute(lab.create("t_local", "id Int64, city String, amount Float64"))
        lake.append(orders(*range(6)))
        lake.delete_by_position(1, 3)
        with pytest.raises(SourceError, match=coded("lake-rows-deleted", "delete files", "all modes but 'append'")):
            lab.load(LOCATION, table, task_id="refused")
        report = lab.load(LOCATION, table, task_id="whole", mode="replace_table")
        assert "4 rows read, as many as the footers count" in report["checks"]
        lake.append(orders(7))
        lab.load(LOCATION, table, task_id="added")
        found = [{**row, "amount": float(row["amount"])} for row in self.read(lab)]
        assert bag(found) == bag(lake.rows())


class TestEngines:
    """What each engine reads, compared with what the provider relies on."""

    @pytest.fixture(scope="class", params=[thorough("25.8"), thorough("26.7"), thorough("26.9")])
    def verdicts(
        self, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
    ) -> Iterator[tuple[Version, Mapping[Case, list[str]]]]:
        """Version, and what is wrong with the answers about each case."""
        engine = request.param
        config = SandboxConfig(shards=2, engine="26.7" if engine == "26.9" else engine)
        with running_sandbox(config) as sandbox:
            server = server_of(sandbox)
            server.client().create_bucket(Bucket=BUCKET)
            asked = []
            for number, case in enumerate(CASES):
                written = case.build(server, BUCKET, f"t{number}", tmp_path_factory.mktemp("catalog"))
                asked += [(case, *one) for one in questions(server, sandbox, case.kind, written, engine)]
            if engine == "26.9":
                answers = answer_each([one[1] for one in asked], tmp_path_factory.mktemp("engine"))
            else:
                answers = [ask(sandbox, one[1]) for one in asked]
            wrong = {case: [] for case in CASES}
            for (case, statement, rows), (error, answer) in zip(asked, answers, strict=True):
                if error or bag(map(json.loads, answer.splitlines())) != bag(rows):
                    wrong[case].append(f"{statement}: {error or answer}")
            major, _, minor = engine.partition(".")
            yield (int(major), int(minor)), wrong

    def test_what_is_relied_on_is_right_and_nothing_else(
        self, verdicts: tuple[Version, Mapping[Case, list[str]]]
    ) -> None:
        version, wrong = verdicts
        key = lambda case: (case.kind, case.feature)  # noqa: E731
        for (kind, feature), found in groupby(sorted(CASES, key=key), key=key):
            if not feature:
                continue
            first, faults = FEATURES[kind][feature], [fault for case in found for fault in wrong[case]]
            if first is not None and version >= first:
                assert not faults, feature
            elif feature != "files added twice":  # a matter of which node reads the file
                assert faults, f"{version} reads {feature} of {kind} right"


def questions(
    server: S3Server, sandbox: Sandbox, kind: str, written: Written, engine: str
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Statements about each snapshot, and the rows that each has to answer."""
    function = TableFunction.ICEBERG if kind == "iceberg" else TableFunction.DELTA
    address = f"{server.endpoint_url}/{BUCKET}/{written.location}/"
    place = f"'{address}', '{server.access_key}', '{server.secret_key}'"
    tables = [f"{function.value}({place})"]
    if engine != "26.9":  # a process without a server
        tables.append(f"{function.value}Cluster('{sandbox.cluster}', {place})")
    for snapshot, rows in written.snapshots.items():
        pin = "iceberg_snapshot_id" if kind == "iceberg" else "delta_lake_snapshot_version"
        settings = f"SETTINGS {pin} = {snapshot}, {AS_NUMBERS}"
        key, last = next(iter(rows[0])), list(rows[0])[-1]
        middle = sorted(row[key] for row in rows)[len(rows) // 2]
        for table in tables:
            yield f"SELECT * FROM {table} {settings}", rows
            yield (
                f"SELECT {last} FROM {table} {settings}".replace(last, f"`{last}`", 1),
                [{last: r[last]} for r in rows],
            )
            later = [row for row in rows if row[key] >= middle]
            yield f"SELECT * FROM {table} WHERE `{key}` >= {middle} {settings}", later


def ask(sandbox: Sandbox, statement: str) -> tuple[str, str]:
    try:
        return "", "\n".join(json.dumps(row) for row in sandbox.query(statement))
    except ServerError as error:
        return str(error), ""
