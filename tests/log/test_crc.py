"""CRC-32C: package, library and table give the same numbers."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftwreck.nodes.log.crc import SOURCE, crc32c, crc32c_by_library, crc32c_by_table

WITHOUT_PACKAGE = """
import sys
sys.modules["crc32c"] = None
from kraftwreck.nodes.log import crc
print(crc.SOURCE, hex(crc.crc32c(b"123456789")))
"""


def test_the_check_value_of_the_standard() -> None:
    assert crc32c(b"123456789") == crc32c_by_table(b"123456789") == 0xE3069283
    assert SOURCE == "the crc32c package"


@given(st.binary(max_size=300), st.binary(max_size=50))
def test_table_and_package_agree_also_when_continued(first: bytes, second: bytes) -> None:
    whole = crc32c_by_table(first + second)
    assert whole == crc32c(first + second)
    assert whole == crc32c_by_table(second, crc32c_by_table(first))
    assert whole == crc32c(second, crc32c(first))


@given(st.binary(max_size=300), st.binary(max_size=50))
def test_the_library_agrees_also_on_views(first: bytes, second: bytes) -> None:
    by_library = crc32c_by_library()
    if by_library is None:
        pytest.skip("libext2fs is not here")
    whole = crc32c_by_table(first + second)
    assert by_library(second, by_library(memoryview(first))) == whole
    assert by_library(bytearray(first + second)) == whole


def test_a_library_that_is_absent_or_has_no_such_function_is_not_used() -> None:
    assert crc32c_by_library("libnothing-of-this-name.so") is None
    assert crc32c_by_library("libc.so.6") is None


def test_without_the_package_another_source_is_named_and_right() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT_PACKAGE], capture_output=True, text=True, check=True
    )
    source, _, value = ran.stdout.strip().rpartition(" ")
    assert source in ("libext2fs.so.2", "a table")
    assert value == "0xe3069283"
