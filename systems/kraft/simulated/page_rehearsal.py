"""Lets a broker describe its topics page by page, from each place on (F38, KIP-966).

A client continues where the last page ended, with all topics or with those that it names.
Meanwhile the topic there may be deleted, or another one created before it. Few clients of a run
meet that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, Final

from kraftwreck.checkers.kraft.rule import rule
from kraftwreck.nodes.broker.lifecycle import LISTENER
from kraftwreck.nodes.broker.topic_view import PartitionsAnswer
from kraftwreck.nodes.node import Node
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World

LEAST: Final = 3
"""Topics of which a description has several pages."""
MOST: Final = 12
"""Topics that are described at the most, so that all places can be tried."""
LIMITS: Final = (1, 2, 3, 1000)
"""Partitions of a page."""
INDEXES: Final = range(4)


class PageRehearsal:
    """Asks the first broker of ``world`` that knows enough topics, once."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._waits = True
        world.on_emit.append(self._on_emit)

    @rule(
        "F38",
        "PagesHaveAllPartitions",
        "A broker that describes partitions page by page leaves none out and repeats none, also if "
        "the topic is gone at which a page begins.",
        simulated=True,
    )
    def _on_emit(self, host: Host) -> None:
        node = host.node
        if not self._waits or not isinstance(node, Node) or node.broker is None:
            return
        image = node.image.stable
        if not LEAST <= len(image.topics) <= MOST:
            return
        self._waits = False
        counts = {name: topic.partitions for name, topic in image.topics.items()}
        for wrong in wrong_pages(PartitionsAnswer(image, LISTENER), counts):
            self._failures.add("F38", self._world.now, f"{host.name} {wrong}")
            return


def wrong_pages(answer: PartitionsAnswer, counts: Mapping[str, int]) -> Iterator[str]:
    """Yield the wrong pages of ``answer``, where topics have so many partitions."""
    every = [(name, number) for name in sorted(counts) for number in range(counts[name])]
    names = [name for topic in counts for name in (topic, f"{topic}.")]
    places = [(name, number) for name in names for number in INDEXES]
    for limit, asked in product(LIMITS, ([], names)):
        for place in (None, *places):
            # A topic that is gone has no page to continue: the next one begins with its first.
            least = ("", 0) if place is None else place if place[0] in counts else (place[0], 0)
            left = [each for each in every if each >= least]
            said = answer.body(
                {
                    "topics": [{"name": name} for name in asked],
                    "response_partition_limit": limit,
                    "cursor": _cursor(place),
                }
            )
            found = [
                (topic["name"], part["partition_index"])
                for topic in said["topics"]
                for part in topic["partitions"]
            ]
            following = _cursor(left[limit]) if len(left) > limit else None
            # A client that names topics may have to continue with one that is gone.
            if found != left[:limit] or (not asked and said["next_cursor"] != following):
                yield (
                    f"would describe {found}, then {said['next_cursor']}, in a page of {limit} from"
                    f" {place} on; it has {left[:limit]}, then {following}"
                )


def _cursor(place: tuple[str, int] | None) -> dict[str, Any] | None:
    return None if place is None else {"topic_name": place[0], "partition_index": place[1]}
