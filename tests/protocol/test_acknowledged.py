"""Answers to Produce by hand: the same bytes as by the schema."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kraftwreck.nodes.protocol.acknowledged import Acknowledged, produce_answer
from kraftwreck.nodes.protocol.apis import encode_response
from kraftwreck.nodes.protocol.produce import FIRST, LAST

BY_ID = 13
INT = st.integers(-(2**31), 2**31 - 1)
LONG = st.integers(-(2**63), 2**63 - 1)
PARTS = st.lists(st.builds(Acknowledged, INT, st.integers(-1, 130), LONG, LONG), max_size=3)
MANY = st.integers(126, 140).map(lambda count: [Acknowledged(n, 0, n, 0) for n in range(count)])
NAMES = st.text(max_size=20) | st.integers(125, 130).map(lambda length: "é" * length)
IDS = st.binary(min_size=16, max_size=16)


@settings(max_examples=500)
@given(st.integers(FIRST, LAST), INT, st.data())
def test_it_writes_what_the_schema_writes(
    version: int, correlation: int, data: st.DataObject
) -> None:
    keys = IDS if version >= BY_ID else NAMES
    topics: dict[str | bytes, list[Acknowledged]] = data.draw(
        st.dictionaries(keys, PARTS | MANY, max_size=3)
    )
    field = "topic_id" if version >= BY_ID else "name"
    responses: list[dict[str, Any]] = [
        {
            field: topic,
            "partition_responses": [
                {
                    "index": part.number,
                    "error_code": part.error,
                    "base_offset": part.base_offset,
                    "log_start_offset": part.log_start,
                }
                for part in parts
            ],
        }
        for topic, parts in topics.items()
    ]
    written = produce_answer(version, correlation, topics)
    assert written == encode_response("Produce", version, correlation, {"responses": responses})


def test_a_refused_partition_has_the_defaults_of_the_schema() -> None:
    refused = {"index": 3, "error_code": 2, "base_offset": -1}
    body = {"responses": [{"name": "t", "partition_responses": [refused]}]}
    for version in range(FIRST, BY_ID):
        written = produce_answer(version, 1, {"t": [Acknowledged(3, 2)]})
        assert written == encode_response("Produce", version, 1, body)
