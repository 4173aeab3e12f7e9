"""The table of docs/mutants.md and the figures of README.md are those of the recorded hunts."""

from __future__ import annotations

from pathlib import Path

from bench import planted_bugs
from bench.planted_bugs import FRONT, PAGE, Hunt, Record, figures, fronted, paged, read, table
from kraftwreck.mutants import catalogue


def record(name: str, *cpu_s: float | None) -> Record:
    """A record of hunts, of which those without a time have missed the bug."""
    hunts = [
        Hunt(day="2026-11-28", commit="0123abcd", found=False, cpu_s=120.0)
        if each is None
        else Hunt(
            day="2026-11-28",
            commit="0123abcd",
            found=True,
            cpu_s=each,
            checker="simulator",
            anomaly="I3",
            seed=7,
        )
        for each in cpu_s
    ]
    return Record(id=name, hunts=hunts)


RECORDS = {
    "R01": record("R01", 3.0, 1.0, 2.0),
    "R10": record("R10", None, 40.0, None),
    "R13": record("R13", None, None, None),
}


def test_a_row_has_the_first_find_and_the_times_of_all_finds() -> None:
    [_, _, *rows] = table(catalogue(), RECORDS)
    ends = [row.rsplit("|", 6)[1:] for row in rows]
    assert [[cell.strip() for cell in end[:-1]] for end in ends] == [
        ["simulator: I3", "7", "3 of 3", "2.0", "3.0"],
        ["simulator: I3", "7", "1 of 3", "40.0", "40.0"],
        ["", "", "0 of 3", "", ""],
    ]


def test_figures_count_the_bugs_and_the_hunts_that_find_them() -> None:
    everything, core, _ = figures(catalogue(), RECORDS)
    assert (
        everything == "2 of 3, by 4 of 9 hunts of at most 120 CPU seconds; median 21.0 CPU seconds"
    )
    assert core == "1 of 1, by 3 of 3 hunts of at most 120 CPU seconds; median 2.0 CPU seconds"


def test_records_are_written_in_the_order_of_the_catalogue(tmp_path: Path) -> None:
    path = tmp_path / "hunted.jsonl"
    planted_bugs.write(dict(reversed(RECORDS.items())), path)
    assert list(read(path).items()) == list(RECORDS.items())


def test_each_bug_of_the_catalogue_has_a_record() -> None:
    assert catalogue().keys() - read().keys() == set(), "python -m bench.planted_bugs hunt"


def test_the_pages_show_the_records() -> None:
    page, front = PAGE.read_text(), FRONT.read_text()
    records = read()
    assert paged(page, catalogue(), records) == page, "python -m bench.planted_bugs page"
    assert fronted(front, catalogue(), records) == front, "python -m bench.planted_bugs page"


def test_figures_of_one_hunt_for_each_bug_count_no_hunts() -> None:
    once = {"R01": record("R01", 3.0), "R13": record("R13", None)}
    everything, _, _ = figures(catalogue(), once)
    assert everything.startswith("1 of 2, by one hunt each of at most 120 CPU seconds;")
