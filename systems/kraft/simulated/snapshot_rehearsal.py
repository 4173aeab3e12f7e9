"""Makes the first snapshots of a run once more, of images that change meanwhile (I19).

A snapshot is made a piece at a time, and has the image of when it began. It is wrong only if the
right object changes between the right two pieces, which is rare. So the image of a snapshot is
built again, and between two pieces all that can be removed is removed. Then a part of it comes
back, and new objects are made. Pieces are also limited by bytes, which few images reach.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kraftwreck.nodes.consensus.effects import FatalError
from kraftwreck.nodes.draw import draw_below
from kraftwreck.nodes.log.snapshots import data_records, header_batch
from kraftwreck.nodes.metadata.image import MetadataImage
from kraftwreck.nodes.metadata.record_cache import RecordCache
from kraftwreck.nodes.metadata.snapshot import SnapshotBuilder
from kraftwreck.nodes.protocol.records import decode_record

MOST: Final = 2
"""How many snapshots of a run are made again."""
MOST_BYTES: Final = 500
"""The most bytes to which a piece is limited."""
NEW: Final = 10_000
"""The distance of the ids of new objects."""
LEAST: Final = 3
"""An image with fewer objects that can be removed waits for a later snapshot."""

Record = tuple[str, dict[str, Any]]


_USERS: Final = (None, "", "u")
"""Names of users; None stands for all without a quota of their own."""
FOREIGN: Final[tuple[Record, ...]] = (
    *(
        (
            "ClientQuotaRecord",
            {
                "entity": [
                    {"entity_type": "user", "entity_name": user},
                    {"entity_type": "client-id", "entity_name": client},
                ],
                "key": "producer_byte_rate",
                "value": 0.5,
                "remove": False,
            },
        )
        for user in _USERS
        for client in _USERS
    ),
    (
        "AccessControlEntryRecord",
        {
            "id": b"a" * 16,
            "resource_type": 2,
            "resource_name": "*",
            "pattern_type": 3,
            "principal": "User:u",
            "host": "10.0.0.1",
            "operation": 4,
            "permission_type": 5,
        },
    ),
    *(
        (
            "UserScramCredentialRecord",
            {
                "name": "u",
                "mechanism": mechanism,
                "salt": b"s%d" % mechanism,
                "stored_key": b"k",
                "server_key": b"",
                "iterations": 4096 + mechanism,
            },
        )
        for mechanism in (1, 2)
    ),
    (
        "DelegationTokenRecord",
        {
            "owner": "User:u",
            "requester": "User:v",
            "renewers": ["User:v", "User:w"],
            "issue_timestamp": 1,
            "max_timestamp": 1 << 40,
            "expiration_timestamp": 3,
            "token_id": "t",
        },
    ),
)


def removals(records: Sequence[Record]) -> list[Record]:
    """Return records that remove what ``records`` have made, settings of topics before these."""
    found: list[Record] = []
    for kind, fields in reversed(records):
        match kind:
            case "ConfigRecord":
                found.append((kind, fields | {"value": None}))
            case "ClientQuotaRecord":
                found.append((kind, fields | {"remove": True}))
            case "TopicRecord":
                found.append(("RemoveTopicRecord", {"topic_id": fields["topic_id"]}))
            case "RegisterBrokerRecord":
                names = ("broker_id", "broker_epoch")
                found.append(("UnregisterBrokerRecord", {name: fields[name] for name in names}))
            case "RegisterControllerRecord":
                own = {"controller_id": fields["controller_id"]}
                found.append(("UnregisterControllerRecord", own))
    return found


def additions(records: Sequence[Record]) -> list[Record]:
    """Return records that make objects like those of ``records``, with other names."""
    found: list[Record] = []
    for kind, fields in records:
        match kind:
            case "TopicRecord":
                other = bytes(255 - each for each in fields["topic_id"])
                found.append((kind, {"name": f"{fields['name']}.new", "topic_id": other}))
            case "ConfigRecord":
                found.append((kind, fields | {"resource_name": f"{fields['resource_name']}.new"}))
            case "RegisterBrokerRecord":
                found.append((kind, fields | {"broker_id": fields["broker_id"] + NEW}))
            case "RegisterControllerRecord":
                found.append((kind, fields | {"controller_id": fields["controller_id"] + NEW}))
    return found


def made_by_bytes(records: Sequence[Record], seed: int) -> tuple[str, str]:
    """Return the digests of the image of ``records``, and of a snapshot of it in pieces of few
    bytes; an error of the nodes in place of the latter."""
    image = _image_of(records)
    most = 1 + draw_below(MOST_BYTES, seed, "bytes")
    builder = SnapshotBuilder(image.freeze(), header_batch(0, 1, 1), RecordCache())
    content = bytearray()
    try:
        while (piece := builder.next_piece(most_bytes=most)) is not None:
            content += piece
        return image.digest(), _image_in(content).digest()
    except FatalError as error:
        return "", str(error)


def made_again(records: Sequence[Record], seed: int) -> tuple[str, str]:
    """Return the digests of the image of ``records``, and of a snapshot of it that is made while it
    changes; an error of the nodes in place of the latter. ``seed`` draws between which pieces."""
    try:
        return _made_again(records, seed)
    except FatalError as error:
        return "", str(error)


def _made_again(records: Sequence[Record], seed: int) -> tuple[str, str]:
    image = _image_of(records)
    before = image.digest()
    builder = SnapshotBuilder(image.freeze(), header_batch(0, 1, 1), RecordCache())
    content = bytearray()
    gone = removals(records)
    at = draw_below(max(len(records) // 2, 1), seed, "piece")
    count = 1 + draw_below(3, seed, "records")
    # A part of the objects comes back, in their order, also to be removed once more.
    part = [each for each in records[: len(records) // 2] if each[0] != "ProducerIdsRecord"]
    changes = {at // count: gone, at // count + 1: [*part, *additions(records)]}
    number = 0
    while (piece := builder.next_piece(count)) is not None:
        content += piece
        changed = changes.get(number)
        number += 1
        if changed:
            image.commit(image.committed_offset + len(changed), 0, changed)
    return before, _image_in(content).digest()


def _image_of(records: Sequence[Record]) -> MetadataImage:
    image = MetadataImage(indexed=False)
    image.commit(len(records), 0, records)
    return image


def _image_in(content: bytearray) -> MetadataImage:
    found = [decode_record(each) for each in data_records(content)]
    return _image_of([(kind, fields) for kind, _, fields in found])
