"""Messages with their version before them: principals, and the records of committed offsets."""

from __future__ import annotations

import pytest

from kraftwreck.nodes.protocol.codec import ProtocolError
from kraftwreck.nodes.protocol.versioned import decode_versioned, encode_versioned


def test_a_principal_is_written_as_a_broker_forwards_it() -> None:
    principal = {"type": "User", "name": "ANONYMOUS", "token_authenticated": False}
    data = encode_versioned("DefaultPrincipalData", 0, principal)
    assert data == b"\0\0" + b"\x05User" + b"\x0aANONYMOUS" + b"\0" + b"\0"
    assert decode_versioned("DefaultPrincipalData", data) == (0, principal)
    assert decode_versioned("DefaultPrincipalData", memoryview(data + b"more")) == (0, principal)


def test_an_offset_commit_is_encoded_as_in_the_offsets_topic() -> None:
    key = {"group": "g", "topic": "t", "partition": 3}
    assert encode_versioned("LegacyOffsetCommitKey", 0, key) == bytes.fromhex(
        "000000016700017400000003"
    )
    value = {"offset": 5, "leader_epoch": 2, "metadata": "", "commit_timestamp": 9}
    assert encode_versioned("OffsetCommitValue", 3, value) == bytes.fromhex(
        "000300000000000000050000000200000000000000000009"
    )
    topic_id = bytes(range(16))
    tagged = encode_versioned("OffsetCommitValue", 4, {**value, "topic_id": topic_id})
    assert (
        tagged == bytes.fromhex("0004000000000000000500000002010000000000000009010010") + topic_id
    )
    version, body = decode_versioned("OffsetCommitValue", tagged)
    assert (version, body["topic_id"], body["expire_timestamp"]) == (4, topic_id, -1)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "ends inside its version"),
        (b"\0", "ends inside its version"),
        (b"\0\7", "has versions 0 to 0, not 7"),
        (b"\xff\xff", "has versions 0 to 0, not -1"),
        (b"\0\0\5Us", "outside of the message"),
    ],
)
def test_malformed_principals_are_refused(data: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        decode_versioned("DefaultPrincipalData", data)
