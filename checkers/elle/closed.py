"""Histories for the real Elle, in which every invocation has a completion.

Elle ignores invocations without a completion, although they may have happened. It understands an
``info`` completion, which has the same meaning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from kraftwreck.histories.operation import Op


@dataclass(frozen=True, slots=True)
class Closed:
    """``ops`` are numbered from 0 on; ``origin`` holds each one's original operation."""

    ops: list[Op]
    origin: list[Op]

    @classmethod
    def of(cls, history: Sequence[Op]) -> Closed:
        """Return ``history`` with an ``info`` completion for each open invocation.

        It comes before the process' next invocation, or at the end.
        """
        origin: list[Op] = []
        begun: dict[int, Op] = {}
        for op in history:
            before = begun.pop(op.process, None)
            if op.type == "invoke":
                if before is not None:
                    origin.append(before)
                begun[op.process] = op
            origin.append(op)
        origin += begun.values()
        seen: set[int] = set()
        ops = []
        for at, op in enumerate(origin):
            again = id(op) in seen
            seen.add(id(op))
            ops.append(msgspec.structs.replace(op, index=at, type="info" if again else op.type))
        return cls(ops, origin)

    def restored(self, result: Any) -> Any:
        """Return Elle's result with the operations of the history in place of those in ``ops``."""
        if isinstance(result, dict):
            shown = {name: self.restored(value) for name, value in result.items()}
            if isinstance(result.get("scc"), list):
                shown["scc"] = [self.origin[at].index for at in result["scc"]]
            if isinstance(result.get("index"), int) and "process" in result:
                op = self.origin[result["index"]]
                shown |= {"index": op.index, "type": op.type}
            return shown
        if isinstance(result, list):
            return [self.restored(value) for value in result]
        return result
