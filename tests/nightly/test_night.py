"""A night: it continues after a kill; no run stops it; every red run is classified."""

from __future__ import annotations

import signal
import subprocess
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.nightly.folder import NightError, NightFolder
from tests.waiting import wait_until

from .conftest import FakeNight, refuted

Make = Callable[..., FakeNight]


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str] | None = None) -> None:
    """Wait as long as it takes on a busy machine, but not for a process that is gone."""

    def reached() -> bool:
        if condition():
            return True
        if process is not None and process.poll() is not None:
            assert process.stdout is not None
            pytest.fail(f"it ended with {process.returncode}: {process.stdout.read()}")
        return False

    wait_until(reached)


def lines(night: FakeNight) -> int:
    runs = night.folder / "store" / "nights"
    return sum(path.read_text().count("\n") for path in runs.glob("*/runs.jsonl"))


def has_lines(night: FakeNight, wanted: int) -> bool:
    return lines(night) >= wanted


def test_every_run_of_the_plan_is_made_once(fake_night: Make) -> None:
    night = fake_night()
    code, out = night.run()
    assert code == 0, out
    assert [r.seed for r in sorted(night.records, key=lambda r: r.n)] == [0, 1, 2, 3, 4, 5]
    assert night.night.state == "complete"
    assert night.night.counts["valid"] == 6
    assert not list((night.path / "started").iterdir())
    assert not list((night.path / "reds").iterdir())
    assert "6/6 valid" in out


@pytest.mark.parametrize("after", [0, 2])
def test_a_killed_night_continues_where_it_stopped(fake_night: Make, after: int) -> None:
    night = fake_night({"*": [{"sleep": 0.2}]}, seeds="0..5")
    with night.start() as process:
        wait_for(lambda: lines(night) >= after and len(night.calls) > after, process)
        process.kill()
    begun = lines(night)
    assert begun < 6
    # A line that was being written when the machine went down.
    with (night.path / "runs.jsonl").open("a") as file:
        file.write('{"n": 99, "kind"')
    code, out = night.run()
    assert code == 0, out
    assert len(night.nights) == 1
    assert Counter(record.n for record in night.records) == Counter(range(6))
    told = night.night
    assert told.state == "complete"
    assert told.sessions == 2
    assert told.interrupted_runs >= 1
    assert "were in progress when the night was stopped" in out


def test_killed_again_and_again_no_run_is_lost_or_made_twice(fake_night: Make) -> None:
    night = fake_night({"*": [{"sleep": 0.1}]}, seeds="0..9")
    for wanted in (2, 5):
        with night.start() as process:
            wait_for(partial(has_lines, night, wanted), process)
            process.kill()
    code, out = night.run()
    assert code == 0, out
    assert Counter(record.n for record in night.records) == Counter(range(10))
    assert night.night.sessions == 3


def test_the_runs_of_a_killed_night_do_not_outlive_it(fake_night: Make) -> None:
    night = fake_night({"*": [{"sleep": 3600}]})
    with night.start() as process:
        wait_for(lambda: len(night.calls) >= 2, process)
        process.kill()
    for call in night.calls:
        wait_for(partial(is_gone, call["pid"]))


def is_gone(pid: int) -> bool:
    try:
        return "fake_worker" not in Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return True


def test_ctrl_c_ends_it_with_its_outputs_and_it_can_be_gone_on_with(fake_night: Make) -> None:
    night = fake_night({"2": [{"sleep": 3600}, {}], "3": [{"sleep": 3600}, {}]})
    with night.start() as process:
        wait_for(lambda: lines(night) == 2 and len(night.calls) == 4, process)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=300)
    assert process.returncode == 130, out
    assert (night.night.state, night.night.exit_code) == ("interrupted", 130)
    assert "(interrupted)" in (night.path / "summary.md").read_text()
    assert (night.path / "junit.xml").exists()
    assert not list((night.path / "started").iterdir())
    code, out = night.run()
    assert code == 0, out
    assert Counter(record.n for record in night.records) == Counter(range(6))


def test_a_night_that_ended_is_followed_by_another(fake_night: Make) -> None:
    night = fake_night(seeds="0..1")
    night.run()
    night.run()
    assert len(night.nights) == 2


def test_new_leaves_an_unfinished_night_as_it_is(fake_night: Make) -> None:
    night = fake_night({"*": [{"sleep": 3600}, {}]}, seeds="0..1")
    with night.start() as process:
        wait_for(lambda: len(night.calls) >= 2, process)
        process.kill()
    code, out = night.run("--new")
    assert code == 0, out
    assert len(night.nights) == 2


def test_an_unfinished_night_cannot_go_on_with_another_matrix(fake_night: Make) -> None:
    night = fake_night({"*": [{"sleep": 3600}]})
    with night.start() as process:
        wait_for(lambda: len(night.calls) >= 2, process)
        process.kill()
    night = fake_night({}, seeds="0..9")
    with pytest.raises(NightError, match="started with a different matrix"):
        night.run()


def test_a_night_belongs_to_one_process(fake_night: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kraftwreck.nightly.folder.LOCK_WAIT_S", 0.2)
    night = fake_night(seeds="0..0")
    night.run()
    held = NightFolder(night.path)
    with pytest.raises(NightError, match="another process"):
        NightFolder(night.path)
    held.close()
    NightFolder(night.path).close()


def test_the_budget_of_time_ends_it_and_earlier_time_counts(fake_night: Make) -> None:
    hours = 3 / 3600
    night = fake_night(
        {"*": [{"sleep": 0.2}]}, seeds="0..999999", top=f"[budget]\nhours = {hours}\n"
    )
    code, out = night.run()
    assert code == 0, out
    assert night.night.reason == "hours"
    assert night.night.planned is None or night.night.planned == 10**6
    assert night.night.spent_s >= 3
    assert all(record.at_s > 0 for record in night.records)


# --- reds ---------------------------------------------------------------------------------------


def test_a_repeated_failure_is_the_systems_and_is_shrunk_once(
    fake_night: Make,
) -> None:
    night = fake_night({"1": [refuted()], "2": [refuted()], "4": [refuted("forked")]})
    code, out = night.run()
    assert code == 1, out
    reds = [night.record(seed) for seed in (1, 2, 4)]
    assert [red.klass for red in reds] == ["system"] * 3
    assert all(red.attempts == 2 and red.valid is False for red in reds)
    assert sorted(call["seed"] for call in night.calls).count("1") == 2
    shrunk = (night.folder / "shrunk.log").read_text().splitlines()
    assert len(shrunk) == 2
    assert any("--failure committed:forked" in line for line in shrunk)
    first, second = sorted(reds[:2], key=lambda red: red.like is not None)
    assert first.shrunk and (night.path / first.shrunk).exists()
    assert second.like == first.n
    assert second.case and (night.path / second.case).exists()
    assert first.repeat == f"kraftwreck replay {night.path / first.shrunk}"
    assert {(kind.type, kind.count) for kind in night.night.kinds} == {("lost", 2), ("forked", 1)}


def test_a_failure_that_differs_when_repeated_is_a_flake(fake_night: Make) -> None:
    rules = {
        "0": [refuted(digest="a"), refuted(digest="b")],
        "1": [refuted("lost"), refuted("forked")],
        "2": [refuted(digest="a"), {"answer": {"digest": "a"}}],
    }
    night = fake_night(rules, seeds="0..3")
    code, out = night.run()
    assert code == 2, out
    for seed in (0, 1, 2):
        record = night.record(seed)
        assert (record.klass, record.was) == ("flake", "system")
        assert record.case is not None
        assert record.shrunk is None


def test_no_broken_run_stops_the_night(fake_night: Make) -> None:
    trace = "Traceback (most recent call last):\n  boom\nKeyError: 'n7'"
    rules: dict[str, list[dict[str, Any]]] = {
        "0": [{"exit": 255, "print": trace}],
        "1": [{"signal": 9}],
        "3": [{"exit": 255, "print": "OSError: [Errno 28] No space left on device"}],
        "4": [{"exit": 255, "print": trace}, {}],
    }
    night = fake_night(rules)
    code, out = night.run()
    assert code == 255, out
    classes = {record.seed: record.klass for record in night.records}
    assert classes == {
        0: "harness", 1: "environment", 2: None, 3: "environment", 4: "flake", 5: None,
    }  # fmt: skip
    assert "KeyError: 'n7'" in str(night.record(0).why)
    assert night.record(4).was == "harness"
    assert night.record(4).valid is True
    assert (night.path / "reds" / "000000" / "output.txt").exists()


def suspected(*types: str, **fields: Any) -> dict[str, Any]:
    """A run with suspicions of these types."""
    found = [{"checker": "invariants", "type": t, "explanation": f"{t} is late"} for t in types]
    return {"answer": {"valid": True, "suspicions": found, **fields}}


def test_a_suspicion_is_raised_if_it_comes_back(fake_night: Make) -> None:
    rules = {
        "1": [suspected("C16", "L12"), suspected("L12")],
        "2": [suspected("C16"), {}],
        "3": [suspected("C16"), suspected("L12")],
    }
    night = fake_night(rules)
    code, out = night.run()
    assert code == 2, out
    assert "a suspicion came back in 1 run" in out
    told = {
        n: ([s.type for s in r.suspicions], [s.type for s in r.raised], r.attempts)
        for n in (1, 2, 3)
        if (r := night.record(n))
    }
    assert told == {
        1: (["C16", "L12"], ["L12"], 2),
        2: (["C16"], [], 2),
        3: (["C16", "L12"], [], 2),
    }
    first = night.record(1)
    assert (first.klass, first.valid) == (None, True)
    assert first.why == "suspected twice: invariants: L12: L12 is late"
    assert "suspected once: invariants: C16" in out


def test_a_suspicion_that_does_not_come_back_leaves_the_night_well(fake_night: Make) -> None:
    late = suspected("L1", valid="unknown", exit_code=2, unknown=["invariants: L1 exceeded"])
    night = fake_night({"1": [late, {}], "2": [suspected("C16"), {"exit": 1}]})
    code, out = night.run()
    assert code == 0, out
    assert "all is well" in out
    assert night.record(1).valid is True, "the repetition decided"
    failed = night.record(2)
    assert (failed.klass, failed.valid, failed.raised) == (None, True, [])


def test_the_repetition_of_a_suspicion_may_prove_more(fake_night: Make) -> None:
    night = fake_night({"1": [suspected("C16"), refuted("lost")]})
    code, out = night.run()
    assert code == 1, out
    record = night.record(1)
    assert (record.klass, record.valid, record.failures[0].type) == ("system", False, "lost")
    assert [each.type for each in record.suspicions] == ["C16"]


def test_an_undecided_run_is_unknown(fake_night: Make) -> None:
    unknown = {"answer": {"valid": "unknown", "exit_code": 2, "unknown": ["epochs: out of time"]}}
    night = fake_night({"3": [unknown]})
    code, out = night.run()
    assert code == 2, out
    assert night.record(3).klass is None
    assert night.record(3).why == "epochs: out of time"


def test_a_case_of_the_corpus_that_fails_is_red_at_once(fake_night: Make, tmp_path: Path) -> None:
    cases = tmp_path / "cases"
    cases.mkdir()
    for name in ("good", "back"):
        (cases / f"{name}.json").write_text("{}")
    night = fake_night({"back": [refuted()]}, top=f'[corpus]\ncases = ["{cases}"]\n', jobs=1)
    code, out = night.run()
    assert code == 1, out
    assert list(dict.fromkeys(call["seed"] for call in night.calls))[:2] == ["back", "good"]
    back = next(record for record in night.records if record.cell.endswith("back.json"))
    assert (back.n, back.kind, back.klass) == (0, "corpus", "system")
    summary = (night.path / "summary.md").read_text()
    assert "1 failed again" in summary
    assert "failed again" in summary


def test_failures_of_earlier_nights_come_first(fake_night: Make) -> None:
    night = fake_night({"4": [refuted()]}, jobs=1)
    night.run()
    before = len(night.calls)
    night.run()
    assert night.calls[before]["seed"] == "4"
    again = [record for record in night.records if record.kind == "again"]
    assert [(record.seed, record.n) for record in again] == [(4, 0)]


def test_planted_bugs_need_not_make_a_night_red(fake_night: Make) -> None:
    rules = {"0": [refuted()], "1": [refuted()]}
    block = 'trees = ["mutant:R02"]'
    night = fake_night(rules, seeds="0..1", block=block)
    code, _ = night.run()
    assert code == 1
    night = fake_night(rules, seeds="0..1", block=block, top="planted_fail = false\n")
    code, out = night.run("--new")
    assert code == 0, out
    assert [(bug.tree, bug.runs, bug.found) for bug in night.night.planted] == [
        ("mutant:R02", 2, 2)
    ]
    record = night.record(0)
    assert record.planted
    assert record.repeat.startswith("kraftwreck replay ")
    assert {call["mutant"] for call in night.calls} == {"R02"}


def test_a_run_that_takes_too_long_is_killed(fake_night: Make) -> None:
    night = fake_night(
        {"0": [{"sleep": 3600}]}, seeds="0..0", top="[limits]\nfree_bytes = 0\nrun_s = 1\n"
    )
    code, out = night.run()
    assert code == 255, out
    assert night.record(0).klass == "harness"
    assert "longer than 1 s" in str(night.record(0).why)
    assert night.record(0).seconds < 600


def test_a_cluster_whose_run_took_too_long_is_healed(fake_night: Make) -> None:
    night = fake_night(
        {"0": [{"sleep": 3600}]},
        seeds="0..0",
        block='clusters = ["netns"]',
        top="[limits]\nfree_bytes = 0\nrun_s = 1\n",
    )
    night.run()
    did = [call["do"] for call in night.calls]
    # As far as processes got to say what they were asked before their time was over.
    assert did.count("heal") == 2
    assert did[-1] == "heal"


def test_of_a_cluster_one_run_is_under_way_at_a_time(fake_night: Make) -> None:
    night = fake_night(seeds="0..3", block='clusters = ["netns"]')
    code, out = night.run()
    assert code == 0, out
    assert [record.n for record in night.records] == [0, 1, 2, 3]


@pytest.mark.parametrize("seeds", ["0..99", "new"])
def test_a_cluster_that_never_works_is_given_up(fake_night: Make, seeds: str) -> None:
    rules = {"*": [{"answer": {"valid": "unknown", "exit_code": 254, "trouble": "needs root"}}]}
    night = fake_night(
        rules, seeds=seeds, block='clusters = ["netns"]', top="[budget]\nhours = 9\n"
    )
    code, out = night.run()
    assert code == 255, out
    assert night.night.given_up == {"netns": "needs root"}
    assert len(night.records) == 5
    assert {record.klass for record in night.records} == {"environment"}


def test_a_night_stops_before_the_disk_is_full(fake_night: Make) -> None:
    night = fake_night(top='[limits]\nfree_bytes = "9000 TB"\n')
    code, out = night.run()
    assert code == 255
    assert "free on the store's disk" in out
    assert (night.night.state, night.night.reason, night.records) == ("interrupted", "disk", [])


def test_copies_of_the_outputs_go_where_they_are_wanted(fake_night: Make, tmp_path: Path) -> None:
    copy = tmp_path / "out" / "kraftwreck.prom"
    broken = tmp_path / "rules.json" / "summary.md"
    night = fake_night(seeds="0..0", top=f'[outputs]\nmetrics = "{copy}"\nsummary = "{broken}"\n')
    code, out = night.run()
    assert code == 0
    assert copy.read_text() == (night.path / "metrics.txt").read_text()
    assert f"error: outputs: {broken}: " in out
