"""Frames: keys, headers and the exception ApiVersions makes."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from kraftwreck.nodes.protocol import errors
from kraftwreck.nodes.protocol.apis import (
    API_KEYS,
    NAMES,
    SUPPORTED,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
    request_header_version,
    response_header_version,
)
from kraftwreck.nodes.protocol.codec import ProtocolError, decode
from kraftwreck.nodes.protocol.records import decode_control, encode_control
from kraftwreck.nodes.protocol.schemas import MESSAGES


def test_keys_and_names_belong_together() -> None:
    assert (API_KEYS["CreateTopics"], API_KEYS["Vote"], API_KEYS["ApiVersions"]) == (19, 52, 18)
    assert {NAMES[key]: key for key in NAMES} == API_KEYS
    for api, key in API_KEYS.items():
        assert MESSAGES[f"{api}Response"].key == key


def test_no_version_is_spoken_that_has_no_schema() -> None:
    for api, (low, high) in SUPPORTED.items():
        for name in (f"{api}Request", f"{api}Response"):
            assert low in MESSAGES[name].valid
            assert high in MESSAGES[name].valid
    # Left to groups.
    assert API_KEYS.keys() - SUPPORTED.keys() == {
        "FindCoordinator",
        "JoinGroup",
        "SyncGroup",
        "Heartbeat",
        "LeaveGroup",
        "OffsetCommit",
        "OffsetFetch",
    }


@pytest.mark.parametrize("api", SUPPORTED)
def test_supported_versions_can_be_read_and_written(api: str) -> None:
    low, high = SUPPORTED[api]
    for version in range(low, high + 1):
        frame = encode_request(api, version, 5, "me", {})
        key, sent, correlation, client, offset = decode_request_header(frame)
        assert (key, sent, correlation, client) == (API_KEYS[api], version, 5, "me")
        _, end = decode(f"{api}Request", version, frame, offset)
        assert end == len(frame)
        correlation, _ = decode_response(api, version, encode_response(api, version, 5, {}))
        assert correlation == 5


def test_the_answer_about_versions_has_the_old_header() -> None:
    assert request_header_version("ApiVersions", 3) == 2
    assert response_header_version("ApiVersions", 3) == 0
    assert response_header_version("Vote", 0) == 1
    assert response_header_version("CreateTopics", 4) == 0


def test_a_refused_version_is_answered_in_a_form_both_know() -> None:
    ranges = [{"api_key": 18, "min_version": 0, "max_version": 4}]
    answer = encode_response(
        "ApiVersions", 0, 9, {"error_code": errors.UNSUPPORTED_VERSION, "api_keys": ranges}
    )
    correlation, body = decode_response("ApiVersions", 4, answer)
    assert (correlation, body["error_code"], body["api_keys"]) == (9, 35, ranges)


def test_the_header_of_a_newer_version_is_still_read() -> None:
    frame = encode_request("ApiVersions", 4, 1, None, {})
    newer = frame[:2] + b"\x00\x63" + frame[4:]
    assert decode_request_header(newer) == (18, 99, 1, None, 11)


def test_unknown_tags_of_a_header_are_skipped() -> None:
    frame = encode_request("Vote", 0, 1, "me", {})
    tagged = frame[:12] + b"\x01\x07\x02ab" + frame[13:]
    assert decode_request_header(tagged)[4] == 17


def test_every_prefix_of_a_header_is_refused() -> None:
    frame = encode_request("Vote", 0, 1, "me", {})
    for length in range(13):
        with pytest.raises(ProtocolError, match="request header"):
            decode_request_header(frame[:length])
        if length < 5:
            with pytest.raises(ProtocolError, match="ResponseHeader"):
                decode_response("Vote", 0, frame[:length])
    with pytest.raises(ProtocolError, match="-3 is not a length"):
        decode_request_header(frame[:8] + b"\xff\xfd" + frame[10:])
    with pytest.raises(ProtocolError, match="not UTF-8"):
        decode_request_header(frame[:10] + b"\xff\xff" + frame[12:])


def test_unknown_apis_are_reported() -> None:
    with pytest.raises(ProtocolError, match="no API Vot"):
        encode_request("Vot", 0, 1, None, {})
    with pytest.raises(ProtocolError, match="header of Vote v0"):
        encode_request("Vote", 0, 1, "x" * 40_000, {})
    assert decode_request_header(b"\x03\xe7\x00\x01\x00\x00\x00\x02\xff\xff") == (
        999,
        1,
        2,
        None,
        10,
    )


def test_error_names() -> None:
    assert errors.error_name(errors.NOT_CONTROLLER) == "NOT_CONTROLLER"
    assert errors.error_name(-1) == "UNKNOWN_SERVER_ERROR"
    assert errors.error_name(4242) == "ERROR_4242"


def test_control_records_nobody_can_read_are_refused() -> None:
    key, value = encode_control(2, {"version": 1, "leader_id": 3})
    assert decode_control(key, value)[1]["version"] == 1
    with pytest.raises(ProtocolError, match="unknown control record type 99"):
        decode_control(b"\0\0\0\x63", value)
    with pytest.raises(ProtocolError, match="versions 0 to 1, not 7"):
        decode_control(key, b"\0\7" + value[2:])
    with pytest.raises(ProtocolError, match="without a key"):
        decode_control(None, value)
    with pytest.raises(ProtocolError, match="without a version"):
        decode_control(key, None)


def test_schemas_load_from_inside_a_zip(tmp_path: Path) -> None:
    import subprocess
    import sys

    from kraftwreck import nodes

    root = Path(str(nodes.__file__)).parent
    archive = tmp_path / "nodes.zip"
    with zipfile.ZipFile(archive, "w") as zipped:
        for path in root.rglob("*.py"):
            zipped.write(path, Path("kraftwreck/nodes") / path.relative_to(root))
        zipped.writestr("kraftwreck/__init__.py", "")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]);"
        "import kraftwreck.nodes.protocol.records as r;"
        "print(r.__file__.startswith(sys.argv[1]), r.encode_record('NoOpRecord', 0, {}).hex());"
        "import kraftwreck.nodes.log.files, kraftwreck.nodes.log.format;"
        "from kraftwreck.nodes.log.crc import crc32c;"
        "print(crc32c.__module__, crc32c(b'123456789'))"
    )
    # -S -E: a bare interpreter, without any installed package.
    result = subprocess.run(
        [sys.executable, "-S", "-E", "-c", code, str(archive)],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert result.stdout.split() == [
        "True",
        "01140000",
        "kraftwreck.nodes.log.crc",
        str(0xE3069283),
    ]
