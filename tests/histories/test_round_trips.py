"""A history survives every way through the formats."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftwreck.cli.main import status
from kraftwreck.histories.convert import FORMATS, load, write
from kraftwreck.histories.operation import Op

INT64 = st.integers(-(2**63), 2**63 - 1)
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
EVENTS = st.builds(
    Op,
    index=st.just(0),
    process=INT64,
    type=st.sampled_from(["invoke", "ok", "fail", "info"]),
    f=st.sampled_from(["read", "txn", "", "a b", ":x", "1", "ä/b", '"', "[", "#_"]) | st.text(),
    key=VALUES,
    value=VALUES,
    time=st.integers(0, 2**63 - 1),
    node=st.none() | st.text(),
    error=st.none() | st.text(),
    final=st.booleans(),
)


def numbered(ops: list[Op]) -> list[Op]:
    for index, op in enumerate(ops):
        op.index = 3 * index
    return ops


@settings(max_examples=60, deadline=None)
@given(ops=st.lists(EVENTS, max_size=5).map(numbered), way=st.permutations(FORMATS))
def test_a_history_survives_every_way_through_the_formats(
    tmp_path_factory: pytest.TempPathFactory, ops: list[Op], way: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("formats")
    before = ops
    for step, kind in enumerate(way):
        path = folder / f"{step}.{kind}"
        write(before, path, kind)
        assert load(path) == ops
        before = load(path)


def test_the_command_converts_between_all_formats(tmp_path: Path) -> None:
    ops = [
        Op(index=0, process=0, type="invoke", f="read", key="x", time=5, node="n1"),
        Op(index=1, process=0, type="ok", f="read", key="x", value=[1, None], time=9, error="e"),
    ]
    first = tmp_path / "first.jsonl"
    write(ops, first, "jsonl")
    files = [first, *(tmp_path / f"{n}.{kind}" for n, kind in enumerate((*FORMATS, *FORMATS)))]
    for one, other in pairwise(files):
        assert status(["convert", str(one), str(other)]) == 0
        assert load(other) == ops


def test_keys_are_split_and_joined(tmp_path: Path) -> None:
    pairs, split, again = (tmp_path / name for name in ("a.edn", "b.parquet", "c.jsonl"))
    pairs.write_text("{:process 0, :type :invoke, :f :write, :value [7 [1 2]]}\n")
    assert status(["convert", "--independent", str(pairs), str(split)]) == 0
    (op,) = load(split)
    assert (op.key, op.value) == (7, [1, 2])
    assert status(["convert", "--join-keys", str(split), str(again)]) == 0
    assert json.loads(again.read_text())["value"] == [7, [1, 2]]


def test_omitted_input_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "h.jsonl", tmp_path / "h.edn"
    rows = [
        {"process": "nemesis", "type": "info", "f": "kill"},
        {"process": 0, "type": "invoke", "f": "read", "link": 3},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"process": 0, "ty')
    assert status(["convert", str(path), str(out)]) == 0
    said = capsys.readouterr()
    assert said.out == f"{out}: 1 event\n"
    assert said.err.splitlines() == [
        f"{path}: left out: events of the nemesis",
        f"{path}: left out: field link",
        f"{path}: left out: line 3, which is torn",
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["{tmp}/none.edn", "{tmp}/x.json"], "none.edn: No such file or directory"),
        (["{tmp}/h.jsonl", "{tmp}/x.txt"], "x.txt: unknown kind of file"),
        (["{tmp}/h.jsonl", "{tmp}/h.jsonl"], "is the input file"),
        (["{tmp}/h.jsonl", "{tmp}/no/x.edn"], "No such file or directory"),
        (["{tmp}/h.jsonl", "{tmp}/x.arrow", "--join-keys"], "--join-keys is for text formats"),
        (["{tmp}/bad.jsonl", "{tmp}/x.edn"], "bad.jsonl:1: "),
    ],
)
def test_mistakes_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    (tmp_path / "h.jsonl").write_text('{"process":0,"type":"ok","f":"read"}\n')
    (tmp_path / "bad.jsonl").write_text("no JSON\n")
    assert status(["convert", *(a.format(tmp=tmp_path) for a in arguments)]) == 254
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not list(tmp_path.glob("x.*"))
