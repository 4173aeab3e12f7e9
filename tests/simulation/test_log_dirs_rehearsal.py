"""F20: a broker describes its log directory as it is, and says which replicas are in it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.protocol.errors import NONE
from kraftwreck.nodes.server.log_dirs import LogDirs
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.kraft.simulated import log_dirs_rehearsal
from kraftwreck.systems.kraft.simulated.log_dirs_rehearsal import (
    DIRECTORY,
    LogDirsRehearsal,
    wrong_answers,
)
from tests.simulation.replicas import KEY

pytestmark = pytest.mark.interpreted

Patch = pytest.MonkeyPatch
OTHER = (KEY[0], 1)
AWAY = (KEY[0], 2)
"""A partition of other brokers."""
GONE = (b"g" * 16, 0)
"""A partition of a deleted topic."""
SIZES = {KEY: 10, OTHER: 30, GONE: 5}


def image() -> Any:
    replicas = {KEY: (4, 5), OTHER: (5, 4), AWAY: (5, 6)}
    return SimpleNamespace(
        names={KEY[0]: "t"},
        topics={"t": SimpleNamespace(topic_id=KEY[0])},
        partitions={key: SimpleNamespace(replicas=each) for key, each in replicas.items()},
    )


def is_right(patch: Patch) -> None:
    """Nothing is wrong."""


def describes_all(patch: Patch) -> None:
    describe = LogDirs._describe
    patch.setattr(LogDirs, "_describe", lambda self, _: describe(self, {"topics": None}))


def describes_none(patch: Patch) -> None:
    describe = LogDirs._describe
    patch.setattr(LogDirs, "_describe", lambda self, _: describe(self, {"topics": []}))


def moves_all(patch: Patch) -> None:
    patch.setattr(LogDirs, "_moved", lambda self, name, number: NONE)


@pytest.mark.parametrize(
    ("plant", "broken"),
    [(is_right, 0), (describes_all, 2), (describes_none, 2), (moves_all, 2)],
)
def test_a_broker_answers_for_its_logs(
    plant: Callable[[Patch], None], broken: int, monkeypatch: Patch
) -> None:
    one = image()
    plant(monkeypatch)
    logs = LogDirs(4, DIRECTORY, lambda: one, lambda: SIZES)
    assert len(list(wrong_answers(logs, 4, one, SIZES))) == broken


def test_a_wrong_size_breaks_f20() -> None:
    one = image()
    logs = LogDirs(4, DIRECTORY, lambda: one, lambda: {**SIZES, OTHER: 31})
    assert [each[:19] for each in wrong_answers(logs, 4, one, SIZES)] == ["would describe the "]


def test_one_broker_with_enough_logs_is_asked_once(monkeypatch: Patch) -> None:
    one, failures = image(), Failures()
    ends = {KEY: 3, OTHER: 0}
    files = SimpleNamespace(
        extents=lambda key: (SimpleNamespace(length=SIZES[key]),), end_of=ends.get,
        sizes=lambda: SIZES,
    )  # fmt: skip
    monkeypatch.setattr(log_dirs_rehearsal, "Node", SimpleNamespace)
    monkeypatch.setattr(log_dirs_rehearsal, "DataDisk", SimpleNamespace)
    monkeypatch.setattr(log_dirs_rehearsal, "replicas_on", lambda _: dict.fromkeys(ends))
    world: Any = SimpleNamespace(now=0, on_emit=[])
    node = SimpleNamespace(image=SimpleNamespace(stable=one))
    host: Any = SimpleNamespace(id=4, name="b4", node=node, disk=SimpleNamespace(logs=files))
    LogDirsRehearsal(world, failures)
    moves_all(monkeypatch)
    (look,) = world.on_emit
    look(host)
    assert not failures
    ends[OTHER] = 4
    look(host)
    look(host)
    # A broker without replicas is invented, too.
    assert [failure.type for failure in failures.items] == ["F20"] * (2 + 4)
