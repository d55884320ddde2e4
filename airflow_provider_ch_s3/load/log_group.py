"""Long parts of a log that Airflow's UI folds."""

from __future__ import annotations

import logging


def log_folded(log: logging.Logger, title: str, text: str) -> None:
    """Log a text as a group: the UI shows its title, and the text after a click."""
    log.info("::group::%s", title)
    log.info("%s", text)
    log.info("::endgroup::")
