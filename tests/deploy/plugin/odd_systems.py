"""Servers that do not work as they should, each a system of its own."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kraftwreck.api import (
    Artefact,
    Completion,
    DebianPackages,
    Files,
    NodeClient,
    Op,
    Place,
    PlainSystem,
    Planned,
    PlannedWorkload,
    PortOpen,
    Process,
)


class Odd(PlainSystem):
    """A shell script in place of a server."""

    about = "for tests"
    default_workload = "register"
    workloads: Sequence[str] = ()
    verbs = ("read", "write")

    def __init__(self, name: str, script: str) -> None:
        self.name, self.script = name, script

    def processes(self, place: Place, places: Sequence[Place]) -> Sequence[Process]:
        argv = ("/bin/sh", "-c", self.script)
        return [Process(argv=argv, ready=PortOpen(7000), ready_s=2.0)]


class Unfetched(Odd):
    def artefacts(self) -> Sequence[Artefact]:
        return (DebianPackages(name="none", packages={"no-such-package-here=1": "0" * 64}),)


class Pinned(Odd):
    def artefacts(self) -> Sequence[Artefact]:
        here = Path(__file__)
        return (Files(name="here", paths=(here,), sha256={here.name: "0" * 64}),)


class MoodyClient:
    """Raises, blocks, returns nonsense and works, by turns."""

    def __init__(self) -> None:
        self.count = 0

    def invoke(self, op: Op) -> Any:
        mood = int(op.value or 0) % 4
        if mood == 0:
            raise ValueError("not today")
        if mood == 1:
            threading.Event().wait()
        return "done" if mood == 2 else Completion("ok", op.value)

    def close(self) -> None:
        raise OSError("nor on closing")


class Moody(Odd):
    default_workload = "moody-writes"
    workloads = ("moody-writes",)
    client_timeout_s = 0.5

    def processes(self, place: Place, places: Sequence[Place]) -> Sequence[Process]:
        return [Process(argv=("/bin/sleep", "1000"))]

    def client(self, place: Place) -> NodeClient:
        return MoodyClient()


class MoodyWrites(PlannedWorkload):
    name = "moody-writes"
    about = "for tests"
    checkers = ("stats",)

    def plan(self, seed: int, thread: int, count: int) -> Planned:
        return Planned("write", 0, count)

    def final(self, nodes: Sequence[str]) -> Sequence[Planned]:
        return [Planned("write", 0, value, final=True) for value in range(4)]


MOODY = Moody("moody", "")
MOODY_WRITES = MoodyWrites()
CRASHING = Odd("crashing", "echo 'cannot read my settings' >&2; exit 4")
UNFETCHED = Unfetched("unfetched", "exit 0")
PINNED = Pinned("pinned", "exit 0")
