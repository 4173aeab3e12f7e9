"""The messages of a run, and what goes into its page."""

from __future__ import annotations

from pathlib import Path

from kraftwreck.reports.messages import diagram, moments_of
from kraftwreck.reports.node_lanes import clocks
from kraftwreck.reports.plain import circumstances, meaning
from kraftwreck.reports.run_folder import load_run
from tests.reports.fake_run import write_fake_run


def test_without_messages_the_trace_is_drawn_alone(tmp_path: Path) -> None:
    run = load_run(write_fake_run(tmp_path / "run", count=50))
    result = diagram(run, [(20_000_000, 20_000_000)], clocks(run.test, run.traces))
    assert result.arrows == []
    assert result.events


def test_a_broken_file_is_reported_and_affects_nothing_else(tmp_path: Path) -> None:
    folder = write_fake_run(tmp_path / "run", count=50)
    (folder / "messages.jsonl").write_text('{"time": 1')
    run = load_run(folder)
    result = diagram(run, [(20_000_000, 20_000_000)], clocks(run.test, run.traces))
    assert "cannot be read" in result.note
    assert result.events


def test_without_anomalies_messages_around_elections_are_shown() -> None:
    assert moments_of([(None, None)], [5, 3]) == [(3, 3), (5, 5)]
    assert moments_of([(7, 9)], [5]) == [(7, 9)]


def test_names_of_anomalies_are_put_into_plain_words() -> None:
    assert "At most one node leads an epoch" in meaning("I1")
    assert "read skew" in meaning("G-single-item-realtime")
    assert "single copy" in meaning("nonlinearizable")
    assert meaning("something new") == ""
    assert circumstances(None, [], []) == ""
    assert circumstances(1_800_000, [], []) == "At 1.800 s."
