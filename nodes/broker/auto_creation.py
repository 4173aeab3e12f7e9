"""Topics that come into being because a client asks for their metadata."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from kraftwreck.nodes.consensus.effects import ApiReply, ApiRequest
from kraftwreck.nodes.metadata.describe import wanted_topics, wants_all_topics
from kraftwreck.nodes.metadata.failure import ApiError
from kraftwreck.nodes.metadata.image_values import ImageView
from kraftwreck.nodes.metadata.topics import check_topic_name

Body = dict[str, Any]

CREATE_TOPICS: Final = "CreateTopics"
VERSION: Final = 7
FIRST_WITH_CHOICE: Final = 4
"""First Metadata version whose clients say whether a missing topic is to be created."""
MOST_IN_FLIGHT: Final = 1000
"""Topics; beyond that a client asks again, as for all that do not exist yet."""


class AutoCreation:
    """The topics that this broker has asked the controller to create, for its clients.

    A client's answer does not wait: it says that the topic is unknown, and the client asks again.
    Each request to the controller has a token below 0, which no client's has.
    """

    def __init__(self, partitions: int, replication: int, timeout_ms: int) -> None:
        self._sizes = {"num_partitions": partitions, "replication_factor": replication}
        self._timeout_ms = timeout_ms
        self._in_flight: dict[int, frozenset[str]] = {}
        self._tokens = 0

    def request(self, image: ImageView, asked: ApiRequest) -> ApiRequest | None:
        """Return the CreateTopics for what a Metadata request lacks, None if nothing is."""
        version, body = asked.version, asked.body
        if wants_all_topics(version, body):
            return None
        if version >= FIRST_WITH_CHOICE and not body["allow_auto_topic_creation"]:
            return None
        under_way = frozenset[str]().union(*self._in_flight.values())
        names = [
            name
            for name, _ in wanted_topics(version, body["topics"])
            if name is not None and name not in image.topics and name not in under_way
        ]
        names = list(filter(_is_valid, names))[: MOST_IN_FLIGHT - len(under_way)]
        if not names:
            return None
        self._tokens -= 1
        self._in_flight[self._tokens] = frozenset(names)
        topics = [{"name": name, **self._sizes, "assignments": [], "configs": []} for name in names]
        wanted = {"topics": topics, "timeout_ms": self._timeout_ms, "validate_only": False}
        return ApiRequest(
            self._tokens, CREATE_TOPICS, VERSION, wanted, asked.listener, asked.client
        )

    def without_ours(self, replies: Iterable[ApiReply]) -> list[ApiReply]:
        """Return the replies for clients; those of topics asked for here end here."""
        return [reply for reply in replies if self._in_flight.pop(reply.token, None) is None]


def _is_valid(name: str) -> bool:
    try:
        check_topic_name(name)
    except ApiError:
        return False
    return True
