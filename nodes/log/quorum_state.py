"""``quorum-state``: epoch, leader and vote, the promises a node keeps across restarts.

One line of JSON, in version 0 (``kraft.version`` 0: the voters, no directory of the vote) or
version 1 (the directory of the vote, no voters). Written before any promise is sent: write, fsync,
rename, fsync.

The last member, ``"crc32c"``, is the checksum of all bytes before it, in eight hex digits; Apache
Kafka ignores members it does not know. A file without a checksum may hold only Kafka's own members.
So no changed bit can turn the checksum into a member that is ignored here, too.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from kraftwreck.nodes.consensus.effects import WriteQuorumState
from kraftwreck.nodes.log.checksum import Checksum
from kraftwreck.nodes.log.layout import METADATA_DIRECTORY, QUORUM_STATE, inside
from kraftwreck.nodes.log.media import PLAIN, Media
from kraftwreck.nodes.log.uuids import ZERO, from_text, to_text

QuorumState = WriteQuorumState
"""The content of the file, as read and as written.

Version 1 has no voters, version 0 no directory of the vote (16 zero bytes).
"""

UNKNOWN: Final = -1
MAX_EPOCH: Final = 2**31 - 1
"""Kafka's epochs are int32."""

_MEMBERS: Final = (
    {
        "clusterId",
        "leaderId",
        "leaderEpoch",
        "votedId",
        "appliedOffset",
        "currentVoters",
        "data_version",
    },
    {"leaderId", "leaderEpoch", "votedId", "votedDirectoryId", "data_version"},
)
"""Kafka's members, by ``data_version``."""
_CHECKSUM: Final = Checksum(b',"crc32c":"', b'"}')


class QuorumStateError(Exception):
    """``quorum-state`` exists but cannot be trusted; the node must not start."""


def kept_of(state: QuorumState | None) -> object:
    """Return the part of ``state`` that the file keeps, as a value to compare."""
    if state is None:
        return None
    kept: object = state.voted_directory if state.kraft_version >= 1 else tuple(state.voters)
    return state.epoch, state.leader_id, state.voted_id, state.kraft_version, kept


def write(directory: Path, state: WriteQuorumState, media: Media = PLAIN) -> None:
    """Replace the quorum-state of data directory ``directory`` durably. Raises OSError."""
    content: dict[str, Any]
    if state.kraft_version >= 1:
        content = {
            "leaderId": state.leader_id,
            "leaderEpoch": state.epoch,
            "votedId": state.voted_id,
            "votedDirectoryId": to_text(state.voted_directory),
            "data_version": 1,
        }
    else:
        content = {
            "clusterId": "",
            "leaderId": state.leader_id,
            "leaderEpoch": state.epoch,
            "votedId": state.voted_id,
            "appliedOffset": 0,
            "currentVoters": [{"voterId": voter} for voter in state.voters],
            "data_version": 0,
        }
    metadata = inside(directory, METADATA_DIRECTORY)
    media.make_directory(metadata)
    text = json.dumps(content, separators=(",", ":")).encode()
    media.replace(inside(metadata, QUORUM_STATE), _CHECKSUM.add(text.removesuffix(b"}")))


def read(directory: Path, media: Media = PLAIN) -> QuorumState | None:
    """Return the quorum-state of data directory ``directory``, None if there never was one.

    Raises :class:`QuorumStateError` for content that is damaged or of an unknown version.
    """
    path = directory / METADATA_DIRECTORY / QUORUM_STATE
    try:
        data = media.read(path)
    except FileNotFoundError:
        return None
    checked = _CHECKSUM.fits(data)
    if not checked and _CHECKSUM.is_at_end_of(data):
        raise QuorumStateError(
            f"{path}: the checksum does not fit: {_CHECKSUM.place_of_damage(data)}"
        )
    try:
        content = _members(data, checked)
    except ValueError as reason:
        text = f"{path}: {reason}"
        if not checked:
            text += f" ({_CHECKSUM.place_of_damage(data)})"
        raise QuorumStateError(text) from reason
    version = content["data_version"]
    directory_id, voters = ZERO, tuple[int, ...]()
    try:
        if version == 0:
            voters = tuple(_number(voter, "voterId") for voter in content["currentVoters"])
        else:
            directory_id = from_text(content["votedDirectoryId"])
        state = QuorumState(
            epoch=_number(content, "leaderEpoch"),
            leader_id=_number(content, "leaderId"),
            voted_id=_number(content, "votedId"),
            voted_directory=directory_id,
            voters=voters,
            kraft_version=version,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise QuorumStateError(f"{path}: {type(error).__name__}: {error}") from error
    if state.epoch < 0 or state.leader_id < UNKNOWN or state.voted_id < UNKNOWN:
        raise QuorumStateError(f"{path}: a number is below its least value")
    if state.epoch > MAX_EPOCH:
        raise QuorumStateError(f"{path}: leaderEpoch {state.epoch} is above {MAX_EPOCH}")
    return state


def _members(data: bytes, checked: bool) -> dict[str, Any]:
    """Return the members of the JSON object. Raises ValueError for an object of another form.

    ``checked`` files may hold unknown members.
    """
    try:
        content = json.loads(data)
    except ValueError as reason:
        raise ValueError(f"not JSON: {reason}") from reason
    if not isinstance(content, dict):
        raise ValueError("not a JSON object")
    version = content.get("data_version")
    if type(version) is not int or version not in (0, 1):
        raise ValueError(f"unknown data_version {version!r}; known are 0 and 1")
    unknown = sorted(content.keys() - _MEMBERS[version])
    if unknown and not checked:
        raise ValueError(f"unknown member {unknown[0]!r}, and no checksum")
    return content


def _number(content: Any, key: str) -> int:
    value = content[key]
    if type(value) is not int:
        raise TypeError(f"{key} is {value!r}, not a number")
    return value
