"""ZooKeeper, to coordinate the servers of a sandbox."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Sequence
from pathlib import Path

from ch_s3_lab.errors import SandboxError
from ch_s3_lab.sandbox.bound import bound_command
from ch_s3_lab.sandbox.process import SandboxProcess

DEBIAN_JAR = Path("/usr/share/java/zookeeper.jar")
CONFIG_NAME = "zoo.cfg"


def find_classpath(jars: Path | None) -> str:
    """Build Java's class path for ZooKeeper, from a folder of jars or from Debian's package.

    :raises SandboxError: if ZooKeeper or Java is missing.
    """
    install = "install both with `apt-get install --no-install-recommends zookeeper default-jre-headless`"
    if shutil.which("java", path=os.defpath) is None:
        raise SandboxError(
            "library-missing",
            f"a sandbox with replicas needs Java and ZooKeeper, but java is not installed; {install}",
        )
    if jars is not None:
        if not list(jars.glob("zookeeper*.jar")):
            raise SandboxError(
                "library-missing",
                f"there is no zookeeper*.jar in {jars}; name a folder with ZooKeeper's jars (--zookeeper)",
            )
        return str(jars.resolve() / "*")
    if not DEBIAN_JAR.exists():
        raise SandboxError(
            "library-missing",
            f"a sandbox with replicas needs ZooKeeper, but there is no {DEBIAN_JAR}; {install}, or name a folder with"
            " its jars (--zookeeper)",
        )
    return str(DEBIAN_JAR)


class ZooKeeper(SandboxProcess):
    """A ZooKeeper server."""

    def __init__(self, directory: Path, *, port: int, classpath: str) -> None:
        super().__init__(directory)
        self._port = port
        self._classpath = classpath

    def prepare(self) -> Sequence[str]:
        """Write ZooKeeper's configuration; returns the command."""
        config = self.directory / CONFIG_NAME
        # Sessions have to end soon after their server was killed: until then its replicas count as active.
        config.write_text(
            f"dataDir={self.directory / 'data'}\n"
            f"clientPort={self._port}\n"
            "clientPortAddress=127.0.0.1\n"
            "tickTime=500\n"
            "minSessionTimeout=1000\n"
            "maxSessionTimeout=60000\n"
            "maxClientCnxns=0\n"
            "admin.enableServer=false\n"
            "4lw.commands.whitelist=srvr\n"
        )
        java = ("java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", self._classpath)
        return bound_command([*java, "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(config)])

    def close(self) -> None:
        """Terminate the server, without waiting for the end."""
        if self._process is not None:
            self._process.terminate()

    def is_answering(self) -> bool:
        """Whether the server is serving clients."""
        # Unlike "srvr", it answers "ruok" before it serves clients.
        try:
            with socket.create_connection(("127.0.0.1", self._port), timeout=1) as connection:
                connection.sendall(b"srvr")
                return b"Mode:" in connection.recv(4096)
        except OSError:
            return False
