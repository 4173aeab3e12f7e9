"""Per-run settings of KRaft drawn from the seed: those of the world and those of the nodes.

A run with a tiny fetch size or a slow disk reaches states that no fault reaches in a run
with defaults (FoundationDB's BUGGIFY, by configuration). All times are microseconds unless
the name says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Self

import msgspec

from kraftwreck.harness.capabilities import MEMBERSHIP
from kraftwreck.nodes.draw import draw_below
from kraftwreck.nodes.node_config import NodeConfig
from kraftwreck.simulation.knobs import WorldKnobs, draw_world, pick
from kraftwreck.systems.kraft.options import DYNAMIC, MOST_BROKERS, Quorum

OLD_LEVELS = (7, 8, 14, 15, 16, 17, 22, 22, 22, 23)
"""Levels of metadata.version at which something begins, and those right before. Clusters before
eligible leader replicas (22) are frequent."""
SOCKETS = 2
"""One run of this many, of those with records or in shells, has whole processes over sockets."""


class Knobs(WorldKnobs, kw_only=True, frozen=True):
    """The settings of one simulated world of KRaft.

    ``node`` are fields of every node's ``NodeConfig``; the nodes in ``hasty_nodes`` give up on a
    leader long before a leader of the others gives up itself. With ``wire`` quorum RPCs pass
    through the bytes of the protocol; ``flip`` damages answers with records. ``defects`` is the
    number of controller operations that fail as if their code were wrong. ``segment_bytes`` is the
    size of the log's files. ``short_writes`` is the chance, in percent, that a write to a file
    takes only some of its bytes. The disks are formatted with the level ``metadata_version``, or
    without one (None): the first active controller then writes the default.

    With ``dynamic`` (KIP-853) the first ``first_voters`` controllers vote, and the others may be
    added, or with ``auto_join`` add themselves. Otherwise all controllers are configured voters.
    With ``moved`` the ports in the first voters record are those of before a change of listeners,
    which each voter reports to the leader (KIP-853).
    The ``upgrade``-th controller that claims its role, and later ones, then get a request to raise
    kraft.version (0: none does). ``brokers`` are hosts beside the controllers that only observe;
    with ``through_brokers`` clients send writes to them. With ``records`` the brokers have a data
    plane: they store the records of partitions, in files of ``record_segment_bytes``. With
    ``metadata_apart`` these brokers have their metadata on a disk of its own, which is never full
    (``metadata.log.dir``). With ``changing_ports`` each process of a broker listens at another port
    than the one before, and reports it when it registers. A broker handles the requests for records
    that arrive within ``turn`` in one step, as a real one does with those of one turn of its event
    loop (0: each in a step of its own). With ``shells`` every node runs in the shell of a real
    process (``systems.kraft.simulated.shells``). With ``sockets`` whole processes serve over
    sockets before the run (``systems.kraft.sockets``).
    """

    wire: bool = False
    defects: int = 0
    segment_bytes: int = 1 << 30
    short_writes: int = 0
    metadata_version: int | None = None
    dynamic: bool = False
    first_voters: int = 0
    moved: bool = False
    auto_join: bool = False
    upgrade: int = 0
    brokers: int = 0
    through_brokers: bool = False
    records: bool = False
    record_segment_bytes: int = 1 << 30
    turn: int = 0
    metadata_apart: bool = False
    changing_ports: bool = False
    shells: bool = False
    sockets: bool = False

    @property
    def system_options(self) -> tuple[str, ...]:
        """The kind of quorum, as an option of a run."""
        return (f"quorum={DYNAMIC}",) if self.dynamic else ()

    @property
    def lacking(self) -> Mapping[str, str]:
        """Changes of voters, if the quorum is static."""
        return {} if self.dynamic else {MEMBERSHIP.name: "the members are fixed"}

    @classmethod
    def names_of_settings(cls) -> Sequence[str]:
        """Return the fields of the nodes' configuration."""
        return [field.name for field in fields(NodeConfig)]

    @property
    def beside(self) -> int:
        """The number of brokers."""
        return self.brokers

    def fitted(self, nodes: int, beside: int) -> Self:
        """Return the settings for a cluster of fewer ``nodes``, and ``beside`` brokers."""
        return msgspec.structs.replace(
            super().fitted(nodes, beside),
            brokers=beside,
            through_brokers=self.through_brokers and beside > 0,
            records=self.records and beside > 0,
            first_voters=min(self.first_voters, nodes),
        )

    def cluster(self, nodes: int) -> str:
        """Return a description of the cluster, for people."""
        quorum = "dynamic" if self.dynamic else "static"
        brokers = f" and {_plural(self.brokers, 'broker')}" if self.brokers else ""
        return f"{_plural(nodes, 'controller')} of a {quorum} quorum{brokers}"


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


_OF_THE_WORLD = tuple(
    name for name in WorldKnobs.__struct_fields__ if name not in ("node", "hasty", "hasty_nodes")
)
"""Settings that are drawn for any core; ``request_timeout`` keeps its default."""


def draw_knobs(
    seed: int,
    nodes: int,
    *,
    quorum: Quorum = "static",
    brokers: int | None = 0,
    records: bool | None = False,
    snapshots: bool = False,
) -> Knobs:
    """Return the settings of the run with this ``seed`` and ``nodes`` controllers.

    Every setting has its default in about half of the runs. ``quorum``, a number of ``brokers``
    and ``records`` replace the choice by the seed; without ``snapshots`` none are made.
    """
    world = draw_world(seed, nodes)
    # Election and fetch timeouts are drawn together: a fetch timeout below the long poll plus a
    # round trip deposes healthy leaders for ever, which is a misconfiguration, not a fault.
    election, fetch = pick(
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
    piece = pick([1 << 20, 1 << 20, 1, 1, 200, 1_000], seed, "fetch-bytes")
    if world.slow_disk and world.fsync_max > 20_000:
        piece = max(piece, 1_000)
    node: dict[str, Any] = {
        **_draw_partitions(seed),
        "fetch_max_bytes": piece,
        **_draw_pace(seed),
        "election_timeout_ms": election,
        "fetch_timeout_ms": fetch,
        **(_draw_snapshots(seed) if snapshots else {}),
    }
    dynamic = quorum == "dynamic" or (
        quorum == "mixed" and draw_below(2, seed, "knob", "quorum") == 1
    )
    fewest = min(3, nodes)
    hosts = pick([0, 0, 1, 2, MOST_BROKERS], seed, "brokers") if brokers is None else brokers
    drawn = draw_below(2, seed, "knob", "records") == 0 if records is None else records
    stores = hosts > 0 and drawn
    if stores:
        node |= _draw_records(seed)
    old = pick(OLD_LEVELS, seed, "old-level")
    return Knobs(
        **{name: getattr(world, name) for name in _OF_THE_WORLD},
        wire=draw_below(6, seed, "knob", "wire") == 0,
        defects=pick([0, 0, 0, 0, 1, 3], seed, "defects"),
        **_draw_files(seed, stores=stores),
        metadata_version=pick([None, None, None, old], seed, "metadata-version"),
        dynamic=dynamic,
        moved=dynamic and draw_below(2, seed, "knob", "moved") == 0,
        first_voters=pick([nodes, nodes, fewest], seed, "first-voters") if dynamic else nodes,
        upgrade=0 if dynamic else pick([0, 0, 0, 1, 1, 2, 3, 4], seed, "upgrade"),
        auto_join=dynamic and draw_below(3, seed, "knob", "auto-join") == 0,
        brokers=hosts,
        records=stores,
        **_draw_brokers(seed, hosts=hosts, stores=stores),
        node=node,
        hasty=hasty,
        hasty_nodes=hasty_nodes,
        sockets=stores and draw_below(SOCKETS, seed, "knob", "sockets") == 0,
    )


def _draw_brokers(seed: int, *, hosts: int, stores: bool) -> dict[str, Any]:
    """Draw how the brokers on ``hosts`` are reached; ``stores``: they store records."""
    return {
        "changing_ports": hosts > 0 and draw_below(2, seed, "knob", "changing-ports") == 0,
        "through_brokers": hosts > 0 and draw_below(2, seed, "knob", "through-brokers") == 0,
        "turn": pick([0, 0, 1, 500, 5_000], seed, "turn") if stores else 0,
    }


def _draw_files(seed: int, *, stores: bool) -> dict[str, Any]:
    """Draw the size of files, and where they are; ``stores``: brokers store records."""
    return {
        "segment_bytes": pick([1 << 30, 1, 1_000, 4_000], seed, "segment-bytes"),
        "short_writes": pick([0, 0, 2, 20], seed, "short-writes"),
        "record_segment_bytes": pick([1 << 30, 300, 1_000, 4_000], seed, "record-segment-bytes"),
        "metadata_apart": stores and pick([True, True, True, False], seed, "metadata-apart"),
    }


def _draw_partitions(seed: int) -> dict[str, int]:
    """Draw the settings of brokers' sessions and of partitions."""
    # Brokers' sessions are short, so that they end within a pause of seconds.
    session, heartbeat = pick(
        [(1000, 200), (1000, 300), (3000, 700), (6000, 1500)], seed, "session"
    )
    return {
        "session_timeout_ms": session,
        "heartbeat_interval_ms": heartbeat,
        # With the defaults these tasks would not run within half a minute.
        "leader_imbalance_check_interval_seconds": pick([300, 1, 1, 2], seed, "rebalance"),
        "unclean_leader_election_interval_ms": pick([300_000, 1000, 1000, 3000], seed, "unclean"),
        "default_partitions": pick([1, 1, 2, 3], seed, "default-partitions"),
    }


def _draw_records(seed: int) -> dict[str, int]:
    """Draw the settings of brokers that store records."""
    # Partitions without a leader keep all clients waiting.
    session, heartbeat = pick([(1000, 200), (1000, 300), (3000, 700)], seed, "record-session")
    return {
        "session_timeout_ms": session,
        "heartbeat_interval_ms": heartbeat,
        "replica_lag_time_max_ms": pick([1_000, 1_000, 2_000, 4_000], seed, "replica-lag"),
        # A run has few producers.
        "producer_id_block": pick([1000, 1, 1, 2, 3], seed, "producer-ids"),
        "retention_check_interval_ms": pick([300_000, 500, 1_000, 3_000], seed, "retention-check"),
    }


def _draw_pace(seed: int) -> dict[str, int]:
    """Draw how long nodes gather work and wait for it, and how much one step does."""
    return {
        "linger_ms": pick([25, 25, 0, 5, 100], seed, "linger"),
        "fetch_max_wait_ms": pick([500, 500, 50, 200], seed, "max-wait"),
        # Few records for one step stand for an image of thousands.
        "work_records": pick([500, 500, 1, 7, 40], seed, "work-records"),
        "max_idle_ms": pick([500, 500, 2000, 5000], seed, "max-idle"),
    }


def _draw_snapshots(seed: int) -> dict[str, int]:
    """Draw how often snapshots are made, how many are kept, and the size of fetched pieces.

    A record takes some 50 to 150 bytes of log, so most runs make a snapshot every 10 to 80
    records; with all defaults no run would make one.
    """
    if draw_below(4, seed, "knob", "snapshots") == 0:
        return {}
    return {
        "snapshot_bytes": pick([1_000, 2_000, 4_000, 8_000], seed, "snapshot-bytes"),
        "snapshot_interval_ms": pick([3_600_000, 3_600_000, 1_000, 3_000], seed, "snapshot-time"),
        "retention_ms": pick([604_800_000, 604_800_000, 500], seed, "retention-time"),
        "retention_bytes": pick([1, 1, 4_000, 100 << 20], seed, "retention"),
        "clean_interval_ms": pick([200, 500, 2_000], seed, "clean-interval"),
        "fetch_snapshot_max_bytes": pick([1 << 20, 200, 500, 2_000], seed, "snapshot-piece"),
        "snapshot_piece_records": pick([500, 20, 3, 1], seed, "snapshot-records"),
    }
