"""The notation of schemas."""

from __future__ import annotations

import pytest

from kraftwreck.nodes.protocol.schema import NEWEST, SchemaError, Versions, parse, snake_case


def test_a_message_is_read_with_all_its_attributes() -> None:
    text = """
Ask key=9 valid=1-4 flex=3+
  ClusterId:string[v2+ null@3+ def=null], Epoch:int32[def=-1]
  Rows:[]Row[tag1@3+]{
    Id:uuid, PreVote:bool[v4 strict]
  }
Answer key=- valid=0 flex=none
"""
    messages = parse(text)
    ask = messages["Ask"]
    assert (ask.key, ask.valid, ask.flexible) == (9, Versions(1, 4), Versions(3, NEWEST))
    cluster, epoch, rows = ask.fields
    assert (cluster.name, cluster.default, 2 in cluster.nullable) == ("cluster_id", None, False)
    assert epoch.default == -1
    assert (rows.array, rows.kind, rows.tag, 2 in rows.tagged) == (True, "Row", 1, False)
    assert rows.fields is not None
    assert [field.name for field in rows.fields] == ["id", "pre_vote"]
    assert (rows.fields[1].versions, rows.fields[1].strict) == (Versions(4, 4), True)
    assert messages["Answer"].key is None
    assert 0 not in messages["Answer"].flexible


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("KRaftVersionFeature", "kraft_version_feature"),
        ("TopicId", "topic_id"),
        ("EndPoints", "end_points"),
        ("Enable2Pc", "enable2_pc"),
    ],
)
def test_names_become_keys(name: str, key: str) -> None:
    assert snake_case(name) == key


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Ask key=x valid=0 flex=0+", "not the head"),
        ("Ask key=1 valid=0 flex=0+\nAsk key=1 valid=0 flex=0+", "defined twice"),
        ("Ask key=1 valid=0 flex=0+\n  A:int7", "unknown type int7"),
        ("Ask key=1 valid=0 flex=0+\n  A:int8[maybe]", "unknown attribute 'maybe'"),
        ("Ask key=1 valid=0 flex=0+\n  A:bool[def=7]", "no default '7'"),
        ("Ask key=1 valid=0 flex=0+\n  A:B{C:int8", "struct of A is not closed"),
        ("Ask key=1 valid=0 flex=0+\n  A:int8}", "closes nothing"),
        ("Ask key=1 valid=0 flex=0+\n  ?", "cannot read"),
    ],
)
def test_a_mistake_is_reported_with_its_place(text: str, reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        [message.fields for message in parse(text).values()]
