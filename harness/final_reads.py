"""The last operations of a run: does every node reach the same, complete state?"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from kraftwreck.harness.interpreter import Client
from kraftwreck.harness.workload import Completion, Planned
from kraftwreck.histories.operation import OK

POLL_S = 0.2
LIMIT_S = 15.0


def final_operations(
    client: Client,
    planned: Sequence[Planned],
    *,
    limit_s: float = LIMIT_S,
    sleep: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic,
) -> None:
    """Run ``planned``, in order, on the healed and quiet cluster.

    A final ``read`` of one node is polled until it equals the active controller's linearizable
    read, or until ``limit_s`` seconds have passed for all reads together; then the last response
    is used. It is one operation of the history: it begins before the first poll and ends with the
    last. Other operations run once.
    """
    deadline = now() + limit_s
    reference: Completion | None = None
    for plan in planned:
        if plan.f != "read" or plan.node is None:
            client.run(plan)
            continue
        if reference is None:
            whole = Planned(plan.f, plan.key, plan.value, final=True)
            reference = _poll(client, whole, lambda c: True, deadline, sleep, now)
        wanted = reference

        def agrees(seen: Completion, wanted: Completion = wanted) -> bool:
            return wanted.type != OK or seen.value == wanted.value

        _poll(client, plan, agrees, deadline, sleep, now)


def _poll(
    client: Client,
    planned: Planned,
    enough: Callable[[Completion], bool],
    deadline: float,
    sleep: Callable[[float], None],
    now: Callable[[], float],
) -> Completion:
    """Repeat one read until it is ``ok`` and ``enough``, or the deadline passes."""
    op = client.begin(planned)
    while True:
        completion = client.attempt(op)
        if (completion.type == OK and enough(completion)) or now() >= deadline:
            client.finish(op, completion)
            return completion
        sleep(POLL_S)
