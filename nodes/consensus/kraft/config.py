"""Settings of one quorum member; names and defaults are Kafka's (``controller.quorum.*``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kraftwreck.nodes.consensus.endpoint import Endpoint


@dataclass(slots=True, frozen=True)
class QuorumConfig:
    """Identity and timers of one replica of the metadata log.

    ``voters`` is the static voter set (``controller.quorum.voters``); it is empty if the set is
    dynamic (KIP-853), as the log then holds it. ``bootstrap_servers`` are controllers from which a
    node learns the leader (``controller.quorum.bootstrap.servers``). ``listener`` receives this
    node's quorum RPCs (None for a broker, which receives none). A node that ``can_become_voter`` (a
    controller) flushes the records it fetches; with ``auto_join`` it adds itself to the voters.
    ``incarnation`` counts process starts; with ``seed`` it keys every random choice. Sizes are
    bytes, times milliseconds.
    """

    node_id: int
    cluster_id: str
    directory_id: bytes
    voters: Mapping[int, Endpoint]
    seed: int = 0
    incarnation: int = 1
    election_timeout_ms: int = 1000
    fetch_timeout_ms: int = 2000
    election_backoff_max_ms: int = 1000
    linger_ms: int = 25
    request_timeout_ms: int = 2000
    retry_backoff_ms: int = 20
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 500
    fetch_max_wait_ms: int = 500
    fetch_max_bytes: int = 1 << 20
    batch_max_bytes: int = 8 << 20
    bootstrap_servers: tuple[Endpoint, ...] = ()
    listener: Endpoint | None = None
    can_become_voter: bool = True
    auto_join: bool = False
    fetch_snapshot_max_bytes: int = 1 << 20
    retention_bytes: int = 100 << 20
    retention_ms: int = 7 * 24 * 3600 * 1000
    clean_interval_ms: int = 60_000

    def __post_init__(self) -> None:
        """Reject settings that no quorum can work with (ValueError)."""
        if len(self.directory_id) != 16:
            raise ValueError("directory_id must be 16 bytes")
        if self.node_id < 0 or any(v < 0 for v in self.voters):
            raise ValueError("node ids must not be negative")
        for name in ("election_timeout_ms", "fetch_timeout_ms", "request_timeout_ms"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be positive")
