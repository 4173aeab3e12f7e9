"""The settings of one simulated world.

A run with a slow disk or a quick network reaches states that no fault reaches in a run with
defaults (FoundationDB's BUGGIFY, by configuration). All times are microseconds unless the name says
otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self, TypeVar

import msgspec

from kraftwreck.nodes.draw import draw_below

T = TypeVar("T")


class WorldKnobs(msgspec.Struct, kw_only=True, frozen=True):
    """Speed and reliability of the machines and their network, and the settings of the cores.

    ``node`` holds the names and values of settings for every core. The cores with ids
    ``hasty_nodes`` get those in ``hasty`` instead. ``retransmit`` is the chance, in percent, that a
    message on a cut link is delivered after the heal, as TCP may, instead of being lost;
    ``retransmit_max`` is its longest delay after the heal. ``power_loss`` is the chance, in
    percent, that a kill also loses unflushed data. ``flip`` is the chance, in per mille, that a
    message which can be damaged arrives damaged. ``slow_disk`` is the id of a node whose fsync
    takes ``slow_factor`` times longer, 0 for none. ``late_work`` is the chance, in percent, that a
    piece of work beside a process takes up to a second. A core that wants its next step at once
    gets it after ``step_time``: long work, a piece in each step, takes that long for each.
    """

    latency_min: int = 200
    latency_max: int = 5_000
    fsync_min: int = 50
    fsync_max: int = 500
    slow_disk: int = 0
    slow_factor: int = 1
    late_work: int = 0
    step_time: int = 1_000
    request_timeout: int = 2_000_000
    power_loss: int = 0
    retransmit: int = 50
    retransmit_max: int = 1_000_000
    flip: int = 0
    mono_spread: int = 10_000_000_000
    wall_spread: int = 2_000_000
    node: dict[str, int] = {}
    hasty: dict[str, int] = {}
    hasty_nodes: tuple[int, ...] = ()

    def settings_of(self, node_id: int) -> dict[str, int]:
        """Return the names and values of the settings of this node's core."""
        return {**self.node, **(self.hasty if node_id in self.hasty_nodes else {})}

    @property
    def system_options(self) -> tuple[str, ...]:
        """The options of the system's own, ``NAME=VALUE``, that these settings stand for."""
        return ()

    @property
    def lacking(self) -> Mapping[str, str]:
        """The capabilities that a cluster with these settings lacks, each with the reason."""
        return {}

    @classmethod
    def names_of_settings(cls) -> Sequence[str] | None:
        """Return the names of the settings that ``node`` and ``hasty`` may have; None: any."""
        return None

    @property
    def beside(self) -> int:
        """The number of hosts beside the nodes, ``b1`` and so on."""
        return 0

    def fitted(self, nodes: int, beside: int) -> Self:
        """Return the settings for a cluster of fewer ``nodes``, and hosts ``beside`` them."""
        return msgspec.structs.replace(
            self,
            slow_disk=self.slow_disk if self.slow_disk <= nodes else 0,
            hasty_nodes=tuple(i for i in self.hasty_nodes if i <= nodes),
        )

    def cluster(self, nodes: int) -> str:
        """Return a description of a cluster of ``nodes``, for people."""
        return f"{nodes} node{'' if nodes == 1 else 's'}"


def pick(options: Sequence[T], seed: int, name: str) -> T:
    """Return the one of ``options`` that ``seed`` chooses for the setting ``name``."""
    return options[draw_below(len(options), seed, "knob", name)]


def draw_world(seed: int, nodes: int) -> WorldKnobs:
    """Return the settings of the world for the run with this ``seed`` and ``nodes`` machines.

    Every setting has its default in about half of the runs.
    """
    latency = pick([(200, 5_000), (200, 5_000), (50, 500), (2_000, 40_000)], seed, "latency")
    fsync = pick([(50, 500), (50, 500), (500, 20_000), (5_000, 60_000)], seed, "fsync")
    slow = pick([0, 0, 0, draw_below(nodes, seed, "knob", "slow-node") + 1], seed, "slow")
    return WorldKnobs(
        latency_min=latency[0],
        latency_max=latency[1],
        fsync_min=fsync[0],
        fsync_max=fsync[1],
        slow_disk=slow,
        slow_factor=pick([4, 10], seed, "slow-factor") if slow else 1,
        late_work=pick([0, 0, 10, 30], seed, "late-work"),
        step_time=pick([1_000, 1_000, 1_000, 10_000], seed, "step-time"),
        # A host that has just started shows a monotonic clock near 0, and wall clocks may differ
        # by more than a day if they are not maintained.
        mono_spread=pick([10_000_000_000, 10_000_000_000, 1_000], seed, "mono"),
        wall_spread=pick([2_000_000, 2_000_000, 100_000_000_000], seed, "wall"),
        power_loss=pick([0, 0, 50, 100], seed, "power-loss"),
        retransmit=pick([0, 50, 100], seed, "retransmit"),
        retransmit_max=pick([50_000, 1_000_000], seed, "retransmit-max"),
        flip=pick([0, 0, 0, 0, 0, 0, 5, 30, 100], seed, "flip"),
    )
