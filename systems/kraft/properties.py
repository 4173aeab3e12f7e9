"""A user's properties of a Kafka client: read, refused, and what loss of records they allow.

The file is Java's: ``name=value`` lines, ``#`` and ``!`` begin comments. The harness owns some of
them (:data:`OWNED`), and gives shorter time-outs where the file names none (:data:`DEFAULTS`).
Clients differ in their names and defaults (:class:`Dialect`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kraftwreck.harness.options import OptionError

LARGEST: Final = 1 << 20
ACKS: Final = "acks"
IDEMPOTENCE: Final = "enable.idempotence"
RETRIES: Final = "retries"
IN_FLIGHT: Final = "max.in.flight.requests.per.connection"
DELIVERY: Final = "delivery.timeout.ms"
MIN_INSYNC: Final = "min.insync.replicas"
UNCLEAN: Final = "unclean.leader.election.enable"

DEFAULTS: Final[Mapping[str, str]] = {
    DELIVERY: "10000",
    "request.timeout.ms": "2000",
    "reconnect.backoff.max.ms": "500",
    "socket.connection.setup.timeout.ms": "2000",
}
"""Faults last seconds, so a client must not wait for minutes; the file's values come first."""

_FINDS_BROKERS: Final = "the run's own brokers are used"
_NONE_SPOKEN: Final = "the brokers offer neither encryption nor authentication"
OWN_CODE: Final = "only the client's own code runs"
OWNED: Final[Mapping[str, str]] = {
    "bootstrap.servers": _FINDS_BROKERS,
    "metadata.broker.list": _FINDS_BROKERS,
    "client.id": "the run names its clients",
    "security.protocol": _NONE_SPOKEN,
    "transactional.id": "the brokers have no transactions",
}
"""Properties that a file of any client must leave out, with the reason."""
_OWNED_FAMILIES: Final[Mapping[str, str]] = {"sasl.": _NONE_SPOKEN, "ssl.": _NONE_SPOKEN}

SLACK_S: Final = 2.0
"""How long a report may come after ``delivery.timeout.ms``."""
LONGEST_S: Final = 30.0
"""How long a send waits at most, whatever the file says; its outcome is unknown then."""


@dataclass(frozen=True)
class Dialect:
    """The properties of one client: other names for the same property (``aliases``), those that a
    file must leave out beside :data:`OWNED`, and ``defaults`` of a run."""

    aliases: Mapping[str, str]
    owned: Mapping[str, str]
    defaults: Mapping[str, str]

    def owner(self, name: str) -> str | None:
        """Return why a file must leave ``name`` out, if so."""
        for family, reason in _OWNED_FAMILIES.items():
            if name.startswith(family):
                return reason
        return OWNED.get(name) or self.owned.get(name)

    def settings(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return the properties of a producer with a file that has ``given``, without brokers."""
        return {**self.defaults, **given}

    def patience_s(self, given: Mapping[str, str]) -> float:
        """Return how long a send waits for the reports of its records."""
        timeout_s = float(self.settings(given)[DELIVERY]) / 1000
        return min(LONGEST_S, timeout_s + SLACK_S) if timeout_s else LONGEST_S

    def facts(
        self,
        file: Path | None,
        given: Mapping[str, str],
        effective: Mapping[str, str],
        topics: Mapping[str, str],
    ) -> dict[str, Any]:
        """Return what ``test.json`` says of a file; ``effective`` has all values that matter."""
        return {
            "file": None if file is None else str(file),
            "properties": dict(given),
            "defaults": {n: v for n, v in self.defaults.items() if n not in given},
            "risks": risks(effective, topics),
        }


_POLLS: Final = ("poll-skip", "nonmonotonic-poll", "int-poll-skip", "int-nonmonotonic-poll")
"""Consumers see them in a log that was rewritten, or that has a value twice."""
_LOSSES: Final = ("lost-write", "unseen", "inconsistent-offsets", *_POLLS)
_REPEATS: Final = ("duplicate", *_POLLS)
_ORDERS: Final = ("nonmonotonic-send", "int-nonmonotonic-send")


def read(path: Path, dialect: Dialect) -> dict[str, str]:
    """Return the properties in ``path``, with one name for each.

    Raises :class:`OptionError`, one line, for a file or a line that cannot be read, and for a
    property that is owned or given twice.
    """
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
        text = data.decode()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise OptionError(f"--properties {path}: {reason}") from None
    if len(data) > LARGEST:
        raise OptionError(f"--properties {path}: it is larger than {LARGEST} bytes")
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.strip()
        if not line or line[0] in "#!":
            continue
        place = f"--properties {path}, line {number}"
        given, equals, value = (part.strip() for part in line.partition("="))
        if not equals or not given or line.endswith("\\"):
            raise OptionError(f"{place}: {line[:60]!r} must be NAME=VALUE on one line")
        name = dialect.aliases.get(given, given)
        if (reason := dialect.owner(name)) is not None:
            raise OptionError(f"{place}: leave {given} out: {reason}")
        if name in found:
            raise OptionError(f"{place}: {given} is given twice")
        found[name] = value
    if found.get(ACKS) == "0":
        raise OptionError(
            f"--properties {path}: acks=0 acknowledges nothing, so no record could be lost;"
            " use 1 or all"
        )
    return found


def risks(client: Mapping[str, str], topics: Mapping[str, str]) -> dict[str, list[str]]:
    """Return by type of anomaly what allows it among the properties of ``client`` and ``topics``.

    Both have all values that matter, also those that nobody gave.
    """
    found: dict[str, list[str]] = {}

    def allow(kinds: tuple[str, ...], why: str) -> None:
        for kind in kinds:
            found.setdefault(kind, []).append(why)

    if client[ACKS] not in ("all", "-1"):
        allow(_LOSSES, f"acks={client[ACKS]}: the leader acknowledges before others have a record")
    elif topics.get(MIN_INSYNC) == "1":
        allow(_LOSSES, f"{MIN_INSYNC}=1: a leader alone in its ISR acknowledges")
    if topics.get(UNCLEAN) == "true":
        allow(_LOSSES, f"{UNCLEAN}=true: a replica that lacks records may become the leader")
    if client[IDEMPOTENCE] == "false" and client[RETRIES] != "0":
        allow(_REPEATS, f"{IDEMPOTENCE}=false: a retry appends a record again")
        if client[IN_FLIGHT] != "1":
            allow(
                _ORDERS,
                f"{IDEMPOTENCE}=false and {IN_FLIGHT}={client[IN_FLIGHT]}: a later batch overtakes"
                " one that is retried",
            )
    return found
