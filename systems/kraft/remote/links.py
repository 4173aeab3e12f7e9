"""Disturbances on real hosts: which host does what to which packets and messages.

Disturbances by address and port apply to packets, on the host that sends them; netem or a
forwarder in user space carries them out (:mod:`harness.on_host.links`). Those that need complete
requests or responses (one kind of RPC, a request that arrives twice) apply in a relay in front of
the receiving node (:mod:`harness.on_host.relay`), to requests and responses alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

from kraftwreck.harness.capabilities import Evidence
from kraftwreck.harness.remote.packets import Spec, links, names
from kraftwreck.harness.remote.session import RemoteError, on_all
from kraftwreck.histories.disturbance import Disturbance, Names
from kraftwreck.nodes.protocol.apis import API_KEYS, NAMES
from kraftwreck.systems.kraft.remote.deployment import Deployment

QUORUM = (
    *("Vote", "BeginQuorumEpoch", "EndQuorumEpoch", "Fetch", "FetchSnapshot"),
    *("AddRaftVoter", "RemoveRaftVoter", "UpdateRaftVoter"),
)
"""Requests that may arrive twice, as in the simulator: those of the quorum."""

_MESSAGES = ("delay", "jitter", "loss", "reset", "drop", "duplicate", "again", "window")
_REQUESTS_ONLY = ("duplicate", "again")


def rules(wanted: Sequence[Disturbance], host: str, ips: Mapping[str, str]) -> list[Spec]:
    """Return the rules of the relay in front of the node on ``host``.

    It sees the requests to this node, and the node's responses.
    """
    found = []
    for each in wanted:
        if not each.of_messages:
            continue
        effects = {name: getattr(each, name) for name in _MESSAGES}
        answers_too = any(effects[name] for name in _MESSAGES if name not in _REQUESTS_ONLY)
        apis = [API_KEYS[api] for api in each.apis]
        for part, ours, theirs in (
            ("request", each.receivers, each.senders),
            ("response", each.senders, each.receivers),
        ):
            if part == "response" and not answers_too:
                continue
            if host in ours and each.part in (part, "both"):
                found += [
                    {"peer": ips[peer], "part": part, "apis": apis, **effects}
                    for peer in theirs
                    if peer != host
                ]
    return found


class RemoteLinks:
    """The disturbances in force on the hosts of a deployment."""

    def __init__(self, deployment: Deployment, off: Set[str] = frozenset()) -> None:
        """``off`` are the crashed hosts, which get no requests; it is read at every use."""
        self._deployment = deployment
        self._names = {host.ip: name for name, host in deployment.hosts.items()}
        self._ips = {name: host.ip for name, host in deployment.hosts.items()}
        settings = deployment.settings
        self._ports = {"controller": settings.port}
        if settings.brokers or settings.combined:
            self._ports["broker"] = settings.broker_port
        self._known: dict[str, dict[str, Any]] = {
            name: {"links": [], "rules": [], "names": ""} for name in deployment.nodes
        }
        """The last request to each host; None for parts that may have failed."""
        self._off = off

    def disturb(self, wanted: Sequence[Disturbance]) -> Evidence:
        """Apply exactly the disturbances in ``wanted``.

        The evidence, of affected hosts only: the driver, the current effects on packets and
        messages, and ``before``: the counts since the last call. Raises :class:`RemoteError`,
        after every host was tried.
        """
        on = [name for name in self._deployment.nodes if name not in self._off]
        evidence = on_all(on, lambda name: self._on(name, wanted))
        return {name: told for name, told in evidence.items() if told}

    def booted(self, name: str) -> None:
        """Record that a host has just been booted: nothing is disturbed there."""
        self._known[name] = {"links": [], "rules": [], "names": ""}

    def _on(self, name: str, wanted: Sequence[Disturbance]) -> Evidence:
        now: dict[str, Any] = {
            "links": links(wanted, name, self._ips, self._ports),
            "rules": rules(wanted, name, self._ips),
            "names": names(wanted, name),
        }
        evidence: Evidence = {}
        errors = []
        for kind, ask in (("links", self._links), ("rules", self._rules), ("names", self._fail)):
            known = self._known[name]
            if known[kind] == now[kind]:
                continue
            known[kind] = None  # Unknown until it succeeds.
            try:
                told = ask(name, now[kind])
            except RemoteError as error:
                errors.append(str(error).removeprefix(f"{name}: "))
            else:
                known[kind] = now[kind]
                evidence[{"links": "packets", "rules": "messages"}.get(kind, kind)] = told
        if errors:
            raise RemoteError(name, "; ".join(errors))
        return evidence

    def _links(self, name: str, wanted: list[Spec]) -> Evidence:
        told = self._ask(name, "set_links", links=wanted)
        before = {}
        for ip in {**told["before"].get("links", {}), **told["before"].get("echoes", {})}:
            counts = told["before"]["links"].get(ip, {})
            echoes = told["before"]["echoes"].get(ip)
            before[self._names.get(ip, ip)] = counts | ({"echoes": echoes} if echoes else {})
        evidence: Evidence = {"before": before} if before or not wanted else {}
        if wanted:
            evidence["means"] = told["means"]
            evidence["now"] = self._readable(told["links"])
        return evidence

    def _rules(self, name: str, wanted: list[Spec]) -> Evidence:
        told = self._ask(
            name,
            "set_relay",
            rules=wanted,
            peers=sorted({rule["peer"] for rule in wanted}),
            ports=sorted(self._ports.values()),
            again=[API_KEYS[api] for api in QUORUM],
        )
        before = {
            self._names.get(ip, ip): {
                NAMES.get(int(key), key): counts for key, counts in kinds.items()
            }
            for ip, kinds in told["before"].get("messages", {}).items()
        }
        evidence: Evidence = {"before": before} if before or not wanted else {}
        if wanted:
            evidence["means"] = told["means"]
            evidence["now"] = self._readable(told["rules"])
        return evidence

    def _fail(self, name: str, wanted: Names) -> Evidence:
        told = self._ask(name, "set_names", names=wanted)
        return {"now": wanted, "before": told["before"]}

    def _readable(self, specs: Sequence[Spec]) -> list[Spec]:
        """Return links or rules grouped by effects, with the names of the affected peers."""
        groups: list[tuple[Spec, list[str]]] = []
        for spec in specs:
            does = {key: value for key, value in spec.items() if value and key != "peer"}
            if "apis" in does:
                does["apis"] = [NAMES[key] for key in does["apis"]]
            peers = next((peers for known, peers in groups if known == does), None)
            if peers is None:
                groups.append((does, peers := []))
            peers.append(self._names[spec["peer"]])
        return [{**does, "peers": peers} for does, peers in groups]

    def _ask(self, name: str, do: str, **fields: Any) -> dict[str, Any]:
        seed = self._deployment.settings.seed
        return self._deployment.agents[name].ask(do, seed=f"{seed}-{name}", **fields)
