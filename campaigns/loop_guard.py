"""Ends simulated runs in which a node, or the world around it, loops."""

from __future__ import annotations

import _weakrefset
import gc
import signal
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType

from kraftwreck.nodes.consensus.effects import FatalError
from kraftwreck.simulation import timeline

LOOP_S = 30.0
"""CPU seconds without one second of virtual time. Ordinary runs use 0.1 to 2 for each."""
_SOON_S = 0.01
_SECOND = 1_000_000
_WEAK = frozenset((weakref.__file__, _weakrefset.__file__))
"""Modules whose functions are callbacks of weak references."""


@contextmanager
def loop_guard(seconds: float = LOOP_S) -> Iterator[None]:
    """Raise :class:`FatalError` where code loops: a step that never ends is fatal to its node.

    Code loops if it uses ``seconds`` of CPU time and less than one second of virtual time passes.
    The length of a run and the speed of the machine do not matter.

    Python drops an exception that leaves a finalizer, a callback of the garbage collector or
    one of a weak reference. So the signal that interrupts one raises none, and another follows
    soon.
    """
    seen: int | None = None

    def expired(_: int, frame: FrameType | None) -> None:
        nonlocal seen
        if any(_is_dropped_in(code) for code in _callers(frame)):
            signal.setitimer(signal.ITIMER_VIRTUAL, _SOON_S, seconds)
            return
        running = timeline.running()
        before, seen = seen, None if running is None else running.now
        if before is not None and seen is not None and before <= seen < before + _SECOND:
            passed = (seen - before) / _SECOND
            raise FatalError(
                f"{passed:.3f} virtual seconds have passed in {seconds:.3g} CPU seconds:"
                " endless loop?"
            )

    handler = signal.signal(signal.SIGVTALRM, expired)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, handler)


def _callers(frame: FrameType | None) -> Iterator[CodeType]:
    """Yield the code of ``frame`` and of its callers, innermost first."""
    while frame is not None:
        yield frame.f_code
        frame = frame.f_back


def _is_dropped_in(code: CodeType) -> bool:
    """Return whether an exception that leaves ``code`` may be dropped."""
    if code.co_name == "__del__":
        return True
    if any(getattr(callback, "__code__", None) is code for callback in gc.callbacks):
        return True
    return code.co_filename in _WEAK
