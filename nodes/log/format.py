"""Formatting a data directory: its owner, and the first voters of its quorum (KIP-853).

The bootstrap snapshot ``(0, 0)`` carries the values in force before the first record: the voters of
a dynamic quorum, and the feature levels. ``meta.properties`` is written last: its presence means
that formatting is complete.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final

from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.log.layout import META_PROPERTIES, METADATA_DIRECTORY
from kraftwreck.nodes.log.media import PLAIN, TEMPORARY_SUFFIX, Media
from kraftwreck.nodes.log.meta import FormatError, Meta, load_meta
from kraftwreck.nodes.log.snapshots import (
    BOOTSTRAP,
    SnapshotCorruptError,
    data_batch,
    data_records,
    footer_batch,
    header_batch,
    parse_snapshot_name,
    snapshot_name,
    verify,
)
from kraftwreck.nodes.log.uuids import from_text, is_usable, random_uuid, to_text
from kraftwreck.nodes.protocol.records import encode_record

__all__ = [
    "DEFAULT_METADATA_VERSION",
    "FormatError",
    "InitialVoter",
    "Meta",
    "Mode",
    "bootstrap_snapshot",
    "format_directory",
    "load_meta",
    "parse_initial_controllers",
]

DEFAULT_METADATA_VERSION: Final = 25
"""4.0-IV3."""
SUPPORTED_METADATA_VERSIONS: Final = range(7, 28)
"""3.3-IV3 to 4.1-IV1."""

_VOTER: Final = re.compile(
    r"(?P<id>\d{1,10})@(?P<host>[^@,\s]+):(?P<port>\d{1,5}):(?P<directory>[\w-]{22})", re.ASCII
)
_BATCH_RECORDS: Final = 100


class Mode(Enum):
    """How the node's quorum finds its first voters."""

    STATIC = "static"
    """Every node has ``controller.quorum.voters``; kraft.version 0."""
    STANDALONE = "standalone"
    """This node is the only voter of a dynamic quorum."""
    INITIAL_CONTROLLERS = "initial-controllers"
    """A given set, the same on each of them."""
    NO_INITIAL_CONTROLLERS = "no-initial-controllers"
    """The node joins an existing quorum, or is a broker of one: no voters are written."""


@dataclass(frozen=True, slots=True)
class InitialVoter:
    """One of the first voters of a dynamic quorum; ``directory_id`` is 16 bytes."""

    node_id: int
    endpoint: Endpoint
    directory_id: bytes


def parse_initial_controllers(text: str) -> tuple[InitialVoter, ...]:
    """Read ``id@host:port:directoryId,...``. Raises :class:`FormatError`."""
    voters: list[InitialVoter] = []
    for part in text.split(","):
        match = _VOTER.fullmatch(part.strip())
        if match is None or int(match["id"]) >= 1 << 31 or not 0 < int(match["port"]) <= 65535:
            raise FormatError(f"initial controller {part.strip()!r} is not id@host:port:directory")
        host = match["host"].removeprefix("[").removesuffix("]")
        try:
            directory_id = from_text(match["directory"])
        except ValueError as error:
            raise FormatError(f"initial controller {part.strip()!r}: {error}") from error
        voters.append(
            InitialVoter(int(match["id"]), Endpoint(host, int(match["port"])), directory_id)
        )
    _check_voters(voters)
    return tuple(voters)


def format_directory(
    directory: Path,
    cluster_id: str,
    node_id: int,
    directory_id: bytes | None = None,
    *,
    mode: Mode = Mode.STATIC,
    listener: Endpoint | None = None,
    voters: Sequence[InitialVoter] = (),
    metadata_version: int | None = None,
    features: Mapping[str, int] | None = None,
    listener_name: str = "CONTROLLER",
    media: Media = PLAIN,
) -> Meta:
    """Make ``directory`` (created if missing) the data directory of a node; durable on return.

    ``listener`` is the address of a STANDALONE node, ``voters`` the set of INITIAL_CONTROLLERS; a
    node of that set gets its directory id from there. With ``metadata_version`` (a feature level)
    or other ``features`` the bootstrap snapshot has a FeatureLevelRecord for each, except for
    NO_INITIAL_CONTROLLERS. A directory formatted in the same way stays unchanged and keeps its
    directory id. Raises OSError, and :class:`FormatError` if it belongs to another cluster, node or
    directory id, was formatted differently, or holds a log without ``meta.properties``.
    """
    _check_ids(cluster_id, node_id, directory_id)
    if mode is Mode.STANDALONE and listener is None:
        raise FormatError("a standalone controller needs the endpoint of its listener")
    if (mode is Mode.INITIAL_CONTROLLERS) != bool(voters):
        raise FormatError(f"mode {mode.value} and {len(voters)} initial controllers do not fit")
    _check_voters(voters)
    own = next((voter.directory_id for voter in voters if voter.node_id == node_id), None)
    if None not in (own, directory_id) and own != directory_id:
        raise FormatError(f"node {node_id} has another directory id among initial controllers")
    levels = _levels(metadata_version, features or {})
    formatted = media.exists(directory / META_PROPERTIES)
    known = load_meta(directory, cluster_id, node_id, media) if formatted else None
    wanted = directory_id or own
    if known is not None and wanted not in (None, known.directory_id):
        raise FormatError(f"{directory} has directory id {to_text(known.directory_id)} already")
    meta = known or Meta(cluster_id, node_id, wanted or random_uuid())
    if mode is Mode.STANDALONE and listener is not None:
        voters = (InitialVoter(node_id, listener, meta.directory_id),)
    content = None
    if mode is not Mode.NO_INITIAL_CONTROLLERS and (voters or levels):
        content = bootstrap_snapshot(voters, levels, listener_name)
    if known is not None:
        _check_same(directory, content, media)
        return known
    _check_unused(directory, media)
    media.make_directory(directory)
    if content is not None:
        media.make_directory(directory / METADATA_DIRECTORY)
        media.replace(directory / METADATA_DIRECTORY / snapshot_name(*BOOTSTRAP), content)
    media.replace(directory / META_PROPERTIES, meta.encode())
    return meta


def bootstrap_snapshot(
    voters: Sequence[InitialVoter], levels: Mapping[str, int], listener_name: str = "CONTROLLER"
) -> bytes:
    """Return the content of the snapshot ``(0, 0)``; ``levels`` are feature levels by name."""
    # No clock: the same arguments give the same bytes on each node.
    fields: list[dict[str, Any]] = [
        {
            "voter_id": voter.node_id,
            "voter_directory_id": voter.directory_id,
            "endpoints": [
                {"name": listener_name, "host": voter.endpoint.host, "port": voter.endpoint.port}
            ],
            "kraft_version_feature": {"min_supported_version": 0, "max_supported_version": 1},
        }
        for voter in sorted(voters, key=lambda voter: voter.node_id)
    ]
    parts = [header_batch(0, 0, 0, 1, fields) if fields else header_batch(0, 0, 0)]
    offset = 3 if fields else 1
    if levels:
        records = [
            encode_record("FeatureLevelRecord", 0, {"name": name, "feature_level": level})
            for name, level in levels.items()
        ]
        parts.append(data_batch(offset, 0, 0, records))
        offset += len(records)
    parts.append(footer_batch(offset, 0, 0))
    return b"".join(parts)


def _levels(metadata_version: int | None, features: Mapping[str, int]) -> dict[str, int]:
    """Return the levels to write, ``metadata.version`` first."""
    for name in ("metadata.version", "kraft.version"):
        if name in features:
            raise FormatError(f"{name} is not given among the other features")
    levels: dict[str, int] = {}
    if metadata_version is not None:
        if metadata_version not in SUPPORTED_METADATA_VERSIONS:
            least, most = SUPPORTED_METADATA_VERSIONS[0], SUPPORTED_METADATA_VERSIONS[-1]
            raise FormatError(f"metadata.version {metadata_version} is not {least} to {most}")
        levels["metadata.version"] = metadata_version
    for name, level in sorted(features.items()):
        if not name or not 0 <= level < 1 << 15:
            raise FormatError(f"feature {name!r} cannot have level {level}")
        if level:  # level 0 means that the feature was never set
            levels[name] = level
    return levels


def _check_ids(cluster_id: str, node_id: int, directory_id: bytes | None) -> None:
    if not cluster_id or any(character.isspace() for character in cluster_id):
        raise FormatError(f"cluster id {cluster_id!r} is empty or has spaces")
    if node_id < 0:
        raise FormatError(f"node id {node_id} is negative")
    if directory_id is not None and not is_usable(directory_id):
        raise FormatError(f"directory id {to_text(directory_id)} is reserved")


def _check_voters(voters: Sequence[InitialVoter]) -> None:
    for name, values in (
        ("node id", [str(voter.node_id) for voter in voters]),
        ("directory id", [to_text(voter.directory_id) for voter in voters]),
    ):
        for value in values:
            if values.count(value) > 1:
                raise FormatError(f"initial controllers have {name} {value} twice")
    for voter in voters:
        if not is_usable(voter.directory_id):
            raise FormatError(f"directory id {to_text(voter.directory_id)} is reserved")


def _check_unused(directory: Path, media: Media) -> None:
    """Refuse to take over an existing log; remains of an interrupted formatting are not one."""
    metadata = directory / METADATA_DIRECTORY
    bootstrap = snapshot_name(*BOOTSTRAP)
    if media.exists(metadata):
        for name in media.names(metadata):
            if name not in (bootstrap, bootstrap + TEMPORARY_SUFFIX):
                raise FormatError(
                    f"{directory} holds a log but no {META_PROPERTIES}; restore or remove it"
                )


def _check_same(directory: Path, content: bytes | None, media: Media) -> None:
    """Compare the bootstrap snapshot on disk with the one that would be written."""
    path = directory / METADATA_DIRECTORY / snapshot_name(*BOOTSTRAP)
    names = media.names(path.parent) if media.exists(path.parent) else []
    if path.name not in names and any(parse_snapshot_name(name) for name in names):
        # A node that has run long enough has removed it.
        return
    present = media.read(path) if path.name in names else None
    try:
        same = _meaning(present, path) == _meaning(content, path)
    except SnapshotCorruptError as error:
        raise FormatError(str(error)) from error
    if not same:
        raise FormatError(
            f"{directory} is formatted already, with other voters or features; to format it "
            "again, remove it"
        )


def _meaning(content: bytes | None, path: Path) -> object:
    if content is None:
        return None
    return verify(content, str(path)), list(data_records(content))
