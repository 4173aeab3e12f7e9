"""The results of a suite's tests, and their needs by Apache Kafka's request log."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

PASSED: Final = "passed"
FAILED: Final = "failed"
SKIPPED: Final = "skipped"

APIS: Final = {
    "groups": (
        "FIND_COORDINATOR", "JOIN_GROUP", "SYNC_GROUP", "HEARTBEAT", "LEAVE_GROUP", "OFFSET_COMMIT",
        "OFFSET_FETCH", "OFFSET_DELETE", "DESCRIBE_GROUPS", "LIST_GROUPS", "DELETE_GROUPS",
        "CONSUMER_GROUP_HEARTBEAT", "CONSUMER_GROUP_DESCRIBE", "SHARE_GROUP_HEARTBEAT",
        "SHARE_GROUP_DESCRIBE", "SHARE_FETCH", "SHARE_ACKNOWLEDGE", "STREAMS_GROUP_HEARTBEAT",
    ),
    "transactions": (
        "ADD_PARTITIONS_TO_TXN", "ADD_OFFSETS_TO_TXN", "END_TXN", "TXN_OFFSET_COMMIT",
        "WRITE_TXN_MARKERS", "DESCRIBE_TRANSACTIONS", "LIST_TRANSACTIONS",
    ),
    "ACLs": ("DESCRIBE_ACLS", "CREATE_ACLS", "DELETE_ACLS"),
    "SASL": (
        "SASL_HANDSHAKE", "SASL_AUTHENTICATE", "CREATE_DELEGATION_TOKEN",
        "RENEW_DELEGATION_TOKEN", "EXPIRE_DELEGATION_TOKEN", "DESCRIBE_DELEGATION_TOKEN",
        "DESCRIBE_USER_SCRAM_CREDENTIALS", "ALTER_USER_SCRAM_CREDENTIALS",
    ),
}  # fmt: skip
"""Needs that this project does not serve yet, with the requests that show them."""
_NEEDS: Final = {api: need for need, apis in APIS.items() for api in apis}
_COMPLETED: Final = "Completed request:"


@dataclass(frozen=True)
class Outcome:
    """One test; ``began`` and ``ended`` are seconds of the wall clock, ``said`` its failure."""

    test: str
    outcome: str
    began: float
    ended: float
    said: str = ""


@dataclass(frozen=True)
class Sent:
    """A request that Apache Kafka has answered; ``at`` is seconds of the wall clock."""

    at: float
    api: str
    need: str | None


def requests(lines: Iterable[str]) -> Iterator[Sent]:
    """Read Apache Kafka's request log: milliseconds, then what kafka.request.logger writes."""
    for line in lines:
        when, _, rest = line.partition(" ")
        if not rest.startswith(_COMPLETED):
            continue
        told = json.loads(rest.removeprefix(_COMPLETED))
        api = told["requestHeader"]["requestApiKeyName"]
        yield Sent(int(when) / 1000, api, _need(api, told.get("request") or {}))


def _need(api: str, body: dict[str, Any]) -> str | None:
    """Producers without a transactional id send InitProducerId and Produce, too."""
    if api in ("INIT_PRODUCER_ID", "PRODUCE") and body.get("transactionalId") is not None:
        return "transactions"
    return _NEEDS.get(api)


def needs(outcome: Outcome, sent: Sequence[Sent]) -> list[str]:
    """Return what the requests needed that were answered while the test ran, in order of APIS."""
    found = {each.need for each in sent if outcome.began <= each.at <= outcome.ended}
    return [need for need in APIS if need in found]


def load(path: Path) -> dict[str, dict[str, Any]]:
    """Return the recorded tests of a suite by name, in order."""
    if not path.exists():
        return {}
    rows = map(json.loads, path.read_text().splitlines())
    return {row["test"]: row for row in rows}


def merge(
    rows: dict[str, dict[str, Any]], side: str, outcomes: Sequence[Outcome], sent: Sequence[Sent]
) -> None:
    """Add to ``rows`` what one side's run said; ``sent`` is empty except for Apache Kafka's."""
    for outcome in outcomes:
        row = rows.setdefault(outcome.test, {"test": outcome.test})
        row[side] = outcome.outcome
        row.pop(f"{side} said", None)
        if outcome.outcome != PASSED and outcome.said:
            row[f"{side} said"] = outcome.said
        if sent:
            row["needs"] = needs(outcome, sent)


def save(path: Path, rows: dict[str, dict[str, Any]]) -> None:
    """Write the records, one test a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, sort_keys=True) + "\n" for row in rows.values()))
