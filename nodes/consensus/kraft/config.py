"""Settings of one quorum member; names and defaults are Kafka's (``controller.quorum.*``)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class QuorumConfig:
    """Identity and timers of one replica of the metadata log.

    ``voters`` are the node ids of the static voter set. ``incarnation`` counts process
    starts; with ``seed`` it keys every random choice. Sizes are bytes, times milliseconds.
    """

    node_id: int
    cluster_id: str
    directory_id: bytes
    voters: tuple[int, ...]
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

    def __post_init__(self) -> None:
        """Refuse settings no quorum can work with (ValueError)."""
        if len(self.directory_id) != 16:
            raise ValueError("directory_id must be 16 bytes")
        if len(set(self.voters)) != len(self.voters):
            raise ValueError(f"voter ids repeat: {self.voters}")
        if self.node_id < 0 or any(v < 0 for v in self.voters):
            raise ValueError("node ids must not be negative")
        for name in ("election_timeout_ms", "fetch_timeout_ms", "request_timeout_ms"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be positive")
