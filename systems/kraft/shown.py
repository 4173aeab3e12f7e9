"""How reports show KRaft: its messages in a few characters, its invariants in a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kraftwreck.checkers.kraft.invariants.table import TABLE, section
from kraftwreck.checkers.kraft.recorded.capture import asker_of
from kraftwreck.systems.kraft.simulated.messages import facts
from kraftwreck.systems.shown import Fields, Shown


def _asked(api: str, asked: Fields) -> str:
    if api == "Vote":
        return f"{'pre-vote' if asked.get('pre_vote') else 'vote'} e{asked.get('epoch')}?"
    if api == "Fetch":
        return f"fetch {asked.get('fetch_offset')}"
    if api == "BeginQuorumEpoch":
        return f"leads e{asked.get('leader_epoch')}"
    if api == "EndQuorumEpoch":
        return f"ends e{asked.get('leader_epoch')}"
    return api


def _answered(api: str, answer: Fields, records: Sequence[int] | None) -> str:
    wrong = answer.get("error") or answer.get("partition_error")
    if api == "Vote":
        return "yes" if answer.get("vote_granted") else "no"
    if wrong:
        return f"error {wrong}"
    if api == "Fetch":
        hw = answer.get("high_watermark")
        got = f"{records[0]}–{records[2] - 1}" if records else ""
        if "diverging_end" in answer:
            got = f"diverges at {answer['diverging_end']}"
        return " ".join(word for word in (got, "" if hw is None else f"hw {hw}") if word) or "ok"
    return "ok"


def _in_sync(kind: str, detail: Fields) -> Sequence[int] | None:
    return [int(each) for each in detail["isr"]] if kind == "replica-isr" else None


SHOWN: Final = Shown(
    rules={each.id: f"It breaks the invariant {each.name}: {each.statement}" for each in TABLE},
    liveness=frozenset(each.id for each in TABLE if section(each) == "liveness"),
    facts=facts,
    asker=asker_of,
    asked=_asked,
    answered=_answered,
    in_sync=_in_sync,
    colours={
        "Vote": "partition",
        "Vote answer": "partition",
        "BeginQuorumEpoch": "kill",
        "EndQuorumEpoch": "kill",
        "Fetch": "muted",
        "Fetch answer": "accent",
    },
)
"""The entry point ``kraft``."""
