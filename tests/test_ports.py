"""Nodes of tests that run side by side listen on ports of their own."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftwreck.oracle import ports


@given(workers=st.integers(1, 64))
def test_no_two_workers_share_a_port(workers: int) -> None:
    ranges = [set(ports.of_worker(worker, workers)) for worker in range(workers)]
    assert not any(one & other for one, other in itertools.combinations(ranges, 2))
    assert set().union(*ranges) <= set(ports.PORTS)


def test_a_worker_takes_ports_of_its_own_range(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw5")
    monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", "6")
    assert set(ports.free_ports(3)) <= set(ports.of_worker(5, 6))
