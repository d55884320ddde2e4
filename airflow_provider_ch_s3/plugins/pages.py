"""The tab "Load report" of a task instance, and the page "ClickHouse loads" under Browse.

The tab is JavaScript that reads the report through Airflow's own REST API, with the rights of the present user. The
page shows the ledger; ``ledger_api.py`` serves the ledger to users with a login. The files of both contain no data.
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

from airflow.providers.common.compat.sdk import AirflowPlugin, conf

STATIC = Path(__file__).parent / "static"
# With the version in their address, a browser never combines files of two releases.
PREFIX = f"/ch-s3/{version('airflow-provider-ch-s3')}"
API_PREFIX = "/ch-s3/api"
GUARDS = (
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"),
)


def guarded(send: Any) -> Any:
    """Have browsers take an answer for the declared type, and run nothing in an answer opened as a page."""

    async def send_guarded(message: Any) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *GUARDS]}
        await send(message)

    return send_guarded


async def serve_static(scope: Any, receive: Any, send: Any) -> None:
    """Serve the files of the page, as an ASGI application."""
    # Imported here, because workers and schedulers load plugins, too.
    from starlette.staticfiles import StaticFiles

    await StaticFiles(directory=STATIC)(scope, receive, guarded(send))


async def serve_ledger(scope: Any, receive: Any, send: Any) -> None:
    """Answer the page's requests, as an ASGI application."""
    from airflow_provider_ch_s3.plugins.ledger_api import app

    await app(scope, receive, guarded(send))


def base_path() -> str:
    """Path under which a proxy serves Airflow; '' without one."""
    return urlsplit(conf.get("api", "base_url", fallback="") or "").path.rstrip("/")


ICONS = {
    "icon": f"{base_path()}{PREFIX}/icon.svg",
    "icon_dark_mode": f"{base_path()}{PREFIX}/icon_dark.svg",
}


class ChS3Plugin(AirflowPlugin):  # type: ignore[misc]
    """Adds the page, and the tab to every task instance; the tab also shows if there is no report."""

    name = "ch_s3"
    fastapi_apps: ClassVar[list[Any]] = [
        {"name": "ClickHouse S3 loads", "app": serve_static, "url_prefix": PREFIX},
        {"name": "ClickHouse S3 ledger", "app": serve_ledger, "url_prefix": API_PREFIX},
    ]
    react_apps: ClassVar[list[Any]] = [
        {
            "name": "Load report",
            "bundle_url": f"{base_path()}{PREFIX}/load_report.js",
            **ICONS,
            "destination": "task_instance",
            "url_route": "load_report",
        },
        {
            "name": "ClickHouse loads",
            "bundle_url": f"{base_path()}{PREFIX}/loads_page.js",
            **ICONS,
            "destination": "nav",
            "category": "browse",
            "url_route": "clickhouse_loads",
        },
    ]
