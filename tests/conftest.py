"""What holds for all tests: which of them must not run beside each other."""

from __future__ import annotations

import pytest

ALONE = ("cluster", "spark", "browser")
"""Markers of tests that share the machine's network or memory: one worker each."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give every test with one of the markers the xdist group of that name."""
    for item in items:
        for marker in ALONE:
            if item.get_closest_marker(marker) is not None:
                item.add_marker(pytest.mark.xdist_group(marker))
                break
