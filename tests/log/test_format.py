"""meta.properties: whose data directory this is."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodes.log.format import FormatError, Meta, format_directory, load_meta
from nodes.log.layout import META_PROPERTIES, METADATA_DIRECTORY
from nodes.log.uuids import from_halves, is_usable

CLUSTER = "kVZ8mbkSQPqA1sGPRxwYkg"
DIRECTORY_ID = from_halves(1 << 40, 8)


def test_formatting_writes_what_loading_reads(tmp_path: Path) -> None:
    directory = tmp_path / "new" / "data"
    meta = format_directory(directory, CLUSTER, 3, DIRECTORY_ID)
    assert meta == Meta(CLUSTER, 3, DIRECTORY_ID) == load_meta(directory, CLUSTER, 3)
    assert (directory / META_PROPERTIES).read_text() == (
        f"version=1\ncluster.id={CLUSTER}\nnode.id=3\ndirectory.id=AAABAAAAAAAAAAAAAAAACA\n"
    )


def test_a_directory_id_is_made_once(tmp_path: Path) -> None:
    meta = format_directory(tmp_path, CLUSTER, 3)
    assert is_usable(meta.directory_id)
    assert format_directory(tmp_path, CLUSTER, 3) == meta
    assert format_directory(tmp_path / "other", CLUSTER, 3).directory_id != meta.directory_id


def test_the_file_of_kafka_is_read(tmp_path: Path) -> None:
    (tmp_path / META_PROPERTIES).write_text(
        "#\n#Tue Nov 14 22:13:20 UTC 2023\nnode.id=1\ndirectory.id=AAABAAAAAAAAAAAAAAAACA\n"
        f"version=1\ncluster.id={CLUSTER}\n"
    )
    assert load_meta(tmp_path) == Meta(CLUSTER, 1, DIRECTORY_ID)


def test_a_directory_of_somebody_else_is_refused(tmp_path: Path) -> None:
    format_directory(tmp_path, CLUSTER, 3, DIRECTORY_ID)
    with pytest.raises(FormatError, match="belongs to cluster"):
        format_directory(tmp_path, "other", 3)
    with pytest.raises(FormatError, match="belongs to node 3, not 4"):
        format_directory(tmp_path, CLUSTER, 4)
    with pytest.raises(FormatError, match="has directory id"):
        format_directory(tmp_path, CLUSTER, 3, from_halves(9, 9))
    with pytest.raises(FormatError, match="belongs to node 3, not 4"):
        load_meta(tmp_path, CLUSTER, 4)


def test_a_log_without_its_owner_is_not_taken_over(tmp_path: Path) -> None:
    (tmp_path / METADATA_DIRECTORY).mkdir()
    with pytest.raises(FormatError, match="holds a log but no"):
        format_directory(tmp_path, CLUSTER, 3)


@pytest.mark.parametrize(
    ("cluster", "node", "directory_id"),
    [
        ("", 1, None),
        ("a b", 1, None),
        ("a\nnode.id=2", 1, None),
        ("a", -1, None),
        ("a", 1, from_halves(0, 5)),
    ],
)
def test_ids_that_cannot_be_are_refused(
    tmp_path: Path, cluster: str, node: int, directory_id: bytes | None
) -> None:
    with pytest.raises(FormatError):
        format_directory(tmp_path, cluster, node, directory_id)
    assert not (tmp_path / META_PROPERTIES).exists()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "version is None"),
        ("version=0\n", "version is '0'"),
        ("version=1\nnode.id=1\n", "cluster.id is missing"),
        (
            "version=1\ncluster.id=a\nnode.id=x\ndirectory.id=AAABAAAAAAAAAAAAAAAACA\n",
            "invalid lit",
        ),
        ("version=1\ncluster.id=a\nnode.id=1\ndirectory.id=AAA\n", "not a uuid"),
    ],
)
def test_damage_is_told(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / META_PROPERTIES).write_text(text)
    with pytest.raises(FormatError, match=reason):
        load_meta(tmp_path)


def test_a_directory_that_was_never_formatted_is_told(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="is not formatted"):
        load_meta(tmp_path)
