"""Per-run settings drawn from the seed: the speed of the world and the settings of the nodes.

A run with a tiny fetch size or a slow disk reaches states that no fault reaches in a run
with defaults (FoundationDB's BUGGIFY, by configuration). All times are microseconds unless
the name says otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeVar

import msgspec

from kraftwreck.nodes.draw import draw_below

T = TypeVar("T")

MOST_BROKERS = 3


class Knobs(msgspec.Struct, kw_only=True, frozen=True):
    """The settings of one simulated world.

    ``node`` holds the names and values to set on every node's ``NodeConfig``. The nodes with ids
    ``hasty_nodes`` get those in ``hasty`` instead: they give up on a leader long before a leader
    of the others gives up itself. ``retransmit`` is the chance, in percent, that a message on a cut
    link is delivered after the heal, as TCP may, instead of being lost; ``retransmit_max`` is its
    longest delay after the heal. ``power_loss`` is the chance, in percent, that a kill also loses
    unflushed data. With ``wire`` quorum RPCs pass through the bytes of the protocol; ``flip`` is
    the chance, in per mille, that an answer with records arrives with a damaged byte.
    ``defects`` is the number of controller operations that fail as if their code were wrong.
    ``slow_disk`` is the id of a node whose fsync takes ``slow_factor`` times longer, 0 for
    none. ``segment_bytes`` is the size of the log's files.

    With ``dynamic`` (KIP-853) the first ``first_voters`` controllers vote, and the others may be
    added, or with ``auto_join`` add themselves. Otherwise all controllers are configured voters.
    The ``upgrade``-th controller that claims its role, and later ones, then get a request to raise
    kraft.version (0: none does). ``brokers`` are hosts beside the controllers that only observe;
    with ``through_brokers`` clients send writes to them.
    """

    latency_min: int = 200
    latency_max: int = 5_000
    fsync_min: int = 50
    fsync_max: int = 500
    slow_disk: int = 0
    slow_factor: int = 1
    request_timeout: int = 2_000_000
    power_loss: int = 0
    retransmit: int = 50
    retransmit_max: int = 1_000_000
    wire: bool = False
    flip: int = 0
    defects: int = 0
    mono_spread: int = 10_000_000_000
    wall_spread: int = 2_000_000
    segment_bytes: int = 1 << 30
    dynamic: bool = False
    first_voters: int = 0
    auto_join: bool = False
    upgrade: int = 0
    brokers: int = 0
    through_brokers: bool = False
    node: dict[str, int] = {}
    hasty: dict[str, int] = {}
    hasty_nodes: tuple[int, ...] = ()

    def settings_of(self, node_id: int) -> dict[str, int]:
        """Return the names and values to set on the ``NodeConfig`` of this node."""
        return {**self.node, **(self.hasty if node_id in self.hasty_nodes else {})}


Quorum = Literal["static", "dynamic", "mixed"]
"""The kind of quorum to draw; ``mixed`` is either."""


def _pick(options: Sequence[T], seed: int, name: str) -> T:
    return options[draw_below(len(options), seed, "knob", name)]


def draw_knobs(
    seed: int,
    nodes: int,
    *,
    quorum: Quorum = "static",
    brokers: int | None = 0,
    snapshots: bool = False,
) -> Knobs:
    """Return the settings of the run with this ``seed`` and ``nodes`` controllers.

    Every setting has its default in about half of the runs. ``quorum`` and a number of
    ``brokers`` replace the choice by the seed; without ``snapshots`` none are made.
    """
    latency = _pick([(200, 5_000), (200, 5_000), (50, 500), (2_000, 40_000)], seed, "latency")
    fsync = _pick([(50, 500), (50, 500), (500, 20_000), (5_000, 60_000)], seed, "fsync")
    slow = _pick([0, 0, 0, draw_below(nodes, seed, "knob", "slow-node") + 1], seed, "slow")
    # Election and fetch timeouts are drawn together: a fetch timeout below the long poll plus a
    # round trip deposes healthy leaders for ever, which is a misconfiguration, not a fault.
    election, fetch = _pick(
        [(1000, 2000), (1000, 2000), (500, 1500), (1500, 1500), (300, 1000)], seed, "timeouts"
    )
    hasty: dict[str, int] = {}
    hasty_nodes: tuple[int, ...] = ()
    if draw_below(3, seed, "knob", "hasty") == 0:
        hasty, fetch = {"fetch_timeout_ms": 1000}, 5000
        hasty_nodes = tuple(
            i for i in range(1, nodes + 1) if draw_below(4, seed, "knob", "hasty", i)
        )
    # A node that fetches batch by batch and flushes for half a second never catches up with a log
    # that grows by brokers' heartbeats, so no node could vote for it.
    piece = _pick([1 << 20, 1 << 20, 1, 1, 200, 1_000], seed, "fetch-bytes")
    if slow and fsync[1] > 20_000:
        piece = max(piece, 1_000)
    # Brokers' sessions are short, so that they end within a pause of seconds.
    session, heartbeat = _pick(
        [(1000, 200), (1000, 300), (3000, 700), (6000, 1500)], seed, "session"
    )
    node: dict[str, Any] = {
        "session_timeout_ms": session,
        "heartbeat_interval_ms": heartbeat,
        # With the defaults these tasks would not run within half a minute.
        "leader_imbalance_check_interval_seconds": _pick([300, 1, 1, 2], seed, "rebalance"),
        "unclean_leader_election_interval_ms": _pick([300_000, 1000, 1000, 3000], seed, "unclean"),
        "default_partitions": _pick([1, 1, 2, 3], seed, "default-partitions"),
        "fetch_max_bytes": piece,
        "linger_ms": _pick([25, 25, 0, 5, 100], seed, "linger"),
        "fetch_max_wait_ms": _pick([500, 500, 50, 200], seed, "max-wait"),
        "max_idle_ms": _pick([500, 500, 2000, 5000], seed, "max-idle"),
        "election_timeout_ms": election,
        "fetch_timeout_ms": fetch,
        **(_draw_snapshots(seed) if snapshots else {}),
    }
    dynamic = quorum == "dynamic" or (
        quorum == "mixed" and draw_below(2, seed, "knob", "quorum") == 1
    )
    fewest = min(3, nodes)
    hosts = _pick([0, 0, 1, 2, MOST_BROKERS], seed, "brokers") if brokers is None else brokers
    return Knobs(
        latency_min=latency[0],
        latency_max=latency[1],
        fsync_min=fsync[0],
        fsync_max=fsync[1],
        slow_disk=slow,
        slow_factor=_pick([4, 10], seed, "slow-factor") if slow else 1,
        # A host that has just started shows a monotonic clock near 0, and wall clocks may differ
        # by more than a day if they are not maintained.
        mono_spread=_pick([10_000_000_000, 10_000_000_000, 1_000], seed, "mono"),
        wall_spread=_pick([2_000_000, 2_000_000, 100_000_000_000], seed, "wall"),
        power_loss=_pick([0, 0, 50, 100], seed, "power-loss"),
        retransmit=_pick([0, 50, 100], seed, "retransmit"),
        retransmit_max=_pick([50_000, 1_000_000], seed, "retransmit-max"),
        wire=draw_below(6, seed, "knob", "wire") == 0,
        flip=_pick([0, 0, 0, 0, 0, 0, 5, 30, 100], seed, "flip"),
        defects=_pick([0, 0, 0, 0, 1, 3], seed, "defects"),
        segment_bytes=_pick([1 << 30, 1, 1_000, 4_000], seed, "segment-bytes"),
        dynamic=dynamic,
        first_voters=_pick([nodes, nodes, fewest], seed, "first-voters") if dynamic else nodes,
        upgrade=0 if dynamic else _pick([0, 0, 0, 1, 1, 2, 3, 4], seed, "upgrade"),
        auto_join=dynamic and draw_below(3, seed, "knob", "auto-join") == 0,
        brokers=hosts,
        through_brokers=hosts > 0 and draw_below(2, seed, "knob", "through-brokers") == 0,
        node=node,
        hasty=hasty,
        hasty_nodes=hasty_nodes,
    )


def _draw_snapshots(seed: int) -> dict[str, int]:
    """Draw how often snapshots are made, how many are kept, and the size of fetched pieces.

    A record takes some 50 to 150 bytes of log, so most runs make a snapshot every 10 to 80
    records; with all defaults no run would make one.
    """
    if draw_below(4, seed, "knob", "snapshots") == 0:
        return {}
    return {
        "snapshot_bytes": _pick([1_000, 2_000, 4_000, 8_000], seed, "snapshot-bytes"),
        "snapshot_interval_ms": _pick([3_600_000, 3_600_000, 1_000, 3_000], seed, "snapshot-time"),
        "retention_ms": _pick([604_800_000, 604_800_000, 500], seed, "retention-time"),
        "retention_bytes": _pick([1, 1, 4_000, 100 << 20], seed, "retention"),
        "clean_interval_ms": _pick([200, 500, 2_000], seed, "clean-interval"),
        "fetch_snapshot_max_bytes": _pick([1 << 20, 200, 500, 2_000], seed, "snapshot-piece"),
        "snapshot_piece_records": _pick([500, 500, 20, 3], seed, "snapshot-records"),
    }
