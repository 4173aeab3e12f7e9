"""Mistakes in the options of KRaft in the configuration of a night."""

from __future__ import annotations

import pytest

from tests.nightly.test_config import changed, mistakes


@pytest.mark.parametrize(
    ("options", "key", "said"),
    [
        ('brokers = "some"', "matrix[2].brokers", "or seed"),
        (
            'clusters = ["netns"]\nquorum = "static"\nfaults = ["membership"]',
            "matrix[2].faults[1]", "dynamic",
        ),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_that_names_the_key(options: str, key: str, said: str) -> None:
    (line,) = mistakes(changed('["leader"]', f'["leader"]\n{options}'))
    assert line.startswith(f"{key}: ")
    assert said in line
