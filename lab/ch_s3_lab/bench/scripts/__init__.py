"""Measurements of one question each: ``python -m ch_s3_lab.bench.scripts.NAME``."""
