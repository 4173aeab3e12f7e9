"""A cluster of KRaft that only writes down what is done to it."""

from __future__ import annotations

import itertools

import pytest

from kraftwreck.nemesis.inject import Injector
from tests.nemesis.conftest import NODES, FakeEnvironment


class KraftEnvironment(FakeEnvironment):
    """Nodes with roles: those that are no controllers are brokers."""

    def __init__(self) -> None:
        super().__init__()
        self.controllers = NODES

    @property
    def controllers(self) -> tuple[str, ...]:
        return self.roles["controller"]

    @controllers.setter
    def controllers(self, names: tuple[str, ...]) -> None:
        others = tuple(node for node in self.nodes if node not in names)
        self.roles = {"controller": names, "broker": others}
        self.electing = names


@pytest.fixture
def env() -> KraftEnvironment:
    return KraftEnvironment()


@pytest.fixture
def injector(env: KraftEnvironment) -> Injector:
    ticks = itertools.count(100, 10)
    return Injector(env, lambda: next(ticks))
