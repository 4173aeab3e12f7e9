"""The trace of a node: one event per transition, one schema for all shells.

Real nodes write these as JSON lines (``trace.jsonl``); the simulator passes them on as objects.
Both look the same to checkers, Spark jobs and reports.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

TRACES: Final = 2
"""``versions.traces`` in ``test.json``: what nodes trace. Since 2, ``apply`` says how far the
metadata image lags behind the commits."""


class TraceEvent(msgspec.Struct, kw_only=True, gc=False):
    """One transition of one node.

    ``incarnation`` counts process starts of the node from 1, ``seq`` counts events within an
    incarnation from 0. ``mono`` and ``wall`` are the node's own clocks in microseconds. Every event
    carries the position of the node *after* the transition: ``state`` (lower case state name),
    ``epoch``, ``leader`` (-1 unknown), ``voted`` (-1 none), ``leo`` (log end offset) and ``hw``
    (high watermark, -1 unknown). ``detail`` holds the fields specific to the ``kind``; see
    docs/trace.md.
    """

    node: str
    incarnation: int
    seq: int
    mono: int
    wall: int
    kind: str
    state: str
    epoch: int
    leader: int
    voted: int
    leo: int
    hw: int
    detail: dict[str, Any] = {}
