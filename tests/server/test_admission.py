"""Which connection a process closes where there are too many, or where they hold too much."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from kraftwreck.nodes.server.admission import (
    MOST_BYTES,
    Admission,
    backlog,
    most_calls,
    most_connections,
)


@dataclass(eq=False)
class Client:
    """A connection, as far as admission looks at it."""

    host: str = "h"
    listener_name: str = "CONTROLLER"
    has_asked: bool = True
    idle_since: float = 0.0
    bytes_held: int = 0
    closed: list[str | None] = field(default_factory=list)

    def close(self, reason: str | None = None) -> None:
        self.closed.append(reason)


@pytest.fixture
def descriptors(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    def set_limit(number: int) -> None:
        monkeypatch.setattr("resource.getrlimit", lambda _: (number, number))

    set_limit(40)
    yield set_limit


@pytest.mark.parametrize("limit", [256, 1024, 4096, 1 << 20])
@pytest.mark.parametrize("listeners", [1, 2])
def test_an_eighth_of_the_descriptors_is_left_for_the_disk(
    descriptors: Callable[[int], None], limit: int, listeners: int
) -> None:
    descriptors(limit)
    accepted = most_connections(listeners) + 2 * backlog(listeners)
    assert accepted * listeners + most_calls() <= limit - limit // 8


def test_strangers_go_first_then_the_idlest(descriptors: Callable[[int], None]) -> None:
    door = Admission()
    busy = Client(idle_since=float("inf"))
    known = [Client(f"k{n}", idle_since=float(n)) for n in range(18)]
    stranger = Client("s", has_asked=False, idle_since=100.0)
    for client in (busy, *known, stranger):
        door.admit(client)
    closed = [stranger, *known]
    for number, victim in enumerate(closed):
        door.admit(Client(f"n{number}", idle_since=1000.0))
        assert victim.closed == ["there are too many connections"]
    assert not busy.closed


def test_an_address_cannot_take_every_connection(descriptors: Callable[[int], None]) -> None:
    door = Admission()
    other = Client("other", idle_since=-1.0)
    door.admit(other)
    greedy = [Client("greedy", idle_since=float(n)) for n in range(50)]
    for client in greedy:
        door.admit(client)
    assert not other.closed
    assert [bool(client.closed) for client in greedy] == [True] * 35 + [False] * 15


def test_listeners_do_not_share_connections(descriptors: Callable[[int], None]) -> None:
    door = Admission(2)
    first = Client("a")
    door.admit(first)
    for number in range(50):
        door.admit(Client(f"b{number}", "PLAINTEXT"))
    assert not first.closed


def test_client_that_holds_most_is_closed() -> None:
    door = Admission()
    modest, greedy, late = Client(), Client(), Client()
    for client in (modest, greedy, late):
        door.admit(client)
    modest.bytes_held, greedy.bytes_held = 1000, MOST_BYTES - 1000
    door.note(modest)
    door.note(greedy)
    assert not greedy.closed
    late.bytes_held = 1
    door.note(late)
    assert (modest.closed, len(greedy.closed), late.closed) == ([], 1, [])


def test_bytes_that_were_sent_meanwhile_do_not_count() -> None:
    door = Admission()
    sender, next_one = Client(), Client()
    for client in (sender, next_one):
        door.admit(client)
    sender.bytes_held = MOST_BYTES
    door.note(sender)
    sender.bytes_held = 0
    next_one.bytes_held = 10
    door.note(next_one)
    assert not sender.closed
    assert not next_one.closed
