"""Answers that change nothing: reads of the committed metadata, and refusals."""

from __future__ import annotations

from typing import Final

from kraftwreck.nodes.consensus.effects import ApiReply, ApiRequest
from kraftwreck.nodes.metadata.describe import (
    api_versions,
    describe_cluster,
    describe_configs,
    describe_quorum,
    metadata,
)
from kraftwreck.nodes.metadata.envelope import Forwarded, wrap
from kraftwreck.nodes.metadata.failure import refusal
from kraftwreck.nodes.metadata.image import MetadataImage
from kraftwreck.nodes.metadata.operation import Body
from kraftwreck.nodes.metadata.quorum import Quorum
from kraftwreck.nodes.metadata.reassign import list_partition_reassignments
from kraftwreck.nodes.metadata.served import SERVED
from kraftwreck.nodes.protocol.errors import (
    NONE,
    NOT_CONTROLLER,
    REQUEST_TIMED_OUT,
    UNKNOWN_SERVER_ERROR,
)

METADATA_WITH_ERROR: Final = 13
"""First Metadata version with an error code for the whole answer."""

_MESSAGES: Final = {
    NOT_CONTROLLER: "This node is not the active controller.",
    REQUEST_TIMED_OUT: "The request was not committed in time; it may still be.",
    UNKNOWN_SERVER_ERROR: "The controller failed while it handled the request.",
}


class Answers:
    """Makes answers from the committed layer of ``image`` and collects them.

    ``active``: whether this node is the active controller.
    """

    def __init__(self, quorum: Quorum, image: MetadataImage) -> None:
        self._quorum = quorum
        self._image = image
        self._ready: list[ApiReply] = []
        # Requests that came in an envelope, by identity, with the data needed to answer them.
        self._envelopes: dict[int, tuple[ApiRequest, Forwarded]] = {}
        self.active = False

    def take(self) -> list[ApiReply]:
        """Return the answers given since the last call."""
        ready, self._ready = self._ready, []
        return ready

    def give(self, request: ApiRequest, body: Body) -> None:
        """Answer ``request``, in an envelope if it came in one."""
        envelope = self._envelopes.pop(id(request), None)
        if envelope is not None:
            body = wrap(envelope[1], body)
        self._ready.append(ApiReply(request.token, body))

    def refuse(self, request: ApiRequest, code: int) -> None:
        """Refuse ``request`` as a whole."""
        self.give(request, self.refusal(request, code))

    def taken_out(self, envelope: ApiRequest, inside: Forwarded) -> ApiRequest:
        """Return the request inside of an envelope."""
        inner = ApiRequest(
            envelope.token,
            inside.api,
            inside.version,
            inside.body,
            envelope.listener,
            inside.host,
        )
        self._envelopes[id(inner)] = (inner, inside)
        return inner

    def controller_id(self) -> int:
        """Return the node to name as the controller: this one only if it really is active."""
        return self._quorum.node_id if self.active else self._other()

    def _other(self) -> int:
        leader = self._quorum.leader_id
        return -1 if leader == self._quorum.node_id else leader

    def local(self, request: ApiRequest, now: int) -> Body:
        """Answer ApiVersions, DescribeCluster or DescribeQuorum, which every node serves."""
        quorum, image = self._quorum, self._image.stable
        if request.api == "ApiVersions":
            return api_versions(image, request.version, SERVED, quorum.kraft_version)
        if request.api == "DescribeCluster":
            return describe_cluster(image, quorum, self.controller_id(), request.body)
        return describe_quorum(quorum, request.body, now)

    def read(self, request: ApiRequest) -> Body:
        """Answer a read from the committed layer."""
        image = self._image.stable
        if request.api == "DescribeConfigs":
            return describe_configs(image, self._quorum.voters, request.body)
        if request.api == "ListPartitionReassignments":
            return list_partition_reassignments(image, request.body)
        return self._metadata(request, self.controller_id(), NONE)

    def _metadata(self, request: ApiRequest, controller: int, error: int) -> Body:
        image = self._image.stable
        return metadata(image, self._quorum, controller, request.version, request.body, error)

    def refusal(self, request: ApiRequest, code: int, message: str | None = None) -> Body:
        """Return the answer that refuses ``request`` as a whole.

        This Metadata answer is given without proof of leadership, so it never names this node as
        the controller. Before version 13 it has no field for ``code``: the answer then describes
        this node's own image, as a follower's does.
        """
        if request.api == "Metadata":
            error = code if request.version >= METADATA_WITH_ERROR else NONE
            return self._metadata(request, self._other(), error)
        text = message or _MESSAGES[code]
        body: Body = refusal(request.api, request.version, request.body, code, text)
        return body
