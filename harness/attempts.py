"""One attempt of an operation by a client: its calls, and the end it comes to.

An adapter that raises or returns nonsense ends the operation as ``info``: the effect on the nodes
is unknown. The error names the adapter's file and line.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Generator
from pathlib import Path
from types import FrameType
from typing import Any

from kraftwreck.harness.client import Answer, Call, Client, Completion, Invocation, Pause
from kraftwreck.harness.code_places import code_place
from kraftwreck.histories.operation import FAIL, INFO, OK, Op
from kraftwreck.histories.undecodable import is_json


class Attempt:
    """The steps of a client's coroutine."""

    __slots__ = ("_client", "_invocation", "_op")

    def __init__(self, client: Client, op: Op) -> None:
        self._client = client
        self._op = op
        self._invocation: Invocation | None = None

    def advance(self, answer: Answer | None = None) -> Call | Pause | Completion:
        """Return the next call or pause, or the outcome; ``answer`` is that of the call before."""
        try:
            if self._invocation is None:
                begun: object = self._client.invoke(self._op)
                if not isinstance(begun, Generator):
                    return _nonsense(self._client, "invoke returned", begun)
                self._invocation = begun
                step: object = next(begun)
            else:
                assert answer is not None
                step = self._invocation.send(answer)
        except StopIteration as end:
            return checked(self._client, end.value)
        except Exception as error:
            return unusable(self._client, error)
        return (
            step
            if isinstance(step, Call | Pause)
            else _nonsense(self._client, "invoke yielded", step)
        )


def checked(client: object, completion: Any) -> Completion:
    """Return ``completion`` if it is one, else an ``info`` with the client's place."""
    if isinstance(completion, Completion) and completion.type in (OK, FAIL, INFO):
        texts = (completion.error, completion.node)
        if all(text is None or isinstance(text, str) for text in texts):
            return completion
    return _nonsense(client, "invoke ended with", completion)


def storable(client: object, completion: Completion) -> Completion:
    """Return ``completion`` if the history can hold its value, else an ``info``."""
    if is_json(completion.value):
        return completion
    return _nonsense(client, "invoke ended with the value", completion.value)


def unusable(client: object, error: BaseException) -> Completion:
    """Return the outcome of an attempt in which the client raised ``error``."""
    places = [
        (frame.filename, frame.lineno or 0) for frame in traceback.extract_tb(error.__traceback__)
    ]
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return Completion(INFO, error=f"unusable answer: {text} ({_inside(client, places)})")


def blocked_at(client: object, frame: FrameType | None) -> str:
    """Return the place in the client's own code at which its thread is."""
    places = []
    while frame is not None:
        places.append((frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return _inside(client, places[::-1])


def _nonsense(client: object, what: str, value: object) -> Completion:
    shown = repr(value)
    shown = shown if len(shown) <= 60 else f"{shown[:60]}..."
    return Completion(INFO, error=f"unusable answer: {what} {shown} ({_inside(client, [])})")


def _inside(client: object, places: list[tuple[str, int]]) -> str:
    """Return the innermost of ``places`` in the client's folder; without any, its ``invoke``."""
    code = getattr(inspect.unwrap(getattr(type(client), "invoke", _inside)), "__code__", None)
    if code is None:
        return type(client).__name__
    home = Path(code.co_filename).resolve().parent
    own = [(name, line) for name, line in places if Path(name).resolve().is_relative_to(home)]
    name, line = own[-1] if own else (code.co_filename, code.co_firstlineno)
    return code_place(Path(name).resolve(), line)
