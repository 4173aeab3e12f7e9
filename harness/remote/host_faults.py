"""Faults on hosts themselves, whatever runs there: dropped packets, crashes, squeezes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kraftwreck.harness.capabilities import Evidence, Grudge, Resource
from kraftwreck.harness.clusters.cluster import ClusterError, Host, Machines
from kraftwreck.harness.remote.agent import Agent
from kraftwreck.harness.remote.session import RemoteError, on_all
from kraftwreck.nodes.draw import draw_below

_LEFT: Mapping[Resource, tuple[int, ...]] = {
    "cpu": (5, 10, 20, 40),
    "memory": (2 << 20, 4 << 20, 16 << 20),
    "files": (0, 0, 1, 3),
    "oom": (0,),
}


def left(resource: Resource, draw: int) -> int:
    """Return the amount that a squeezed process keeps or may add: percent, bytes, open files."""
    amounts = _LEFT[resource]
    return amounts[draw_below(len(amounts), draw, resource)]


class HostFaults:
    """Faults on the hosts of a deployment; ``disconnect`` ends the sessions with one of them.

    Errors are :class:`RemoteError`. Packets of the control node are never dropped, because grudges
    only name addresses of hosts. ``off`` are the hosts that are down; nothing is asked of them.
    """

    def __init__(
        self,
        hosts: Mapping[str, Host],
        agents: Mapping[str, Agent],
        disconnect: Callable[[str], None],
    ) -> None:
        self.nodes = tuple(hosts)
        self.machines: Machines | None = None
        """Crashes and boots hosts; None if the cluster cannot."""
        self._hosts = hosts
        self._agents = agents
        self._disconnect = disconnect
        self._off: set[str] = set()
        self._names = {host.ip: name for name, host in hosts.items()}

    def _on_hosts(self, function: Callable[[str], Evidence]) -> Evidence:
        return dict(on_all([name for name in self.nodes if name not in self._off], function))

    def drop(self, grudge: Grudge) -> Evidence:
        """Make every host drop packets from the hosts in its grudge, and from no others.

        Evidence per host: ``sources``, the ``ruleset`` read back, and the packets that an earlier
        grudge dropped.
        """
        unknown = set(grudge).union(*grudge.values()) - set(self.nodes)
        if unknown:
            raise ValueError(f"a grudge names unknown nodes: {', '.join(sorted(unknown))}")

        def drop_on(name: str) -> Evidence:
            peers = grudge.get(name, frozenset()) - {name}
            sources = [self._hosts[peer].ip for peer in sorted(peers)]
            return self._agents[name].ask("drop", sources=sources)

        return self._on_hosts(drop_on)

    def heal(self) -> Evidence:
        """Remove every drop; evidence per host: packets ``dropped`` by peer, and in total.

        Every host is tried even if another one fails.
        """

        def heal_on(name: str) -> Evidence:
            evidence = self._agents[name].ask("heal")
            evidence["dropped"] = {
                self._names.get(ip, ip): count for ip, count in evidence["dropped"].items()
            }
            return evidence

        return self._on_hosts(heal_on)

    def crash_host(self, node: str) -> Evidence:
        """Cut the power of a host, with all its processes.

        Evidence: the time until every process there had ended. Raises :class:`RemoteError` if
        hosts of this cluster cannot be crashed.
        """
        if self.machines is None:
            raise RemoteError(node, "hosts of this cluster cannot be crashed; use -c netns")
        try:
            evidence = self.machines.crash(node)
        except ClusterError as error:
            raise RemoteError(node, str(error)) from error
        self._off.add(node)
        self._disconnect(node)
        return {node: {"host": "crashed", **evidence}}

    def boot_host(self, node: str) -> Evidence:
        """Boot a host; its processes are down."""
        assert self.machines is not None
        try:
            evidence = self.machines.boot(node)
        except ClusterError as error:
            raise RemoteError(node, str(error)) from error
        self._disconnect(node)
        self._off.discard(node)
        return {node: {"host": "booted", **evidence}}
