"""The life of one load. Start with ``staged.py``."""
