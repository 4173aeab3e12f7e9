"""The night in Markdown, for a pull request or a chat: the most important failures first."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kraftwreck.histories.exit_codes import VALID
from kraftwreck.nightly.record import Record
from kraftwreck.nightly.totals import Kind, Night

_MOST_KINDS = 12
_MOST_LINES = 10
_LONGEST = 240
_MARKS = re.compile(r"([\\`*_{}\[\]<>|#~])")


def summary(night: Night, records: Sequence[Record]) -> str:
    """Return ``summary.md``."""
    clean = [kind for kind in night.kinds if kind.tree == "clean"]
    planted = [kind for kind in night.kinds if kind.tree != "clean"]
    lines = [f"# Night {night.name}: {headline(night)}", "", *_numbers(night, records), ""]
    lines += _kinds("Broken", clean)
    lines += _corpus(records)
    lines += _suspicions(records)
    lines += _troubles(records, night)
    lines += _planted(night, planted)
    lines += _cells(records)
    lines += [f"Night `{night.id}`, seed {night.seed}.", ""]
    return "\n".join(lines)


def headline(night: Night) -> str:
    """Return the night in one phrase."""
    clean = sum(kind.count for kind in night.kinds if kind.tree == "clean")
    if clean:
        ways = sum(kind.tree == "clean" for kind in night.kinds)
        return f"{_many(clean, 'run')} of the clean build failed, in {_many(ways, 'way')}"
    if not night.counts["runs"]:
        return "nothing was run"
    missed = sum(not bug.found for bug in night.planted)
    ours = night.counts["harness"] + night.counts["environment"]
    unsure = night.counts["unknown"] + night.counts["flake"]
    parts = []
    if ours:
        parts.append(f"{_many(ours, 'run')} failed in the harness or on the machine")
    elif unsure:
        parts.append(f"{_many(unsure, 'run')} proved nothing")
    if raised := night.counts.get("raised", 0):
        parts.append(f"a suspicion came back in {_many(raised, 'run')}")
    parts += [f"{cluster} was abandoned" for cluster in night.given_up]
    if night.state == "interrupted":
        reason = f" ({night.reason})" if night.reason not in (None, "interrupted") else ""
        parts.append(f"it was interrupted{reason}")
    if missed:
        parts.append(f"{missed} of {_many(len(night.planted), 'planted bug')} missed")
    well = not parts and night.exit_code in (None, VALID)
    if night.planted and not missed:
        parts.append(f"{_many(len(night.planted), 'planted bug')} found")
    if not well and night.exit_code not in (None, VALID):
        parts.append(f"exit code {night.exit_code}")
    return "; ".join(["all is well" if well else "the clean build held", *parts])


def _numbers(night: Night, records: Sequence[Record]) -> list[str]:
    told = night.counts
    of = "" if night.planned is None else f" of {night.planned}"
    state = "" if night.state == "complete" else f" ({night.state})"
    lines = [
        "| runs | valid | invalid | unknown | system | harness | environment | flake |",
        "|---|---|---|---|---|---|---|---|",
        "| " + " | ".join(
            [f"{told['runs']}{of}{state}", *(str(told[name]) for name in (
                "valid", "invalid", "unknown", "system", "harness", "environment", "flake"))]
        ) + " |",
        "",
    ]  # fmt: skip
    hosts = sum(record.cluster != "sim" for record in records)
    lines.append(
        f"{night.spent_s / 3600:.2f} h, {night.sim_s / 3600:.2f} simulated h,"
        f" {night.cpu_s / 3600:.2f} CPU h; {_many(hosts, 'run')} on hosts."
        + (f" Resumed {_many(night.sessions - 1, 'time')}." if night.sessions > 1 else "")
    )
    for kind, covered in night.coverage.items():
        met, pairs = covered["pairs"]
        lines.append(f"Ordered pairs of faults met on {kind}: {met} of {pairs}.")
    return lines


def _kinds(title: str, kinds: Sequence[Kind]) -> list[str]:
    if not kinds:
        return []
    lines = [f"## {title}", ""]
    for kind in kinds[:_MOST_KINDS]:
        where = "" if kind.tree == "clean" else f"`{kind.tree}`, "
        lines.append(f"- {where}**{kind.checker}: {kind.type}**, {_many(kind.count, 'run')}:")
        lines.append(f"  {_plain(kind.explanation)}")
        lines.append(f"  repeat: `{kind.repeat}`" + (" (shrunk)" if kind.shrunk else ""))
    if len(kinds) > _MOST_KINDS:
        lines.append(f"- and {len(kinds) - _MOST_KINDS} more")
    return [*lines, ""]


def _suspicions(records: Sequence[Record]) -> list[str]:
    """List suspicions: those that came back when their run was repeated, then the others."""
    told = [record for record in records if record.suspicions]
    if not told:
        return []
    told.sort(key=lambda record: not record.raised)
    lines = ["## Suspicions", "", "| run | came back | cell | what | repeat |"]
    lines += ["|---|---|---|---|---|"]
    for record in told[:_MOST_LINES]:
        shown = record.raised or record.suspicions
        what = _plain("; ".join(f"{s.checker}: {s.type}: {s.explanation}" for s in shown))
        repeat = _cell(record.repeat) if record.repeat else ""
        back = "**yes**" if record.raised else "no"
        lines.append(f"| {record.n} | {back} | {_cell(record.cell)} | {what} | {repeat} |")
    if len(told) > _MOST_LINES:
        lines.append(f"| | | | and {len(told) - _MOST_LINES} more | |")
    return [*lines, ""]


def _corpus(records: Sequence[Record]) -> list[str]:
    cases = [record for record in records if record.kind == "corpus"]
    if not cases:
        return []
    back = [record for record in cases if record.klass == "system"]
    lines = [f"Regressions: {len(cases)} stored cases, {len(back)} failed again.", ""]
    lines += [f"- **{record.cell}** failed again: {_plain(record.why or '')}" for record in back]
    return [*lines, ""] if back else lines


def _troubles(records: Sequence[Record], night: Night) -> list[str]:
    """List failures of the harness: without trust in the harness, red runs are ignored."""
    told = [r for r in records if r.klass in ("harness", "environment", "flake")]
    unknown = [r for r in records if r.valid == "unknown" and not r.red]
    if not told and not unknown and not night.given_up:
        return []
    lines = ["## Nothing proven", "", "| run | class | cell | why | repeat |"]
    lines += ["|---|---|---|---|---|"]
    for record in [*told, *unknown][:_MOST_LINES]:
        klass = record.klass or "unknown"
        cell = _cell(record.cell)
        why, repeat = _plain(record.why or ""), _cell(record.repeat) if record.repeat else ""
        lines.append(f"| {record.n} | {klass} | {cell} | {why} | {repeat} |")
    if len(told) + len(unknown) > _MOST_LINES:
        lines.append(f"| | | | and {len(told) + len(unknown) - _MOST_LINES} more | |")
    for cluster, why in night.given_up.items():
        lines += ["", f"`{cluster}` was abandoned: {_plain(why)}"]
    return [*lines, ""]


def _planted(night: Night, kinds: Sequence[Kind]) -> list[str]:
    if not night.planted:
        return []
    found = [bug for bug in night.planted if bug.found]
    lines = [
        "## Planted bugs", "",
        f"{len(found)} of {len(night.planted)} were found.", "",
        "| build | runs | found in | first by | repeat |", "|---|---|---|---|---|",
    ]  # fmt: skip
    for bug in night.planted:
        mine = sorted((k for k in kinds if k.tree == bug.tree), key=lambda k: k.first)
        by = f"{mine[0].checker}: {mine[0].type}" if mine else "**not found**"
        repeat = f"`{mine[0].repeat}`" if mine else ""
        lines.append(f"| {_cell(bug.tree)} | {bug.runs} | {bug.found} | {by} | {repeat} |")
    return [*lines, ""]


def _cells(records: Sequence[Record]) -> list[str]:
    """Return a table of the clean build's cells, the worst first."""
    cells: dict[str, list[Record]] = {}
    for record in records:
        if record.kind != "corpus" and not record.planted:
            cells.setdefault(record.cell, []).append(record)
    if not cells:
        return []
    lines = [
        "## Cells of the clean build", "",
        "| cell | runs | invalid | nothing proven | seconds per run |", "|---|---|---|---|---|",
    ]  # fmt: skip
    rows = sorted(cells.items(), key=lambda cell: (-sum(r.red for r in cell[1]), cell[0]))
    for key, mine in rows[:40]:
        bad = sum(record.klass == "system" for record in mine)
        rest = sum(r.klass not in (None, "system") or r.valid == "unknown" for r in mine)
        seconds = sum(record.seconds for record in mine) / len(mine)
        lines.append(f"| {_cell(key)} | {len(mine)} | {bad} | {rest} | {seconds:.1f} |")
    if len(rows) > 40:
        lines.append(f"| and {len(rows) - 40} more | | | | |")
    return [*lines, ""]


def _many(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _cell(text: str) -> str:
    return "`" + text.replace("`", "'").replace("|", "/") + "`"


def _plain(text: str) -> str:
    """Return ``text`` on one line, with Markdown and HTML escaped."""
    text = " ".join(text.split())
    if len(text) > _LONGEST:
        text = text[: _LONGEST - 1] + "…"
    return _MARKS.sub(r"\\\1", text)
