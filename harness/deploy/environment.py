"""Faults on the hosts and processes of a foreign system, by the machine's own means.

Nothing here knows what a process does. Faults that need the system's cooperation are refused with
the reason in one line; :data:`LACKING` has the reasons, for the command line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from kraftwreck.harness.capabilities import (
    CLOCKS,
    COMMANDS,
    DISKS,
    HOSTS,
    LEADERS,
    LIMITS,
    LOAD,
    MEMBERSHIP,
    MESSAGES,
    PACKETS,
    POWER,
    PROCESSES,
    TORN_WRITES,
    UPGRADES,
    Capability,
    ClockSetting,
    Environment,
    Evidence,
    Resource,
)
from kraftwreck.harness.clusters.state import control_boot_id
from kraftwreck.harness.deploy.deployment import PlainDeployment
from kraftwreck.harness.remote.host_faults import HostFaults, left
from kraftwreck.harness.remote.packets import links, names
from kraftwreck.harness.remote.session import RemoteError, UnreachableError, on_all
from kraftwreck.harness.run_errors import Trouble
from kraftwreck.histories.disturbance import Disturbance

NO_MEMBERS = "its adapter cannot change members"
NO_LEADER = "it does not show which node leads"
NO_OTHER_VERSION = "its adapter has one version only"
NO_WRITE_LOSS = "its writes are in the kernel's hands; -n host loses those that were not fsynced"
NO_DISKS = "its files are not known to the harness; -n host loses writes that were not fsynced"
NO_CLOCK = "its processes do not load the library that changes their clocks"
NO_MESSAGES = "the relay does not know its protocol"
OFFERED = (PACKETS, MESSAGES, PROCESSES, HOSTS, LIMITS, COMMANDS, LEADERS)
"""The capabilities that every plain server has."""
LACKING: Mapping[str, str] = {
    MEMBERSHIP.name: NO_MEMBERS,
    POWER.name: NO_WRITE_LOSS,
    DISKS.name: NO_DISKS,
    TORN_WRITES.name: NO_DISKS,
    UPGRADES.name: NO_OTHER_VERSION,
    LOAD.name: NO_LEADER,
    "relay": NO_MESSAGES,
}
"""Capabilities and features that no plain server has, and why."""
_NOTHING: dict[str, Any] = {"links": [], "names": ""}


class PlainEnvironment(HostFaults):
    """The capabilities of a :class:`PlainDeployment`.

    ``nodes`` are the hosts. Faults of processes take the name of any process: ``n2`` is the main
    process of its host, ``n2/sentinel`` another one. Errors are :class:`RemoteError`.
    """

    def __init__(
        self, deployment: PlainDeployment, seed: int, leader: Callable[[], str | None]
    ) -> None:
        super().__init__(deployment.hosts, deployment.agents, deployment.disconnect)
        self.deployment = deployment
        self.processes = tuple(deployment.processes)
        """The names of all processes."""
        self._seed = seed
        self._leader = leader
        self._kills = dict.fromkeys(self.processes, 0)
        self._squeezed: set[str] = set()
        self._disturbed: dict[str, dict[str, Any] | None] = {}

    def offered(self) -> Environment:
        """Return the record of it for fault families."""
        every: list[Capability[Any]] = list(OFFERED)
        lacking = dict(LACKING)
        if self.deployment.own_clocks:
            every.append(CLOCKS)
        else:
            lacking[CLOCKS.name] = NO_CLOCK
        return Environment(
            self.nodes, dict.fromkeys(every, self), lacking=lacking, processes=self.processes
        )

    def leader(self) -> str | None:
        """Return the node that leads, as the system's adapter sees it, None if it does not."""
        return self._leader()

    # --- packets --------------------------------------------------------------------------

    def disturb(self, wanted: Sequence[Disturbance]) -> Evidence:
        """Disturb packets and names exactly as ``wanted``; messages cannot be disturbed."""
        if any(each.of_messages for each in wanted):
            raise RemoteError("the hosts", f"messages cannot be disturbed: {NO_MESSAGES}")
        evidence = self._on_hosts(lambda name: self._disturb(name, wanted))
        return {name: told for name, told in evidence.items() if told}

    def _disturb(self, name: str, wanted: Sequence[Disturbance]) -> Evidence:
        ips = {each: host.ip for each, host in self.deployment.hosts.items()}
        now = {"links": links(wanted, name, ips, {}), "names": names(wanted, name)}
        known = self._disturbed.get(name, _NOTHING)
        if known == now:
            return {}
        self._disturbed[name] = None  # Unknown until it succeeds.
        agent, seed = self.deployment.agents[name], f"{self._seed}-{name}"
        evidence: Evidence = {}
        if known is None or known["links"] != now["links"]:
            told = agent.ask("set_links", seed=seed, links=now["links"])
            evidence["packets"] = {"means": told.get("means"), "now": now["links"]}
            evidence["packets"]["before"] = {
                self._names.get(ip, ip): counts
                for ip, counts in told["before"].get("links", {}).items()
            }
        if known is None or known["names"] != now["names"]:
            told = agent.ask("set_names", seed=seed, names=now["names"])
            evidence["names"] = {"now": now["names"], "before": told["before"]}
        self._disturbed[name] = now
        return evidence

    # --- processes ------------------------------------------------------------------------

    def _frail(self, node: str) -> bool:
        """Return whether the process may end or refuse to start because of a fault."""
        return node in self._squeezed

    def _ended(self, node: str) -> Evidence | None:
        """Return evidence if the process has ended by itself, which is noted."""
        status = self.deployment.status(node)
        if status["running"]:
            return None
        told: Evidence = {key: status[key] for key in ("status", "why") if key in status}
        if node not in self._squeezed:
            self.deployment.note(f"{node} ended by itself: {_how(told)}")
        return {"ended": "by itself", **told}

    def kill(self, node: str) -> Evidence:
        """kill -9 a process and all it has started; its folders become image ``kill-<k>`` if it
        declares images."""
        if (ended := self._ended(node)) is not None:
            return {node: {"killed": False, **ended}}
        return {node: self.deployment.kill(node, self._label(node))}

    def _label(self, node: str) -> str:
        self._kills[node] += 1
        return f"kill-{self._kills[node]}"

    def start(self, node: str) -> Evidence:
        """Start a process again and wait until it is ready; the evidence has the reason if one
        that a fault still weakens refuses to start."""
        try:
            return {node: self.deployment.start(node)}
        except RemoteError as error:
            if not self._frail(node) or self.deployment.status(node)["running"]:
                raise
            return {node: {"started": False, "refused": str(error)}}

    def launch(self, node: str) -> Evidence:
        return {node: self.deployment.launch(node)}

    def pause(self, node: str) -> Evidence:
        """SIGSTOP a process and all it has started."""
        if (ended := self._ended(node)) is not None:
            return {node: {"paused": False, **ended}}
        return {node: self.deployment.pause(node)}

    def resume(self, node: str) -> Evidence:
        """SIGCONT a process and all it has started."""
        if (ended := self._ended(node)) is not None:
            return {node: {"resumed": False, **ended}}
        return {node: self.deployment.resume(node)}

    def stop(self, node: str) -> Evidence:
        """End a process by its stop signal, if need be by SIGKILL."""
        if (ended := self._ended(node)) is not None:
            return {node: {"stopped": False, **ended}}
        return {node: self.deployment.stop(node)}

    def squeeze(self, node: str, resource: Resource, draw: int) -> Evidence:
        """Limit a resource of a process; an ``oom`` keeps an image like a kill."""
        amount = left(resource, draw)
        try:
            evidence = self.deployment.ask(node, "squeeze", what=resource, amount=amount)
        except RemoteError:
            if (ended := self._ended(node)) is None:
                raise
            return {node: {"squeezed": False, **ended}}
        self._squeezed.add(node)
        if resource == "oom":
            evidence |= self.deployment.image(node, self._label(node))
        return {node: evidence}

    def release(self, node: str) -> Evidence:
        if self.deployment.host_of[node] in self._off:
            return {node: {"host": "off"}}
        evidence = self.deployment.ask(node, "release")
        self._squeezed.discard(node)
        return {node: evidence}

    def run_command(self, node: str, argv: Sequence[str]) -> Evidence:
        """Run a program on the host of a process; ``{pid}`` becomes the pid of the process."""
        host = self.deployment.host_of[node]
        if host in self._off:
            raise RemoteError(node, "the host is off")
        words = list(argv)
        if "{pid}" in words:
            status = self.deployment.status(node)
            if not status["running"]:
                raise RemoteError(node, "the process does not run, so {pid} has no value")
            words = [str(status["pid"]) if word == "{pid}" else word for word in words]
        output = self.deployment.remotes[host].run(words).text
        return {node: {"command": words, "output": output}}

    # --- hosts and clocks -----------------------------------------------------------------

    def boot_host(self, node: str) -> Evidence:
        """Boot a host; its processes are down, but for those besides the main one."""
        evidence = super().boot_host(node)
        self._disturbed.pop(node, None)
        for name in self.deployment.on_host(node)[1:]:
            self.deployment.start(name)
        return evidence

    def set_clock(self, node: str, setting: ClockSetting) -> Evidence:
        """Set the clocks of a host's processes; the evidence has readings by a program there."""
        if not self.deployment.own_clocks:
            raise RemoteError(node, f"its clock cannot be set: {NO_CLOCK}")
        if node in self._off:
            return {node: {"host": "off"}}
        before = self.deployment.wall_ahead_us(node)
        evidence = self.deployment.ask(
            node,
            "set_clock",
            wall_us=setting.wall_us,
            strobe_us=setting.strobe_us,
            rate_ppm=setting.rate_ppm,
            means="library",
            control=control_boot_id(),
        )
        evidence["measured"] = {"wall_ahead_us": before}
        evidence["wall_ahead_us"] = self.deployment.wall_ahead_us(node)
        return {node: evidence}

    # --- the end of a run -----------------------------------------------------------------

    def restore(self, *, start: bool = True) -> list[Trouble]:
        """Undo everything on every host, and ``start`` what is down; return the failures."""
        problems: list[Trouble] = []

        def restore_host(host: str) -> None:
            agent = self.deployment.agents[host]
            steps: list[Callable[[], object]] = [
                lambda: self.boot_host(host) if host in self._off else None,
                lambda: agent.ask("heal"),
                lambda: agent.ask("heal_network"),
                lambda: agent.ask("right_date", control=control_boot_id()),
                lambda: self.deployment.right_clock(host),
            ]
            for name in self.deployment.on_host(host):
                steps += [partial(self._resume_if_paused, name), partial(self._mend, name)]
                steps.append(partial(self.release, name))
                if start:
                    steps.append(partial(self.deployment.start, name))
            for step in steps:
                try:
                    step()
                except UnreachableError as error:
                    problems.append(Trouble.of(error, str(error)))
                    return  # The other steps would fail, too.
                except RemoteError as error:
                    problems.append(Trouble.of(error, str(error)))

        on_all(self.nodes, restore_host)
        return problems

    def _resume_if_paused(self, name: str) -> None:
        if self.deployment.status(name).get("state") == "T":
            try:
                self.deployment.resume(name)
            except RemoteError:
                if self.deployment.status(name)["running"]:
                    raise

    def _mend(self, name: str) -> None:
        """Undo what a system's own faults have done to a process; nothing by default."""


def _how(told: Evidence) -> str:
    """Return in words how a process ended."""
    status = told.get("status")
    if "why" in told:
        return str(told["why"])
    if status is None:
        return "nobody saw how"
    return f"signal {-status}" if status < 0 else f"status {status}"
