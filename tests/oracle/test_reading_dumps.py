"""The output of Apache Kafka's dump tool is read strictly, and compared field by field."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kraftwreck.nodes.log.batch import encode_batch
from kraftwreck.nodes.protocol.records import LEADER_CHANGE, encode_control, encode_record
from kraftwreck.oracle.dump import difference, our_dump, parse_dump, re_encoded
from kraftwreck.oracle.release import OracleError

CONTROL = encode_batch(
    0, 1, 7, [encode_control(LEADER_CHANGE, {"leader_id": 2, "voters": [{"voter_id": 2}]})], True
)
TOPIC = {"name": "t", "topic_id": bytes(15) + b"\x09"}
DATA = encode_batch(1, 1, 8, [(None, encode_record("TopicRecord", 0, TOPIC))], False)

DUMP = """\
Dumping /some/where/00000000000000000000.log
Log starting offset: 0
baseOffset: 0 lastOffset: 0 count: 1 baseSequence: -1 lastSequence: -1 producerId: -1 \
producerEpoch: -1 partitionLeaderEpoch: 1 isTransactional: false isControl: true \
deleteHorizonMs: OptionalLong.empty position: 0 CreateTime: 7 size: {size0} magic: 2 \
compresscodec: none crc: {crc0} isvalid: true
| offset: 0 CreateTime: 7 keySize: 4 valueSize: 34 sequence: -1 headerKeys: [] \
LeaderChange: {{"version":0,"leaderId":2,"voters":[{{"voterId":2}}],"grantingVoters":[]}}
baseOffset: 1 lastOffset: 1 count: 1 baseSequence: -1 lastSequence: -1 producerId: -1 \
producerEpoch: -1 partitionLeaderEpoch: 1 isTransactional: false isControl: false \
deleteHorizonMs: OptionalLong.empty position: 80 CreateTime: 8 size: {size1} magic: 2 \
compresscodec: none crc: {crc1} isvalid: true
| offset: 1 CreateTime: 8 keySize: -1 valueSize: 23 sequence: -1 headerKeys: [] \
payload: {{"type":"TOPIC_RECORD","version":0,"data":{{"name":"{name}","topicId":\
"AAAAAAAAAAAAAAAAAAAACQ"}}}}
"""


def said(name: str = "t") -> str:
    ours = our_dump(CONTROL + DATA)
    return DUMP.format(
        size0=ours[0].size, crc0=ours[0].crc, size1=ours[1].size, crc1=ours[1].crc, name=name
    )


def test_two_readings_of_the_same_bytes_agree() -> None:
    assert difference(parse_dump(said()), our_dump(CONTROL + DATA)) is None
    assert re_encoded(CONTROL + DATA) == CONTROL + DATA


def test_a_field_that_differs_is_found() -> None:
    assert "'name': 'u'" in (difference(parse_dump(said("u")), our_dump(CONTROL + DATA)) or "")


def test_a_batch_or_record_that_is_missing_is_found() -> None:
    theirs, ours = parse_dump(said()), our_dump(CONTROL + DATA)
    assert difference(theirs, ours[:1]) == "2 batches there, 1 here"
    assert difference(theirs, [ours[0], replace(ours[1], records=())]) is not None
    assert difference(theirs, [ours[0], replace(ours[1], crc=1)]) is not None


@pytest.mark.parametrize(
    "line",
    [
        "Found 3 invalid bytes at the end of 00000000000000000000.log",
        "| offset: 1 CreateTime: 8 keySize: -1 valueSize: 3 sequence: -1 headerKeys: [] "
        "Could not decode metadata record due to: unknown frame",
    ],
)
def test_a_complaint_is_an_error(line: str) -> None:
    with pytest.raises(OracleError):
        parse_dump(said() + line + "\n")


def test_a_batch_that_is_not_valid_is_an_error() -> None:
    with pytest.raises(OracleError, match="not valid"):
        parse_dump(said().replace("isvalid: true", "isvalid: false", 1))
