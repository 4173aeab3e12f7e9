"""Client threads in virtual time: they drive the same workload coroutines as real ones.

Calls pass through the codec both ways, so that a node sees exactly what would have come
over a socket. A thread has at most one operation open; after an ``info`` it goes on as a
new process, as a crashed client would.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.workload import Answer, Call, ClientState, Completion, Invocation, Planned, Workload
from histories.operation import INFO, INVOKE, Op, OpType
from nodes.draw import draw_unit
from nodes.protocol.codec import ProtocolError, decode, encode
from simulation.world import World

_STATUS: dict[str, Any] = {"ok": "ok", "refused": "refused", "lost": "lost"}
_SECOND = 1_000_000


class _Thread:
    """One client thread: its process number, what it remembers, and its open operation."""

    __slots__ = ("count", "due", "invocation", "op", "process", "state")

    def __init__(self, number: int, state: ClientState) -> None:
        self.process = number
        self.state = state
        self.count = 0
        self.due = 0
        self.op: Op | None = None
        self.invocation: Invocation | None = None


class VirtualClients:
    """``concurrency`` threads that invoke ``rate`` operations a second together.

    ``ops`` is the history, in order of time. Threads start at virtual time 0 and begin no
    operation at or after ``until`` (µs).
    """

    def __init__(
        self,
        world: World,
        workload: Workload,
        nodes: Sequence[str],
        *,
        seed: int,
        concurrency: int,
        rate: float,
        until: int,
    ) -> None:
        self.ops: list[Op] = []
        self._world = world
        self._workload = workload
        self._seed = seed
        self._concurrency = concurrency
        self._until = until
        self._period = 2 * concurrency / rate * _SECOND if rate > 0 else 0.0
        ids = {i + 1: name for i, name in enumerate(nodes)}
        self._threads = [
            _Thread(i, ClientState(thread=i, nodes=nodes, ids=ids, seed=seed))
            for i in range(concurrency)
        ]
        self._finals: list[Planned] = []
        if rate > 0:
            for thread in self._threads:
                self._plan_next(thread)

    @property
    def idle(self) -> bool:
        """Whether no operation is open and none is planned after the last heal."""
        return not self._finals and all(thread.op is None for thread in self._threads)

    def abandon(self) -> None:
        """End what is still open: nobody knows whether it happened."""
        for thread in self._threads:
            if thread.op is not None:
                self._complete(thread, Completion(type=INFO, error="the test ended"))

    def run_final(self, planned: Sequence[Planned]) -> None:
        """Invoke the final operations one after the other, on the first thread."""
        self._finals = list(planned)
        self._next_final()

    def _next_final(self) -> None:
        if self._finals:
            thread = self._threads[0]
            self._invoke(thread, self._finals[0])

    def _plan_next(self, thread: _Thread) -> None:
        number = thread.state.thread
        # Uniform in [0, 2 c / rate), so that the threads together make ``rate`` a second.
        thread.due += int(self._period * draw_unit(self._seed, "stagger", number, thread.count))
        due = max(thread.due, self._world.now)
        if due >= self._until:
            return
        self._world.at(due, lambda: self._begin(thread), f"op {number} {thread.count}")

    def _begin(self, thread: _Thread) -> None:
        planned = self._workload.plan(self._seed, thread.state.thread, thread.count)
        thread.count += 1
        self._invoke(thread, planned)

    def _record(
        self,
        thread: _Thread,
        kind: OpType,
        op: Op | Planned,
        value: Any,
        node: str | None,
        error: str | None = None,
    ) -> Op:
        recorded = Op(
            index=len(self.ops),
            process=thread.process,
            type=kind,
            f=op.f,
            key=op.key,
            value=value,
            time=self._world.now * 1000,
            node=node,
            error=error,
            final=op.final,
        )
        self.ops.append(recorded)
        self._world.fact(f"o {thread.process} {kind} {op.f} {op.key} {value}")
        return recorded

    def _invoke(self, thread: _Thread, planned: Planned) -> None:
        op = self._record(thread, INVOKE, planned, planned.value, planned.node)
        thread.op = op
        thread.invocation = self._workload.invoke(op, thread.state)
        self._advance(thread, None)

    def _advance(self, thread: _Thread, answer: Answer | None) -> None:
        invocation = thread.invocation
        assert invocation is not None
        try:
            call = next(invocation) if answer is None else invocation.send(answer)
        except StopIteration as stop:
            self._complete(thread, stop.value)
            return
        self._call(thread, call)

    def _call(self, thread: _Thread, call: Call) -> None:
        op = thread.op
        name, version = f"{call.api}Request", call.version
        body, _ = decode(name, version, encode(name, version, call.body))

        def done(status: str, answer: dict[str, Any], error: str | None) -> None:
            if thread.op is not op:
                return  # The operation was abandoned.
            if status == "ok":
                response = f"{call.api}Response"
                try:
                    answer, _ = decode(response, version, encode(response, version, answer))
                except ProtocolError as broken:
                    self._world.kill(call.node)
                    raise AssertionError(
                        f"{call.node} answers {call.api} badly: {broken}"
                    ) from broken
            self._advance(thread, Answer(_STATUS[status], answer, error))

        self._world.call(
            thread.state.thread,
            call.node,
            call.api,
            version,
            body,
            call.timeout_ms * 1000,
            done,
        )

    def _complete(self, thread: _Thread, completion: Completion) -> None:
        op = thread.op
        assert op is not None
        thread.op = thread.invocation = None
        value = completion.value
        node = completion.node or op.node
        self._record(thread, completion.type, op, value, node, completion.error)
        if completion.type == INFO:
            thread.process += self._concurrency
            thread.state.leader = None
        if op.final:
            if self._finals:
                self._finals.pop(0)
            self._next_final()
        else:
            self._plan_next(thread)
