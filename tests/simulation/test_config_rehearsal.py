"""D17: a broker acts on configs that nobody has set by their precedence, whatever their values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.broker.image_changes import ImageChanges
from kraftwreck.nodes.metadata.image_values import TOPIC, ImageView
from kraftwreck.nodes.replication.events import Published, Settings
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.kraft.simulated import config_rehearsal
from kraftwreck.systems.kraft.simulated.config_rehearsal import ConfigRehearsal, wrong_settings
from tests.simulation.replicas import BROKERS, KEY

pytestmark = pytest.mark.interpreted

Patch = pytest.MonkeyPatch


def image() -> Any:
    given = SimpleNamespace(
        replicas=BROKERS, isr=BROKERS, leader=4, leader_epoch=3, partition_epoch=5,
        recovery_state=0, adding=(),
    )  # fmt: skip
    return SimpleNamespace(partitions={KEY: given}, names={KEY[0]: "t"}, brokers={}, configs={})


def is_right(patch: Patch) -> None:
    """Nothing is wrong."""


def takes_zero_for_nothing(patch: Patch) -> None:
    of_topic = ImageChanges._of_topic

    def planted(self: Any, own: Mapping[str, str], brokers: Mapping[str, str]) -> Settings:
        given, others = ({k: v for k, v in each.items() if v != "0"} for each in (own, brokers))
        return of_topic(self, given, others)

    patch.setattr(ImageChanges, "_of_topic", planted)


def leaves_brokers_out(patch: Patch) -> None:
    of_topic = ImageChanges._of_topic
    patch.setattr(ImageChanges, "_of_topic", lambda self, own, _: of_topic(self, own, {}))


def remembers_what_is_removed(patch: Patch) -> None:
    since = ImageChanges.since_last

    def planted(self: Any, view: ImageView) -> Published | None:
        published = since(self, view)
        removed = (TOPIC, "t") not in view.configs
        return replace(published, settings=None) if removed and published else published

    patch.setattr(ImageChanges, "since_last", planted)


@pytest.mark.parametrize(
    ("plant", "config"),
    [
        (is_right, None),
        (takes_zero_for_nothing, "retention.ms=604800000, not 0"),
        (leaves_brokers_out, "min.insync.replicas=1, not 2"),
        (remembers_what_is_removed, "min.insync.replicas="),
    ],
)
def test_configs_count_by_their_places(
    plant: Callable[[Patch], None], config: str | None, monkeypatch: Patch
) -> None:
    plant(monkeypatch)
    found = list(wrong_settings(4, image(), KEY))
    assert any(config in each for each in found) if config else found == []


def test_the_image_stays_as_it_is() -> None:
    one = image()
    assert list(wrong_settings(4, one, KEY)) == []
    assert one.configs == {}


def test_configs_are_invented_once_for_a_partition_of_the_image(monkeypatch: Patch) -> None:
    one, failures = image(), Failures()
    replicas: dict[Any, Any] = {}
    monkeypatch.setattr(config_rehearsal, "replicas_on", lambda _: replicas)
    monkeypatch.setattr(config_rehearsal, "Node", SimpleNamespace)
    world: Any = SimpleNamespace(now=0, on_emit=[])
    node = SimpleNamespace(image=SimpleNamespace(stable=one))
    host: Any = SimpleNamespace(id=4, name="b4", node=node)
    ConfigRehearsal(world, failures)
    monkeypatch.setattr(config_rehearsal, "wrong_settings", lambda *_: iter(["is wrong"]))
    (look,) = world.on_emit
    look(host)
    replicas[bytes(15) + b"1", 0] = None
    look(host)
    assert not failures
    replicas[KEY] = None
    look(host)
    look(host)
    assert [failure.explanation for failure in failures.items] == ["b4 is wrong"]
