"""How soon brokers of a run on hosts miss each other.

With Kafka's defaults a broker is fenced after 9 s, and a follower leaves the ISR after 30 s. Faults
end before that, so neither would happen in a run of a minute.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kraftwreck.nodes.draw import draw_below

SESSIONS_MS: Final = ((2_000, 500), (3_000, 700))
"""Pairs of ``broker.session.timeout.ms`` and ``broker.heartbeat.interval.ms``."""
LAGS_MS: Final = (1_500, 2_000, 4_000)

_PROPERTIES: Final = {
    "session_timeout_ms": "broker.session.timeout.ms",
    "heartbeat_interval_ms": "broker.heartbeat.interval.ms",
    "replica_lag_time_max_ms": "replica.lag.time.max.ms",
}


def pace(seed: int) -> dict[str, int]:
    """Return the settings of a run, as ``test.json`` names them for checkers."""
    session, heartbeat = SESSIONS_MS[draw_below(len(SESSIONS_MS), seed, "hosts", "session")]
    lag = LAGS_MS[draw_below(len(LAGS_MS), seed, "hosts", "replica-lag")]
    return {
        "session_timeout_ms": session,
        "heartbeat_interval_ms": heartbeat,
        "replica_lag_time_max_ms": lag,
    }


def properties(settings: Mapping[str, int]) -> dict[str, str]:
    """Return ``settings`` as properties of nodes."""
    return {_PROPERTIES[name]: str(value) for name, value in settings.items()}
