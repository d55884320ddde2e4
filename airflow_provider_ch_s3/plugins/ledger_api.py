"""What the ledger says, as JSON, for the page "ClickHouse loads" and the tab "Load report".

Every route needs a login with the right to see plugins and task instances, and otherwise answers 401 or 403. Each
takes ``conn_id`` (a connection of the type ``clickhouse_s3`` or ``clickhouse`` that a load has used, or that the user
may read; default ``clickhouse_s3_default``) and ``ledger`` (``database.table``; default: the ledger of the
connection's own database, or else the first ledger on the server). Statements are read-only and bounded. A release
may add fields, and neither renames nor removes any.

``GET /ch-s3/api/loads?table=&dag=&state=&days=&after=&limit=``
    A page of the history, the newest first: a ``LoadsPage`` (``reporting/values.py``), and ``ledgers``, the names
    of all ledgers on the server. ``table`` is named as by the tasks, or is a local table. ``state`` is ``open``,
    ``committed``, ``undone`` or ``abandoned``; ``limit`` is at most 500.

``GET /ch-s3/api/load_files?load=&database=``
    The files of one load: a ``LoadFiles``. ``load`` is the id of a load, for all its attempts, or the query id of an
    INSERT, for a single attempt. ``database`` is the database of the loaded table: without ``ledger``, the ledger of
    this database is read. ``attempts`` has their ids and what they did, the newest first; ``files`` at most 1,000
    files with ``path``, ``etag``, ``size_bytes``, ``rows`` (None unless known), ``load_id``, ``attempt``, ``state``
    (``held``, ``replaced``, ``undone``, ``removed``, ``open``, ``abandoned``) and ``why``; ``is_cut`` whether there
    are more; ``skipped`` how many listed files were not loaded (``files``), and ``why``: the ledger does not name
    these files.

``GET /ch-s3/api/load_attempts?load=&database=``
    ``attempts`` alone, as of ``load_files``.

``GET /ch-s3/api/load_settings?load=&database=``
    The settings of an INSERT, or of the newest attempt of a load: a ``LoadSettings``.

``GET /ch-s3/api/table_files?table=&prefix=&after=``
    The files whose rows a table holds, at most 1,000: a ``TableFiles``.

Whatever prevents an answer is a sentence in ``detail``, without a host, port or login: 404 if the connection, ledger,
load or table does not exist, 502 if ClickHouse does not answer, or refuses.
"""

# Without `from __future__ import annotations`: FastAPI evaluates the annotations of the routes.

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated, Any, Literal

from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, DagAccessEntity
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag, requires_access_view
from fastapi import Depends, FastAPI, HTTPException, Query, Request, Response

from airflow_provider_ch_s3.cluster.fields import DEFAULT_CONNECTION
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import ChS3Error, ConfigError, ServerError
from airflow_provider_ch_s3.plugins.ledger_access import describe_absent, may_see, reading_ledger
from airflow_provider_ch_s3.reporting.values import OPEN, Selection
from airflow_provider_ch_s3.reporting.view import LedgerView

log = get_log(__name__)

STATES = {"": (), "open": OPEN, "committed": ("committed",), "undone": ("undone",), "abandoned": ("abandoned",)}

Text = Annotated[str, Query(max_length=2_000)]


def check_connection(user: GetUserDep, conn_id: Annotated[str, Query(max_length=250)] = DEFAULT_CONNECTION) -> str:
    """Look only for a connection that the user may see."""
    if not may_see(conn_id, user):
        raise HTTPException(404, describe_absent(conn_id))
    return conn_id


Connection = Annotated[str, Depends(check_connection)]


def keep_out_of_caches(response: Response) -> None:
    """The next user of the browser may have other rights."""
    response.headers["Cache-Control"] = "no-store"


def refuse_dag_id(request: Request) -> None:
    """With ``dag_id``, Airflow would check only the rights on one DAG, and the ledger names the loads of all DAGs."""
    if "dag_id" in request.query_params:
        raise HTTPException(400, "the ledger is not read by DAG: leave dag_id out")


app = FastAPI(
    title="ClickHouse loads",
    openapi_url=None,  # the document would be open to everybody
    dependencies=[
        Depends(refuse_dag_id),
        Depends(requires_access_view(AccessView.PLUGINS)),
        # The ledger names DAGs, tasks and runs.
        Depends(requires_access_dag("GET", DagAccessEntity.TASK_INSTANCE)),
        Depends(keep_out_of_caches),
    ],
)


@app.get("/loads")
def read_loads(
    conn_id: Connection,
    ledger: Text = "",
    table: Text = "",
    dag: Text = "",
    state: Literal["", "open", "committed", "undone", "abandoned"] = "",
    days: Annotated[float, Query(ge=0)] = 0.0,
    after: Text = "",
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> dict[str, Any]:
    """Read a page of the history."""
    with _reading(conn_id, ledger) as (view, ledgers):
        local = view.find_table(table)
        selection = Selection(table=local, dag=dag, states=STATES[state], days=days, after=after, limit=limit)
        return {**asdict(view.page(selection)), "ledgers": ledgers}


@app.get("/load_files")
def read_load_files(conn_id: Connection, load: Text, ledger: Text = "", database: Text = "") -> dict[str, Any]:
    """Read the files of one load."""
    with _reading(conn_id, ledger, database) as (view, _):
        return asdict(view.load_files(load))


@app.get("/load_attempts")
def read_load_attempts(conn_id: Connection, load: Text, ledger: Text = "", database: Text = "") -> dict[str, Any]:
    """Read what became of one load."""
    with _reading(conn_id, ledger, database) as (view, _):
        return {"attempts": [asdict(one) for one in view.load_attempts(load)]}


@app.get("/load_settings")
def read_load_settings(conn_id: Connection, load: Text, ledger: Text = "", database: Text = "") -> dict[str, Any]:
    """Read the settings of one load."""
    with _reading(conn_id, ledger, database) as (view, _):
        return asdict(view.load_settings(load))


@app.get("/table_files")
def read_table_files(
    conn_id: Connection, table: Text, ledger: Text = "", prefix: Text = "", after: Text = ""
) -> dict[str, Any]:
    """Read the files whose rows a table holds."""
    with _reading(conn_id, ledger) as (view, _):
        return asdict(view.table_files(table, prefix=prefix, after=after))


@contextmanager
def _reading(conn_id: str, ledger: str, database: str = "") -> Iterator[tuple[LedgerView, list[str]]]:
    try:
        with reading_ledger(conn_id, ledger, database=database) as found:
            yield found
    except ConfigError as error:
        raise HTTPException(404, str(error)) from None
    except ChS3Error as error:
        log.warning("the page cannot read a ledger through the connection %r: %s", conn_id, error)
        raise HTTPException(502, f"{_describe(error, conn_id)}; the log of Airflow's API server says why") from None


def _describe(error: ChS3Error, conn_id: str) -> str:
    """The server's message names hosts and users, which are not for everybody who may see the page."""
    if isinstance(error, ServerError):
        return f"ClickHouse refuses what the page asks through the connection {conn_id!r} (error {error.server_code})"
    return f"there is no answer from ClickHouse through the connection {conn_id!r}"
