"""CRC-32C: the table gives what the compiled package gives."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kraftwreck.nodes.log.crc import crc32c, crc32c_by_table


def test_the_check_value_of_the_standard() -> None:
    assert crc32c(b"123456789") == crc32c_by_table(b"123456789") == 0xE3069283


@given(st.binary(max_size=300), st.binary(max_size=50))
def test_table_and_package_agree_also_when_continued(first: bytes, second: bytes) -> None:
    whole = crc32c_by_table(first + second)
    assert whole == crc32c(first + second)
    assert whole == crc32c_by_table(second, crc32c_by_table(first))
    assert whole == crc32c(second, crc32c(first))
