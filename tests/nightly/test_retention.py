"""Retention: what a store deletes and what it never touches."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.nightly.config import Config, parse
from kraftwreck.nightly.retention import retain

DAY = 86400.0
NOW = time.time()


def stamp(age_days: float) -> str:
    made = datetime.fromtimestamp(NOW - age_days * DAY, UTC)
    return made.strftime("%Y%m%dT%H%M%S.%f")[:-3] + "Z"


def a_run(
    store: Path, age_days: float, valid: object = True, size: int = 1000, suffix: str = ""
) -> Path:
    folder = store / "kraft-register" / f"{stamp(age_days)}-7{suffix}"
    folder.mkdir(parents=True)
    (folder / "test.json").write_text("{}")
    if valid is not None:
        (folder / "results.json").write_text(json.dumps({"valid": valid}))
    (folder / "history.jsonl").write_bytes(b"x" * size)
    return folder


def a_night(store: Path, age_days: float) -> Path:
    folder = store / "nights" / f"{stamp(age_days)}-example"
    folder.mkdir(parents=True)
    (folder / "plan.json").write_text("{}")
    return folder


def config(store: Path, **retention: Any) -> Config:
    return parse(
        {
            "name": "x",
            "store": str(store),
            "budget": {"runs": 1},
            "retention": {"days": 10, "failure_days": 100} | retention,
            "matrix": [{}],
        }
    )


@pytest.fixture
def store(tmp_path: Path) -> Path:
    folder = tmp_path / "store"
    folder.mkdir()
    return folder


def retained(store: Path, keep: Path | None = None, **retention: Any) -> Any:
    return retain(config(store, **retention), keep=keep or store / "nights" / "none", now=NOW)


def test_failed_runs_are_kept_longer(store: Path) -> None:
    young, old = a_run(store, 9), a_run(store, 11)
    red, unknown, unjudged = (
        a_run(store, 50, False),
        a_run(store, 51, "unknown"),
        a_run(store, 12, None),
    )
    oldest = a_run(store, 101, False)
    removed = retained(store)
    assert removed.folders == 3
    assert not old.exists()
    assert not oldest.exists()
    assert not unjudged.exists()
    assert young.exists()
    assert red.exists()
    assert unknown.exists()


def test_nights_are_kept_with_their_failures_and_the_present_one_longer(store: Path) -> None:
    young, old, mine = a_night(store, 99), a_night(store, 101), a_night(store, 500)
    retained(store, keep=mine)
    assert young.exists()
    assert not old.exists()
    assert mine.exists()


def test_beyond_the_bytes_the_oldest_go_failures_last(store: Path) -> None:
    red = a_run(store, 9, False)
    runs = [a_run(store, age) for age in (8, 7, 6)]
    removed = retained(store, bytes=2200)
    assert removed.folders == 2
    assert [run.exists() for run in runs] == [False, False, True]
    assert red.exists()
    retained(store, bytes=0)
    assert not red.exists()


def test_new_runs_are_left_alone(store: Path) -> None:
    young = a_run(store, 0.01, suffix=".running")
    retained(store, bytes=0, days=0)
    assert young.exists()


def test_leftovers_of_killed_runs_are_deleted_too(store: Path) -> None:
    torn = a_run(store, 11, None, suffix=".running")
    retained(store)
    assert not torn.exists()


def test_only_runs_and_nights_are_touched(store: Path) -> None:
    others = [
        store / "gold" / "runs" / "part.parquet",
        store / "kraft-register" / "notes" / "test.json",
        store / "kraft-register" / f"{stamp(50)}-7" / "no-run.txt",
        store / "nights" / f"{stamp(500)}-example" / "no-night.txt",
        store / f"{stamp(500)}-7" / "test.json",
        store / "kraft-register" / f"{stamp(500)}-8.txt",
    ]
    for other in others:
        other.parent.mkdir(parents=True, exist_ok=True)
        other.write_text("x")
    retained(store, bytes=0)
    assert all(other.exists() for other in others)


def test_links_are_not_followed_and_nothing_outside_is_removed(store: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    victim = a_run(outside, 500)
    # The folder of runs is a link, a run is a link, a file in a run is a link.
    (store / "kraft-leader").symlink_to(outside / "kraft-register")
    run = a_run(store, 501)
    (run / "link").symlink_to(victim)
    (run / "file").symlink_to(victim / "test.json")
    (store / "kraft-register" / f"{stamp(502)}-9").symlink_to(victim)
    removed = retained(store, bytes=0)
    assert removed.folders == 1
    assert not run.exists()
    assert (victim / "test.json").exists()
    assert (victim / "history.jsonl").stat().st_size == 1000
    assert (store / "kraft-leader").is_symlink()


def test_big_files_behind_links_do_not_count(store: Path, tmp_path: Path) -> None:
    big = tmp_path / "big"
    big.write_bytes(b"x" * 100_000)
    run = a_run(store, 5)
    (run / "link").symlink_to(big)
    retained(store, bytes=5000)
    assert run.exists()


def test_a_store_that_is_a_link_itself_is_cleaned_up(store: Path, tmp_path: Path) -> None:
    run = a_run(store, 50)
    link = tmp_path / "link"
    link.symlink_to(store)
    assert retained(link).folders == 1
    assert not run.exists()


def test_links_to_the_latest_run_do_not_dangle(store: Path) -> None:
    run, kept = a_run(store, 50), a_run(store, 5)
    for folder in (store, run.parent):
        (folder / "latest").symlink_to(run)
        (folder / "current").symlink_to(kept)
    retained(store)
    assert not (store / "latest").is_symlink()
    assert not (run.parent / "latest").is_symlink()
    assert (store / "current").exists()


def test_without_a_store_there_is_nothing_to_do(tmp_path: Path) -> None:
    assert retained(tmp_path / "none").folders == 0
