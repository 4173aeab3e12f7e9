"""Choose a cluster from the value of ``-c``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kraftwreck.harness.clusters import cgroups, rootless
from kraftwreck.harness.clusters.cluster import Cluster, ClusterError
from kraftwreck.harness.remote import ssh
from kraftwreck.histories.exit_codes import BAD_ARGUMENTS

NAMES = ("netns", "vagrant", "hosts:FILE")
DEFAULT_NODES = 5


def choose_cluster(
    spec: str, nodes: int | None = None, *, disks: bool = False, others: Sequence[str] = ()
) -> Cluster:
    """Return the cluster that ``spec`` names, not yet up; with ``disks`` namespace hosts get
    separate disks.

    ``nodes`` None means five, or all hosts of an inventory. Raises ClusterError (exit code
    254) for an unknown word or a bad inventory; it names ``others``, too. ``sim`` is no cluster.
    """
    kind, _, rest = spec.partition(":")
    lacks = ssh.missing()
    if lacks is not None and kind in ("hosts", "netns", "vagrant"):
        raise ClusterError(lacks, exit_code=BAD_ARGUMENTS)
    if kind == "hosts" and rest:
        from kraftwreck.harness.clusters.hosts import HostsCluster

        return HostsCluster(Path(rest), nodes)
    if spec == "netns":
        from kraftwreck.harness.clusters.netns import NetnsCluster

        return NetnsCluster(nodes or DEFAULT_NODES, disks=disks)
    if spec == "vagrant":
        from kraftwreck.harness.clusters.vagrant import VagrantCluster

        return VagrantCluster(nodes or DEFAULT_NODES)
    known = ", ".join((*NAMES, *others))
    raise ClusterError(f"cluster {spec!r} is unknown; use {known}", exit_code=BAD_ARGUMENTS)


_FEATURES = {"drops": "packets", "packets": "links", "messages": "relay", "names": "names"}
"""The features of faults by the words of :func:`harness.on_host.network.network_means`."""

_HOSTS_ONLY = "it needs real hosts, such as -c netns"
SIMULATOR_LACKS = dict.fromkeys(
    ("wire", "names", "limits", "hosts", "upgrades", "real time", "commands"), _HOSTS_ONLY
)
"""Features of faults that the simulator lacks, each with the reason in one line."""


def lacking(spec: str) -> dict[str, str]:
    """Return the features of faults that hosts of ``spec`` lack, each with the reason in one line.

    This is only known in advance for the simulator and for namespace hosts. ``packets`` can be
    dropped; ``links`` delay them; a ``relay`` distinguishes messages; ``names`` can fail to
    resolve; ``memory`` is a control group that limits memory.
    """
    if spec == "sim":
        return dict(SIMULATOR_LACKS)
    found: dict[str, str] = {}
    if spec != "netns":
        return found
    if rootless.needed():
        told = rootless.examine()
        for kind, means in told.get("means", {}).items():
            if means is None:
                why = [f"{what}: {line}" for what, line in told["why"].items() if kind in what]
                found[_FEATURES[kind]] = "; ".join(why)
    if not cgroups.can_be_made("memory"):
        found["memory"] = "no control group for memory is available to them"
    return found
