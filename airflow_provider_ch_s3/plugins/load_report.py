"""The tab "Load report" of a task instance.

The tab is JavaScript that reads the report through Airflow's own REST API, with the rights of the user who looks at
it. So nothing but the files of the page is served here, which contain no data.
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
URL_ROUTE = "load_report"


async def serve_static(scope: Any, receive: Any, send: Any) -> None:
    """Serve the files of the page, as an ASGI application."""
    # Imported here, because workers and schedulers load plugins, too.
    from starlette.staticfiles import StaticFiles

    await StaticFiles(directory=STATIC)(scope, receive, send)


def base_path() -> str:
    """Path under which a proxy serves Airflow; '' without one."""
    return urlsplit(conf.get("api", "base_url", fallback="") or "").path.rstrip("/")


class ChS3Plugin(AirflowPlugin):  # type: ignore[misc]
    """Adds the tab to the page of every task instance; on those that are no load it says so."""

    name = "ch_s3"
    fastapi_apps: ClassVar[list[Any]] = [{"name": "ClickHouse S3 loads", "app": serve_static, "url_prefix": PREFIX}]
    react_apps: ClassVar[list[Any]] = [
        {
            "name": "Load report",
            "bundle_url": f"{base_path()}{PREFIX}/load_report.js",
            "destination": "task_instance",
            "url_route": URL_ROUTE,
        }
    ]
