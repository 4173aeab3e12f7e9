"""The messages of a simulated run, stored in its folder for people: ``messages.jsonl``.

One line per captured quorum message:

- ``time``: ns since the start of the test, of the response (in a line without ``asked``: of its
  arrival)
- ``sent``: ns, -1 if unknown
- ``asker``, ``replier``: node ids
- ``api``, ``asked`` and ``answer``: request and response, without fields that are always the same

Real hosts keep their input logs instead.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import msgspec

from kraftwreck.histories.message import Message

LIMIT = 50_000
"""Lines per run; the last ones are kept, since they are nearest to the failure."""

QUORUM = frozenset(
    {"Vote", "BeginQuorumEpoch", "EndQuorumEpoch", "Fetch", "FetchSnapshot", "UpdateRaftVoter"}
)
_SAME = frozenset({"cluster_id", "max_wait_ms", "max_bytes", "timeout_ms"})


def facts(body: Any) -> dict[str, Any] | None:
    """Return the known numbers and booleans in the quorum message ``body``."""
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
