"""Requests of clients that arrived, each once, with its answer if that was captured.

The simulator captures a request for a change when it arrives and again with its answer. Hosts have
the input logs of their nodes, which hold requests only and lose their ends with the power.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.histories.message import Message
from kraftwreck.nodes.protocol import errors

_UNDECIDED = frozenset((errors.NONE, errors.REQUEST_TIMED_OUT, errors.UNKNOWN_SERVER_ERROR))


def arrived(run: RunData, apis: Iterable[str]) -> Iterator[Message]:
    """Yield the captured requests of these APIs; none for a run without captured messages."""
    wanted = frozenset(apis)
    capture = run.capture
    asked = [
        message
        for message in (capture.messages if capture is not None else ())
        if message.api in wanted and isinstance(message.request, dict)
    ]
    answered = {id(message.request) for message in asked if message.response is not None}
    for message in asked:
        if message.response is not None or id(message.request) not in answered:
            yield message


def all_arrived(run: RunData) -> bool:
    """Whether every request that arrived was captured."""
    capture = run.capture
    if capture is None or capture.dropped or run.test.get("uncollected"):
        return False
    lost = "power" in (run.test.get("faults") or ())
    return run.test.get("simulated") is True or (capture.own_inputs and not lost)


def may_be_done(answer: dict[str, Any] | None) -> bool:
    """Whether a request with this answer, or part of one, may have been carried out."""
    return answer is None or answer["error_code"] in _UNDECIDED
