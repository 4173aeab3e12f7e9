"""The result of a campaign, with every failed run: for people, and as plain values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kraftwreck.campaigns.campaign import Tested, as_json, combined_digest
from kraftwreck.campaigns.shrinking import Say
from kraftwreck.campaigns.sim_runs import Progress, Source, Steered
from kraftwreck.harness.command_line import command_line
from kraftwreck.systems.campaign import Campaign


def report(progress: Progress, campaign: Campaign, say: Say) -> None:
    """Print the result of the campaign, for people."""
    unknown = sorted((t for t in progress.tested if t.unknown), key=lambda t: t.seed)
    digest = combined_digest(progress.tested)
    progress.show()
    for tested in unknown[:3]:
        name, reason = tested.unknown[0]
        say(f"seed {tested.seed}: {name} is unknown: {reason}")
    for tested in _failed(progress):
        kinds = ", ".join(f"{checker} {kind}" for checker, kind, _ in tested.found)
        say(f"seed {tested.seed} failed: {kinds}: {command_line('replay', tested.run)}")
    for tested in {t.seed: t for t in progress.kinds.values()}.values():
        say(f"repeat: {_repeat(campaign, progress.source, tested)}")
    for line in _reached(progress.source):
        say(line)
    say(f"digest of all runs: {digest}")


def _failed(progress: Progress) -> list[Tested]:
    return sorted((t for t in progress.tested if t.found), key=lambda t: t.seed)


def _repeat(campaign: Campaign, source: Source, tested: Tested) -> str:
    if isinstance(source, Steered):
        return command_line("replay", tested.run)
    return campaign.repeat(tested.seed)


def _reached(source: Source) -> Iterator[str]:
    covered = source.covered
    yield f"reached in {covered.runs} runs:"
    yield from (f"  {line}" for line in covered.lines())
    if isinstance(source, Steered):
        chosen = ", ".join(f"{arm} {count}" for arm, count in source.steering.chosen.items())
        yield f"  runs by generator: {chosen}"
        yield f"  corpus: {len(source.corpus.entries)} runs, {source.kept} of them new"


def plain(progress: Progress, campaign: Campaign, cases: Sequence[Path]) -> dict[str, Any]:
    """Return the result of the campaign as plain values; ``cases`` are the shrunk failures."""
    failed = _failed(progress)
    return {
        "runs": len(progress.tested),
        "failures": len(failed),
        "unknown": sum(bool(t.unknown) for t in progress.tested),
        "weak": sum(bool(t.weak) for t in progress.tested),
        "digest": combined_digest(progress.tested),
        "sim_s": round(progress.sim_s, 3),
        "cpu_s": round(progress.cpu_s, 3),
        "failed": [as_json(t) | {"repeat": _repeat(campaign, progress.source, t)} for t in failed],
        "shrunk": [str(path) for path in cases],
        "coverage": progress.source.covered.summary(),
    }
