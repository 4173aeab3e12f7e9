"""What went wrong in a run, as people want to read it: a host that is lost is told of once."""

from __future__ import annotations

import re
from collections.abc import Iterable

_LOST = re.compile(r"(?P<host>[A-Za-z0-9-]+): (?P<what>SSH to \S+: .*)")
_BETWEEN = re.compile(r"; (?=(?:[A-Za-z0-9-]+: )+)")


def merge(errors: Iterable[str]) -> list[str]:
    """Return ``errors``, one line each, with one line for every host that could not be reached.

    It stands where the host was missed first, and tells how often it was. A line that says
    more than that stays as it is.
    """
    lines: list[str] = []
    lost: dict[str, tuple[int, str, list[str]]] = {}
    for error in errors:
        found = [_LOST.search(part) for part in _BETWEEN.split(error)]
        matches = [match for match in found if match is not None]
        if not matches or len(matches) < len(found):
            lines.append(error)
            continue
        for match in matches:
            if match["host"] not in lost:
                lost[match["host"]] = (len(lines), match["what"], [])
                lines.append("")
            lost[match["host"]][2].append(error.partition(":")[0])
    for host, (place, what, phases) in lost.items():
        where = ", ".join(dict.fromkeys(phases))
        lines[place] = f"{host}: {what} ({len(phases)} times: {where})"
    return lines
