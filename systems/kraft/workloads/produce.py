"""Records in the partitions of brokers: is an acknowledged record ever lost, moved or repeated?

The history is that of Jepsen's workload for Kafka. A key is a partition. Keys rotate, so that each
one's log stays short, and clients also use old ones. All sends ask for acks=all; most producers are
idempotent. Consumers poll the keys that they are assigned, and a final poll reads all logs.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any, Final

from kraftwreck.checkers.floor import Floor
from kraftwreck.harness.client import Answer, Call, Completion, Invocation, Pause
from kraftwreck.harness.generator import Planned
from kraftwreck.harness.workload import ClientSetting
from kraftwreck.histories.operation import Op
from kraftwreck.nodes.draw import draw_below
from kraftwreck.systems.kraft.requests import ClientState, KraftClient, KraftWorkload
from kraftwreck.systems.kraft.workloads.beside import look_beside
from kraftwreck.systems.kraft.workloads.log_client import (
    METADATA,
    PREFIX,
    LogClient,
    ask,
    find_leader,
    log_client,
    note_leaders,
)
from kraftwreck.systems.kraft.workloads.polling import LARGEST, LATEST, offset_at, poll, read_all
from kraftwreck.systems.kraft.workloads.sending import send

KEYS: Final = 3
"""Keys that are in use at a time."""
OPS_PER_ROUND: Final = 30
"""Operations of one thread before all move on to the next keys."""
MOST_SENDS: Final = 3
_OLD_KEY_PERCENT: Final = 10
_VALUES: Final = 1000


class ProduceWorkload(KraftWorkload):
    """Six of ten are sends of one to three values, a tenth assignments, the rest polls.

    ``send`` has the value ``[["send", key, value], …]``, and ``[offset, value]`` in place of a
    value once it is acknowledged. ``poll`` has ``[["poll"]]``, then ``[["poll", {key: [[offset,
    value], …]}]]``. ``assign`` has the list of keys.
    """

    name = "produce"
    about = "records with unique values: sent, polled, all read in the end"
    checkers: Sequence[str] = ("stats", "produced", "invariants")
    owed = ("send", "poll")
    floor = Floor(share=0.05)
    through_gateways = True
    clients = (6, 8, 12, 16)
    rate_per_client = 5.0
    """Replicas lag behind only while there are records to fetch."""

    def __init__(self, topics: Mapping[str, str] | None = None) -> None:
        """Give all topics the configs ``topics``, or draw those of each one."""
        self._topics = topics

    def plan(self, seed: int, thread: int, count: int) -> Planned:
        """Return the ``count``-th operation of ``thread``; sent values are unique."""
        turn = count // OPS_PER_ROUND
        percent = draw_below(100, seed, "kind", thread, count)
        if percent < 10 or count == 0:
            return Planned("assign", None, _keys(seed, thread, count, turn))
        if percent < 40:
            return Planned("poll", None, [["poll"]])
        number = 1 + draw_below(MOST_SENDS, seed, "sends", thread, count)
        key = _key(seed, thread, count, turn)
        value = (count * MOST_SENDS) * _VALUES + thread + 1
        return Planned("send", None, [["send", key, value + i * _VALUES] for i in range(number)])

    def client(self, setting: ClientSetting) -> KraftClient:
        """Return the client of one thread."""
        client = RecordClient(self, super().client(setting).state)
        client.state.topic_configs = self._topics
        return client

    def invoke(self, op: Op, client: ClientState) -> Invocation:
        """Execute ``op``."""
        mine = log_client(client)
        match op.f:
            case "send":
                return _send(op, mine)
            case "poll":
                return _read_all(mine) if op.final else _poll(mine)
            case "assign":
                return _assign(op, mine)
        raise ValueError(f"the produce workload has no operation {op.f!r}")

    def final(self, nodes: Sequence[str]) -> Sequence[Planned]:
        """Read all records; an empty assignment first makes each key a new one."""
        return [
            Planned("assign", None, [], final=True),
            Planned("poll", None, [["poll"]], final=True),
        ]


class RecordClient(KraftClient):
    """A client of records, which begins as another producer and consumer after an open outcome."""

    def reset(self) -> None:
        """Forget producer, positions and leaders."""
        super().reset()
        self.state.memory.clear()


def is_idempotent(seed: int, thread: int) -> bool:
    """Whether the producer of ``thread`` is idempotent: three of four are."""
    return draw_below(4, seed, "idempotent", thread) > 0


def _key(seed: int, thread: int, count: int, turn: int) -> int:
    if turn and draw_below(100, seed, "old", thread, count) < _OLD_KEY_PERCENT:
        return draw_below(KEYS * turn, seed, "old-key", thread, count)
    return KEYS * turn + draw_below(KEYS, seed, "key", thread, count)


def _keys(seed: int, thread: int, count: int, turn: int) -> list[int]:
    """Return the keys of an assignment: some of those in use, and sometimes an old one."""
    keys = [
        KEYS * turn + place
        for place in range(KEYS)
        if draw_below(3, seed, "assign", thread, count, place) or not place
    ]
    if turn and draw_below(3, seed, "assign-old", thread, count) == 0:
        keys.append(draw_below(KEYS * turn, seed, "assign-which", thread, count))
    return keys


def _send(op: Op, client: LogClient) -> Invocation:
    key, values = op.value[0][1], [move[2] for move in op.value]
    idempotent = is_idempotent(client.state.seed, client.state.thread)
    sent = yield from send(client, key, values, idempotent=idempotent)
    if sent.offset is None:
        return Completion("info" if sent.open else "fail", error=sent.error, node=sent.node)
    told: list[Any] = [
        ["send", key, [sent.offset + place, value]] for place, value in enumerate(values)
    ]
    return Completion("ok", told, node=sent.node)


def _assign(op: Op, client: LogClient) -> Invocation:
    client.assigned = list(op.value)
    client.positions = {
        key: position for key, position in client.positions.items() if key in client.assigned
    }
    yield Pause(0)
    return Completion("ok", op.value)


def _poll(client: LogClient) -> Invocation:
    yield from look_beside(client)
    small = client.draw(2, "poll-bytes")
    if client.assigned and client.draw(4, "ask-end") == 0:
        which = client.assigned[client.draw(len(client.assigned), "ask-which")]
        yield from _ask_end(client, which, after=-1)
    for key in client.assigned:
        # A new leader may not know yet how far its predecessors have committed.
        yield from _ask_end(client, key, after=client.ended.get(key, -1))
    found, error = yield from poll(client, 200 if small else LARGEST)
    if error and not found:
        return Completion("fail", error=error)
    return Completion("ok", _polled(found), error=error or None)


def _ask_end(client: LogClient, key: int, *, after: int) -> Generator[Call | Pause, Answer, None]:
    """Ask a leader of an epoch above ``after`` for the end of ``key``, as consumers do to show
    their lag."""
    leader = yield from find_leader(client, key)
    if leader is None or leader.epoch <= after:
        return
    if (yield from offset_at(client, key, LATEST)) is not None:
        client.ended[key] = leader.epoch


def _read_all(client: LogClient) -> Invocation:
    answer = yield from ask(
        client.broker(),
        "Metadata",
        METADATA,
        {
            "topics": None,
            "allow_auto_topic_creation": False,
            "include_topic_authorized_operations": False,
        },
    )
    if answer.status != "ok":
        return Completion("fail", error=f"{answer.status}: {answer.error}")
    body = answer.response
    body["topics"] = [topic for topic in body["topics"] if topic["name"].startswith(PREFIX)]
    note_leaders(client, body)
    keys = sorted(key for key in client.leaders if key >= 0)
    found, error = yield from read_all(client, keys)
    if error:
        return Completion("fail", error=error)
    return Completion("ok", _polled(found))


def _polled(found: dict[int, list[list[int]]]) -> list[Any]:
    return [["poll", {str(key): pairs for key, pairs in sorted(found.items())}]]


WORKLOAD = ProduceWorkload()
