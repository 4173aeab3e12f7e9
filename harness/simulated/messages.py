"""The messages of a simulated run, kept in its folder for people: ``messages.jsonl``.

One line per captured quorum message: ``time`` (ns since the start of the test: when it was
answered, or for a line without ``asked`` when the answer arrived), ``sent`` (ns, -1 unknown),
``asker`` and ``replier`` (node ids), ``api``, and what was ``asked`` and answered (``answer``)
without what is the same in every message. Real hosts keep their input logs instead.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import msgspec

from histories.message import Message

LIMIT = 50_000
"""Lines of a run; those of its end are kept, where what went wrong was noticed."""

QUORUM = frozenset(
    {"Vote", "BeginQuorumEpoch", "EndQuorumEpoch", "Fetch", "FetchSnapshot", "UpdateRaftVoter"}
)
_SAME = frozenset({"cluster_id", "max_wait_ms", "max_bytes", "timeout_ms"})


def facts(body: Any) -> dict[str, Any] | None:
    """Return what ``body``, a quorum message, says: its numbers and truths, unknowns left out."""
    if not is_dataclass(body):
        return None
    found = {f.name: getattr(body, f.name) for f in fields(body) if f.name not in _SAME}
    return {
        name: value
        for name, value in found.items()
        if isinstance(value, int) and (value != -1 or isinstance(value, bool))
    }


def write_messages(messages: Iterable[Message], path: Path) -> None:
    """Write the quorum's messages to ``path``."""
    chosen = [message for message in messages if message.api in QUORUM][-LIMIT:]
    encode = msgspec.json.Encoder().encode
    with path.open("wb") as file:
        for message in chosen:
            line = {
                "time": message.time,
                "sent": message.sent,
                "asker": message.asker,
                "replier": message.replier,
                "api": message.api,
                "asked": facts(message.request),
                "answer": facts(message.response),
                "records": message.records,
            }
            file.write(encode(line) + b"\n")
