"""Faults as data: the plan, the actual changes with their targets, and the evidence.

A schedule is a list of :class:`Fault`; a run records one :class:`FaultEvent` when a fault starts
and one when it ends. Times are nanoseconds since the start of the test.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec


class Storm(msgspec.Struct, kw_only=True, frozen=True):
    """One of the storms of a governed schedule, and the conditions under which it begins.

    Storms begin in order of ``number`` and last ``length`` ns. Between two storms the cluster must
    recover: no fault is in force, and there is a leader. ``operations`` were acknowledged since the
    storm before ended, and at least ``percent`` of the operations that ended since that one began.
    The next storm begins at the latest ``bound`` ns after the storm before has ended.
    """

    number: int
    length: int
    operations: int
    percent: int
    bound: int


class Fault(msgspec.Struct, kw_only=True, frozen=True):
    """One planned fault: time, kind, targets, duration.

    ``at`` and ``duration`` are nanoseconds. ``kind`` names the fault family (``partition``,
    ``kill``, ``pause``), ``shape`` the variant (``one``, ``leader``, ``halves``, ``bridge``,
    ``ring``, ``one-way`` …). ``targets`` are node names. Without any they are chosen when the fault
    fires. All random choices of the fault are derived from the number ``draw``, so a replay makes
    the same choices.

    With a ``trigger`` such as ``"elected#2"`` the fault does not start at ``at``. From then on it
    waits for the second transition of that name in any node's trace, which is followed live on
    hosts. See ``harness.triggers`` for the names, and for the targets ``"@"`` (the node that made
    the transition) and ``"@leader"``.

    A fault of a ``storm`` is governed: its ``at`` counts from the beginning of the storm, and it
    ends with the storm at the latest. If its trigger does not fire, it starts when just its
    ``duration`` is left of the storm. See ``harness.governor``.
    """

    at: int
    kind: str
    shape: str
    duration: int
    draw: int
    targets: tuple[str, ...] = ()
    trigger: str | None = None
    storm: Storm | None = None


class FaultEvent(msgspec.Struct, kw_only=True):
    """A fault that started (``phase`` "start") or ended ("stop").

    ``id`` joins the two. ``time``/``done`` bracket the change, in nanoseconds since the
    start of the test. ``evidence`` holds measurements that prove the fault bit: packet
    counters, process states, pids.
    """

    id: int
    phase: Literal["start", "stop"]
    kind: str
    shape: str
    targets: list[str]
    time: int
    done: int
    detail: dict[str, Any] = {}
    evidence: dict[str, Any] = {}
    error: str | None = None
