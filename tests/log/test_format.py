"""meta.properties: whose data directory this is."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.log.crc import crc32c
from kraftwreck.nodes.log.format import (
    DEFAULT_METADATA_VERSION,
    FormatError,
    InitialVoter,
    Meta,
    Mode,
    format_directory,
    load_meta,
    parse_initial_controllers,
)
from kraftwreck.nodes.log.layout import META_PROPERTIES, METADATA_DIRECTORY
from kraftwreck.nodes.log.media import Media
from kraftwreck.nodes.log.snapshots import data_records, verify
from kraftwreck.nodes.log.uuids import from_halves, is_usable, to_text
from kraftwreck.nodes.protocol.records import decode_record

CLUSTER = "kVZ8mbkSQPqA1sGPRxwYkg"
DIRECTORY_ID = from_halves(1 << 40, 8)


def test_formatting_writes_what_loading_reads(tmp_path: Path) -> None:
    directory = tmp_path / "new" / "data"
    meta = format_directory(directory, CLUSTER, 3, DIRECTORY_ID)
    assert meta == Meta(CLUSTER, 3, DIRECTORY_ID) == load_meta(directory, CLUSTER, 3)
    body = f"version=1\ncluster.id={CLUSTER}\nnode.id=3\ndirectory.id=AAABAAAAAAAAAAAAAAAACA\n"
    checksum = f"#crc32c={crc32c(body.encode()):08x}\n"
    assert (directory / META_PROPERTIES).read_text() == body + checksum


def test_every_changed_bit_is_found_with_its_byte(tmp_path: Path) -> None:
    format_directory(tmp_path, CLUSTER, 3, DIRECTORY_ID)
    path = tmp_path / META_PROPERTIES
    sound = path.read_bytes()
    for place in range(len(sound)):
        for bit in range(8):
            damaged = bytearray(sound)
            damaged[place] ^= 1 << bit
            path.write_bytes(damaged)
            with pytest.raises(FormatError, match=rf"meta.properties: .*\bbyte {place} is 0x"):
                load_meta(tmp_path)


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
    (tmp_path / METADATA_DIRECTORY / "00000000000000000000.log").touch()
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
def test_damage_is_reported(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / META_PROPERTIES).write_text(text)
    with pytest.raises(FormatError, match=reason):
        load_meta(tmp_path)


def test_an_unformatted_directory_is_reported(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="is not formatted"):
        load_meta(tmp_path)


# --- what is in force before the first record -----------------------------------------------

BOOTSTRAP = "00000000000000000000-0000000000.checkpoint"
HERE = Endpoint("c3", 9093)
VOTERS = tuple(
    InitialVoter(number, Endpoint(f"c{number}", 9093), from_halves(1 << 40, number))
    for number in (3, 1, 2)
)


def bootstrap(directory: Path) -> Path:
    return directory / METADATA_DIRECTORY / BOOTSTRAP


def voters_in(directory: Path) -> list[tuple[int, bytes, str, int]]:
    head = verify(bootstrap(directory).read_bytes(), BOOTSTRAP)
    assert head.kraft_version == 1
    assert head.voters is not None
    return [
        (
            voter["voter_id"],
            voter["voter_directory_id"],
            voter["endpoints"][0]["host"],
            voter["endpoints"][0]["port"],
        )
        for voter in head.voters
    ]


def features_in(directory: Path) -> dict[str, int]:
    records = data_records(bootstrap(directory).read_bytes())
    fields = [decode_record(record) for record in records]
    assert {name for name, _, _ in fields} <= {"FeatureLevelRecord"}
    return {record["name"]: record["feature_level"] for _, _, record in fields}


def test_a_static_quorum_has_a_bootstrap_snapshot_only_for_features(tmp_path: Path) -> None:
    format_directory(tmp_path / "a", CLUSTER, 3)
    assert not (tmp_path / "a" / METADATA_DIRECTORY).exists()
    format_directory(
        tmp_path / "b",
        CLUSTER,
        3,
        metadata_version=DEFAULT_METADATA_VERSION,
        features={"transaction.version": 2, "group.version": 0},
    )
    assert features_in(tmp_path / "b") == {"metadata.version": 25, "transaction.version": 2}
    head = verify(bootstrap(tmp_path / "b").read_bytes(), BOOTSTRAP)
    assert (head.kraft_version, head.voters) == (None, None)


def test_a_standalone_controller_is_its_only_voter(tmp_path: Path) -> None:
    meta = format_directory(
        tmp_path, CLUSTER, 3, mode=Mode.STANDALONE, listener=HERE, metadata_version=25
    )
    assert voters_in(tmp_path) == [(3, meta.directory_id, "c3", 9093)]
    assert features_in(tmp_path) == {"metadata.version": 25}
    with pytest.raises(FormatError, match="needs the endpoint"):
        format_directory(tmp_path / "x", CLUSTER, 3, mode=Mode.STANDALONE)


def test_initial_controllers_write_the_same_bytes_everywhere(tmp_path: Path) -> None:
    for voter in VOTERS:
        directory = tmp_path / str(voter.node_id)
        meta = format_directory(
            directory, CLUSTER, voter.node_id, mode=Mode.INITIAL_CONTROLLERS, voters=VOTERS
        )
        assert meta.directory_id == voter.directory_id
        assert voters_in(directory) == [
            (number, from_halves(1 << 40, number), f"c{number}", 9093) for number in (1, 2, 3)
        ]
    # A node that is no controller learns the voters too, under an id of its own.
    other = format_directory(
        tmp_path / "9", CLUSTER, 9, mode=Mode.INITIAL_CONTROLLERS, voters=VOTERS
    )
    assert other.directory_id not in [voter.directory_id for voter in VOTERS]
    assert len({bootstrap(path).read_bytes() for path in tmp_path.iterdir()}) == 1


def test_without_initial_controllers_everything_comes_from_the_leader(tmp_path: Path) -> None:
    format_directory(tmp_path, CLUSTER, 3, mode=Mode.NO_INITIAL_CONTROLLERS, metadata_version=25)
    assert [path.name for path in tmp_path.iterdir()] == [META_PROPERTIES]


def test_initial_controllers_are_read_as_kafka_writes_them() -> None:
    text = ",".join(
        f"{v.node_id}@{v.endpoint.host}:{v.endpoint.port}:{to_text(v.directory_id)}" for v in VOTERS
    )
    assert parse_initial_controllers(text) == VOTERS
    (voter,) = parse_initial_controllers("1@[::1]:9093:AAABAAAAAAAAAAAAAAAACA")
    assert voter.endpoint == Endpoint("::1", 9093)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is not id@host:port:directory"),
        ("1@c1:9093", "is not id@host:port:directory"),
        ("1@c1:99999:AAABAAAAAAAAAAAAAAAACA", "is not id@host:port:directory"),
        ("3000000000@c1:9093:AAABAAAAAAAAAAAAAAAACA", "is not id@host:port:directory"),
        ("1@c1:9093:AAABAAAAAAAAAAAAAAAACB", "not a uuid"),
        ("1@c1:9093:AAAAAAAAAAAAAAAAAAAAAQ", "reserved"),
        ("1@c1:1:AAABAAAAAAAAAAAAAAAACA,1@c1:2:AAABAAAAAAAAAAAAAAAACQ", "node id 1 twice"),
        ("1@c1:1:AAABAAAAAAAAAAAAAAAACA,2@c1:2:AAABAAAAAAAAAAAAAAAACA", "directory id .* twice"),
    ],
)
def test_initial_controllers_that_cannot_be_are_refused(text: str, reason: str) -> None:
    with pytest.raises(FormatError, match=reason):
        parse_initial_controllers(text)


def test_formatting_again_in_the_same_way_changes_nothing(tmp_path: Path) -> None:
    def format_it() -> Meta:
        return format_directory(
            tmp_path, CLUSTER, 3, mode=Mode.STANDALONE, listener=HERE, metadata_version=25
        )

    meta = format_it()
    assert format_it() == meta
    # A node that has run has replaced the bootstrap snapshot by a later one.
    bootstrap(tmp_path).rename(bootstrap(tmp_path).with_name(f"{7:020d}-{1:010d}.checkpoint"))
    assert format_it() == meta


def test_formatting_again_in_another_way_is_refused(tmp_path: Path) -> None:
    format_directory(tmp_path / "a", CLUSTER, 3)
    with pytest.raises(FormatError, match="formatted already, with other voters"):
        format_directory(tmp_path / "a", CLUSTER, 3, mode=Mode.STANDALONE, listener=HERE)
    format_directory(tmp_path / "b", CLUSTER, 3, mode=Mode.STANDALONE, listener=HERE)
    with pytest.raises(FormatError, match="formatted already, with other voters"):
        format_directory(tmp_path / "b", CLUSTER, 3, metadata_version=25)
    bootstrap(tmp_path / "b").write_bytes(b"torn")
    with pytest.raises(FormatError, match=f"{BOOTSTRAP}, byte 0"):
        format_directory(tmp_path / "b", CLUSTER, 3, mode=Mode.STANDALONE, listener=HERE)


def test_formatting_that_was_interrupted_is_done_again(tmp_path: Path) -> None:
    format_directory(tmp_path, CLUSTER, 3, mode=Mode.STANDALONE, listener=HERE)
    (tmp_path / META_PROPERTIES).unlink()
    meta = format_directory(tmp_path, CLUSTER, 3, mode=Mode.STANDALONE, listener=HERE)
    assert voters_in(tmp_path)[0][1] == meta.directory_id == load_meta(tmp_path).directory_id


@pytest.mark.parametrize(
    ("version", "features", "reason"),
    [
        (6, {}, "metadata.version 6 is not 7 to 27"),
        (28, {}, "metadata.version 28"),
        (25, {"kraft.version": 1}, "kraft.version is not given among"),
        (25, {"group.version": -1}, "cannot have level -1"),
    ],
)
def test_levels_that_cannot_be_are_refused(
    tmp_path: Path, version: int, features: dict[str, int], reason: str
) -> None:
    with pytest.raises(FormatError, match=reason):
        format_directory(tmp_path, CLUSTER, 3, metadata_version=version, features=features)
    with pytest.raises(FormatError, match="do not fit"):
        format_directory(tmp_path, CLUSTER, 3, mode=Mode.INITIAL_CONTROLLERS)
    with pytest.raises(FormatError, match="do not fit"):
        format_directory(tmp_path, CLUSTER, 3, voters=VOTERS)
    with pytest.raises(FormatError, match="another directory id among"):
        format_directory(
            tmp_path,
            CLUSTER,
            3,
            from_halves(1 << 41, 1),
            mode=Mode.INITIAL_CONTROLLERS,
            voters=VOTERS,
        )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.interpreted
def test_the_names_of_all_new_directories_are_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr("kraftwreck.nodes.log.media._fsync_directory", synced.append)
    Media().make_directory(tmp_path / "a" / "b" / "c")
    assert synced == [tmp_path, tmp_path / "a", tmp_path / "a" / "b"]
