"""The client threads: they run a workload against real nodes and record the results.

Modelled on jepsen.generator.interpreter. Each thread runs one operation at a time. A process ends
when its operation ends ``info``; its thread continues as ``process + concurrency`` with new
connections.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from kraftwreck.harness.recorder import Recorder
from kraftwreck.harness.workload import Answer, Call, ClientState, Completion, Planned, Workload
from kraftwreck.histories.operation import INFO, Op
from kraftwreck.histories.store import StoreError
from kraftwreck.nodes.draw import draw, draw_unit


class Connection(Protocol):
    """A client's connection to one node; :class:`harness.kafka_client.KafkaClient` is one."""

    def call(self, api: str, version: int, body: dict[str, Any], timeout_ms: int) -> Answer:
        """Send one request; connect when needed, never raise network errors."""
        ...

    def close(self) -> None:
        """Close the socket, if open."""
        ...


Connect = Callable[[str, str], Connection]
"""``connect(node, client_id)`` returns a connection that may not be open yet."""


class Client:
    """One logical client: its memory and its connections. For one thread only."""

    def __init__(
        self,
        workload: Workload,
        recorder: Recorder,
        connect: Connect,
        state: ClientState,
        concurrency: int,
    ) -> None:
        self.state = state
        self.process = state.thread
        self._workload = workload
        self._recorder = recorder
        self._connect = connect
        self._concurrency = concurrency
        self._connections: dict[str, Connection] = {}

    def run(self, planned: Planned) -> Completion:
        """Invoke one operation; record its beginning and its end."""
        op = self._recorder.invoke(self.process, planned)
        completion = self.attempt(op)
        self.finish(op, completion)
        return completion

    def begin(self, planned: Planned) -> Op:
        """Record only the beginning of ``planned``; :meth:`finish` records the end."""
        return self._recorder.invoke(self.process, planned)

    def finish(self, op: Op, completion: Completion) -> None:
        """Record how ``op`` ended; after an ``info`` start a new process."""
        self._recorder.complete(op, completion)
        if completion.type == INFO:
            self.process += self._concurrency
            self.state.leader = None
            self.close()

    def attempt(self, op: Op) -> Completion:
        """Carry out ``op`` without recording anything.

        An exception of the workload (a response it cannot parse) is an ``info``: the effect on the
        nodes is unknown.
        """
        steps = self._workload.invoke(op, self.state)
        try:
            call = next(steps)
            while True:
                call = steps.send(self._call(call))
        except StopIteration as end:
            completion = end.value
            assert isinstance(completion, Completion)
            return completion
        except Exception as error:
            text = " ".join(str(error).split())
            return Completion(INFO, error=f"unusable answer: {type(error).__name__}: {text}")

    def _call(self, call: Call) -> Answer:
        connection = self._connections.get(call.node)
        if connection is None:
            connection = self._connect(call.node, f"kraftwreck-{self.process}")
            self._connections[call.node] = connection
        return connection.call(call.api, call.version, call.body, call.timeout_ms)

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()


class Interpreter:
    """``concurrency`` client threads that together begin ``rate`` operations per second.

    ``nodes`` are the names of the controllers in order; node id = position + 1. ``gateways`` are
    the brokers to which writes go; without any they go directly to the controller.
    """

    def __init__(
        self,
        workload: Workload,
        recorder: Recorder,
        connect: Connect,
        nodes: Sequence[str],
        *,
        seed: int,
        concurrency: int,
        rate: float,
        gateways: Sequence[str] = (),
    ) -> None:
        ids: Mapping[int, str] = dict(enumerate(nodes, start=1))
        self._workload = workload
        self._recorder = recorder
        self._seed = seed
        self._period_s = concurrency / rate
        self._stop = threading.Event()
        self.failure: Exception | None = None
        """Set when the history can no longer be written; the run must end."""
        self.clients = [
            Client(
                workload,
                recorder,
                connect,
                ClientState(thread, tuple(nodes), ids, seed, gateways=tuple(gateways)),
                concurrency,
            )
            for thread in range(concurrency)
        ]
        self._threads = [
            threading.Thread(
                target=self._work, args=(client,), name=f"client-{client.process}", daemon=True
            )
            for client in self.clients
        ]

    def start(self) -> None:
        """Start all client threads."""
        for thread in self._threads:
            thread.start()

    def stop(self, wait_s: float) -> int:
        """Begin no operations, wait for open ones, and end the rest as ``info``.

        Returns how many operations were ended.
        """
        self._stop.set()
        deadline = time.monotonic() + wait_s
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(0.0, deadline - time.monotonic()))
        return self._recorder.abandon()

    def believed_leader(self) -> str | None:
        """Return the node that most clients consider the leader."""
        guesses = Counter(c.state.leader for c in self.clients if c.state.leader is not None)
        return guesses.most_common(1)[0][0] if guesses else None

    def _work(self, client: Client) -> None:
        thread = client.state.thread
        due = time.monotonic()
        count = 0
        try:
            while True:
                due = max(due + self._delay_s(thread, count), time.monotonic())
                if self._stop.wait(due - time.monotonic()):
                    return
                client.run(self._workload.plan(self._seed, thread, count))
                count += 1
        except StoreError as error:
            self.failure = error
            self._stop.set()
        except Exception as defect:
            # An error of the workload's generator: the run must end with it.
            self.failure = defect
            self._stop.set()
        finally:
            client.close()

    def _delay_s(self, thread: int, count: int) -> float:
        """Return the pause before an operation; its mean gives the rate.

        Half of all seeds space operations uniformly, half exponentially (in bursts).
        """
        unit = draw_unit(self._seed, "stagger", thread, count)
        if draw(self._seed, "stagger") % 2:
            return -math.log(1.0 - unit) * self._period_s
        return 2 * unit * self._period_s
