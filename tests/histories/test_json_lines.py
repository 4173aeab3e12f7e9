"""Lines of a file: long ones are refused, a torn last one is named and left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraftwreck.histories import json_lines
from kraftwreck.histories.columns import read_table
from kraftwreck.histories.convert import load
from kraftwreck.histories.json_lines import lines, torn_line
from kraftwreck.histories.source import HistoryFile
from kraftwreck.histories.tables import HistoryError

LINE = '{"process":0,"type":"ok","f":"read","value":1}\n'


@pytest.mark.parametrize(
    ("text", "kept", "torn"),
    [
        (LINE * 3, 3, None),
        (LINE * 3 + LINE[:-2], 3, 4),
        (LINE * 3 + LINE[:-1], 4, None),
        (LINE + "\n\n" + LINE[:9], 1, 4),
        (LINE + "   ", 1, None),
        (LINE + "[" * 10**5, 2, None),
        (LINE[:-2], 1, None),
        (LINE * 9999 + '{"value":"' + "x" * 200_000, 9999, 10_000),
        ("", 0, None),
    ],
)
def test_a_torn_last_line_is_left_out_and_named(
    tmp_path: Path, text: str, kept: int, torn: int | None
) -> None:
    path = tmp_path / "h.jsonl"
    path.write_text(text)
    assert sum(1 for _ in lines(path)) == kept
    assert torn_line(path) == torn


def test_torn_histories_are_read_by_rows_and_by_columns_alike(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    path.write_text(LINE * 2 + LINE[:-2])
    assert len(load(path)) == len(read_table(path)) == 2
    assert HistoryFile(path).torn_line == 3
    path.with_suffix(".edn").write_text("{:process 0")
    assert HistoryFile(path.with_suffix(".edn")).torn_line is None


def test_a_long_line_is_refused_before_it_is_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_lines, "MAX_LINE", 1000)
    path = tmp_path / "h.jsonl"
    path.write_text(LINE * 50 + '{"value":"' + "x" * 2000 + '"}\n' + LINE)
    for read in (load, read_table):
        with pytest.raises(HistoryError, match=r"h\.jsonl:51: a line of more than 1,000 bytes"):
            read(path)
    path.write_text(LINE * 50 + "x" * 2000)
    assert torn_line(path) is None
    path.write_text(LINE * 100)
    assert len(load(path)) == 100


def test_keys_are_compared_as_values(tmp_path: Path) -> None:
    keys = ['"\\u00e9"', '"é"', '{"a": 1, "b": [2]}', '{"b":[2],"a":1}', "null", "7"]
    text = "".join(LINE.replace('"value"', f'"key":{key},"value"') for key in keys)
    path = tmp_path / "h.jsonl"
    path.write_text(text)
    column = read_table(path).column("key").to_pylist()
    assert column == ['"é"', '"é"', '{"a":1,"b":[2]}', '{"a":1,"b":[2]}', None, "7"]
    path.write_text("".join(LINE.replace("1}", f"[{key},3]}}") for key in keys))
    assert read_table(path, independent=True).column("key").to_pylist() == column
