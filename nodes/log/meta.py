"""``meta.properties``: which node of which cluster owns a data directory.

The last line is a comment with the checksum of all bytes before it, ``#crc32c=`` and eight hex
digits; Apache Kafka ignores comments. Kafka writes comments only before the first property and no
properties but the four, so a file that breaks one of these rules is a damaged one of ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kraftwreck.nodes.log.checksum import Checksum
from kraftwreck.nodes.log.layout import META_PROPERTIES
from kraftwreck.nodes.log.media import PLAIN, Media
from kraftwreck.nodes.log.uuids import from_text, to_text

_KEYS: Final = ("version", "cluster.id", "node.id", "directory.id")
_CHECKSUM: Final = Checksum(b"#crc32c=", b"\n")


class FormatError(Exception):
    """The directory is not formatted, or for another node; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Meta:
    """Content of ``meta.properties``; ``directory_id`` is 16 bytes."""

    cluster_id: str
    node_id: int
    directory_id: bytes

    def encode(self) -> bytes:
        """Return the file's content."""
        body = (
            f"version=1\ncluster.id={self.cluster_id}\nnode.id={self.node_id}\n"
            f"directory.id={to_text(self.directory_id)}\n"
        ).encode()
        return _CHECKSUM.add(body)


def load_meta(
    directory: Path,
    cluster_id: str | None = None,
    node_id: int | None = None,
    media: Media = PLAIN,
) -> Meta:
    """Read ``meta.properties`` and compare it with the expected ids, where given.

    Raises :class:`FormatError` if it is missing, damaged or belongs to another cluster or node.
    """
    path = directory / META_PROPERTIES
    try:
        data = media.read(path)
    except FileNotFoundError:
        raise FormatError(f"{directory} is not formatted: it has no {META_PROPERTIES}") from None
    try:
        meta = _parse(data)
    except ValueError as error:
        text = f"{path}: {error}"
        if not _CHECKSUM.fits(data):
            text += f" ({_CHECKSUM.place_of_damage(data)})"
        raise FormatError(text) from error
    if cluster_id is not None and meta.cluster_id != cluster_id:
        raise FormatError(f"{directory} belongs to cluster {meta.cluster_id}, not {cluster_id}")
    if node_id is not None and meta.node_id != node_id:
        raise FormatError(f"{directory} belongs to node {meta.node_id}, not {node_id}")
    return meta


def _parse(data: bytes) -> Meta:
    """Parse the file. Raises ValueError if it is damaged or of another format."""
    checked = _CHECKSUM.fits(data)
    if not checked and _CHECKSUM.is_at_end_of(data):
        raise ValueError("the checksum does not fit")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise ValueError("not UTF-8") from None
    properties: dict[str, str] = {}
    # splitlines() has more line ends than Java's properties.
    for line in text.removesuffix("\n").split("\n"):
        line = line.strip()
        if line and line[0] not in "#!":
            key, _, value = line.partition("=")
            if key.strip() not in _KEYS:
                raise ValueError(f"unknown property {key.strip()!r}")
            properties[key.strip()] = value.strip()
        elif line and properties and not checked:
            raise ValueError("a comment after the properties, which is not a checksum")
    if properties.get("version") != "1":
        raise ValueError(f"version is {properties.get('version')!r}, not 1")
    for key in _KEYS:
        if key not in properties:
            raise ValueError(f"{key} is missing")
    return Meta(
        properties["cluster.id"], int(properties["node.id"]), from_text(properties["directory.id"])
    )
