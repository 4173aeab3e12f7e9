"""The time limits of KRaft's rules, each with its reason.

Names end with their unit. The ``SIMULATED`` ones are exact: links, disks and clocks of the
simulator are no slower. Those for hosts are guesses, so what exceeds them is a suspicion there, see
:mod:`checkers.suspicion` and :data:`LIMITS`. The allowance for a slow disk, which counts as a
pause, is :data:`checkers.recorded.clocks.FLUSH_NS`.
"""

from __future__ import annotations

from typing import Final

from kraftwreck.checkers.suspicion import Limit

MS: Final = 1_000_000
SECOND: Final = 1_000_000_000

# --- settings of nodes that a run does not name ---------------------------------------------------

CLEAN_INTERVAL_MS: Final = 60_000
FETCH_BACKOFF_MS: Final = 1000
FETCH_MAX_BYTES: Final = 1 << 20
FETCH_MAX_WAIT_MS: Final = 500
FETCH_TIMEOUT_MS: Final = 2000
IMBALANCE_CHECK_SECONDS: Final = 300
LINGER_MS: Final = 25
LONGEST_REGISTRATION_BACKOFF_MS: Final = 120_000
MAX_IDLE_MS: Final = 500
REGISTRATION_BACKOFF_MS: Final = 100
REQUEST_TIMEOUT_MS: Final = 2000
SESSION_MS: Final = 9000
SNAPSHOT_BYTES: Final = 20 << 20
SNAPSHOT_INTERVAL_MS: Final = 3_600_000
UNCLEAN_ELECTION_MS: Final = 300_000

# --- resolution -----------------------------------------------------------------------------------

STEP_NS: Final = MS
"""How much the times of events of one step may differ: input logs, traces and messages round the
same clock reading differently. Rounding is no passing time."""

BLUR_NS: Final = 4_000
"""How far apart two events of one instant may seem: clocks, and the samples of slow clocks, have a
resolution of whole microseconds."""

# --- leaders --------------------------------------------------------------------------------------

RECENT: Final = 0.5
"""The part of the leader's timeout in which fetches are recent: messages need time, and clocks may
drift."""

BACKLOG_NS: Final = 400 * MS
"""How long a resumed process may take to process its backlog."""

STICKINESS: Final = Limit(
    ("I17",),
    "one fetch timeout after an answer to a fetch",
    "A node that a busy machine held up drops answers to requests that have timed out.",
)
GIVEN_UP: Final = Limit(
    ("L10",),
    "half the leader's timeout before it resigns",
    "Fetches that waited for the leader's process do not count in time.",
    on_hosts=False,
)

# --- brokers --------------------------------------------------------------------------------------

SESSION_SLACK_NS: Final = 3 * SECOND
"""How long beyond a session and a quarter a host may take to fence a silent broker."""

SIMULATED_SESSION_SLACK_NS: Final = 2 * SECOND
"""The same in the simulator: a commit on its slowest disks."""

POSSIBLE_NS: Final = 500 * MS
"""The distance between the possible arrival times of a request that are tried."""

CLOCKS_NS: Final = 100 * MS
"""How much the clocks of several hosts may differ after they were compared."""

FENCED_NS: Final = 3 * SECOND
"""How long a fenced broker may need to learn of it and end its shutdown: a late heartbeat may have
unfenced it meanwhile."""

REGISTERED_NS: Final = 500 * MS
"""How long beyond a session and a quarter a controller may take to free a broker id."""

SESSION: Final = Limit(
    ("C16",),
    "1.25 sessions after the last contact, and 3 s (2 s in the simulator)",
    "A busy machine delays the controller's timers and its writes.",
)
SESSION_LEFT: Final = Limit(
    ("C16",),
    "three quarters of a session, before which no silent broker is fenced",
    "When a request was sent, and when the controller decided, is unknown.",
    on_hosts=False,
)
REGISTERED: Final = Limit(
    ("C18",),
    "1.25 sessions and 0.5 s of silence, after which a broker id is free",
    "A busy machine delays the controller's timers.",
)
UNFENCED: Final = Limit(
    ("C23",),
    "the commit of the record that unfences a broker, and 0.1 s, for its service",
    "The clocks of hosts are compared only with errors.",
)
SHUT_DOWN: Final = Limit(
    ("C23",),
    "3 s after a fenced broker was unfenced again, for the end of its shutdown",
    "A busy machine delays the answers to its heartbeats.",
)
DEPARTURE: Final = Limit(
    ("C19",),
    "three fifths of a session between heartbeats, within which a broker is alive",
    "A busy machine delays heartbeats.",
)

# --- periodic work, and news ----------------------------------------------------------------------

ELECTIONS_NS: Final = 2 * SECOND
"""How much longer than two intervals a host may take for an election by the controller."""

SIMULATED_ELECTIONS_NS: Final = 500 * MS
"""How much longer than an interval and a commit it takes in the simulator."""

LONGEST_INTERVAL_NS: Final = 10 * SECOND
"""Runs are too short for longer intervals between elections by the controller."""

RETENTION_NS: Final = 3 * SECOND
"""How much longer than a cleaning interval and a fetch timeout an old snapshot may stay."""

CALM_NS: Final = 2 * SECOND
"""How long nothing may have been wrong before a judged commit."""

ELECTIONS: Final = Limit(
    ("L12",),
    "two intervals of the controller and 2 s (in the simulator one interval, 0.5 s and a commit)",
    "A busy machine delays the controller's timers and its writes.",
)
RETENTION: Final = Limit(
    ("L11",),
    "a cleaning interval, a fetch timeout and 3 s for the deletion of an old snapshot",
    "A slow disk delays the deletion.",
)
SERVED: Final = Limit(
    ("L11",),
    "a quarter of a fetch timeout in which a snapshot that was served stays",
    "A message may be under way for longer.",
    on_hosts=False,
)
NEWS: Final = Limit(
    ("L9",),
    "three latencies of the slowest link and four of the slowest disk for the news of a commit",
    "Only the simulator knows how slow links and disks are.",
    on_hosts=False,
)

# --- liveness -------------------------------------------------------------------------------------

RECOVERED_NS: Final = 30 * SECOND
"""How long after the last fault a cluster may take to serve and to agree: many election timeouts,
and the retries of clients."""

SETTLED_NS: Final = 10 * SECOND
"""Elections within this time are counted together."""

MOST_ELECTIONS: Final = 3
MOST_REQUESTS: Final = 20_000
"""Requests of one node to another in a second; more is a busy loop."""

RECOVERED: Final = Limit(
    ("no-recovery", "L1", "L2", "L3", "L4", "L6"),
    "30 s after the last fault",
    "A busy machine may need longer for an election and for the retries of clients.",
    claimed=True,
)
ENDED: Final = Limit(
    ("L5",),
    "60 s for an operation",
    "A busy machine may need longer, also for the clients.",
    claimed=True,
)
STAYS: Final = Limit(
    ("L7",),
    "at most three elections in 10 s without faults",
    "A busy machine exceeds election timeouts without a fault.",
    claimed=True,
)
BUSY: Final = Limit(
    ("L8",),
    "at most 20,000 requests in a second",
    "A node that was held up receives the requests of a longer time in one second.",
)

# --- judged during a simulated run only, by its clock in microseconds -----------------------------

RESIGNED_US: Final = 400_000
"""How long beyond its check-quorum time a deposed leader may lead."""

STEPS_US: Final = 1_000_000
"""How long a node may take for its steps in addition to its settings."""

DRIFT_US: Final = 1_000
"""Error of the times of a drifting clock: its changes are whole microseconds."""

FOLLOWED_US: Final = 20_000
"""How much longer than messages and disks the news of a commit may take: steps of several nodes."""

READ_LINGER_US: Final = 5_000
"""How long a read waits for others that share the record which proves that the controller leads."""

HANDED_OVER_US: Final = 100_000
"""How long a broker may take for the step or two in which it turns to a new controller."""

COUNTED_US: Final = 100_000
"""How long beyond one and a half times ``replica.lag.time.max.ms`` a replica that has fetched may
hold back a high watermark: the steps in which the leader looks."""

ASKED_AGAIN_US: Final = 49_000
"""The least pause between two requests to change an ISR: a broker asks again after 50 ms, and reads
its clock in whole microseconds."""

PRODUCER_IDS_BACKOFF_US: Final = 50_000
"""After how long a broker asks again for a block of producer ids."""

LATE_US: Final = 50_000
"""How long after a majority a member of the ISR may lack a record, with ``commit.mode=quorum``."""

STEADY_US: Final = 5_000_000
"""How long such a member that was late must then be in time before it returns to the ISR."""

ANSWERED_US: Final = 5_000_000
"""How long a controller of a healthy cluster may take to answer a request."""

FORWARDED_MS: Final = 30_000
"""How long a broker may look for a controller if the request has no timeout."""

IN_VAIN_MS: Final = 3_000
"""The least duration of failing requests to one leader before another node must be asked: after
immediate refusals a node may ask often."""

ELECTED_US: Final = 30_000_000
"""How long after the last heal the cluster may take to elect a leader again."""

CAUGHT_UP_US: Final = 10 * ELECTED_US
"""How long nodes that make progress may take to catch up."""

CHANGED_US: Final = 60_000_000
"""How long after the last heal voter changes may take."""

IN_SERVICE_US: Final = 45_000_000
"""How long brokers may take to return to service: the sessions of their predecessors must end."""

SERVING_US: Final = 30_000_000
"""How long, from then on, partitions that do not serve may show no progress: the requests of
followers and of leaders to the controller, and their retries, take a few seconds at most."""

LIMITS: Final = tuple(each for each in list(globals().values()) if isinstance(each, Limit))
"""All limits that findings depend on, as in docs/invariants.md."""


def table() -> list[str]:
    """Return :data:`LIMITS` as the lines of a Markdown table."""
    lines = ["| rules | limit | on hosts | why it proves nothing there |", "|---|---|---|---|"]
    for limit in LIMITS:
        verdict = "run unknown" if limit.claimed else "run stays valid"
        told = f"suspicion, {verdict}" if limit.on_hosts else "not judged"
        lines.append(f"| {', '.join(limit.rules)} | {limit.bound} | {told} | {limit.why} |")
    return lines
