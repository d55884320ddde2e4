"""botocore's models of services, parsed once for each process instead of once for each client."""

from __future__ import annotations

import functools

from botocore.loaders import JSONFileLoader


def parse_models_once() -> None:
    """Keep the models in memory: parsing S3's takes a third of the CPU time of a worker that loads a small file."""
    load_file = functools.cache(functools.partial(JSONFileLoader.load_file, JSONFileLoader()))
    JSONFileLoader.load_file = lambda _, path: load_file(path)
