"""The recorder: every operation enters the history through it, in order."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

from kraftwreck.harness.governor import Counts
from kraftwreck.harness.workload import Completion, Planned
from kraftwreck.histories.operation import FAIL, INFO, INVOKE, OK, Op, OpType
from kraftwreck.histories.store import JsonLines


class Recorder:
    """Appends operations to the live history; safe to use from several threads.

    ``index`` counts lines, and ``time`` (from ``clock``, ns since the start of the test) never
    decreases from one line to the next. Raises :class:`~histories.store.StoreError` when the
    history cannot be written.
    """

    def __init__(self, lines: JsonLines, clock: Callable[[], int]) -> None:
        self._lines = lines
        self._clock = clock
        self._lock = threading.Lock()
        self._next = 0
        self._open: dict[int, Op] = {}
        self.counts: Counter[str] = Counter()

    def invoke(self, process: int, planned: Planned) -> Op:
        """Record that ``process`` begins ``planned``; return the invocation."""
        with self._lock:
            op = self._append(
                process, INVOKE, planned.f, planned.key, planned.value, planned.node, planned.final
            )
            self._open[op.index] = op
            return op

    def complete(self, op: Op, completion: Completion) -> bool:
        """Record how ``op`` ended; return False if :meth:`abandon` has already ended it.

        A completion that is not ``ok`` repeats the value of the invocation.
        """
        with self._lock:
            if self._open.pop(op.index, None) is None:
                return False
            value = completion.value
            if completion.type != OK and value is None:
                value = op.value
            self._append(
                op.process,
                completion.type,
                op.f,
                op.key,
                value,
                completion.node or op.node,
                op.final,
                completion.error,
            )
            return True

    def abandon(self) -> int:
        """End every open operation as ``info``; return how many there were."""
        with self._lock:
            abandoned = list(self._open.values())
            self._open.clear()
            for op in abandoned:
                self._append(
                    op.process, INFO, op.f, op.key, op.value, op.node, op.final, "the test ended"
                )
            return len(abandoned)

    @property
    def progress(self) -> Counts:
        """How many operations have ended, and how many of them were acknowledged."""
        counts = self.counts
        return Counts(counts[OK] + counts[FAIL] + counts[INFO], counts[OK])

    @property
    def summary(self) -> str:
        """Counts for people: ``12 ok, 3 fail, 1 info``."""
        return ", ".join(f"{self.counts[kind]} {kind}" for kind in (OK, FAIL, INFO))

    def _append(
        self,
        process: int,
        kind: OpType,
        f: str,
        key: object,
        value: object,
        node: str | None,
        final: bool,
        error: str | None = None,
    ) -> Op:
        op = Op(
            index=self._next,
            process=process,
            type=kind,
            f=f,
            key=key,
            value=value,
            time=self._clock(),
            node=node,
            error=error,
            final=final,
        )
        self._lines.write(op)
        self._next += 1
        self.counts[kind] += 1
        return op
