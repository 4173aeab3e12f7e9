"""Proof and suspicion: a rule with a tolerance in real time proves nothing on hosts.

A busy machine, a paused virtual machine or a slow disk exceeds any such tolerance without a bug. In
virtual time nothing takes longer than the simulator lets it, so there the same rule is a proof.
:class:`~checkers.findings.Findings` asks :func:`proves`, and nothing else decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Limit(NamedTuple):
    """A limit in time that findings depend on.

    ``rules`` are the types of these findings, ``bound`` is the limit in words, and ``why`` a
    sentence on what else than a bug exceeds it on hosts. ``claimed``: the limit itself is what a
    valid run promises, so a run that seems to exceed it is unknown. ``on_hosts`` is False if hosts
    record too little for the rule.
    """

    rules: tuple[str, ...]
    bound: str
    why: str
    claimed: bool = False
    on_hosts: bool = True


def in_virtual_time(test: Mapping[str, Any]) -> bool:
    """Return whether ``test.json`` describes a simulated run."""
    return test.get("simulated") is True


def proves(limit: Limit | None, *, virtual: bool) -> bool:
    """Return whether a finding that depends on ``limit`` (None: on no limit) is a proof."""
    return limit is None or virtual
