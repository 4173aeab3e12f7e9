"""Registration of controllers (KIP-919), which have no sessions or epochs, unlike brokers.

A controller whose registration in the log is missing or outdated sends ControllerRegistration (70)
to the active controller; the active one writes its own when it claims.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kraftwreck.nodes.metadata.eligibility import metadata_version
from kraftwreck.nodes.metadata.failure import ApiError
from kraftwreck.nodes.metadata.features import (
    CONTROLLER_REGISTRATION,
    SUPPORTED_FEATURES,
    unsupported_finalized,
)
from kraftwreck.nodes.metadata.image import MetadataImage
from kraftwreck.nodes.metadata.image_values import ControllerRegistration, ImageView, Listener
from kraftwreck.nodes.metadata.operation import Body, Context, Outcome, Record
from kraftwreck.nodes.protocol.errors import (
    INVALID_REQUEST,
    NONE,
    UNKNOWN_CONTROLLER_ID,
    UNSUPPORTED_VERSION,
)

MILLISECOND: Final = 1000
FIRST_BACKOFF_MS: Final = 100
MAX_BACKOFF_MS: Final = 120_000
SEND_TIMEOUT_MS: Final = 30_000
"""A registration that was not answered within this time is sent again."""


@dataclass(slots=True, frozen=True)
class ControllerIdentity:
    """The registration data of this controller: the 16 bytes identify its process."""

    controller_id: int
    incarnation: bytes
    listeners: tuple[Listener, ...]

    def request(self) -> Body:
        """Return the body of its ControllerRegistration request."""
        return {
            "controller_id": self.controller_id,
            "incarnation_id": self.incarnation,
            "zk_migration_ready": False,
            "listeners": [
                {
                    "name": listener.name,
                    "host": listener.host,
                    "port": listener.port,
                    "security_protocol": listener.security_protocol,
                }
                for listener in self.listeners
            ],
            "features": [
                {"name": name, "min_supported_version": low, "max_supported_version": high}
                for name, (low, high) in sorted(SUPPORTED_FEATURES.items())
            ],
        }

    def is_registered(self, image: ImageView) -> bool:
        """Return whether ``image`` holds this registration."""
        known = image.controllers.get(self.controller_id)
        return (
            known is not None
            and known.incarnation == self.incarnation
            and known.endpoints == self.listeners
            and {(f.name, f.low, f.high) for f in known.features}
            == {(name, low, high) for name, (low, high) in SUPPORTED_FEATURES.items()}
        )


def registration_record(body: Body) -> Record:
    """Return the record of a ControllerRegistration request."""
    fields = {
        "controller_id": body["controller_id"],
        "incarnation_id": bytes(body["incarnation_id"]),
        "zk_migration_ready": body["zk_migration_ready"],
        "end_points": [dict(listener) for listener in body["listeners"]],
        "features": [dict(feature) for feature in body["features"]],
    }
    return ("RegisterControllerRecord", 0, fields)


def controller_registration(context: Context, version: int, body: Body) -> Outcome:
    """Register a controller; it must support every level that is finalized."""
    if metadata_version(context.image) < CONTROLLER_REGISTRATION:
        raise ApiError(
            UNSUPPORTED_VERSION,
            "The current MetadataVersion is too old to support controller registrations.",
        )
    ranges = [
        (f["name"], f["min_supported_version"], f["max_supported_version"])
        for f in body["features"]
    ]
    unsupported = unsupported_finalized(context.image, ranges)
    if unsupported is not None:
        name, level = unsupported
        raise ApiError(
            UNSUPPORTED_VERSION,
            f"Controller {body['controller_id']} does not support {name} {level}, "
            "which is finalized.",
        )
    answer = {"throttle_time_ms": 0, "error_code": NONE, "error_message": None}
    return Outcome([registration_record(body)], answer)


def unregister_controller(context: Context, version: int, body: Body) -> Outcome:
    """UnregisterController (94): remove a controller that is no longer a voter."""
    controller_id = body["controller_id"]
    if controller_id not in context.image.controllers:
        raise ApiError(UNKNOWN_CONTROLLER_ID, f"Controller {controller_id} is not registered.")
    if controller_id in context.voters:
        raise ApiError(
            INVALID_REQUEST, f"Controller {controller_id} is a voter; remove it as one first."
        )
    answer = {"throttle_time_ms": 0, "error_code": NONE, "error_message": None}
    return Outcome([("UnregisterControllerRecord", 0, {"controller_id": controller_id})], answer)


class OwnRegistration:
    """When a standby sends its registration, and when it repeats it after a failure.

    Times are microseconds of the monotonic clock.
    """

    def __init__(self, identity: ControllerIdentity | None) -> None:
        self.identity = identity
        self._backoff_ms = FIRST_BACKOFF_MS
        self.next = 0
        """Nothing is sent before this time."""
        self._good: ControllerRegistration | None = None
        self._missing: bool | None = None  # In the log; None: not checked since the log changed.

    def is_known(self, image: ImageView) -> bool:
        """Return whether ``image`` still holds the registration that :meth:`is_missing` found.

        It is called in every step, so the same registration is not compared again.
        """
        identity = self.identity
        if identity is None:
            return True
        known = image.controllers.get(identity.controller_id)
        return known is not None and known is self._good

    def is_missing(self, image: ImageView) -> bool:
        """Return whether ``image`` lacks the registration although its version supports it."""
        identity = self.identity
        if identity is None:
            return False
        if self.is_known(image):
            return False
        if metadata_version(image) < CONTROLLER_REGISTRATION:
            return False
        if not identity.is_registered(image):
            return True
        self._good = image.controllers.get(identity.controller_id)
        return False

    def log_has_changed(self) -> None:
        """Discard the cached result of :meth:`is_missing_in_log`: the committed image changed."""
        self._missing = None

    def is_missing_in_log(self, image: MetadataImage) -> bool:
        """Return whether the stable layer of ``image`` lacks the registration."""
        if self._missing is None:
            self._missing = self.is_missing(image.stable)
        return self._missing

    def due(self, now: int) -> Body | None:
        """Return the request to send now, while :meth:`is_missing`; None: wait.

        It counts as in flight until it is :meth:`answered`, or for thirty seconds.
        """
        if self.identity is None or now < self.next:
            return None
        self.next = now + SEND_TIMEOUT_MS * MILLISECOND
        return self.identity.request()

    def answered(self, body: Body | None, now: int) -> None:
        """Handle the answer; None if there was none. The back-off grows with each failure."""
        if body is not None and body["error_code"] == NONE:
            self._backoff_ms = FIRST_BACKOFF_MS  # the log will show it soon
        self.next = now + self._backoff_ms * MILLISECOND
        self._backoff_ms = min(2 * self._backoff_ms, MAX_BACKOFF_MS)
