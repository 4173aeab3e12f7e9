"""Final reads wait for every node to agree with the linearizable read, but not for ever.

The interpreter is a pure state machine: these tests answer its commands themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from kraftwreck.harness.client import Completion
from kraftwreck.harness.commands import Abandon, Ended, FinalPhase, Invoke, Record, Ring, Wake
from kraftwreck.harness.generator import Planned
from kraftwreck.harness.interpreter import Interpreter
from kraftwreck.harness.operations import FINAL_LIMIT, POLL, Operations
from kraftwreck.histories.operation import Op

READS = [Planned("read", node=node, final=True) for node in ("n1", "n2", "n3")]
Answered = Callable[[str | None, int], Completion]
"""How the read of a node (None: the linearizable one) ends, at its n-th attempt."""


class Bench:
    """Runs final operations; ``now`` is the time in ns."""

    def __init__(self, answered: Answered) -> None:
        self.now = 0
        self.ops: list[Op] = []
        self.attempts: dict[int, int] = {}
        self._answered = answered
        operations = Operations(None, seed=1, concurrency=3)
        self.interpreter = Interpreter(operations, [], ("n1", "n2", "n3"), frozenset)

    def run(self, planned: Sequence[Planned]) -> list[Op]:
        commands = self.interpreter.step(FinalPhase(self.now, planned))
        while commands:
            command = commands.pop(0)
            if isinstance(command, Record):
                self.ops.append(command.op)
            elif isinstance(command, Wake):
                self.now = command.at
                commands += self.interpreter.step(Ring(self.now, command.alarm))
            elif isinstance(command, Invoke):
                op = command.op
                count = self.attempts[op.index] = self.attempts.get(op.index, 0) + 1
                completion = self._answered(op.node, count)
                event = Ended(self.now, command.thread, op.index, completion)
                commands += self.interpreter.step(event)
        assert self.interpreter.operations.idle
        return self.ops


def ends(ops: list[Op]) -> list[tuple[str, str | None, object]]:
    return [(op.type, op.node, op.value) for op in ops if op.type != "invoke"]


def test_the_linearizable_read_comes_first_then_every_node() -> None:
    ops = Bench(lambda node, count: Completion("ok", ["a"], node=node or "n1")).run(READS)
    assert ends(ops) == [("ok", node, ["a"]) for node in ("n1", "n1", "n2", "n3")]
    assert [op.node for op in ops if op.type == "invoke"] == [None, "n1", "n2", "n3"]
    assert all(op.final and op.process == 3 for op in ops)


def test_a_node_that_lags_is_polled_and_recorded_once() -> None:
    bench = Bench(
        lambda node, count: Completion("ok", [] if node == "n2" and count < 5 else ["a"], node=node)
    )
    assert ends(bench.run(READS))[2] == ("ok", "n2", ["a"])
    assert bench.now == 4 * POLL
    assert len(bench.ops) == 8


def test_a_node_that_never_agrees_is_recorded_as_it_is() -> None:
    bench = Bench(lambda node, count: Completion("ok", [] if node == "n2" else ["a"], node=node))
    assert ends(bench.run(READS))[2] == ("ok", "n2", [])
    assert bench.now == pytest.approx(FINAL_LIMIT, abs=2 * POLL)
    assert len(bench.ops) == 8


def test_without_a_linearizable_read_nodes_are_still_read() -> None:
    def answered(node: str | None, count: int) -> Completion:
        return Completion("fail", error="no") if node is None else Completion("ok", [], node=node)

    bench = Bench(answered)
    assert ends(bench.run(READS)) == [
        ("fail", None, None), ("ok", "n1", []), ("ok", "n2", []), ("ok", "n3", []),
    ]  # fmt: skip
    assert bench.now >= FINAL_LIMIT


def test_operations_that_are_not_reads_run_once() -> None:
    bench = Bench(lambda node, count: Completion("fail"))
    ops = bench.run([Planned("create", "x", "x", final=True)])
    assert [(op.type, op.value) for op in ops] == [("invoke", "x"), ("fail", "x")]
    assert bench.now == 0


def test_a_process_that_ends_info_is_replaced() -> None:
    ops = Bench(lambda node, count: Completion("info")).run(
        [Planned("w", value=1, final=True), Planned("w", value=2, final=True)]
    )
    assert [op.process for op in ops] == [3, 3, 6, 6]


def test_what_is_left_is_abandoned_as_info() -> None:
    bench = Bench(lambda node, count: Completion("ok"))
    interpreter = bench.interpreter
    first, _ = interpreter.step(FinalPhase(0, READS))
    assert isinstance(first, Record)
    record, _ = interpreter.step(Abandon(7))
    assert isinstance(record, Record)
    assert (record.op.type, record.op.error) == ("info", "the test ended")
    assert interpreter.operations.idle
    assert interpreter.step(Ended(9, 0, first.op.index, Completion("ok"))) == []


def test_a_completion_repeats_the_value_unless_it_is_ok() -> None:
    bench = Bench(lambda node, count: Completion("ok" if node else "fail"))
    ops = bench.run([Planned("write", value=3, final=True), Planned("get", node="n1", final=True)])
    assert [op.value for op in ops] == [3, 3, None, None]
