"""``quorum-state``: epoch, leader and vote, the promises a node keeps across restarts.

One line of JSON, in version 0 (``kraft.version`` 0: the voters, no directory of the vote) or
version 1 (the directory of the vote, no voters). Written before anything is promised: write,
fsync, rename, fsync.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from nodes.consensus.effects import WriteQuorumState
from nodes.log.layout import METADATA_DIRECTORY, QUORUM_STATE, inside
from nodes.log.media import PLAIN, Media
from nodes.log.uuids import ZERO, from_text, to_text

QuorumState = WriteQuorumState
"""What is read has the shape of what is written; version 1 tells no voters, version 0 no
directory of the vote (16 zero bytes)."""

UNKNOWN: Final = -1


class QuorumStateError(Exception):
    """``quorum-state`` is there but cannot be trusted; the node must not start."""


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
    text = json.dumps(content, separators=(",", ":"))
    media.replace(inside(metadata, QUORUM_STATE), text.encode())


def read(directory: Path, media: Media = PLAIN) -> QuorumState | None:
    """Return the quorum-state of data directory ``directory``, None if there never was one.

    Raises :class:`QuorumStateError` for content that is damaged or of an unknown version.
    """
    path = directory / METADATA_DIRECTORY / QUORUM_STATE
    try:
        content = json.loads(media.read(path))
    except FileNotFoundError:
        return None
    except ValueError as reason:
        raise QuorumStateError(f"{path}: not JSON: {reason}") from reason
    if not isinstance(content, dict):
        raise QuorumStateError(f"{path}: not a JSON object")
    version = content.get("data_version")
    if type(version) is not int or version not in (0, 1):
        raise QuorumStateError(f"{path}: unknown data_version {version!r}; known are 0 and 1")
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
    return state


def _number(content: Any, key: str) -> int:
    value = content[key]
    if type(value) is not int:
        raise TypeError(f"{key} is {value!r}, not a number")
    return value
