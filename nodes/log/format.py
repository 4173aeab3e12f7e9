"""Formatting a data directory: ``meta.properties`` says which node of which cluster owns it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nodes.log.atomic import fsync_directory, replace_file
from nodes.log.layout import META_PROPERTIES, METADATA_DIRECTORY
from nodes.log.uuids import from_text, is_usable, random_uuid, to_text


class FormatError(Exception):
    """The directory is not formatted, or for somebody else; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Meta:
    """Content of ``meta.properties``; ``directory_id`` is 16 bytes."""

    cluster_id: str
    node_id: int
    directory_id: bytes


def load_meta(directory: Path, cluster_id: str | None = None, node_id: int | None = None) -> Meta:
    """Read ``meta.properties`` and hold it against the ids expected, where given.

    Raises :class:`FormatError` if it is missing, damaged or belongs to another cluster or node.
    """
    path = directory / META_PROPERTIES
    try:
        text = path.read_text("utf-8")
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


def format_directory(
    directory: Path, cluster_id: str, node_id: int, directory_id: bytes | None = None
) -> Meta:
    """Make ``directory`` (created if missing) the data directory of a node; durable on return.

    A directory formatted for the same ids is left as it is and keeps its directory id. Raises
    :class:`FormatError` if it belongs to another cluster, node or directory id, or holds a log
    without ``meta.properties``.
    """
    if not cluster_id or any(character.isspace() for character in cluster_id):
        raise FormatError(f"cluster id {cluster_id!r} is empty or has spaces")
    if node_id < 0:
        raise FormatError(f"node id {node_id} is negative")
    if directory_id is not None and not is_usable(directory_id):
        raise FormatError(f"directory id {to_text(directory_id)} is reserved")
    if (directory / META_PROPERTIES).exists():
        meta = load_meta(directory, cluster_id, node_id)
        if directory_id not in (None, meta.directory_id):
            raise FormatError(f"{directory} has directory id {to_text(meta.directory_id)} already")
        return meta
    if (directory / METADATA_DIRECTORY).exists():
        raise FormatError(f"{directory} holds a log but no {META_PROPERTIES}; restore or remove it")
    if not directory.exists():
        directory.mkdir(parents=True)
        fsync_directory(directory.parent)
    meta = Meta(cluster_id, node_id, directory_id or random_uuid())
    replace_file(
        directory / META_PROPERTIES,
        f"version=1\ncluster.id={meta.cluster_id}\nnode.id={meta.node_id}\n"
        f"directory.id={to_text(meta.directory_id)}\n".encode(),
    )
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
    except KeyError as error:
        raise FormatError(f"{path}: {error.args[0]} is missing") from error
    except ValueError as error:
        raise FormatError(f"{path}: {error}") from error
