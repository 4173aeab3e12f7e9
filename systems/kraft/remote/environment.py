"""Faults on real hosts: nftables drops, kill -9, SIGSTOP, disks, each with measured evidence."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from kraftwreck.harness.capabilities import (
    CAPABILITIES,
    MEMBERSHIP,
    ClockSetting,
    DiskTrouble,
    Environment,
    Evidence,
    MemberChange,
    Resource,
)
from kraftwreck.harness.client import Answer, Call
from kraftwreck.harness.deploy.environment import PlainEnvironment
from kraftwreck.harness.remote.session import RemoteError
from kraftwreck.harness.system import Seen
from kraftwreck.histories.disturbance import Disturbance
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.log.uuids import from_text
from kraftwreck.systems.kraft.faults.voter_changes import Members
from kraftwreck.systems.kraft.options import BROKER, CONTROLLER
from kraftwreck.systems.kraft.remote.admin import RemoteAdmin
from kraftwreck.systems.kraft.remote.deployment import Deployment
from kraftwreck.systems.kraft.remote.disks import RemoteDisks
from kraftwreck.systems.kraft.remote.links import RemoteLinks
from kraftwreck.systems.kraft.remote.watch import RemoteWatch


class RemoteEnvironment(PlainEnvironment):
    """The capabilities of a deployment over SSH; errors are :class:`RemoteError`.

    A node that ends by itself, other than because of its disk or a squeeze, is an error.
    """

    deployment: Deployment

    def __init__(self, deployment: Deployment) -> None:
        self._watch = RemoteWatch(deployment)
        super().__init__(deployment, deployment.settings.seed, self._watch.leader)
        self._links = RemoteLinks(deployment, self._off)
        self.disks = RemoteDisks(deployment)
        self._admin_clients = {
            name: deployment.client(name, "kraftwreck-admin") for name in deployment.controllers
        }
        self._admin = RemoteAdmin(self._members(), self._send)

    def _members(self) -> Members:
        deployment = self.deployment
        return Members(
            {name: deployment.hosts[name].node_id for name in deployment.controllers},
            {name: Endpoint(*deployment.address(name)) for name in deployment.controllers},
            deployment.settings.cluster_id,
            lambda name: from_text(deployment.directories[name]),
        )

    def _send(self, call: Call) -> Answer:
        client = self._admin_clients[call.node]
        return client.send(call.request, call.timeout_ms)

    @property
    def controllers(self) -> tuple[str, ...]:
        return tuple(self.deployment.controllers)

    def offered(self) -> Environment:
        """Return the record of it for fault families."""
        dynamic = self.deployment.settings.dynamic
        return Environment(
            self.nodes,
            {each: self for each in CAPABILITIES if dynamic or each is not MEMBERSHIP},
            lacking={MEMBERSHIP.name: "the quorum is static"},
            roles={
                CONTROLLER: self.controllers,
                BROKER: [name for name in self.nodes if name not in self.controllers],
            },
        )

    @property
    def open_changes(self) -> int:
        """The number of requested voter changes that are not done yet."""
        return self._admin.open

    def boot_host(self, node: str) -> Evidence:
        """Boot the node's host; its data directory becomes image ``kill-<k>``."""
        evidence = super().boot_host(node)
        self._links.booted(node)
        image = self.deployment.image(node, self._label(node))
        ends = self.deployment.log_ends(node)
        return {node: {**evidence[node], **image, **ends}}

    def _frail(self, node: str) -> bool:
        return node in self.disks.bad or super()._frail(node)

    def _ended(self, node: str) -> Evidence | None:
        """Return evidence if the process has ended because of its disk or a squeeze."""
        if not self._frail(node) or self.deployment.status(node)["running"]:
            return None
        return {"ended": "by itself"}

    def cut_power(self, node: str) -> Evidence:
        """kill -9 a node that buffers unsynced writes; image ``kill-<k>``.

        The evidence adds the last log end in its trace, and the one on its disk. Raises
        RemoteError if the nodes were deployed without write loss: the kernel would keep their
        writes.
        """
        if not self.deployment.settings.write_loss:
            raise RemoteError(node, "the nodes were deployed without write loss; add -n power")
        if (ended := self._ended(node)) is not None:
            return {node: {"killed": False, **ended}}
        return {node: self.deployment.cut_power(node, self._label(node))}

    def upgrade(self, node: str) -> Evidence:
        """Exchange the node's code for the other version; evidence: digests of both.

        Raises RemoteError if the nodes were deployed with only one version.
        """
        if self.deployment.settings.other_tree is None:
            raise RemoteError(node, "there is no other version of the code; add -n restart")
        return {node: self.deployment.upgrade(node)}

    def busiest(self) -> str | None:
        return self._watch.busiest_broker()

    def wipe(self, node: str) -> Evidence:
        """Remove the data directory and format a new one; evidence: both directory ids."""
        evidence = self.deployment.replace_disk(node)
        self.disks.mend(node)
        return {node: evidence}

    def disturb(self, wanted: Sequence[Disturbance]) -> Evidence:
        """Disturb packets and messages; evidence as of :meth:`RemoteLinks.disturb`."""
        return self._links.disturb(wanted)

    def set_clock(self, node: str, setting: ClockSetting) -> Evidence:
        """Set the node's clocks to ``setting``.

        The host's clocks are not touched, except the wall clock of a machine that no other host
        shares. The evidence has how far ahead of the host's clocks they were before: readings in
        the node's trace, compared with its modification time. Raises RemoteError if the nodes were
        deployed without clocks of their own.
        """
        if not self.deployment.settings.own_clocks:
            raise RemoteError(node, "the node was deployed without clocks of its own; add -n clock")
        if node in self._off:
            return {node: {"host": "off"}}
        evidence = self.deployment.set_clock(node, setting)
        self._watch.note_clock(node, evidence)
        return {node: evidence}

    def clock_samples(self) -> dict[str, list[tuple[int, int]]]:
        """Return samples of the clocks that were set; as of :class:`RemoteWatch`."""
        return self._watch.clock_samples()

    def measure_clocks(self) -> dict[str, int]:
        """Return every host's monotonic clock minus the control node's, in µs, to date traces."""
        return self._watch.measure_clocks()

    def follow(self, seen: Seen) -> None:
        """Call ``seen`` for every new trace event, which :meth:`leader` then uses, too."""
        self._watch.follow(seen)

    def unfollow(self) -> None:
        """Stop following the traces."""
        self._watch.unfollow()

    def trouble_disk(self, node: str, trouble: DiskTrouble, draw: int) -> Evidence:
        """Give the files of this node a drawn fault.

        Raises RemoteError if the nodes were deployed without disks of their own.
        """
        if node in self._off:
            return {node: {"host": "off"}}
        return {node: self.disks.trouble(node, trouble, draw)}

    def damage_disk(self, node: str, draw: int) -> Evidence:
        """Change a drawn bit in a file of the node."""
        return {node: self.disks.flip(node, draw)}

    def tear_log(self, node: str, draw: int) -> Evidence:
        return {node: self.disks.tear(node, draw)}

    def disk_damaged(self, node: str) -> bool:
        return self.disks.damaged(node)

    def mend_disk(self, node: str) -> Evidence:
        if node in self._off:
            return {node: {"host": "off"}}
        return {node: self.disks.mend(node)}

    def squeeze(self, node: str, resource: Resource, draw: int) -> Evidence:
        """Limit a resource of the node's process; an ``oom`` keeps image ``kill-<k>``.

        Raises RemoteError if the nodes were deployed without -n squeeze.
        """
        if not self.deployment.settings.squeezable:
            raise RemoteError(node, "the node was deployed without resource limits; add -n squeeze")
        return super().squeeze(node, resource, draw)

    def members(self) -> Sequence[str]:
        return self.controllers

    def change_members(self, changes: Sequence[MemberChange]) -> Evidence:
        """Pass ``changes`` to the operator; raise RemoteError for a static quorum."""
        if not self.deployment.settings.dynamic:
            raise RemoteError("the quorum", "its voters are fixed; add --quorum dynamic")
        self._admin.ask(changes)
        return {change.node: {"asked": change.action} for change in changes}

    def member_changes(self) -> Evidence:
        return {"ended": self._admin.take_ended(), "open": self._admin.open}

    def _mend(self, name: str) -> None:
        self.disks.mend(name)

    def close(self) -> None:
        """Stop the operator, abandon open changes, and close the connections to the nodes."""
        self._watch.close()
        self._admin.close()
        for client in self._admin_clients.values():
            with contextlib.suppress(OSError):
                client.close()
