"""A profile of our leader, added up by module and by the kernel calls it waits for."""

from __future__ import annotations

import pstats
from collections import defaultdict
from pathlib import Path
from typing import Any, Final, cast

from bench.kafka_page import ROOT, table

ROWS: Final = 16
BUILTIN: Final = "~"
IDLE: Final = ("select.epoll",)


def profile_table(path: Path) -> str:
    """Return the shares of own time by module; each built-in function has its own row."""
    stats = cast(Any, pstats.Stats(str(path))).stats
    seconds: dict[str, float] = defaultdict(float)
    calls: dict[str, int] = defaultdict(int)
    for (file, _, function), (_, count, own, _, _) in stats.items():
        if any(name in function for name in IDLE):
            continue
        place = _place(file, function)
        seconds[place] += own
        calls[place] += count
    total = sum(seconds.values())
    rows = [
        [place, f"{100 * own / total:.1f}", f"{calls[place]:,}"]
        for place, own in sorted(seconds.items(), key=lambda item: -item[1])[:ROWS]
    ]
    others = 100 - sum(float(row[1]) for row in rows)
    return table(["where", "% of its time", "calls"], [*rows, ["all others", f"{others:.1f}", ""]])


def _place(file: str, function: str) -> str:
    if file == BUILTIN:
        return function.strip("{}<>").replace("built-in method ", "").replace("'", "`")
    path = Path(file)
    if path.is_relative_to(ROOT / "nodes"):
        return str(path.relative_to(ROOT))
    if "asyncio" in path.parts:
        return "asyncio"
    return path.name
