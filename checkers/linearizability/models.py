"""Sequential specifications that a linearizable history must obey.

A model turns each call into an :class:`Action`: the state that the call needs to take effect as
it was answered, and the state after it. That covers registers, compare-and-set and presence in a
set, and keeps the search free of callbacks.
Source of the register semantics: knossos.model (``Register``, ``CASRegister``).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, NamedTuple, Protocol

from kraftwreck.checkers.calls import Call
from kraftwreck.histories.operation import FAIL, OK


class _Word:
    """A word that is equal only to itself."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


ANY = _Word("anything")
PRESENT = _Word("present")
"""As a need: any state but None."""
SAME = _Word("unchanged")


class Action(NamedTuple):
    """``need`` is a state, :data:`ANY` or :data:`PRESENT`; ``result`` a state or :data:`SAME`."""

    need: Hashable
    result: Hashable


class ModelError(ValueError):
    """The history holds an operation that the model does not know; one line."""


class Model(Protocol):
    """``action`` returns None for a call that constrains nothing (an indeterminate read)."""

    name: str
    initial: Hashable

    def action(self, call: Call) -> Action | None: ...


def allowed(state: Hashable, action: Action) -> bool:
    """Return whether ``action`` may take effect in ``state``."""
    need = action.need
    return need is ANY or (state is not None if need is PRESENT else state == need)


def after(state: Hashable, action: Action) -> Hashable:
    """Return the state after ``action`` in ``state``."""
    return state if action.result is SAME else action.result


def freeze(value: Any) -> Hashable:
    """Return a JSON value in hashable form; 1 and True stay different."""
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, list | tuple):
        return ("list", *map(freeze, value))
    if isinstance(value, dict):
        return ("map", *sorted((str(k), freeze(v)) for k, v in value.items()))
    return value  # type: ignore[no-any-return]  # str, int, float or None


def thaw(value: Hashable) -> Any:
    """Return the original of a value that :func:`freeze` returned (for explanations)."""
    if isinstance(value, tuple):
        kind, *items = value
        if kind == "bool":
            return items[0]
        if kind == "list":
            return [thaw(item) for item in items]
        return {key: thaw(item) for key, item in items}
    return value


class Register:
    """A read/write register, or with ``cas`` a compare-and-set register; initially null.

    f ``read`` (value: the value seen), ``write`` (value), ``cas`` ([old, new]),
    ``delete`` (a write of null). A ``strict`` register lives in something that must exist, such
    as a topic's configuration: ``write`` and ``delete`` succeed only while the value is not null.
    With an ``initial`` value null is no value, as in Knossos: a read of null means nothing. The
    value of a register that ``expires`` may become null at any time: a read of null deletes it.
    """

    def __init__(
        self,
        name: str,
        *,
        cas: bool = True,
        strict: bool = False,
        initial: Any = None,
        expires: bool = False,
    ) -> None:
        self.name = name
        self.initial: Hashable = freeze(initial)
        self._cas = cas
        self._expires = expires
        self._need: Hashable = PRESENT if strict else ANY

    def action(self, call: Call) -> Action | None:
        if call.f == "read":
            if call.type != OK or (call.value is None and self.initial is not None):
                return None
            if call.value is None and self._expires:
                return Action(ANY, None)
            return Action(freeze(call.value), SAME)
        if call.f == "write":
            return Action(self._need, freeze(call.argument))
        if self._cas and call.f == "delete":
            return Action(self._need, None)
        if self._cas and call.f == "cas":
            if not isinstance(call.argument, list | tuple) or len(call.argument) != 2:
                raise ModelError(
                    f"operation {call.start}: the value of cas must be [old, new], "
                    f"got {call.argument!r}"
                )
            old, new = call.argument
            return Action(freeze(old), freeze(new))
        raise ModelError(f"operation {call.start}: model {self.name} has no operation {call.f!r}")


class Presence:
    """Whether one element is in a set; initially absent.

    f ``create`` succeeds only while absent, ``delete`` only while present, ``read`` returns
    true or false.
    """

    name = "set-presence"
    initial: Hashable = False

    def action(self, call: Call) -> Action | None:
        if call.f == "read":
            return Action(bool(call.value), SAME) if call.type == OK else None
        if call.f == "create":
            return Action(False, True)
        if call.f == "delete":
            return Action(True, False)
        raise ModelError(f"operation {call.start}: model {self.name} has no operation {call.f!r}")


MODELS: dict[str, Model] = {
    "register": Register("register", cas=False),
    "cas-register": Register("cas-register"),
    "topic-register": Register("topic-register", strict=True),
    "expiring-register": Register("expiring-register", expires=True),
    "set-presence": Presence(),
}


def actions(model: Model, calls: Iterable[Call]) -> list[tuple[Call, Action]]:
    """Return the calls that constrain the order, with their actions.

    Failed calls did not happen. An indeterminate call is kept only if its result is needed
    by a call that certainly happened, or by an indeterminate one that is itself needed. A legal
    order stays legal without any other, since no call saw its result.
    Raises :class:`ModelError`.
    """
    certain: list[tuple[Call, Action]] = []
    doubtful: list[tuple[Call, Action]] = []
    for call in calls:
        if call.type == FAIL:
            continue
        action = model.action(call)
        if action is None:
            continue
        (certain if call.type == OK else doubtful).append((call, action))
    if not doubtful:
        return certain
    needs = {action.need for _, action in certain}
    kept: list[tuple[Call, Action]] = []
    grew = True
    while grew:
        grew = False
        rest = []
        for call, action in doubtful:
            result = action.result
            if result in needs or (PRESENT in needs and result is not None):
                kept.append((call, action))
                grew = grew or action.need not in needs
                needs.add(action.need)
            else:
                rest.append((call, action))
        doubtful = rest
    return sorted(certain + kept, key=lambda item: item[0].start)
