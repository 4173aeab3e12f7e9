"""The hosts of a test: how many there are, their roles, and those that elect a leader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from kraftwreck.harness.options import RunOptions

NODE = "node"


@dataclass(frozen=True, slots=True)
class Layout:
    """The ``roles`` of all hosts in order; the first ``electing`` ones elect a leader."""

    roles: tuple[str, ...]
    electing: int

    @property
    def others(self) -> int:
        """The number of hosts that do not elect a leader."""
        return len(self.roles) - self.electing

    @property
    def about(self) -> str:
        """The number of hosts by role, for people."""
        return ", ".join(f"{count} x {role}" for role, count in Counter(self.roles).items())

    def gateways(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the nodes to which clients may send their writes instead of to the leader: those
        of the hosts ``names`` that elect none."""
        return tuple(names[self.electing :])

    def members(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the fields of ``test.json`` about the hosts ``names``: all, those that elect a
        leader, and the role of each."""
        return {
            "nodes": list(names),
            "electing": list(names[: self.electing]),
            "roles": dict(zip(names, self.roles, strict=True)),
        }


@runtime_checkable
class LaidOut(Protocol):
    """A :class:`~harness.system.System` with hosts of several roles."""

    def layout(self, options: RunOptions) -> Layout:
        """Return the hosts of a test with these options, ``options.nodes`` of which elect a leader.

        Raises :class:`~harness.options.OptionError`, one line.
        """
        ...


def layout_of(system: object, options: RunOptions) -> Layout:
    """Return the hosts of a test of ``system``: by its own choice, or equal nodes."""
    if isinstance(system, LaidOut):
        return system.layout(options)
    return Layout((NODE,) * options.nodes, options.nodes)


def electing_of(test: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the nodes of a stored run that elect a leader, from its ``test.json``.

    In folders of earlier releases they are those with the role of the first node.
    """
    if "electing" in test:
        return tuple(test["electing"])
    nodes = tuple(test.get("nodes") or ())
    roles = test.get("roles") or {}
    return tuple(name for name in nodes if roles.get(name) == roles.get(nodes[0]))
