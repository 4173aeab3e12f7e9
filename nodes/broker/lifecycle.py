"""The lifecycle of a broker from its start to its controlled shutdown (KIP-631).

A broker registers under a fresh incarnation id; it is then known and fenced. It sends heartbeats
with want_fence until it has caught up with the metadata, and without from then on. For a controlled
shutdown it waits until the controller has moved its leaderships away. It has one request in flight
at a time. A failed heartbeat does not change the state, as only the controller decides whether a
broker is alive. Times are microseconds of the monotonic clock.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

from kraftwreck.nodes.broker.leadership import ControllerAddress
from kraftwreck.nodes.consensus.effects import ApiResponseReceived, SendApi
from kraftwreck.nodes.metadata.eligibility import METADATA_VERSION
from kraftwreck.nodes.metadata.features import SUPPORTED_FEATURES
from kraftwreck.nodes.metadata.image_records import METADATA_VERSIONS
from kraftwreck.nodes.node_config import NodeConfig
from kraftwreck.nodes.protocol.errors import (
    BROKER_ID_NOT_REGISTERED,
    NONE,
    NOT_CONTROLLER,
    STALE_BROKER_EPOCH,
    error_name,
)

MILLISECOND: Final = 1000
NEVER: Final = 2**63 - 1
LISTENER: Final = "PLAINTEXT"
NO_EPOCH: Final = -1
FIRST_BACKOFF_MS: Final = 100
STARTING_INTERVAL_MS: Final = 10
"""First wait for the next heartbeat at start; it doubles up to the usual interval."""
STOPPING_INTERVAL_MS: Final = 50
"""First wait for the next heartbeat during a controlled shutdown; it doubles likewise."""

FEATURES: Final = {
    **SUPPORTED_FEATURES,
    METADATA_VERSION: METADATA_VERSIONS,
    "group.version": (0, 1),
    "share.version": (0, 1),
    "streams.version": (0, 1),
    "transaction.version": (0, 2),
}
"""The levels at which this broker can work.

A controller refuses a broker that does not support all finalized features, and those of Apache
Kafka finalize the features of coordinators by default. This broker has no coordinators: under these
features it serves partitions. It does not list the APIs of groups and transactions, so clients do
not use it for those.
"""

Body = dict[str, Any]


class Life(Enum):
    """The states of a broker, in order."""

    STARTING = "starting"
    """Not registered, or behind the metadata."""
    RECOVERY = "recovery"
    """Caught up; it waits to be unfenced."""
    RUNNING = "running"
    PENDING_CONTROLLED_SHUTDOWN = "pending-controlled-shutdown"
    STOPPED = "stopped"


class Lifecycle:
    """Decides which request the broker sends to the active controller, and when.

    ``epoch`` is the broker epoch of the registration in force, -1 if there is none. The broker does
    not ask to be unfenced before its logs are open, see :meth:`logs_opened`.
    """

    def __init__(self, config: NodeConfig, cluster_id: str) -> None:
        self.state = Life.STARTING
        self.epoch = NO_EPOCH
        self._known = False
        self._logs_open = not config.data_plane
        self._config = config
        self._cluster_id = cluster_id
        self._metadata_offset = -1
        self._give_up_at: int | None = None
        self._next = 0
        self._wait_ms = STARTING_INTERVAL_MS
        self._failures = 0
        self._error = ""
        # Correlation and timeout of the request in flight, and its destination.
        self._asked: tuple[int, int] | None = None
        # Whether the registration is to be amended, and whether the request in flight does that.
        self._amends = self._amending = False
        self._controller: ControllerAddress | None = None
        self._notes: list[tuple[str, Body]] = []

    @property
    def knows(self) -> bool:
        """Whether the broker has caught up once, so that its image is meaningful."""
        return self._known and self.state is not Life.STOPPED

    def deadline(self, controller: ControllerAddress | None) -> int:
        """Return when :meth:`tick` is next due."""
        if self.state is Life.STOPPED:
            return NEVER
        due = NEVER
        if self._give_up_at is not None:
            due = self._give_up_at
        if self._asked is not None:
            return min(due, self._asked[1])
        return due if controller is None else min(due, self._next)

    def take_notes(self) -> list[tuple[str, Body]]:
        """Return (kind, detail) of the transitions since the last call."""
        notes, self._notes = self._notes, []
        return notes

    # --- events -------------------------------------------------------------------------

    def tick(
        self, controller: ControllerAddress | None, correlation: int, now: int
    ) -> SendApi | None:
        """Return the request to send now under ``correlation``, None if there is none."""
        if self.state is Life.STOPPED:
            return None
        if self._give_up_at is None and self.epoch == NO_EPOCH and self.state is Life.STARTING:
            self._give_up_at = now + self._config.registration_timeout_ms * MILLISECOND
        if self._give_up_at is not None and now >= self._give_up_at:
            reason = self._error or "no controller was found"
            self._become(Life.STOPPED, reason=f"not registered in time: {reason}")
            return None
        known = self._controller
        if controller is not None and controller is not known and controller != known:
            # A new leader: requests in flight to the previous one are void.
            if self._asked is not None or self._failures:
                self._asked = None
                self._next = now
            self._controller = controller
        if self._asked is not None and now >= self._asked[1]:
            self._asked = None
            self._failed(now, "no answer")
        if controller is None or self._asked is not None or now < self._next:
            return None
        self._asked = (correlation, now + self._config.request_timeout_ms * MILLISECOND)
        self._amending = self._amends
        api, body = self._request()
        return SendApi(controller.node_id, correlation, controller.endpoint, api, body)

    def response(self, event: ApiResponseReceived, now: int) -> bool:
        """Handle a response; False if it is not the one waited for."""
        if self._asked is None or self._asked[0] != event.correlation:
            return False
        self._asked = None
        if event.body is None:
            self._failed(now, "no answer")
        elif event.body["error_code"] != NONE:
            self._refused(event.body["error_code"], now)
        elif self.epoch == NO_EPOCH:
            self._registered(event.body["broker_epoch"], now)
        elif self._amending:
            self._amended(now)
        else:
            self._failures = 0
            self._heard(event.body, now)
        return True

    def published(self, offset: int, now: int) -> None:
        """Note that the metadata is applied up to and including ``offset``."""
        self._metadata_offset = offset
        if self.state in (Life.STARTING, Life.RECOVERY) and not self._failures:
            self._wait_ms = STARTING_INTERVAL_MS
            self._next = min(self._next, now + self._wait_ms * MILLISECOND)

    def amend(self, now: int) -> None:
        """Register again as the same process, since the registration lacks directories.

        They are not recorded below the level of metadata.version that has them (KIP-858).
        """
        if self.state in (Life.PENDING_CONTROLLED_SHUTDOWN, Life.STOPPED):
            return
        self._amends = True
        if self._asked is None and not self._failures:
            self._next = now

    def logs_opened(self, now: int) -> None:
        """Note that all logs which the broker had to recover are open; it may be unfenced."""
        self._logs_open = True
        if self.state is Life.STARTING:
            self._next = min(self._next, now + STARTING_INTERVAL_MS * MILLISECOND)

    def stop(self, now: int) -> None:
        """Start a controlled shutdown; a broker that never registered stops immediately."""
        if self.state in (Life.PENDING_CONTROLLED_SHUTDOWN, Life.STOPPED):
            return
        self._asked = None
        self._amends = False
        if self.epoch == NO_EPOCH or self.state is Life.STARTING:
            self._become(Life.STOPPED, reason="asked before it had started")
            return
        self._become(Life.PENDING_CONTROLLED_SHUTDOWN)
        self._wait_ms = STOPPING_INTERVAL_MS
        self._next = now

    # --- inside -------------------------------------------------------------------------

    def _become(self, state: Life, **detail: Any) -> None:
        self.state = state
        self._note(**detail)

    def _note(self, **detail: Any) -> None:
        told = {"state": self.state.value, "broker_epoch": self.epoch, **detail}
        self._notes.append(("broker", told))

    def _request(self) -> tuple[str, Body]:
        if self.epoch == NO_EPOCH or self._amending:
            return "BrokerRegistration", self._registration()
        return "BrokerHeartbeat", {
            "broker_id": self._config.node_id,
            "broker_epoch": self.epoch,
            "current_metadata_offset": self._metadata_offset,
            "want_fence": self.state is Life.STARTING,
            "want_shut_down": self.state is Life.PENDING_CONTROLLED_SHUTDOWN,
            "offline_log_dirs": [],
        }

    def _registration(self) -> Body:
        config = self._config
        at = config.broker_listener
        assert at is not None, "a broker has a listener"
        return {
            "broker_id": config.node_id,
            "cluster_id": self._cluster_id,
            "incarnation_id": config.broker_incarnation,
            "listeners": [
                {"name": LISTENER, "host": at.host, "port": at.port, "security_protocol": 0}
            ],
            "features": [
                {"name": name, "min_supported_version": low, "max_supported_version": high}
                for name, (low, high) in sorted(FEATURES.items())
            ],
            "rack": config.rack,
            "is_migrating_zk_broker": False,
            "log_dirs": [config.directory_id],
            "previous_broker_epoch": config.previous_broker_epoch,
        }

    def _registered(self, epoch: int, now: int) -> None:
        self.epoch = epoch
        self._amends = False
        self._give_up_at = None
        self._failures = 0
        self._error = ""
        self._next = now
        self._note()

    def _amended(self, now: int) -> None:
        self._amends = False
        self._failures = 0
        self._next = now

    def _heard(self, answer: Body, now: int) -> None:
        """Apply the controller's answer to a heartbeat."""
        interval = self._config.heartbeat_interval_ms
        match self.state:
            case Life.STARTING if answer["is_caught_up"]:
                self._known = True
                if self._logs_open:
                    self._become(Life.RECOVERY)
                    self._wait_ms = STARTING_INTERVAL_MS
                    self._next = now
                    return
            case Life.RECOVERY if not answer["is_fenced"]:
                self._become(Life.RUNNING)
                self._wait_ms = interval
            case Life.PENDING_CONTROLLED_SHUTDOWN if answer["should_shut_down"]:
                self._become(Life.STOPPED)
                return
            case Life.RUNNING:
                self._wait_ms = interval
        wait = min(self._wait_ms, interval)
        self._next = now + wait * MILLISECOND
        self._wait_ms = min(2 * wait, interval)

    def _refused(self, code: int, now: int) -> None:
        lost = code in (STALE_BROKER_EPOCH, BROKER_ID_NOT_REGISTERED) and self.epoch != NO_EPOCH
        if not lost:
            if self._amending and code != NOT_CONTROLLER:
                # Without directories the registration is still in force, and heartbeats must go on.
                self._amends = False
            self._failed(now, error_name(code), quietly=code == NOT_CONTROLLER)
        elif self.state is Life.PENDING_CONTROLLED_SHUTDOWN:
            # A broker that is no longer registered leads nothing.
            self.epoch = NO_EPOCH
            self._become(Life.STOPPED, reason=error_name(code))
        else:
            self.epoch = NO_EPOCH
            self._failures = 0
            self._next = now
            # It registers again and starts over; its image remains usable.
            self._become(Life.STARTING, error=error_name(code))

    def _failed(self, now: int, error: str, quietly: bool = True) -> None:
        """Schedule the next attempt: the back-off doubles up to the heartbeat interval."""
        longest = max(self._config.heartbeat_interval_ms, FIRST_BACKOFF_MS)
        wait = min(FIRST_BACKOFF_MS << min(self._failures, 16), longest)
        self._failures += 1
        self._next = now + wait * MILLISECOND
        if error != self._error and not quietly:
            self._note(error=error)
        self._error = error
