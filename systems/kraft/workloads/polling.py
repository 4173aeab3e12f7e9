"""A consumer of assigned partitions: it fetches from leaders, from where it stopped last."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any, Final

from kraftwreck.harness.client import Answer, Call, Pause
from kraftwreck.nodes.draw import draw_below
from kraftwreck.nodes.log.batch import BatchError
from kraftwreck.nodes.protocol import errors
from kraftwreck.systems.kraft.workloads.controller import error_name
from kraftwreck.systems.kraft.workloads.log_client import (
    ASK_MS,
    BACKOFF_MS,
    LogClient,
    Position,
    Session,
    ask,
    find_leader,
    key_of,
    place_of,
)
from kraftwreck.systems.kraft.workloads.record_batches import read_values

FETCH: Final = 12
LIST_OFFSETS: Final = 7
WAIT_MS: Final = 100
LARGEST: Final = 1 << 20
EARLIEST: Final = -2
LATEST: Final = -1
OLD_PERCENT: Final = 4
"""How often a request of a session arrives a second time, late, as by a retry of the network. Its
answer is ignored; the session must be as it was."""
MOST_WAITS: Final = 40
"""How often a final poll waits for records of one key that do not come."""

Polled = dict[int, list[list[int]]]
"""[offset, value] pairs by key."""


def poll(client: LogClient, most_bytes: int) -> Generator[Call | Pause, Answer, tuple[Polled, str]]:
    """Fetch once from the leader of each assigned key; return what was read, and an error."""
    found: Polled = {}
    error = ""
    by_node: dict[str, list[int]] = {}
    for key in client.assigned:
        leader = yield from find_leader(client, key)
        if leader is None or leader.node is None:
            error = "no leader"
            continue
        if key not in client.positions:
            start = yield from offset_at(client, key, EARLIEST)
            if start is None:
                error = "no offset"
                continue
            client.positions[key] = Position(start)
        by_node.setdefault(leader.node, []).append(key)
    for node, keys in by_node.items():
        # The error is returned at the end: an error of one node must not hide records of others.
        error = (yield from _fetch(client, node, keys, most_bytes, found)) or error
    return found, error


def read_all(client: LogClient, keys: Iterable[int]) -> Generator[
    Call | Pause, Answer, tuple[Polled, str]
]:  # fmt: skip
    """Read ``keys`` from their beginnings to their ends."""
    found: Polled = {}
    for key in keys:
        client.assigned, client.positions = [key], {}
        end: int | None = None
        waits = 0
        while waits < MOST_WAITS:
            if end is None:
                yield from find_leader(client, key)
                end = yield from offset_at(client, key, LATEST)
            polled, _ = yield from poll(client, LARGEST)
            for each, pairs in polled.items():
                found.setdefault(each, []).extend(pairs)
            position = client.positions.get(key)
            if end is not None and position is not None and position.offset >= end:
                break
            if not polled:
                waits += 1
                yield Pause(BACKOFF_MS)
        else:
            topic, partition = place_of(key)
            return found, f"{topic}-{partition} was not read to its end"
    return found, ""


def offset_at(
    client: LogClient, key: int, timestamp: int
) -> Generator[Call | Pause, Answer, int | None]:
    """Return the offset that the leader gives for ``timestamp``, None without an answer."""
    leader = client.leaders.get(key)
    if leader is None or leader.node is None:
        return None
    topic, partition = place_of(key)
    wanted = {
        "partition_index": partition,
        "current_leader_epoch": leader.epoch,
        "timestamp": timestamp,
    }
    body = {
        "replica_id": -1,
        "isolation_level": 0,
        "topics": [{"name": topic, "partitions": [wanted]}],
    }
    answer = yield from ask(leader.node, "ListOffsets", LIST_OFFSETS, body)
    if answer.status == "ok":
        part = answer.response["topics"][0]["partitions"][0]
        if part["error_code"] == errors.NONE:
            offset: int = part["offset"]
            return offset
        if part["error_code"] == errors.OFFSET_NOT_AVAILABLE:
            return None
    client.forget(key)
    return None


def uses_sessions(seed: int, thread: int) -> bool:
    """Whether the consumer of ``thread`` has fetch sessions: half of them do."""
    return draw_below(2, seed, "sessions", thread) == 0


def _fetch(
    client: LogClient, node: str, keys: list[int], most_bytes: int, found: Polled
) -> Generator[Call | Pause, Answer, str]:
    state = client.state
    session = client.sessions.pop(node, None)
    if session is None and uses_sessions(state.seed, state.thread):
        session = Session(0, 0, {})
    body = _body(client, keys, most_bytes, session)
    answer = yield from ask(node, "Fetch", FETCH, body, WAIT_MS + ASK_MS)
    if answer.status != "ok":
        for key in keys:
            client.forget(key)
        return f"{answer.status}: {answer.error}"
    if answer.response["error_code"] != errors.NONE:
        return error_name(answer.response["error_code"])
    if session is not None and answer.response["session_id"]:
        session.session_id = answer.response["session_id"]
        session.epoch += 1
        client.sessions[node] = session
    old = draw_below(100, state.seed, "old request", state.thread, state.calls)
    if body["session_epoch"] > 0 and old < OLD_PERCENT:
        yield from ask(node, "Fetch", FETCH, body, WAIT_MS + ASK_MS)
    error = ""
    for topic in answer.response["responses"]:
        for part in topic["partitions"]:
            key = key_of(topic["topic"], part["partition_index"])
            error = _take(client, key, part, found) or error
    return error


def _body(
    client: LogClient, keys: list[int], most_bytes: int, session: Session | None
) -> dict[str, Any]:
    """Return a request for ``keys``, in a session without those that it has, as they are."""
    wanted = {key: _part(client, key, most_bytes) for key in keys}
    named, forgotten = wanted, list[int]()
    if session is not None:
        named = {key: part for key, part in wanted.items() if session.parts.get(key) != part}
        forgotten = [key for key in session.parts if key not in wanted]
        session.parts = wanted
    topics: dict[str, list[dict[str, Any]]] = {}
    for key, part in named.items():
        topics.setdefault(place_of(key)[0], []).append(part)
    left: dict[str, list[int]] = {}
    for topic, partition in map(place_of, forgotten):
        left.setdefault(topic, []).append(partition)
    return {
        "replica_id": -1,
        "max_wait_ms": WAIT_MS,
        "min_bytes": 1,
        "max_bytes": most_bytes * len(keys),
        "isolation_level": 0,
        "session_id": 0 if session is None else session.session_id,
        "session_epoch": -1 if session is None else session.epoch,
        "topics": [{"topic": topic, "partitions": parts} for topic, parts in topics.items()],
        "forgotten_topics_data": [
            {"topic": topic, "partitions": numbers} for topic, numbers in left.items()
        ],
        "rack_id": "",
    }


def _part(client: LogClient, key: int, most_bytes: int) -> dict[str, Any]:
    position, leader = client.positions[key], client.leaders[key]
    return {
        "partition": place_of(key)[1],
        "current_leader_epoch": leader.epoch,
        "fetch_offset": position.offset,
        "last_fetched_epoch": position.epoch,
        "log_start_offset": -1,
        "partition_max_bytes": most_bytes,
    }


def _take(client: LogClient, key: int, part: dict[str, Any], found: Polled) -> str:
    """Take in the answer for one partition; return an error."""
    code, position = part["error_code"], client.positions[key]
    if code == errors.OFFSET_OUT_OF_RANGE:
        # auto.offset.reset=earliest; also without records lost, nothing may be skipped.
        client.positions.pop(key)
        return "offset-out-of-range"
    if code != errors.NONE:
        client.forget(key)
        return error_name(code)
    diverging = part["diverging_epoch"]
    if diverging["end_offset"] >= 0:
        end = diverging["end_offset"]
        client.positions[key] = Position(min(end, position.offset), diverging["epoch"])
        return "log-truncated"
    try:
        for offset, value, epoch in read_values(part["records"] or b"", position.offset):
            found.setdefault(key, []).append([offset, value])
            position.offset, position.epoch = offset + 1, epoch
    except BatchError as damage:
        return str(damage)
    return ""
