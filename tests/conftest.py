"""What holds for all tests: which of them must not run beside each other."""

from __future__ import annotations

import pytest

ALONE = ("cluster", "spark", "browser")
"""Markers of tests that share the machine's network or memory: one worker each."""

HOSTS = {"five", "namespace_hosts"}
"""Fixtures that bring namespace hosts up."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give every test with one of the markers the xdist group of that name.

    A test that uses the shared hosts belongs to them even where its marker was forgotten.
    """
    for item in items:
        if HOSTS & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.cluster)
        for marker in ALONE:
            if item.get_closest_marker(marker) is not None:
                item.add_marker(pytest.mark.xdist_group(marker))
                break
