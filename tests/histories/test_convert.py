"""Histories of other tools come in, ours go out, and errors say where."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraftwreck.histories.convert import load, to_edn, to_json, to_json_lines
from kraftwreck.histories.operation import Op
from kraftwreck.histories.tables import HistoryError

OPS = [
    Op(index=0, process=1, type="invoke", f="write", key="k", value=3, time=10),
    Op(index=1, process=1, type="info", f="write", key="k", value=3, time=20, error="lost"),
    Op(index=2, process=6, type="invoke", f="read", key="k", time=30, final=True),
    Op(index=3, process=6, type="ok", f="read", key="k", value=[3], time=40, node="n1"),
]


@pytest.mark.parametrize("kind", ["jsonl", "edn", "json"])
def test_our_history_goes_out_and_comes_back(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"history.{kind}"
    data = {"jsonl": to_json_lines(OPS), "edn": to_edn(OPS).encode(), "json": to_json(OPS)}[kind]
    path.write_bytes(data)
    back = load(path)
    if kind != "jsonl":
        assert "final" in data.decode()
    assert back == OPS


def test_independent_keys_are_joined_and_split(tmp_path: Path) -> None:
    path = tmp_path / "history.edn"
    path.write_text(to_edn(OPS, independent=True))
    assert ':value ["k" 3]' in path.read_text()
    assert [(op.key, op.value) for op in load(path, independent=True)] == [
        ("k", 3),
        ("k", 3),
        ("k", None),
        ("k", [3]),
    ]


def test_a_jepsen_history_with_records_keywords_and_a_nemesis(tmp_path: Path) -> None:
    path = tmp_path / "history.edn"
    path.write_text(
        "[{:type :invoke, :f :txn, :value [[:append :x 1] [:r :y nil]], :process 0, :index 0}\n"
        "{:type :info, :f :start, :process :nemesis, :value nil, :index 1}\n"
        "#jepsen.history.Op{:index 2, :time 5, :type :fail, :process 0, :f :txn,"
        " :value nil, :error [:timeout 3]}]"
    )
    first, last = load(path)
    assert first.value == [["append", "x", 1], ["r", "y", None]]
    assert (last.index, last.time, last.error) == (2, 5, '["timeout",3]')


def test_json_lines_of_other_tools_may_lack_time_f_and_the_last_newline(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    path.write_text('{"type":"ok","process":0,"f":null,"value":[["w","x",1]]}')
    assert load(path) == [Op(index=0, process=0, type="ok", f="", value=[["w", "x", 1]], time=0)]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("h.txt", "", r"h\.txt: unknown kind of file; say --format"),
        ("h.edn", "[{:type :ok :process 0\n}", r"h\.edn: line 1, column 1: '\[' is never closed"),
        ("h.edn", "[1 2]", r"h\.edn:1: an operation is a map, got int"),
        ("h.edn", "{:type :done :process 0}", r"type must be one of invoke, ok, fail, info"),
        ("h.json", "[{]", r"h\.json:1: JSON is malformed"),
        ("h.json", '[{"type":"ok"},\n{]', r"h\.json:2: JSON is malformed"),
        ("h.json", '[{"type":"ok"},\n{\n', r"h\.json:2: Input data was truncated"),
        ("h.json", '[\n{"type":"ok"},\n' + "[" * 10**5, r"h\.json:3: nested too deeply"),
        (
            "h.jsonl",
            '{"type":"invoke"}\n' * 2,
            r"line 2: process is missing, and the .* at line 1 ",
        ),
        (
            "h.jsonl",
            '{"type":"ok","process":9223372036854775808}',
            r"h\.jsonl:1: process must be a whole",
        ),
        (
            "h.jsonl",
            '{"type":"ok","index":-9223372036854775809}',
            r"h\.jsonl:1: index must be a whole",
        ),
        ("h.jsonl", "{}\n" + "[" * 10**5 + "\n", r"h\.jsonl:1: type must be"),
        ("h.jsonl", "[" * 10**5 + "\n", r"h\.jsonl:1: nested too deeply"),
        ("h.edn", "{:type :ok :value " + "9" * 9999 + "}", r"line 1, column 19: a number of more"),
        ("h.edn", '{:type :ok :value "\\ud800"}', r"line 1, column 19: an unpaired surr"),
        ("h.jsonl", '{"type"\n{"type":"ok","process":1}\n', r"h\.jsonl:1: "),
    ],
)
def test_malformed_files_are_one_line_with_the_place(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(HistoryError, match=message) as caught:
        load(path)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=r"nope\.edn: No such file or directory"):
        load(tmp_path / "nope.edn")
