"""The transitions of a system's nodes for which faults may wait."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Transitions:
    """Names of transitions (:func:`harness.triggers.known`) by the use that schedules make.

    - ``usual``: those of every run; ``often`` of them occur many times a second
    - ``weighted``: the usual ones, repeated according to their frequency in schedules
    - ``later``: those for which only half of the schedules wait
    - ``of_others``: those of nodes that do not elect a leader
    - ``rare``: those that do not occur in a healthy cluster: another fault must cause them
    - ``led``: those of nodes while there is a leader, repeated according to their frequency
    - ``rises``: those with which a new leader begins to lead, repeated likewise
    - ``elected``, ``claim``: an election is won, and a new leader serves
    - ``committed``: the leader commits
    - ``download``: a node begins to fetch a snapshot
    - ``members``: the members of the group change
    """

    usual: tuple[str, ...]
    weighted: tuple[str, ...]
    later: tuple[str, ...]
    of_others: tuple[str, ...]
    rare: frozenset[str]
    often: frozenset[str]
    led: tuple[str, ...]
    rises: tuple[str, ...]
    elected: str
    claim: str
    committed: str
    download: str
    members: str
