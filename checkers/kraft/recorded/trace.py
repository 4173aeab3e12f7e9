"""The quorum's model over recorded traces."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import merge
from typing import Final

from kraftwreck.checkers.kraft.quorum_model.model import QuorumModel
from kraftwreck.checkers.recorded.clocks import node_clocks
from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.checkers.recorded.stored_events import StoredEvents
from kraftwreck.histories.trace import TraceEvent

QUORUM: Final = "quorum"
"""The name of the model among what is derived from a run."""


def quorum_model(run: RunData) -> QuorumModel:
    """Return the model of the quorum after all of ``run``'s trace, made once for all checkers.

    The simulator brings the one that it has fed live.
    """
    return run.derived(QUORUM, _make)


def _make(run: RunData) -> QuorumModel:
    model = QuorumModel(run.nodes, ordered=run.ordered, until=_ends(run))
    model.run(run.events if run.ordered else by_time(run))
    return model


def by_time(run: RunData) -> Iterable[TraceEvent]:
    """Yield the events of real hosts by the test's clock, those of one node in its own order.

    The first event that shows a commit or an append is then the earliest one. The order is an
    estimate with an error of a few milliseconds: it proves no order between nodes.
    """
    clocks, events = node_clocks(run.test), run.events
    of_node: list[Iterable[TraceEvent]] = []
    if isinstance(events, StoredEvents):
        of_node.extend(events.by_node())
    else:
        nodes: dict[str, list[TraceEvent]] = {}
        for event in events:
            nodes.setdefault(event.node, []).append(event)
        of_node.extend(
            sorted(mine, key=lambda event: (event.incarnation, event.seq))
            for mine in nodes.values()
        )

    def moment(event: TraceEvent) -> int:
        clock = clocks.get(event.node)
        return event.mono if clock is None else clock.time(event.mono)

    return merge(*of_node, key=moment)


def _ends(run: RunData) -> dict[str, int]:
    """Return the nodes' monotonic clocks (µs) at the end of the judged time."""
    if run.ended is None:
        return {}
    clocks = node_clocks(run.test)
    return {name: clock.reading(run.ended // 1000) for name, clock in clocks.items()}
