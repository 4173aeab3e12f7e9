"""Gives a shell events while its disk works, and lets its node or its disk fail then (F37).

While the disk of the quorum works, events of the data plane are handled and others wait. A node
seldom fails in just that time. So once in a run a shell gets a scripted node, and each of its
actions is compared with a list.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, cast

from kraftwreck.checkers.kraft.rule import rule
from kraftwreck.nodes.consensus.effects import (
    ApiResponseReceived,
    FatalError,
    FlushLog,
    SendApi,
    Stopped,
    Trace,
)
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.replication.effects import AskOffsets
from kraftwreck.nodes.replication.events import LogFlushed
from kraftwreck.nodes.server.disk_worker import Elsewhere
from kraftwreck.nodes.server.exit_status import DISK_FAILED, FATAL, STOPPED
from kraftwreck.nodes.server.shell import Shell
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.virtual_loop import VirtualLoop
from kraftwreck.simulation.world import World

_NOWHERE: Final = Endpoint("", 0)
_KEY: Final = (bytes(16), 0)

FLUSHES, QUORUM, DATA, CAUSES, ILLEGAL, DEFECT, STOPS = range(7)
"""Steps of the node, by number: with a flush, of the quorum, of the data plane, one that the disk
answers with another event, an illegal state, an exception, and the end of a shutdown."""
FROM_QUORUM: Final = frozenset((FLUSHES, QUORUM, STOPS))
CAUSED: Final = 9
"""The event with which the disk answers a step."""


class Case(NamedTuple):
    """``during`` are the steps while the disk works. The rest is what a shell is to do: until the
    disk has worked, and after that. ``fails``: the disk does. ``status`` is that of the process at
    its end, None if it runs on."""

    during: tuple[int, ...]
    first: str
    then: str
    status: int | None = None
    fails: bool = False


_BEGUN: Final = "step 0, input 0"
_FLUSHED: Final = "durable 0, trace 0, send 0"
CASES: Final = (
    Case((), _BEGUN, _FLUSHED),
    Case((QUORUM,), _BEGUN, f"{_FLUSHED}, step 1, input 1, trace 1, send 1"),
    Case(
        (DATA, QUORUM, DATA),
        f"{_BEGUN}, step 2, input 2, ask 2, step 2, input 2, ask 2",
        f"{_FLUSHED}, trace 2, trace 2, step 1, input 1, trace 1, send 1",
    ),
    Case(
        (CAUSES,),
        f"{_BEGUN}, step 3, input 3, ask 3, step 9, input 9, ask 9",
        f"{_FLUSHED}, trace 3, trace 9",
    ),
    Case(
        (DATA, ILLEGAL, DATA, QUORUM),
        f"{_BEGUN}, step 2, input 2, ask 2, step 4, input 4",
        f"{_FLUSHED}, trace 2, fatal",
        FATAL,
    ),
    Case((DEFECT, QUORUM), f"{_BEGUN}, step 5, input 5", f"{_FLUSHED}, fatal", FATAL),
    Case((DATA, QUORUM), f"{_BEGUN}, step 2, input 2, ask 2", "stop", DISK_FAILED, fails=True),
    Case(
        (STOPS, QUORUM),
        _BEGUN,
        f"{_FLUSHED}, step 6, input 6",
        STOPPED,
    ),
)


class ShellRehearsal:
    """Judges a shell at the begin of a run of ``world``."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        world.afterwards(self._judge)

    @rule(
        "F37",
        "ShellsKeepTheirOrder",
        "While the disk of the quorum works, a process handles events of the data plane, and lets "
        "others wait. An illegal state or a failure of the disk ends it, and nothing of that step "
        "or a later one leaves.",
        simulated=True,
    )
    def _judge(self) -> None:
        for case in CASES:
            for wrong in misdone(case):
                self._failures.add("F37", self._world.now, wrong)
                return


def misdone(case: Case) -> Iterator[str]:
    """Yield what a shell does otherwise than ``case`` says."""
    try:
        yield from _misdone(case)
    except Exception as error:
        yield f"a process that gets the events {case.during} fails: {error!r}"


def _misdone(case: Case) -> Iterator[str]:
    play = _Play()
    with redirect_stderr(io.StringIO()):
        play.submit(FLUSHES)
        for number in case.during:
            play.submit(number)
        first, status = play.taken()
        yield from _differs(case, "before the disk has worked", first, case.first)
        if status is not None:
            yield f"a process ends with {status} before its disk has worked"
        play.work(fails=case.fails)
        then, status = play.taken()
        yield from _differs(case, "once the disk has worked", then, case.then)
        if status != case.status:
            yield f"a process that gets the events {case.during} ends with {status}"
        if case.status is not None:
            play.submit(DATA)
            play.submit(QUORUM)
            late, _ = play.taken()
            yield from _differs(case, "after its end", late, "")


def _differs(case: Case, when: str, done: str, wanted: str) -> Iterator[str]:
    if done != wanted:
        yield f"{when}, a process that gets the events {case.during} does: {done or 'nothing'};" + (
            f" it must do: {wanted or 'nothing'}"
        )


class _Play:
    """A shell whose node, disk and files are scripted, and a list of its actions."""

    loader = SimpleNamespace(busy=False)
    broker = None
    deadline = 1 << 40

    def __init__(self) -> None:
        self._done: list[str] = []
        self._works: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []
        loop: Any = VirtualLoop(lambda: 0)
        note = self._done.append
        traces = SimpleNamespace(
            write=lambda effects, *_: [
                note(f"trace {e.epoch}") for e in effects if type(e) is Trace
            ],
            fatal=lambda *_: note("fatal"),
            stop=lambda *_: note("stop"),
        )
        inputs = SimpleNamespace(step=lambda event, *_: note(f"input {_number(event)}"))
        files = SimpleNamespace(carry_out_all=self._answer, keep=lambda _: None)
        storage = SimpleNamespace(
            carry_out=lambda effects: self._done.extend(
                "durable 0" for _ in _only(FlushLog, effects)
            )
        )
        self._shell = Shell(
            cast(Any, self),
            cast(Any, storage),
            cast(Any, traces),
            cast(Any, inputs),
            files=cast(Any, files),
            elsewhere=cast(Elsewhere, lambda work, done: self._works.append((work, done))),
            loop=cast(asyncio.AbstractEventLoop, loop),
            mono_us=lambda: 0,
            wall_us=lambda: 0,
        )
        self._shell.send_api = lambda effect: note(f"send {effect.correlation}")
        self._shell.fetch = lambda effect: note(f"ask {effect.correlation}")

    def submit(self, number: int) -> None:
        """Let the shell get the event of a step."""
        self._shell.submit(_event(number))

    def step(self, event: Any, now: int, wall_ms: int) -> list[Any]:
        """Handle an event as the node."""
        number = _number(event)
        self._done.append(f"step {number}")
        match number:
            case 4:
                raise FatalError("an illegal state")
            case 5:
                raise KeyError("a defect")
            case 6:
                return [Stopped(7)]
        trace = Trace("t", "", number, -1, -1, 0, 0)
        if number not in FROM_QUORUM:
            return [trace, AskOffsets(1, number, ())]
        flush = [FlushLog()] if number == FLUSHES else []
        return [*flush, trace, SendApi(1, number, _NOWHERE, "", {})]

    def _answer(self, effects: Sequence[Any]) -> list[Any]:
        asked = [each.correlation for each in effects if type(each) is AskOffsets]
        return [_event(CAUSED)] if asked == [CAUSES] else []

    def work(self, *, fails: bool) -> None:
        """Let the disk do its work, or fail."""
        work, done = self._works.pop(0)
        if fails:
            self._shell.work_failed(OSError("the disk is broken"))
        else:
            done(work())

    def taken(self) -> tuple[str, int | None]:
        """Return the actions since the last call, and the status of a process that has ended."""
        done, ended = ", ".join(self._done), self._shell.exit_status
        self._done.clear()
        return done, ended.result() if ended.done() else None


def _event(number: int) -> Any:
    if number in FROM_QUORUM:
        return ApiResponseReceived(1, number, None)
    return LogFlushed(_KEY, number, 0, 0)


def _number(event: Any) -> int:
    number: int = event.number if type(event) is LogFlushed else event.correlation
    return number


def _only(kind: type, effects: Sequence[Any]) -> list[Any]:
    return [each for each in effects if type(each) is kind]


def _traced(trace: Trace) -> str:
    return f"trace {trace.epoch}"
