"""A real ClickHouse cluster and an object store on this machine, for tests, demos and trials."""

from ch_s3_lab.sandbox.config import SandboxConfig
from ch_s3_lab.sandbox.info import Sandbox

__all__ = ["Sandbox", "SandboxConfig"]
