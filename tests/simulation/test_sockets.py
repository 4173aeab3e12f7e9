"""F34: whole processes over sockets, with cuts, kills and clients that read slowly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.nodes.replication.sessions import Session
from kraftwreck.nodes.server import calls, connection, outgoing, peers, replica_link
from kraftwreck.nodes.server.shell import Shell
from kraftwreck.simulation.instant_loop import InstantLoop, StuckError
from kraftwreck.systems.kraft.sockets.run import SocketRun, failures_over_sockets

Patch = pytest.MonkeyPatch
SEEDS = range(1, 27)
"""A bug must show in one of these runs."""


def test_processes_over_sockets_serve_recover_and_stop() -> None:
    assert [failures_over_sockets(seed) for seed in (11, 12)] == [[], []]


def test_a_stop_of_all_nodes_that_the_last_controllers_do_not_answer_is_in_order() -> None:
    assert failures_over_sockets(8700005) == []


def test_a_run_depends_on_its_seed_only(tmp_path: Path) -> None:
    seen = []
    for number in range(2):
        run = SocketRun(5, tmp_path / str(number))
        run.play()
        seen.append((run.failures, run.traffic.acknowledged, run.traffic.read))
    assert seen[0] == seen[1]
    assert seen[0][1] and seen[0][2]


# --- bugs ---------------------------------------------------------------------------------------


def stale_bytes(patch: Patch) -> str:
    """A link to a leader that breaks keeps the beginning of an answer."""
    made = replica_link.ReplicaLink.connection_made

    def remembered(self: Any, transport: Any) -> None:
        made(self, transport)
        self._buffer += getattr(self, "_kept", b"")

    failed = replica_link.ReplicaLink._fail

    def keep(self: Any, reason: str) -> None:
        self._kept = bytes(self._buffer)
        failed(self, reason)

    patch.setattr(replica_link.ReplicaLink, "connection_made", remembered)
    patch.setattr(replica_link.ReplicaLink, "_fail", keep)
    return "a process said"


def sent_too_late(patch: Patch) -> str:
    """A forwarded write that may have been carried out counts as not sent."""
    request = calls.Calls._request

    async def late(self: Any, effect: Any) -> None:
        submit = self._submit

        def never(event: Any) -> None:
            event.sent = event.sent and event.body is not None
            submit(event)

        self._submit = never
        try:
            await request(self, effect)
        finally:
            self._submit = submit

    patch.setattr(calls.Calls, "_request", late)
    return "created twice"


def connection_of_a_forgotten_request(patch: Patch) -> str:
    """A new request of the quorum waits on the connection of one that is forgotten."""

    def give_up(self: Any, only_if_busy: bool = False) -> Any:
        task, self._task = self._task, None
        if task is not None and not task.done():
            task.cancel()
        if not only_if_busy:
            self.link.close()
        return task

    patch.setattr(peers._Peer, "give_up", give_up)
    return "a process said"


def not_resumed(patch: Patch) -> str:
    """A connection handles nothing more after the rest of a file was sent."""
    patch.setattr(connection.Connection, "_throttle", lambda self: None)
    writable = outgoing.Outgoing._writable

    def silent(self: Any) -> None:
        self._resumed, resumed = (lambda: None), self._resumed
        writable(self)
        self._resumed = resumed

    patch.setattr(outgoing.Outgoing, "_writable", silent)
    return "has not answered"


def open_files(patch: Patch) -> str:
    """A part of a file is sent and never closed."""
    patch.setattr(outgoing.FilePart, "close", lambda self: None)
    return "still open"


def no_turns(patch: Patch) -> str:
    """The first partition with records keeps its place in a fetch session."""
    news = Session.news

    def kept(self: Session, parts: Any, *, full: bool) -> Any:
        order = list(self.parts)
        told = news(self, parts, full=full)
        self.parts = {key: self.parts[key] for key in order}
        return told

    patch.setattr(Session, "news", kept)
    return "have left partition"


def no_timer(patch: Patch) -> str:
    """A process forgets to wait for its next tick."""
    patch.setattr(Shell, "_tick", lambda self, deadline: None)
    return "does not serve"


@pytest.mark.interpreted
@pytest.mark.parametrize(
    "bug",
    [
        stale_bytes,
        sent_too_late,
        connection_of_a_forgotten_request,
        not_resumed,
        open_files,
        no_turns,
        no_timer,
    ],
    ids=lambda bug: bug.__name__,
)
def test_a_bug_of_the_host_code_shows(bug: Callable[[Patch], str], monkeypatch: Patch) -> None:
    expected = bug(monkeypatch)
    found = next((wrong for seed in SEEDS if (wrong := failures_over_sockets(seed))), [])
    assert any(expected in each for each in found), found


# --- the loop -----------------------------------------------------------------------------------


def test_the_loop_jumps_to_the_next_timer() -> None:
    loop = InstantLoop(100.0)

    done = loop.create_future()
    loop.call_later(3_600, done.set_result, None)
    loop.run_until_complete(done)
    assert loop.time() == pytest.approx(3_700, abs=0.01)
    loop.close()


def test_a_loop_that_can_never_continue_is_stuck() -> None:
    loop = InstantLoop(0.0)
    with pytest.raises(StuckError, match="nothing is left"):
        loop.run_until_complete(loop.create_future())
    loop.close()


def test_a_loop_that_spins_is_stuck() -> None:
    loop = InstantLoop(0.0)

    def spin() -> None:
        loop.call_soon(spin)

    loop.call_soon(spin)
    with pytest.raises(StuckError, match="spins"):
        loop.run_forever()
    loop.close()
