"""A generator of runs that learns which ways of making runs still reach new states.

Each way (an arm) has a record of the new states that its runs reached, relative to the work they
took. The next run's arm is drawn in proportion to that, and one time in five uniformly. Work is
counted in processed events: CPU time is proportional to them, and they are the same on every
machine. So with one process and an empty corpus the seeds determine a campaign.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, get_args

from msgspec.structs import replace as changed

from kraftwreck.campaigns import aimed
from kraftwreck.campaigns.corpus import Corpus, Entry
from kraftwreck.campaigns.mutation import mutate
from kraftwreck.harness.options import RunOptions
from kraftwreck.histories.fault import Fault
from kraftwreck.nemesis import generator
from kraftwreck.nemesis.coverage import Coverage
from kraftwreck.nemesis.plan import host_names
from kraftwreck.nemesis.scope import Scope
from kraftwreck.nodes.draw import draw, draw_below, draw_unit
from kraftwreck.simulation.knobs import WorldKnobs
from kraftwreck.systems.simulators import simulator

Arm = Literal[
    "swarm", "timed", "triggered", "depositions", "relay", "pairs", "cuts", "mutation", "knobs"
]
ARMS: tuple[Arm, ...] = get_args(Arm)

WORTH = {
    "cuts": 5.0,
    "directed": 1.0,
    "follows": 0.5,
    "overlaps": 1.0,
    "struck": 5.0,
    "steps": 10.0,
    "marks": 10.0,
    "edges": 0.05,
}
"""The value of one new state of each counter. Transitions of the whole cluster have little value:
every run has some of its own."""

KEPT = 20.0
"""A run is kept if its new states have at least this value."""

_FADE = 0.97
_BLIND = 5
_WORK = 10_000
_DRAWS = 3
_TOGETHER = (
    ("latency_min", "latency_max"),
    ("fsync_min", "fsync_max"),
    ("slow_disk", "slow_factor"),
    ("segment_bytes",),
    ("power_loss",),
    ("retransmit", "retransmit_max"),
)
"""Settings that belong together."""

Test = Callable[[int], tuple[RunOptions, WorldKnobs]]
"""Returns the options and settings of the test with a seed."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A complete run to make, and the arm that proposed it."""

    options: RunOptions
    knobs: WorldKnobs
    schedule: list[Fault]
    arm: Arm


class Steering:
    """Proposes runs and learns from their coverage; keeps ``corpus`` and its counters."""

    def __init__(self, corpus: Corpus, test: Test, *, snapshots: bool = True) -> None:
        self.corpus = corpus
        self.chosen = dict.fromkeys(ARMS, 0)
        self._test = test
        self._snapshots = snapshots
        self._gained = dict.fromkeys(ARMS, 0.0)
        self._spent = dict.fromkeys(ARMS, 0.0)

    def propose(self, seed: int) -> Proposal:
        """Return the next run, which ``seed`` and all runs so far determine."""
        arm = self._arm(seed)
        self.chosen[arm] += 1
        options, knobs = self._test(seed)
        if arm in ("mutation", "knobs"):
            entry = self.corpus.choose(seed, "steer")
            if entry is not None:
                return self._from(entry, arm, options)
            arm = "swarm"
        return Proposal(options, knobs, self._faults(arm, options, knobs), arm)

    def learn(self, proposal: Proposal, reached: Coverage, events: int) -> bool:
        """Learn from the coverage of a run with ``events`` events; True if it is kept."""
        new = self.corpus.counted.new_in(reached)
        gain = sum(WORTH[name] * count for name, count in new.items())
        for arm in ARMS:
            self._gained[arm] *= _FADE
            self._spent[arm] *= _FADE
        self._gained[proposal.arm] += gain
        self._spent[proposal.arm] += events / _WORK
        self.corpus.counted.merge(reached)
        if gain < KEPT:
            return False
        options = proposal.options.as_json()
        options.pop("store")
        entry = Entry(
            options=options,
            knobs=proposal.knobs,
            schedule=proposal.schedule,
            source=proposal.arm,
            reached={name: count for name, count in new.items() if count},
        )
        self.corpus.add(entry)
        return True

    def rate(self, arm: Arm) -> float:
        """Return the recent gain of runs of ``arm`` per ten thousand events; before its first run,
        more than any arm can have."""
        spent = self._spent[arm]
        return self._gained[arm] / spent if spent > 0.01 else 100.0

    def _arm(self, seed: int) -> Arm:
        if draw_below(_BLIND, seed, "steer", "blind") == 0:
            return ARMS[draw_below(len(ARMS), seed, "steer", "any")]
        rates = [self.rate(arm) for arm in ARMS]
        mark = draw_unit(seed, "steer", "arm") * sum(rates)
        for arm, rate in zip(ARMS, rates, strict=True):
            mark -= rate
            if mark < 0:
                return arm
        return ARMS[0]

    def _faults(self, arm: Arm, options: RunOptions, knobs: WorldKnobs) -> list[Fault]:
        scope = Scope.of(options.system, host_names(options, knobs.beside), knobs.beside)
        kinds = [
            kind
            for kind in options.faults
            if not any(need.name in knobs.lacking for need in scope.families[kind].needs)
        ]
        arguments = (kinds, options.seed, options.time_limit_s, scope)
        if arm == "pairs":
            return aimed.pairs(*arguments, counted=self.corpus.counted)
        if arm == "cuts" and "partition" in kinds:
            return aimed.cuts(*arguments, counted=self.corpus.counted)
        if arm in ("timed", "triggered", "depositions", "relay"):
            return generator.plan(*arguments, style=arm)
        return generator.plan(*arguments)

    def _from(self, entry: Entry, arm: Arm, options: RunOptions) -> Proposal:
        """Derive a run from a kept one: another seed, and changed faults or settings."""
        seed = options.seed
        kept = replace(entry.run_options(options.store), seed=seed)
        if arm == "knobs":
            return Proposal(kept, self._knobs(seed, kept, entry.knobs), entry.schedule, arm)
        other = self.corpus.choose(seed, "steer", "other")
        beside = entry.knobs.beside
        faults = mutate(
            entry.schedule,
            other.schedule if other else (),
            seed,
            duration_s=kept.time_limit_s,
            scope=Scope.of(kept.system, host_names(kept, beside), beside),
        )
        return Proposal(kept, entry.knobs, faults, arm)

    def _knobs(self, seed: int, options: RunOptions, known: WorldKnobs) -> WorldKnobs:
        """Draw settings three times and merge them, so that more differ from the defaults."""
        drawn = [
            simulator(options.system).redraw(
                draw(seed, "steer", "knobs", number),
                options.nodes,
                known,
                snapshots=self._snapshots,
            )
            for number in range(_DRAWS)
        ]
        plain = type(known)()
        heavy, *others = drawn
        for names in _TOGETHER:
            for other in others:
                if all(getattr(heavy, name) == getattr(plain, name) for name in names):
                    heavy = changed(heavy, **{name: getattr(other, name) for name in names})
        return heavy
