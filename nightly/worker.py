"""The process of one nightly run: reads a request on standard input, writes an answer to a file.

For a simulated run, the tested node code comes first in its import path, see
:func:`harness.patched_nodes.environment`. Its output is for people.
"""

from __future__ import annotations

import contextlib
import io
import json
import resource
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from kraftwreck.campaigns.campaign import run_schedule
from kraftwreck.campaigns.case import Case
from kraftwreck.campaigns.case_file import Expected, SavedCase, read_case, write_case
from kraftwreck.campaigns.case_run import roles_of, run_case
from kraftwreck.campaigns.hunt import CRASH, NODES, place_of
from kraftwreck.campaigns.loop_guard import loop_guard
from kraftwreck.harness.command_line import command_line, command_words
from kraftwreck.harness.options import OptionError
from kraftwreck.harness.own_options import as_flags, declared
from kraftwreck.histories.exit_codes import FAILED, INVALID, VALID, of_verdict
from kraftwreck.histories.undecodable import UNDECODABLE
from kraftwreck.histories.verdict import stored_verdict
from kraftwreck.nemesis import coverage as counters
from kraftwreck.nemesis.coverage import Coverage
from kraftwreck.nightly.child import die_with_night
from kraftwreck.nightly.record import Failure
from kraftwreck.nightly.request import Answer, Request
from kraftwreck.nodes.consensus.effects import FatalError
from kraftwreck.systems.campaign import Campaign
from kraftwreck.systems.registry import simulated_workload
from kraftwreck.systems.simulators import save, simulator

_COUNTED = ("cuts", "directed", "follows", "overlaps", "struck", "marks")
"""Coverage kinds that a night counts; steps and edges are left out, there are tens of thousands."""


Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Commands:
    """Parts of the command line that a run needs.

    ``status`` runs a ``kraftwreck`` command and returns its exit code. ``write_pages`` writes the
    pages of a run folder and reports errors line by line.
    """

    status: Callable[[list[str]], int]
    write_pages: Callable[[Path, Say], None]


def say(line: str) -> None:
    """Print one line for people."""
    sys.stderr.write(line + "\n")


# --- simulated ---------------------------------------------------------------------------------


def campaign_of(request: Request) -> Campaign:
    """Return the campaign whose tests are the runs of a cell."""
    block = request.block
    return simulator(request.system).campaign(
        system=request.system,
        workload=request.workload,
        faults=request.faults,
        time_limit_s=block.time_limit_s,
        nodes=block.nodes,
        rate=block.rate,
        concurrency=block.concurrency,
        system_options=block.options_of(request.system, hosts=False),
        snapshots=block.snapshots,
        store=Path(request.store),
    )


def simulated(request: Request, commands: Commands) -> Answer:
    """Run and judge one test in virtual time; write it as a case if it fails."""
    campaign, seed = campaign_of(request), request.seed
    planted: dict[str, Any] = {
        "mutant": request.mutant,
        "patch": None if request.patch is None else Path(request.patch),
    }
    options, knobs = replace(campaign.options(seed), **planted), campaign.knobs(seed)
    workload = simulated_workload(options.system, options.workload)
    schedule = campaign.schedule(seed)
    answer = Answer(valid=True, workload=options.workload, repeat=campaign.repeat(seed))
    case = SavedCase(
        case=Case.of(options, knobs, schedule), mutant=request.mutant, patch=request.patch
    )
    try:
        with loop_guard():
            judged = run_schedule(options, workload, knobs, schedule, cover=True)
    except Exception as error:
        where = place_of(error)
        if not where.startswith(NODES) and not isinstance(error, FatalError):
            raise
        # Node code that fails outside of any node, or a simulated world that loops.
        text = " ".join(f"{error} (in {where})".split())
        answer.failures = [Failure(checker=CRASH, type=type(error).__name__, explanation=text)]
        answer.valid, answer.exit_code = False, INVALID
        _write_case(request, case)
        return answer
    tested = judged.tested
    answer.digest, answer.sim_s = tested.digest, tested.sim_s
    answer.coverage = _counted(tested.coverage)
    answer.unknown = [f"{name}: {reason}" for name, reason in tested.unknown]
    answer.failures = [
        Failure(checker=checker, type=kind, explanation=text)
        for checker, kind, text in tested.found
    ]
    answer.valid = False if tested.found else "unknown" if tested.unknown else True
    answer.exit_code = of_verdict(answer.valid)
    if answer.valid is True:
        return answer
    for line in [f"{f.checker}: {f.type}: {f.explanation}" for f in answer.failures]:
        say(line)
    for line in answer.unknown:
        say(line)
    case.digest = tested.digest
    if tested.found:
        checker, kind, text = tested.found[0]
        roles: tuple[str, ...] = ()
        anomalies = judged.verdict.checkers[checker].anomalies
        for anomaly in anomalies:
            if anomaly.type == kind:
                roles = roles_of(anomaly, judged.result)
                break
        case.failure = Expected(checker=checker, type=kind, roles=roles, explanation=text)
    _write_case(request, case)
    if request.keep:
        repeat = command_line("replay", request.case) if _planted(request) else answer.repeat
        folder = save(options, workload, judged.result, verdict=judged.verdict, repeat=repeat)
        commands.write_pages(folder, say)
        answer.run = str(folder)
    return answer


def _planted(request: Request) -> bool:
    return request.mutant is not None or request.patch is not None


def _write_case(request: Request, case: SavedCase) -> None:
    if request.case is not None:
        write_case(Path(request.case), case)


def _counted(reached: Coverage | None) -> Coverage | None:
    if reached is None:
        return None
    return Coverage(runs=reached.runs, **{name: getattr(reached, name) for name in _COUNTED})


# --- a stored case -----------------------------------------------------------------------------


def stored(request: Request, _: Commands) -> Answer:
    """Run a stored case with the given node code: it must pass."""
    assert request.given is not None
    saved = read_case(Path(request.given))
    case = saved.case
    run = run_case(case)
    answer = Answer(
        valid=True,
        workload=case.workload,
        seed=case.seed,
        faults=list(dict.fromkeys(fault.kind for fault in case.schedule)),
        digest=run.result.digest,
        sim_s=run.result.sim_s,
        repeat=command_line("replay", request.given),
    )
    kinds: dict[tuple[str, str], Failure] = {}
    for found in run.failures:
        one = Failure(checker=found.checker, type=found.type, explanation=found.explanation)
        kinds.setdefault((one.checker, one.type), one)
    if kinds:
        answer.failures, answer.valid, answer.exit_code = list(kinds.values()), False, INVALID
        say(f"{request.given}: this stored case passed before: {saved.about or saved.mutant or ''}")
        again = SavedCase(case=case, failure=run.failures[0], digest=run.result.digest)
        _write_case(request, again)
    return answer


# --- on hosts ----------------------------------------------------------------------------------


def run_arguments(request: Request) -> list[str]:
    """Return the ``kraftwreck`` arguments that make this run on hosts."""
    block, known = request.block, declared(request.system).run
    own = as_flags(known, block.options_of(request.system, hosts=True))
    options: dict[str, object] = {
        "-w": request.workload,
        "-n": request.faults,
        "-t": block.time_limit_s,
        "-c": request.cluster,
        "--nodes": block.nodes or None,
        **own,
        "--seed": request.seed,
        "--rate": block.rate or None,
        "--concurrency": block.concurrency or None,
        "--mutant": request.mutant,
        "--patch": request.patch,
        "--no-tables": True,
        "--store": request.store,
        "--json": True,
    }
    return command_words("run", request.system, options=options)


def on_hosts(request: Request, commands: Commands) -> Answer:
    """Run one test on hosts like ``kraftwreck run``; read its results."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        code = commands.status(run_arguments(request))
    answer = Answer(valid="unknown", exit_code=code, workload=request.workload)
    try:
        result = json.loads(printed.getvalue())
    except ValueError:
        return answer  # The reason is in its output.
    answer.valid, answer.run, answer.repeat = result["valid"], result["run"], result["repeat"]
    errors = [str(line) for line in result.get("errors", ())]
    if errors:
        answer.trouble = "; ".join(errors)
    _read_folder(Path(result["run"]), answer)
    return answer


def _read_folder(folder: Path, answer: Answer) -> None:
    with contextlib.suppress(OSError, *UNDECODABLE):
        for name, checked in stored_verdict(folder).checkers.items():
            if checked.valid == "unknown":
                answer.unknown.append(f"{name}: {checked.error or 'no reason given'}")
            kinds: dict[str, str] = {}
            for anomaly in checked.anomalies if checked.valid is False else ():
                kinds.setdefault(anomaly.type, anomaly.explanation)
            answer.failures += [
                Failure(checker=name, type=kind, explanation=text) for kind, text in kinds.items()
            ]
            suspected: dict[str, str] = {}
            for suspicion in checked.suspicions:
                suspected.setdefault(suspicion.type, suspicion.explanation)
            answer.suspicions += [
                Failure(checker=name, type=kind, explanation=text)
                for kind, text in suspected.items()
            ]
    with contextlib.suppress(OptionError):
        answer.coverage = _counted(counters.load(folder / "coverage.json"))


def heal(request: Request, commands: Commands) -> Answer:
    """Clean up after a killed run: remove dead namespaces, heal hosts that remain."""
    from kraftwreck.harness.clusters import state

    if request.cluster == "netns":
        return Answer(valid=True, unknown=[str(path) for path in state.sweep()])
    code = commands.status(["cluster", "heal", "-c", request.cluster])
    return Answer(valid=True if code == VALID else "unknown", exit_code=code)


_DO = {"sim": simulated, "case": stored, "cluster": on_hosts, "heal": heal}


def work(commands: Commands) -> int:
    """Answer the request on standard input; return the exit code of the process."""
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=Request)
    polite = request.do == "cluster"
    die_with_night(signal.SIGTERM if polite else signal.SIGKILL)
    try:
        answer = _DO[request.do](request, commands)
    except (OptionError, MemoryError) as error:
        code = error.exit_code if isinstance(error, OptionError) else FAILED
        trouble = f"{type(error).__name__}: {error}"
        answer = Answer(valid="unknown", exit_code=code, trouble=trouble)
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    answer.cpu_s = round(sum(usage.ru_utime + usage.ru_stime for usage in used), 3)
    path = Path(request.answer)
    part = path.with_suffix(".part")
    part.write_bytes(msgspec.json.encode(answer))
    part.replace(path)
    return 0
