"""JSON arrays and EDN files are read in parts: limits hold first, errors name their lines."""

from __future__ import annotations

import itertools
import tracemalloc
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kraftwreck.histories import edn, events, json_array, json_lines
from kraftwreck.histories.events import read_records
from kraftwreck.histories.tables import HistoryError

OP = '{"process":0,"type":"ok","f":"read","value":1}'
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)  # fmt: skip
SAME_FILE = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@SAME_FILE
@given(values=st.lists(VALUES), block=st.integers(1, 40), indent=st.sampled_from([0, 2]))
def test_json_is_the_same_however_it_is_cut(
    tmp_path: Path, values: list[object], block: int, indent: int
) -> None:
    path = tmp_path / "h.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(values), indent=indent))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_array, "_BLOCK", block)
        patch.setattr(json_array, "_SHORT", block)
        assert [value for _, value in read_records(path, "json")] == values


@SAME_FILE
@given(values=st.lists(VALUES), block=st.integers(1, 40), vector=st.booleans())
def test_edn_is_the_same_however_it_is_cut(
    tmp_path: Path, values: list[object], block: int, vector: bool
) -> None:
    path = tmp_path / "h.edn"
    lines = " ;; a comment, [\n".join(edn.write(value) for value in values)
    maps = " ".join(f"{{:a {edn.write(value)}}}" for value in values)
    path.write_text(f"[{lines}\n]" if vector else maps, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(events, "_BLOCK", block)
        expected = values if vector else [{"a": value} for value in values]
        assert [value for _, value in read_records(path, "edn")] == expected


@pytest.mark.parametrize("block", [1, 64, 1 << 20])
@pytest.mark.parametrize(
    ("kind", "text", "why"),
    [
        ("json", f"[{OP},\n{OP},\n{{]}},{OP}]", "h:3: JSON is malformed"),
        ("json", f"[{OP},\n{OP}\n {OP}]", "h:3: JSON is malformed: expected ',' or ']'"),
        ("json", f"[{OP},\n{OP},\n\n]", "h:4: JSON is malformed: trailing comma in array"),
        ("json", f"[{OP}]\n[]", "h:2: JSON is malformed: trailing characters"),
        ("json", f"[{OP},\n{OP},\n{OP[:-9]}", "h:3: Input data was truncated"),
        ("json", f"[{OP},\n" + "[" * 9999 + "]" * 9999 + "]", "h:2: nested too deeply"),
        ("json", f"[\n{OP[:-2]}\n{'9' * 5000}}}]", "h:2: Integer value out of range"),
        ("json", f"[{OP},\n{{\n'a':1}}]", "h:3: JSON is malformed"),
        ("json", f'[{OP},\n"' + "\\\\" * 2000, "h:2: Input data was truncated"),
        ("json", "\n \n", "h:3: Input data was truncated"),
        ("json", f"[{OP},\n{{" + f'"a":[{OP}],' * 30 + '"b":2}]', "h:2: an operation of more than"),
        ("edn", "[{:a 1}\n {:b \\newlin}]", r"line 2, column 6: unknown character"),
        ("edn", "[{:a 1}\n {:b 2} ; }\n {:c", r"line 3, column 2: '\{' is never closed"),
        ("edn", "{:a 1}\n {:b 2}\n ]", r"line 3, column 2: unexpected '\]'"),
        ("edn", "\n [{:a 1}\n {:b 2}", r"line 2, column 2: '\[' is never closed"),
        ("edn", "[{:a 1}] \n\n {:b 2}", "line 3, column 2: nothing may follow"),
        ("edn", "{:a 1}\n{:b 01}", "line 2, column 5: bad number '01'"),
        ("edn", "{:a 1} ##", "the text ends where a name is expected"),
        ("edn", '{:a 1}\n "' + "x" * 2000, "line 2, column 2: a (value|string) of more than 900"),
    ],
    ids=itertools.count(),
)  # fmt: skip
def test_an_error_names_its_line_however_the_file_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, text: str, why: str, block: int
) -> None:
    monkeypatch.setattr(json_array, "_BLOCK", block)
    monkeypatch.setattr(events, "_BLOCK", block)
    monkeypatch.setattr(json_lines, "MAX_LINE", 900)
    monkeypatch.setattr(edn, "_LONGEST", 900)
    if any(said in why for said in ("deeply", "out of range", "truncated")):
        monkeypatch.setattr(json_lines, "MAX_LINE", 1 << 20)
    path = tmp_path / "h"
    path.write_text(text)
    with pytest.raises(HistoryError, match=why):
        list(read_records(path, kind))


@pytest.mark.parametrize("kind", ["json", "edn"])
def test_gigabytes_in_one_value_are_refused_without_reading_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The file has a hole of four gigabytes in a string; at most a few limits are in memory."""
    monkeypatch.setattr(json_lines, "MAX_LINE", 1 << 20)
    monkeypatch.setattr(edn, "_LONGEST", 1 << 20)
    path = tmp_path / "h"
    with path.open("wb") as file:
        op = OP if kind == "json" else "{:a 1}"
        file.write(f"[{op},\n{op},\n".encode() + b'{"value" "')
        file.truncate(1 << 32)
    tracemalloc.start()
    try:
        with pytest.raises(HistoryError, match=r"h:.*3.*of more than 1,048,576 (byte|char)"):
            list(read_records(path, kind))
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()


def test_a_byte_that_is_not_utf8_is_named_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "h"
    path.write_bytes(b"{:a 1}\n" * 200_000 + b"{:a \xff}\n")
    with pytest.raises(HistoryError, match=r"h: line 200001: not UTF-8: invalid start byte"):
        list(read_records(path, "edn"))
