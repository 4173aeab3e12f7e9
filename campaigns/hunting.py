"""Hunt one planted bug in processes with the patched node code; confirm each find without the
patch, and shrink the test that shows the bug."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import msgspec

from kraftwreck.campaigns.case import Case, Size
from kraftwreck.campaigns.case_file import SavedCase
from kraftwreck.campaigns.executed import added
from kraftwreck.campaigns.hunt import CRASH, IMPORT, UNKNOWN, Hunted, Progress
from kraftwreck.campaigns.shrinking import PassesError, ShrinkError, shrink_anywhere
from kraftwreck.harness.archive import PROJECT_TREE
from kraftwreck.harness.options import Style
from kraftwreck.harness.patched_nodes import environment, patched_tree
from kraftwreck.histories.exit_codes import CommandError
from kraftwreck.histories.system_name import DEFAULT_SYSTEM
from kraftwreck.systems.simulators import everything

CHECK_BUDGET_S = 120.0
_LAST_LINE = re.compile(r"[\w.]+(?:: .*)?$")


class Aim(NamedTuple):
    """The tests of a hunt: their system, and its options for campaigns."""

    system: str = DEFAULT_SYSTEM
    options: tuple[str, ...] = ()


class HuntError(CommandError):
    """A hunt failed; the message is one line."""


OnProgress = Callable[[Progress], None]


def _quiet(_: object) -> None:
    pass


def hunt_patch(
    patch: Path,
    budget_s: float,
    *,
    first_seed: int = 0,
    style: Style = "swarm",
    on_progress: OnProgress = _quiet,
) -> Hunted:
    """Hunt the bug that ``patch`` plants, in separate processes, for ``budget_s`` CPU seconds.

    A test that fails is run again with the unpatched nodes. If it fails there, too, the failure is
    not the bug, and the hunt continues with the next seed. Node code that cannot be imported, or
    fails outside of any node, counts as found. Raises :class:`OptionError` for a patch that
    cannot be used, :class:`HuntError` when a process fails.
    """
    seed, runs, sim_s, cpu_s = first_seed, 0, 0.0, 0.0
    not_its: dict[int, str] = {}
    counts: list[dict[str, int]] = []

    def on_part(part: Progress) -> None:
        on_progress(Progress(runs=runs + part.runs, cpu_s=cpu_s + part.cpu_s))

    aim = aim_at(patch)
    with patched_tree(patch) as tree:
        while True:
            left_s = budget_s - cpu_s
            hunted = _hunt(patch.name, tree, left_s, seed, style, aim, on_progress=on_part)
            counts.append(hunted.executed)
            runs, sim_s, cpu_s = runs + hunted.runs, sim_s + hunted.sim_s, cpu_s + hunted.cpu_s
            anyway = None if hunted.seed is None else _failure_anyway(hunted.seed, style, aim)
            if hunted.seed is not None and anyway is not None:
                not_its[hunted.seed] = anyway
                seed = hunted.seed + 1
                if cpu_s < budget_s:
                    continue
                hunted = Hunted(found=False, cpu_s=0.0, runs=0, sim_s=0.0)
            hunted.runs, hunted.sim_s, hunted.cpu_s = runs, round(sim_s, 3), round(cpu_s, 3)
            hunted.not_its = not_its
            hunted.executed = added(counts)
            return hunted


RECORDS = (
    "nodes/replication/",
    "nodes/log/partition/",
    "nodes/broker/data_plane.py",
    "nodes/broker/image_changes.py",
    "nodes/broker/isr_proposals.py",
    "nodes/broker/lifecycle.py",
    "nodes/broker/producer_ids.py",
    "nodes/protocol/acknowledged.py",
    "nodes/protocol/fetch.py",
    "nodes/protocol/fetched.py",
    "nodes/protocol/produce.py",
    "nodes/protocol/produced.py",
    "nodes/server/clean_shutdown.py",
    "nodes/server/data_calls.py",
    "nodes/server/gathering.py",
    "nodes/server/log_dirs.py",
    "nodes/server/log_directory.py",
    "nodes/server/partition_files.py",
    "nodes/server/record_requests.py",
    "nodes/server/replica_fetches.py",
)
"""Code of the nodes that runs, or has a lasting effect, only where records are stored."""


RAFT = (
    "nodes/consensus/raft/",
    "nodes/consensus/embedded.py",
    "nodes/protocol/schemas/raft.py",
    "nodes/store/",
)
"""Code of the nodes that only the system ``raft`` has."""


def aim_at(patch: Path) -> Aim:
    """Return the tests for ``patch``.

    Some code of the nodes runs only in another system or where records are stored, and code of
    their host only with shells.
    """
    lines = patch.read_bytes().decode(errors="replace").splitlines()
    changed = [line for line in lines if line.startswith("+++ ")]

    def only(places: tuple[str, ...]) -> bool:
        return bool(changed) and all(any(each in line for each in places) for line in changed)

    if only(RAFT):
        return Aim("raft")
    if only(RECORDS):
        return Aim(options=("records=yes",))
    shells = any("nodes/server/" in line for line in changed)
    return Aim(options=("shells=yes",) if shells else ())


def _failure_anyway(seed: int, style: Style, aim: Aim) -> str | None:
    """Return how the test with this ``seed`` fails without any patch; None if it does not."""
    hunted = _hunt("no patch", PROJECT_TREE, CHECK_BUDGET_S, seed, style, aim, runs=1)
    if not hunted.found:
        return None
    return f"{hunted.checker}: {hunted.anomaly}: {hunted.explanation}"


def _hunt(
    what: str,
    tree: Path,
    budget_s: float,
    seed: int,
    style: Style,
    aim: Aim,
    *,
    runs: int | None = None,
    on_progress: OnProgress = _quiet,
) -> Hunted:
    command = [sys.executable, "-m", "kraftwreck.campaigns.counted_hunt", str(tree)]
    command += ["--budget", f"{budget_s:g}", "--first-seed", str(seed), "--style", style]
    command += ["--system", aim.system]
    command += [word for each in aim.options for word in ("--option", each)]
    command += [] if runs is None else ["--runs", str(runs)]
    result = b""
    with (
        tempfile.TemporaryFile() as errors,
        # The hunt ends when this process does, since that closes its standard input.
        subprocess.Popen(
            command,
            env=environment(tree),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        ) as hunt,
    ):
        try:
            assert hunt.stdout is not None
            for line in hunt.stdout:
                if b'"found"' in line:
                    result = line
                else:
                    on_progress(msgspec.json.decode(line, type=Progress))
            code = hunt.wait()
        except BaseException:
            hunt.kill()
            raise
        errors.seek(0)
        stderr = errors.read().decode(errors="replace")
    if code == 0:
        return msgspec.json.decode(result, type=Hunted)
    said = stderr.strip().splitlines() or ["no reason given"]
    if tree != PROJECT_TREE and any(f'File "{tree}' in line for line in said):
        last = said[-1].strip()
        name = last.partition(":")[0] if _LAST_LINE.match(last) else IMPORT
        explanation = f"the node code cannot be imported: {last}"
        return Hunted(
            found=True,
            cpu_s=0.0,
            runs=0,
            sim_s=0.0,
            checker=IMPORT,
            anomaly=name,
            explanation=explanation,
        )
    raise HuntError(f"{what}: the hunt ended with {code}: {said[-1]}")


def shrink_found(patch: Path, hunted: Hunted, style: Style, budget_s: float) -> Size | None:
    """Shrink the test that found the bug of ``patch`` for ``budget_s`` CPU seconds; return its
    size, or None where it cannot be shrunk."""
    if hunted.seed is None or hunted.checker in (CRASH, IMPORT) or hunted.anomaly == UNKNOWN:
        return None
    system, own = aim_at(patch)
    campaign = replace(everything(system), style=style, system_options=own)
    options = campaign.options(hunted.seed)
    case = Case.of(options, campaign.knobs(hunted.seed), campaign.schedule(hunted.seed))
    saved = SavedCase(case=case, patch=str(patch))
    wanted = f"{hunted.checker}:{hunted.anomaly}"
    try:
        return shrink_anywhere(saved, budget_s, _quiet, wanted).case.size
    except (PassesError, ShrinkError):
        return None
