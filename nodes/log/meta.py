"""``meta.properties``: which node of which cluster owns a data directory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nodes.log.layout import META_PROPERTIES
from nodes.log.media import PLAIN, Media
from nodes.log.uuids import from_text, to_text


class FormatError(Exception):
    """The directory is not formatted, or for somebody else; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Meta:
    """Content of ``meta.properties``; ``directory_id`` is 16 bytes."""

    cluster_id: str
    node_id: int
    directory_id: bytes

    def encode(self) -> bytes:
        """Return the file's content."""
        return (
            f"version=1\ncluster.id={self.cluster_id}\nnode.id={self.node_id}\n"
            f"directory.id={to_text(self.directory_id)}\n"
        ).encode()


def load_meta(
    directory: Path,
    cluster_id: str | None = None,
    node_id: int | None = None,
    media: Media = PLAIN,
) -> Meta:
    """Read ``meta.properties`` and hold it against the ids expected, where given.

    Raises :class:`FormatError` if it is missing, damaged or belongs to another cluster or node.
    """
    path = directory / META_PROPERTIES
    try:
        text = media.read(path).decode()
    except FileNotFoundError:
        raise FormatError(f"{directory} is not formatted: it has no {META_PROPERTIES}") from None
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}: not UTF-8") from error
    meta = _parse(path, text)
    if cluster_id is not None and meta.cluster_id != cluster_id:
        raise FormatError(f"{directory} belongs to cluster {meta.cluster_id}, not {cluster_id}")
    if node_id is not None and meta.node_id != node_id:
        raise FormatError(f"{directory} belongs to node {meta.node_id}, not {node_id}")
    return meta


def _parse(path: Path, text: str) -> Meta:
    properties = {}
    for line in text.splitlines():
        line = line.strip()
        if line and line[0] not in "#!":
            key, _, value = line.partition("=")
            properties[key.strip()] = value.strip()
    if properties.get("version") != "1":
        raise FormatError(f"{path}: version is {properties.get('version')!r}, not 1")
    try:
        return Meta(
            properties["cluster.id"],
            int(properties["node.id"]),
            from_text(properties["directory.id"]),
        )
    except KeyError as missing:
        raise FormatError(f"{path}: {missing.args[0]} is missing") from missing
    except ValueError as error:
        raise FormatError(f"{path}: {error}") from error
