"""The life of one load. Start with ``run.py``."""
