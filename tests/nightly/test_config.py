"""Every mistake in a configuration is one line that names the key."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.nightly.cells import cells, load
from kraftwreck.nightly.config import Config, ConfigError, parse, seed_range, size

ROOT = Path(__file__).resolve().parents[2]
GOOD = """
name = "one"
[budget]
runs = 10
[limits]
[corpus]
[retention]
[outputs]
[[matrix]]
workloads = ["register"]
[[matrix]]
workloads = ["leader"]
"""


def changed(old: str, new: str) -> dict[str, Any]:
    assert old in GOOD
    return tomllib.loads(GOOD.replace(old, new, 1))


def mistakes(plain: dict[str, Any]) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        config = parse(plain)
        cells(config)
    return caught.value.lines


@pytest.mark.parametrize("name", ["example.toml", "example-night.toml"])
def test_the_examples_are_right(name: str) -> None:
    assert len(load(ROOT / "nightly" / name)[1]) >= 6


def test_omitted_settings_have_their_defaults() -> None:
    config = parse(tomllib.loads(GOOD))
    assert (config.jobs, config.seed, config.store) == (2, None, "store")
    assert config.free_bytes == 10**9
    assert config.retained_bytes is None
    assert config.matrix[0].faults == ("partition,kill,pause",)


@pytest.mark.parametrize(
    ("old", "new", "key", "said"),
    [
        ('name = "one"', "", "name", "missing"),
        ('name = "one"', 'name = "Night one"', "name", "lower-case"),
        ('name = "one"', 'name = "confirm"', "name", "--confirm"),
        ('name = "one"', 'name = "one"\nseeed = 1', "seeed", "unknown key; known keys: name"),
        ('name = "one"', 'name = "one"\njobs = 0', "jobs", "give a whole number of at least 1"),
        ('name = "one"', 'name = "one"\nstore = 1', "store", "give a text in quotes, not"),
        ("runs = 10", "", "budget", "give hours, runs, or both"),
        ("runs = 10", 'runs = "ten"', "budget.runs", "give a whole number, not a text in quotes"),
        ("runs = 10", "hours = nan", "budget.hours", "give a finite number"),
        ("runs = 10", "hours = inf", "budget.hours", "give a finite number"),
        ('name = "one"', f'name = "one"\nseed = {10**30}', "seed", "give a whole number"),
        ("runs = 10", "hours = -1", "budget.hours", "give a number above 0"),
        ("runs = 10", "days = 1", "budget.days", "unknown key; known keys: hours, runs"),
        ("[limits]", "[limits]\nrun_s = 0", "limits.run_s", "give a number above 0"),
        ("[limits]", '[limits]\nfree_bytes = "much"', "limits.free_bytes", "'20 GB'"),
        ("[corpus]", '[corpus]\ncases = "x"', "corpus.cases", "give a list, not a text in quotes"),
        ("[retention]", "[retention]\nbytes = -1", "retention.bytes", "negative"),
        ("[retention]", "[retention]\ndays = -1", "retention.days", "give a number of at least 0"),
        ("[outputs]", "[outputs]\nhtml = 'x'", "outputs.html", "unknown key; known keys: junit"),
        ('["leader"]', '["leader"]\nseeds = "9..1"', "matrix[2].seeds", "A..B"),
        ('["leader"]', '["leader"]\ntime_limit_s = 0.5', "matrix[2].time_limit_s", "at least 1"),
        ('["leader"]', '["leader"]\nworkload = "x"', "matrix[2].workload", "unknown key"),
        ('["leader"]', "[]", "matrix[2].workloads", "at least one entry"),
        ('["leader"]', '["queues"]', "matrix[2].workloads[1]", "queues"),
        ('["leader"]', '["leader"]\nsystems = ["cobol"]', "matrix[2].systems[1]", "cobol"),
        ('["leader"]', '["leader"]\nfaults = ["kill", "rain"]', "matrix[2].faults[2]", "rain"),
        ('["leader"]', '["leader"]\nfaults = ["wire"]', "matrix[2].faults[1]", "real hosts"),
        ('["leader"]', '["leader"]\nclusters = ["moon"]', "matrix[2].clusters[1]", "moon"),
        (
            '["leader"]', '["leader"]\nclusters = ["hosts:/none.toml"]',
            "matrix[2].clusters[1]", "/none.toml",
        ),
        ('["leader"]', '["all"]\nclusters = ["netns"]', "matrix[2].workloads[1]", "simulator"),
        ('["leader"]', '["leader"]\ntrees = ["mutant:XX"]', "matrix[2].trees[1]", "XX"),
        ('["leader"]', '["leader"]\ntrees = ["patch:/none"]', "matrix[2].trees[1]", "/none"),
        ('["leader"]', '["leader"]\ntrees = ["tree:/tmp"]', "matrix[2].trees[1]", "__main__"),
        ('["leader"]', '["leader"]\ntrees = ["dirty"]', "matrix[2].trees[1]", "dirty"),
        ('["leader"]', '["register"]', "matrix[2]", "of matrix[1]"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_that_names_the_key(old: str, new: str, key: str, said: str) -> None:
    lines = mistakes(changed(old, new))
    assert len(lines) == 1, lines
    assert lines[0].startswith(f"{key}: " if key else "")
    assert said in lines[0]
    assert "\n" not in lines[0]


def test_all_mistakes_are_reported_at_once() -> None:
    plain = changed("runs = 10", "runs = 0")
    plain["limits"] = {"again": -1}
    plain["matrix"][0]["nodes"] = 1000
    lines = mistakes(plain)
    assert [line.partition(":")[0] for line in lines] == [
        "budget.runs", "limits.again", "matrix[1].nodes",
    ]  # fmt: skip


WRONG = """\
name = "Night one"  # line 1
jobs = "two"
seeed = 1
[budget]
runs = 0
[limits]
run_s = 0
again = -1
[corpus]
cases = [
    "nowhere",
]
[[matrix]]
workloads = ["register", "queues"]
nodes = 1000
[[matrix]]
faults = ["rain"]
trees = ["mutant:XX"]
"""


def test_all_mistakes_of_a_file_are_reported_at_once_with_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "night.toml"
    path.write_text(WRONG)
    with pytest.raises(ConfigError) as caught:
        load(path)
    places = {": ".join(line.split(": ")[1:3]) for line in caught.value.lines}
    assert places == {
        "line 1: name", "line 2: jobs", "line 3: seeed", "line 5: budget.runs",
        "line 7: limits.run_s", "line 8: limits.again", "line 10: corpus.cases[1]",
        "line 14: matrix[1].workloads[2]", "line 15: matrix[1].nodes",
        "line 17: matrix[2].faults[1]", "line 18: matrix[2].trees[1]",
    }  # fmt: skip
    assert all(line.startswith(f"{path}: ") for line in caught.value.lines)
    assert not [line for line in caught.value.lines if "`" in line or "Expected" in line]


@pytest.mark.parametrize("matrix", [None, [], {}])
def test_without_a_matrix_there_is_nothing_to_do(matrix: object) -> None:
    plain = tomllib.loads(GOOD) | {"matrix": matrix}
    assert mistakes(plain) == ("matrix: give at least one block [[matrix]]",)


def test_a_file_that_is_no_toml_is_named_with_the_place(tmp_path: Path) -> None:
    path = tmp_path / "night.toml"
    with pytest.raises(ConfigError, match="No such file"):
        load(path)
    path.write_text("name = \n")
    with pytest.raises(ConfigError, match=r"night.toml: not TOML: .*line 1"):
        load(path)
    path.write_text("jobs = 1\n")
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert all(line.startswith(f"{path}: ") for line in caught.value.lines)


def test_cells_are_all_combinations_with_their_differences() -> None:
    plain = tomllib.loads(GOOD)
    plain["matrix"] = [
        {"workloads": ["register", "leader"], "faults": ["kill, pause", "none"]},
        {"workloads": ["register"], "faults": ["kill,pause"], "nodes": 3},
    ]
    found = cells(parse(plain))
    assert [cell.key for cell in found] == [
        "kraft register kill,pause sim clean",
        "kraft register none sim clean",
        "kraft leader kill,pause sim clean",
        "kraft leader none sim clean",
        "kraft register kill,pause sim clean nodes=3",
    ]
    assert found[0].faults == ("kill", "pause")
    assert found[1].faults == ()


@pytest.mark.parametrize(
    ("text", "bytes_"), [("20 GB", 20 * 10**9), ("1.5kB", 1500), (7, 7), ("0 B", 0)]
)
def test_sizes_are_read(text: int | str, bytes_: int) -> None:
    assert size(text) == bytes_


def test_seeds_are_read() -> None:
    assert seed_range("3..5") == range(3, 6)
    assert seed_range("new") is None


def test_a_configuration_can_be_read_back_from_a_plan() -> None:
    import msgspec

    config = parse(tomllib.loads(GOOD))
    assert msgspec.convert(msgspec.to_builtins(config), Config) == config
