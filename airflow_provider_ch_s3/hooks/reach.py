"""A cluster as a connection reaches it: the nodes, and the addresses at which they answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.cluster.spec import ClusterDeclaration, ClusterSpec, DdlMode
from airflow_provider_ch_s3.common.text import format_address
from airflow_provider_ch_s3.common.work import map_at_once
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import ChS3Error
from airflow_provider_ch_s3.introspection.cluster import ConnectedServer, detect_cluster

log = get_log(__name__)


@dataclass(frozen=True, kw_only=True)
class Reach:
    """What is known of a cluster; each server is asked once.

    :param read_server: reads the connected server.
    :param own_address: returns ``host:port`` of the connection's HTTP interface.
    :param ask_name: asks the node at an address (None: the connection's own) for its name, ``hostName():tcpPort()``.
    :param known_mode: how DDL reaches every node of the table's database; None: of the connection's own database.
    :param known_cluster: the cluster, if just detected.
    """

    client: ClickHouseClient
    declaration: ClusterDeclaration
    read_server: Callable[[], ConnectedServer]
    own_address: Callable[[], str]
    ask_name: Callable[[str | None], str]
    known_mode: DdlMode | None = None
    known_cluster: ClusterSpec | None = None

    @cached_property
    def cluster(self) -> ClusterSpec:
        """:raises ClusterError: if the cluster is unknown, or a node does not respond."""
        return self.known_cluster or detect_cluster(self.client, self.declaration, self.read_server())

    @cached_property
    def ddl_mode(self) -> DdlMode:
        if self.known_mode:
            return self.known_mode
        server = self.read_server()
        return server.ddl_mode(self.declaration, server.database)

    @cached_property
    def addresses(self) -> dict[str, str | None]:
        """Name of each reachable node → address; None for the connection's own address."""
        return {node: address for address, node in self._answers.items() if node}

    @property
    def unanswered(self) -> tuple[str, ...]:
        """Addresses where nodes of the cluster were looked for in vain."""
        return tuple(address for address, node in self._answers.items() if address and not node)

    @cached_property
    def _answers(self) -> dict[str | None, str]:
        """Address → the name of the node at the address; '' without an answer."""
        if endpoints := self.declaration.http_endpoints:
            return dict(zip(endpoints, map_at_once(self.ask_name, endpoints), strict=True))
        guesses = self._guess_addresses()
        answers = dict(zip(guesses, map_at_once(self._try_name, guesses), strict=True)) if guesses else {}
        # A balancer may send each statement to another node: its address stands for no node of several shards.
        return answers if any(answers.values()) else {**answers, None: self.ask_name(None)}

    def _guess_addresses(self) -> Sequence[str | None]:
        """Where the nodes of several shards may listen: on the connection's port of the hosts named by the cluster.

        For a single shard, the connection's own address is enough.
        """
        members = self.read_server().members(self.declaration.cluster)
        if len({member.shard for member in members}) < 2:
            return []
        own = self.own_address()
        port = int(own.rpartition(":")[2])
        hosts = (member.address.rpartition(":")[0] for member in members)
        found = dict.fromkeys(format_address(host, port) for host in hosts)
        return [None if address == own else address for address in found]

    def _try_name(self, address: str | None) -> str:
        try:
            return self.ask_name(address)
        except ChS3Error as error:
            log.info("no node of the cluster %r at %s: %s", self.declaration.cluster, address, error)
            return ""
