"""Tests that would disturb each other run one after the other."""

from __future__ import annotations

import os

import pytest


@pytest.mark.cluster
def test_tests_of_shared_hosts_are_in_the_groups_of_hosts(request: pytest.FixtureRequest) -> None:
    """pytest-xdist gives a group, named at the end of the node id, to one worker."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        pytest.skip("one process runs all tests")
    assert "@hosts " in request.node.nodeid
