"""EDN in and out; malformed text is refused with line and column."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftwreck.histories.edn import EdnError, EdnSet, Keyword, Symbol, Tagged, read_all, write


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("nil", None),
        ("true", True),
        ("-12N", -12),
        ("0", 0),
        ("1.5e3M", 1500.0),
        ("##-Inf", -math.inf),
        (":a/b", Keyword("a/b")),
        ("foo.bar/baz", Symbol("foo.bar/baz")),
        ("-", Symbol("-")),
        (r'"a\n\"\u0041"', 'a\n"A'),
        (r"[\a \newline \u0042 \(]", ["a", "\n", "B", "("]),
        ("[1, 2 ;c\n 3]", [1, 2, 3]),
        ("(1 [2])", (1, [2])),
        ("{:a 1 [1 2] {}}", {Keyword("a"): 1, (1, 2): {}}),
        ("#{1 :a}", EdnSet((1, Keyword("a")))),
        ("[1 #_ [2 3] 4]", [1, 4]),
        ("#_ #_ 1 2 3", 3),
        ('#inst "2020"', Tagged("inst", "2020")),
        ("#jepsen.history.Op{:index 0}", Tagged("jepsen.history.Op", {Keyword("index"): 0})),
    ],
)
def test_every_form_is_read(text: str, value: Any) -> None:
    if text == "#_ #_ 1 2 3":
        assert read_all(text) == [3]
    else:
        assert read_all(text) == [value]


def test_a_keyword_and_a_string_are_different_keys() -> None:
    assert len(read_all('{:a 1 "a" 2}')[0]) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1\n 2", r"line 1, column 1: '\[' is never closed"),
        ("{:a 1\n :b}", r"line 1, column 1: a map has a key without a value"),
        ("1\n )", r"line 2, column 2: unexpected '\)'"),
        ("[1 2}", r"line 1, column 5: unexpected '}'"),
        ('\n "abc', r"line 2, column 2: a string is never closed"),
        (r'"\q"', r"line 1, column 2: unknown escape"),
        ("01", r"line 1, column 1: bad number '01'"),
        ("1/2", r"bad number '1/2'"),
        ("::a", r"bad keyword"),
        ("#{1 1}", r"a set names one member twice"),
        ("{:a 1 :a 2}", r"a map names one key twice"),
        ("##Foo", r"unknown number ##Foo"),
        ("#", r"'#' must be followed"),
        ("#foo", r"column 5: the text ends where a value is expected"),
        ("[" * 1000, r"nested deeper than"),
    ],
)
def test_malformed_text_says_where(text: str, message: str) -> None:
    with pytest.raises(EdnError, match=message):
        read_all(text)


_NAMES = st.from_regex(r"[a-z][a-z0-9-]{0,6}", fullmatch=True)
_ATOMS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(),
    _NAMES.map(Keyword),
)
_VALUES = st.recursive(
    _ATOMS,
    lambda inner: st.one_of(
        st.lists(inner),
        st.lists(inner).map(tuple),
        st.dictionaries(_NAMES.map(Keyword), inner),
        st.builds(Tagged, _NAMES, inner),
    ),
    max_leaves=12,
)


@given(_VALUES)
def test_written_values_read_back_equal(value: Any) -> None:
    assert read_all(write(value)) == [value]


def test_values_that_edn_cannot_express_are_refused() -> None:
    with pytest.raises(TypeError, match="no form for bytes"):
        write(b"x")
