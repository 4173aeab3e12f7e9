"""Sequential specifications by their steps.

Source of the semantics: knossos.model (``Mutex``, ``FIFOQueue``, ``UnorderedQueue``, ``Set``,
``MultiRegister``). States and operations are hashable; ``step`` returns the next state, or
None if the operation cannot have this answer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, Protocol

from kraftwreck.checkers.calls import Call
from kraftwreck.checkers.linearizability.models import ModelError, freeze
from kraftwreck.histories.operation import OK


class Operation(NamedTuple):
    """The request and the answer of a call. ``looks``: it never changes the state."""

    f: str
    argument: Hashable
    answer: Hashable
    looks: bool = False


class Machine(Protocol):
    """``operation`` returns None for a call that constrains nothing."""

    name: str
    initial: Hashable

    def operation(self, call: Call) -> Operation | None: ...

    def step(self, state: Any, operation: Operation) -> Hashable | None: ...

    def choices(self, state: Any, operation: Operation) -> Sequence[Hashable]:
        """Return every state that may follow; :meth:`step` returns one of them."""


class Determined(ABC):
    """A machine that has at most one next state."""

    @abstractmethod
    def step(self, state: Any, operation: Operation) -> Hashable | None:
        """Return the next state, None if the operation cannot have this answer."""

    def choices(self, state: Any, operation: Operation) -> Sequence[Hashable]:
        """Return the next state, if there is one."""
        following = self.step(state, operation)
        return () if following is None else (following,)


def _unknown(machine: Machine, call: Call) -> ModelError:
    return ModelError(f"operation {call.start}: model {machine.name} has no operation {call.f!r}")


class Lock(Determined):
    """``acquire`` while free, ``release`` while held; with ``owned`` only by its holder."""

    name = "lock"
    initial: Hashable = (False, None)

    def __init__(self, owned: bool = False) -> None:
        self._owned = owned

    def operation(self, call: Call) -> Operation | None:
        if call.f not in ("acquire", "release"):
            raise _unknown(self, call)
        return Operation(call.f, call.process if self._owned else None, None)

    def step(self, state: Any, operation: Operation) -> Hashable | None:
        held, holder = state
        if operation.f == "acquire":
            return None if held else (True, operation.argument)
        return (False, None) if held and holder == operation.argument else None


class Queue(Determined):
    """``enqueue`` v and ``dequeue``; a dequeue that returned null saw an empty queue.

    With ``fifo`` elements leave in their order. An indeterminate dequeue may have taken
    any element.
    """

    def __init__(self, name: str, fifo: bool) -> None:
        self.name = name
        self.initial: Hashable = ()
        self._fifo = fifo

    def operation(self, call: Call) -> Operation | None:
        if call.f == "enqueue":
            return Operation("enqueue", freeze(call.argument), None)
        if call.f == "dequeue":
            if call.type != OK:
                return Operation("dequeue", None, ...)
            return Operation("dequeue", None, freeze(call.value), call.value is None)
        raise _unknown(self, call)

    def step(self, state: Any, operation: Operation) -> Hashable | None:
        if operation.f == "enqueue":
            grown = (*state, operation.argument)
            return grown if self._fifo else tuple(sorted(grown, key=repr))
        if operation.answer is None:
            return state if not state else None
        if operation.answer is ...:
            rest: Hashable = state[1:]
            return rest
        if self._fifo:
            return state[1:] if state and state[0] == operation.answer else None
        if operation.answer not in state:
            return None
        at = state.index(operation.answer)
        return (*state[:at], *state[at + 1 :])

    def choices(self, state: Any, operation: Operation) -> Sequence[Hashable]:
        """Return the next states; an indeterminate dequeue may have taken any element."""
        if self._fifo or operation.answer is not ...:
            return super().choices(state, operation)
        return list({(*state[:at], *state[at + 1 :]): None for at in range(len(state))})


class Members(Determined):
    """A set: ``add`` and ``remove`` v (no answer), ``contains`` v, ``read`` of all members."""

    name = "linearizable-set"
    initial: Hashable = frozenset()

    def operation(self, call: Call) -> Operation | None:
        if call.f in ("add", "remove"):
            return Operation(call.f, freeze(call.argument), None)
        if call.f == "contains":
            if call.type != OK:
                return None
            value = call.value
            asked, found = value if isinstance(value, list) else (call.argument, value)
            return Operation("contains", freeze(asked), bool(found), True)
        if call.f == "read":
            if call.type != OK:
                return None
            if not isinstance(call.value, list):
                raise ModelError(f"operation {call.start}: a read must be a list of elements")
            return Operation("read", None, frozenset(map(freeze, call.value)), True)
        raise _unknown(self, call)

    def step(self, state: Any, operation: Operation) -> Hashable | None:
        match operation.f:
            case "add":
                more: Hashable = state | {operation.argument}
                return more
            case "remove":
                less: Hashable = state - {operation.argument}
                return less
            case "contains":
                return state if (operation.argument in state) is operation.answer else None
        return state if state == operation.answer else None


class Counter(Determined):
    """A number from 0: ``add`` n (answered, if at all, with the sum), ``read``."""

    name = "linearizable-counter"
    initial: Hashable = 0

    def operation(self, call: Call) -> Operation | None:
        if call.f == "add":
            _whole(call, call.argument)
            told = call.type == OK and call.value != call.argument
            return Operation("add", call.argument, call.value if told else ...)
        if call.f == "read":
            if call.type != OK:
                return None
            _whole(call, call.value)
            return Operation("read", None, call.value, True)
        raise _unknown(self, call)

    def step(self, state: Any, operation: Operation) -> Hashable | None:
        if operation.f == "read":
            return state if state == operation.answer else None
        total = state + operation.argument
        return total if operation.answer in (..., total) else None


def _whole(call: Call, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ModelError(
            f"operation {call.start}: the value of {call.f} must be a whole number, got {value!r}"
        )


class MultiRegister(Determined):
    """Registers by name: ``txn`` of ``["read", k, v]`` and ``["write", k, v]``.

    ``initial`` maps names to values; a read of null means nothing (knossos).
    """

    name = "multi-register"

    def __init__(self, initial: Any = None) -> None:
        items: dict[str, Any] = initial or {}
        self.initial: Hashable = tuple(sorted((str(k), freeze(v)) for k, v in items.items()))

    def operation(self, call: Call) -> Operation | None:
        if call.f != "txn":
            raise _unknown(self, call)
        moves = call.value if call.type == OK else call.argument
        if not isinstance(moves, list) or not all(
            isinstance(m, list) and len(m) == 3 and m[0] in ("read", "write", "r", "w")
            for m in moves
        ):
            raise ModelError(
                f"operation {call.start}: the value of txn must be a list of [f, key, value]"
            )
        steps = tuple(
            (m[0][0], str(m[1]), freeze(m[2]))
            for m in moves
            if m[0][0] == "w" or (call.type == OK and m[2] is not None)
        )
        if not steps:
            return None
        return Operation("txn", steps, None, all(step[0] == "r" for step in steps))

    def step(self, state: Any, operation: Operation) -> Hashable | None:
        values = dict(state)
        steps: Any = operation.argument
        for kind, key, value in steps:
            if kind == "w":
                values[key] = value
            elif values.get(key) != value:
                return None
        return tuple(sorted(values.items()))


class KeyValue(Determined):
    """A string: ``get``, ``put`` v and ``append`` v; initially empty, like null.

    Source: the key-value store of Porcupine's examples.
    """

    name = "key-value"
    initial: Hashable = ""

    def operation(self, call: Call) -> Operation | None:
        if call.f not in ("get", "put", "append"):
            raise _unknown(self, call)
        looks = call.f == "get"
        if looks and call.type != OK:
            return None
        value = call.value if looks else call.argument
        if value is None and looks:
            value = ""
        if not isinstance(value, str):
            raise ModelError(
                f"operation {call.start}: the value of {call.f} must be a string, got {value!r}"
            )
        return Operation(call.f, None, value, True) if looks else Operation(call.f, value, None)

    def step(self, state: Any, operation: Operation) -> Hashable | None:
        if operation.f == "get":
            return state if state == operation.answer else None
        return operation.argument if operation.f == "put" else state + operation.argument


MACHINES: dict[str, Callable[[dict[str, Any]], Machine]] = {
    "lock": lambda options: Lock(bool(options.get("owned"))),
    "fifo-queue": lambda options: Queue("fifo-queue", True),
    "unordered-queue": lambda options: Queue("unordered-queue", False),
    "linearizable-set": lambda options: Members(),
    "linearizable-counter": lambda options: Counter(),
    "key-value": lambda options: KeyValue(),
    "multi-register": lambda options: MultiRegister(options.get("initial")),
}
