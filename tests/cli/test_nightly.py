"""``kraftwreck nightly``, with real runs: planted bugs and clean builds, and confirming a fix."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.harness.clusters import state
from kraftwreck.nightly.record import Record, read_records

Command = Callable[..., Any]
SHARED = pytest.mark.xdist_group("real night")
CASE = Path(__file__).resolve().parents[1] / "regressions" / "R02.json"


def configured(folder: Path, *, top: str = "", block: str = "") -> Path:
    config = folder / "night.toml"
    config.write_text(
        f'name = "real"\nstore = "{folder / "store"}"\njobs = 1\nseed = 7\n{top}\n'
        f'[corpus]\ncases = ["{CASE}"]\n'
        '[[matrix]]\nworkloads = ["register"]\nfaults = ["partition,kill"]\ntime_limit_s = 5\n'
        f"nodes = 3\nbrokers = 0\n{block}\n"
    )
    return config


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], int]:
    """A night of one case, clean builds and a planted bug: its folder, night.json, exit code."""
    from click.testing import CliRunner

    from kraftwreck.cli.nightly import cli

    folder = tmp_path_factory.mktemp("real")
    config = configured(
        folder,
        top="[budget]\nruns = 7\n[limits]\nfree_bytes = 0\nshrink_s = 3",
        block='trees = ["clean", "mutant:R02"]',
    )
    result = CliRunner().invoke(cli, [str(config), "--json"])
    told = json.loads(result.stdout)
    return folder / "store" / "nights" / told["id"], told, result.exit_code


def red(records: list[Record]) -> Record:
    return next(record for record in records if record.klass == "system" and record.shrunk)


@SHARED
@pytest.mark.whole_run
def test_a_planted_bug_is_found_classified_shrunk_and_kept(
    night: tuple[Path, dict[str, Any], int],
) -> None:
    path, told, code = night
    records = read_records(path)
    assert code == 1
    assert [record.n for record in records] == list(range(7))
    assert told["planted"][0]["tree"] == "mutant:R02"
    assert told["planted"][0]["found"] >= 1
    assert all(record.valid is True for record in records if not record.planted)
    found = red(records)
    assert found.attempts == 2
    assert found.digest
    assert found.run is not None
    folder = path.parents[1] / found.run
    assert (folder / "report.html").exists()
    assert json.loads((folder / "test.json").read_text())["mutant"] == "R02"
    assert told["sim_s"] > 0
    assert told["coverage"]["sim"]["pairs"][0] > 0


@SHARED
@pytest.mark.whole_run
def test_the_command_of_a_red_run_repeats_it(
    kraftwreck: Command, night: tuple[Path, dict[str, Any], int]
) -> None:
    path, _, _ = night
    words = red(read_records(path)).repeat.split()
    assert words[:2] == ["kraftwreck", "replay"]
    ended = kraftwreck(*words[1:])
    assert ended.code == 0, ended.err
    assert "still fails" in ended.err
    assert "without it: passes" in ended.err


@pytest.mark.whole_run
def test_a_fix_is_confirmed_and_a_bug_that_is_there_is_not(
    kraftwreck: Command, night: tuple[Path, dict[str, Any], int]
) -> None:
    path, _, _ = night
    name = f"{path}#{red(read_records(path)).n}"
    still = kraftwreck("nightly", "--confirm", name, "--json")
    assert still.code == 1, still.err
    assert "NOT gone" in still.err
    told = json.loads(still.out)
    assert told["gone"] is False
    assert told["runs"] <= told["needed"] + 1
    fixed = kraftwreck(
        "nightly",
        "--confirm",
        name,
        "--tree",
        "clean",
        "--failure-rate",
        "0.7",
        "--seed",
        "1",
        "--json",
    )
    assert fixed.code == 0, fixed.err
    told = json.loads(fixed.out)
    # Two stored cases, the seed that failed, and ln(0.01) / ln(0.3) more.
    assert (told["gone"], told["needed"], told["runs"]) == (True, 4, 7)


def test_a_plan_is_shown_and_nothing_is_run(kraftwreck: Command, tmp_path: Path) -> None:
    config = configured(tmp_path, top="[budget]\nruns = 5", block='trees = ["clean", "mutant:R02"]')
    ended = kraftwreck("nightly", config, "--plan")
    assert ended.code == 0, ended.err
    assert "1 stored cases" in ended.err
    assert "mutant:R02" in ended.err
    assert not (tmp_path / "store").exists()


def test_there_is_nothing_to_resume(kraftwreck: Command, tmp_path: Path) -> None:
    ended = kraftwreck("nightly", configured(tmp_path, top="[budget]\nruns = 5"), "--resume")
    assert (ended.code, ended.err) == (0, "night real: no unfinished night to resume\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "give CONFIG.toml, or --confirm"),
        (("none.toml",), "none.toml: No such file"),
        (("{config}", "--new", "--resume"), "cannot be combined"),
        (("{config}", "--tree", "clean"), "need --confirm"),
        (("--confirm", "nowhere"), "NIGHT#N"),
        (("--confirm", "nowhere#1", "--plan"), "--confirm only allows"),
        (("{bad}",), "matrix[1].trees[1]: unknown mutant"),
        (("{corpus}",), "corpus.cases[1]: {folder}/none: no such case file"),
    ],
)
def test_a_mistake_is_one_line(
    kraftwreck: Command, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    good = configured(tmp_path, top="[budget]\nruns = 5")
    bad, corpus = tmp_path / "bad.toml", tmp_path / "corpus.toml"
    bad.write_text(good.read_text() + 'trees = ["mutant:none"]\n')
    corpus.write_text(good.read_text().replace(str(CASE), str(tmp_path / "none")))
    names = {"config": good, "bad": bad, "corpus": corpus, "folder": tmp_path}
    ended = kraftwreck("nightly", *(each.format(**names) for each in arguments))
    assert ended.code == 254
    assert ended.err.count("\n") == 1
    assert said.format(**names) in ended.err


def is_orphan(directory: Path) -> bool:
    """Whether a cluster lives whose run does not; those of other runs are none of ours."""
    known = state.State.read(directory)
    return known is not None and not known.detached and not known.control.alive()


@pytest.mark.cluster
@pytest.mark.whole_run
def test_a_run_on_hosts_that_takes_too_long_is_ended_and_leaves_nothing(
    kraftwreck: Command, tmp_path: Path, netns_possible: None
) -> None:
    config = configured(
        tmp_path,
        top="[budget]\nruns = 2\n[limits]\nfree_bytes = 0\nrun_s = 8",
        block='clusters = ["netns"]',
    )
    config.write_text(config.read_text().replace("time_limit_s = 5", "time_limit_s = 500"))
    ended = kraftwreck("nightly", config)
    assert ended.code in (255, 1), ended.err  # What is cut short may still be refuted.
    (path,) = (tmp_path / "store" / "nights").iterdir()
    (record,) = [each for each in read_records(path) if each.cluster == "netns"]
    assert record.klass in ("harness", "system")
    assert record.seconds >= 8
    assert not any(map(is_orphan, state.directories()))
