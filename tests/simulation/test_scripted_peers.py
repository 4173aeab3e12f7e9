"""F35: requests of one process to peers that answer as they like, or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kraftwreck.nodes.consensus.effects import ApiResponseReceived
from kraftwreck.nodes.protocol import apis
from kraftwreck.nodes.replication.events import OffsetsAnswered
from kraftwreck.nodes.server import calls, link, peers, replica_fetches, replica_link
from kraftwreck.systems.kraft.sockets.asked import failures_with_scripted_peers

Patch = pytest.MonkeyPatch
SEEDS = range(1, 21)
"""A bug must show in one of these runs."""


@pytest.mark.parametrize("seeds", [range(begin, begin + 25) for begin in (1, 26, 51, 76)])
def test_answers_of_any_kind_are_understood(seeds: range) -> None:
    assert [wrong for seed in seeds if (wrong := failures_with_scripted_peers(seed))] == []


# --- bugs ---------------------------------------------------------------------------------------


def topics_of_old_leaders(patch: Patch) -> str:
    """A follower looks for ids of topics in an answer with names."""
    fetched = replica_fetches.ReplicaFetches._fetched

    def by_id(self: Any, effect: Any, body: Any) -> None:
        for topic in [] if body is None else body["responses"]:
            topic["topic"] = ""
        fetched(self, effect, body)

    patch.setattr(replica_fetches.ReplicaFetches, "_fetched", by_id)
    return "a follower takes"


def error_beside_the_end(patch: Patch) -> str:
    """A follower overlooks that a leader did not name the end of a log."""
    told = replica_fetches.ReplicaFetches._told

    def trusting(self: Any, link: Any, effect: Any, timestamp: int, starts: Any, body: Any) -> None:
        for topic in body["topics"] if body and timestamp == -1 else []:
            for part in topic["partitions"]:
                part["error_code"] = 0
        told(self, link, effect, timestamp, starts, body)

    patch.setattr(replica_fetches.ReplicaFetches, "_told", trusting)
    return "a follower takes"


def half_of_the_offsets(patch: Patch) -> str:
    """A follower takes the starts of logs if it does not get their ends."""
    told = replica_fetches.ReplicaFetches._told

    def hasty(self: Any, link: Any, effect: Any, timestamp: int, starts: Any, body: Any) -> None:
        if body is None and timestamp == -1:
            parts = tuple((key, *found, -1) for key, found in starts.items())
            self._submit(OffsetsAnswered(effect.correlation, parts))
            return
        told(self, link, effect, timestamp, starts, body)

    patch.setattr(replica_fetches.ReplicaFetches, "_told", hasty)
    return "a follower takes"


def no_time_for_a_greeting(patch: Patch) -> str:
    """A leader that does not answer ApiVersions is waited for without end."""
    greeted = replica_link.ReplicaLink.connection_made

    def patient(self: Any, transport: Any) -> None:
        self._deadline.clear()
        greeted(self, transport)

    patch.setattr(replica_link.ReplicaLink, "connection_made", patient)
    return "has no end"


def versions_of_the_last_connection(patch: Patch) -> str:
    """A process keeps the versions of a peer that has started in an older version."""
    version = link.Link.version

    def remembered(self: Any, api: str) -> int:
        known: dict[str, int] = self.__dict__.setdefault("_known", {})
        return known.setdefault(api, version(self, api))

    patch.setattr(link.Link, "version", remembered)
    return "which the peer has not named"


def answer_to_another_request(patch: Patch) -> str:
    """An answer counts whatever request it names."""
    decoded = apis.decode_response

    def any_number(*given: Any) -> Any:
        wanted, body = decoded(*given)
        return _Any(wanted), body

    class _Any(int):
        def __ne__(self, other: object) -> bool:
            return False

    patch.setattr(link, "decode_response", any_number)
    return "is taken as"


def sent_before_it_was(patch: Patch) -> str:
    """A request that went nowhere counts as sent."""

    def made(source: int, correlation: int, body: Any, *, sent: bool) -> Any:
        return ApiResponseReceived(source, correlation, body, sent or body is None)

    patch.setattr(calls, "ApiResponseReceived", made)
    return "counts as sent"


def pre_votes_for_old_voters(patch: Patch) -> str:
    """A pre-vote goes out in a version in which it is a vote."""
    patch.setattr(peers, "PRE_VOTE", 0)
    return "of a voter is taken as"


@pytest.mark.interpreted
@pytest.mark.parametrize(
    "bug",
    [
        topics_of_old_leaders,
        error_beside_the_end,
        half_of_the_offsets,
        no_time_for_a_greeting,
        versions_of_the_last_connection,
        answer_to_another_request,
        sent_before_it_was,
        pre_votes_for_old_voters,
    ],
    ids=lambda bug: bug.__name__,
)
def test_a_bug_of_connections_shows(bug: Callable[[Patch], str], monkeypatch: Patch) -> None:
    expected = bug(monkeypatch)
    found = next((wrong for seed in SEEDS if (wrong := failures_with_scripted_peers(seed))), [])
    assert any(expected in each for each in found), found
