"""``python -m airflow_provider_ch_s3`` is the command ``ch-s3``."""

from __future__ import annotations

import sys

from airflow_provider_ch_s3.cli import main

sys.exit(main())
