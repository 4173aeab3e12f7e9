"""Steering: runs with new coverage are kept, and arms are chosen by their gains."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kraftwreck.campaigns import aimed
from kraftwreck.campaigns.corpus import Corpus, Entry
from kraftwreck.campaigns.mutation import mutate
from kraftwreck.campaigns.steering import ARMS, Proposal, Steering
from kraftwreck.harness.options import OptionError, RunOptions
from kraftwreck.histories.fault import Fault
from kraftwreck.nemesis.coverage import Coverage
from kraftwreck.nemesis.cuts import pattern_of, undirected_pattern, undirected_patterns
from kraftwreck.nemesis.registry import families
from kraftwreck.nemesis.scope import Scope
from kraftwreck.systems.kraft.simulated.knobs import Knobs, draw_knobs

NODES = ("n1", "n2", "n3", "n4", "n5")
KINDS = ("partition", "kill", "pause", "power", "membership")
MS = 1_000_000
OPTIONS = RunOptions(cluster="sim", nodes=5, faults=KINDS, time_limit_s=20)


def drawn(seed: int) -> tuple[RunOptions, Knobs]:
    return replace(OPTIONS, seed=seed), draw_knobs(seed, 5, snapshots=True)


def kill(at_ms: int, trigger: str | None = None) -> Fault:
    return Fault(
        at=at_ms * MS, kind="kill", shape="one", duration=100 * MS, draw=at_ms, trigger=trigger
    )


def entry(*faults: Fault) -> Entry:
    options = OPTIONS.as_json()
    return Entry(
        options=options, knobs=Knobs(), schedule=list(faults), source="swarm", reached={"cuts": 1}
    )


# --- the corpus ---------------------------------------------------------------------------


def test_a_corpus_is_a_folder_of_runs_that_can_be_run_again(tmp_path: Path) -> None:
    corpus = Corpus(tmp_path / "corpus")
    corpus.add(entry(kill(5, "elected#2")))
    corpus.add(entry(kill(5, "elected#2")))
    corpus.add(entry(kill(6)))
    corpus.counted.merge(Coverage(runs=3))
    corpus.save()
    again = Corpus(tmp_path / "corpus")
    assert len(again.entries) == 2, "equal runs are kept once"
    assert again.counted.runs == 3
    kept = next(e for e in again.entries if e.schedule == [kill(5, "elected#2")])
    assert kept.run_options(OPTIONS.store) == OPTIONS


def test_malformed_entries_are_named(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"options": 3}')
    with pytest.raises(OptionError, match=r"x\.json: not an entry of a corpus"):
        Corpus(tmp_path)


# --- mutation -----------------------------------------------------------------------------


SCOPE = Scope.of("kraft", [f"n{i}" for i in range(1, 6)])


def mutated(seed: int, faults: list[Fault], other: list[Fault]) -> list[Fault]:
    return mutate(faults, other, seed, duration_s=20, scope=SCOPE)


def test_mutants_differ_a_little_and_are_decided_by_the_seed() -> None:
    faults = [kill(1000 * i, f"elected#{i}") for i in range(1, 9)]
    other = [kill(1000 * i + 1, "append#3") for i in range(1, 9)]
    variants = [mutated(seed, faults, other) for seed in range(300)]
    assert variants == [mutated(seed, faults, other) for seed in range(300)]
    assert sum(variant != faults for variant in variants) > 250
    assert all(variant == sorted(variant, key=lambda f: (f.at, f.kind)) for variant in variants)
    triggers = {f.trigger for variant in variants for f in variant}
    assert any(t is not None and t.startswith("install") for t in triggers)
    assert any(f in other for variant in variants for f in variant), "some are spliced"
    assert {f.duration for variant in variants for f in variant} > {100 * MS}


def test_runs_aimed_at_a_transition_keep_a_trigger() -> None:
    faults = [
        Fault(at=MS, kind="kill", shape="one", duration=MS, draw=1, targets=("@",), trigger="hw#1")
    ]
    for seed in range(200):
        assert all(fault.trigger for fault in mutated(seed, faults, faults))


def replace_shape(shape: str) -> Fault:
    return Fault(at=MS, kind="kill", shape=shape, duration=MS, draw=1)


def test_an_empty_schedule_stays_one() -> None:
    assert all(mutated(seed, [], []) == [] for seed in range(40))


# --- aiming -------------------------------------------------------------------------------


def test_pairs_are_aimed_that_have_not_overlapped() -> None:
    covered = Coverage()
    classes = [f"{kind}/{shape}" for kind in ("kill",) for shape in families()[kind].usable(5, 0)]
    wanted = ("kill/one", "kill/all")
    for first in classes:
        for second in classes:
            if (first, second) != wanted:
                covered.overlaps[f"{first} > {second}"] = 1
    faults = aimed.pairs(("kill",), 3, 20, Scope.of("kraft", NODES), counted=covered)
    one, other = faults[:2]
    assert (f"kill/{one.shape}", f"kill/{other.shape}") == wanted
    assert one.at < other.at < one.at + one.duration


def test_cut_patterns_are_aimed_that_were_not_met() -> None:
    numbers = sorted(undirected_patterns(5))
    covered = Coverage(cuts=dict.fromkeys((f"5:{n:x}" for n in numbers[4:]), 1))
    faults = aimed.cuts(("partition",), 3, 30, Scope.of("kraft", NODES), counted=covered)
    met = [undirected_pattern(5, pattern_of(fault.draw, 5)) for fault in faults]
    assert set(met[:4]) == set(numbers[:4])
    assert len(faults) > 4, "and when all were, any"


# --- steering -----------------------------------------------------------------------------


def test_proposals_depend_on_seeds_and_known_coverage(tmp_path: Path) -> None:
    def campaign(folder: str) -> list[Proposal]:
        steering = Steering(Corpus(tmp_path / folder), drawn)
        made = []
        for seed in range(25):
            proposal = steering.propose(seed)
            reached = Coverage(runs=1, steps={f"a > {seed}": 1}, edges={seed: 1})
            steering.learn(proposal, reached, 10_000 + seed)
            made.append(proposal)
        return made

    first, second = campaign("a"), campaign("b")
    assert first == second
    assert len({proposal.arm for proposal in first}) > 3
    assert all(proposal.options.seed == seed for seed, proposal in enumerate(first))


def test_only_runs_with_new_coverage_are_kept(tmp_path: Path) -> None:
    steering = Steering(Corpus(tmp_path), drawn)
    proposal = steering.propose(1)
    reached = Coverage(runs=1, cuts={"5:1": 1}, steps={"a > b": 1, "b > c": 1})
    assert steering.learn(proposal, reached, 1000)
    assert not steering.learn(steering.propose(2), reached, 1000)
    [kept] = steering.corpus.entries
    assert kept.schedule == proposal.schedule
    assert kept.reached == {"cuts": 1, "steps": 2}


def test_the_arm_that_gains_most_is_chosen_most(tmp_path: Path) -> None:
    steering = Steering(Corpus(tmp_path), drawn)
    for number in range(120):
        proposal = steering.propose(number)
        new = {f"{number}.{i}": 1 for i in range(5)} if proposal.arm == "relay" else {}
        steering.learn(proposal, Coverage(runs=1, steps=new), 10_000)
    assert max(steering.chosen, key=lambda arm: steering.chosen[arm]) == "relay"
    assert steering.chosen["relay"] > 40
    assert min(steering.chosen.values()) > 0, "one time in five it is any of them"
    assert sum(steering.chosen.values()) == 120
    assert set(steering.chosen) == set(ARMS)


def test_knob_heavy_runs_keep_the_schedule_and_related_settings(tmp_path: Path) -> None:
    corpus = Corpus(tmp_path)
    corpus.add(entry(kill(5)))
    steering = Steering(corpus, drawn)
    heavy = [p for p in (steering.propose(seed) for seed in range(400)) if p.arm == "knobs"]
    assert heavy
    for proposal in heavy:
        assert proposal.schedule == [kill(5)]
        assert proposal.knobs.latency_min < proposal.knobs.latency_max
        assert proposal.knobs.fsync_min < proposal.knobs.fsync_max
    plain = Knobs()
    knobs = [p.knobs for p in heavy if isinstance(p.knobs, Knobs)]
    changed = [each.segment_bytes != plain.segment_bytes for each in knobs]
    assert sum(changed) > len(changed) * 0.8
