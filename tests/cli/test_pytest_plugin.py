"""The pytest plug-in: what a test file says, what its author sees, what is left behind."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from xml.etree import ElementTree as Tree

import pytest

from kraftwreck import pytest_plugin

pytest_plugins = ["pytester"]
ROOT = Path(__file__).resolve().parents[2]
PLUGIN = ("-p", "kraftwreck.pytest_plugin", "-p", "no:cacheprovider")
BUG = 'cluster="sim", seconds=20, seed=1, options=("--mutant", "M03")'
SHORT = 'faults="kill", seconds=12, cluster="sim", workload="register"'


@pytest.fixture(autouse=True)
def no_other_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Load the plug-in by name only, as if nothing else was installed."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)


def folders(pytester: pytest.Pytester) -> list[Path]:
    return [test.parent for test in pytester.path.glob("store/*/*/test.json") if not_latest(test)]


def not_latest(path: Path) -> bool:
    return not any(part.is_symlink() for part in path.parents)


def test_a_valid_run_passes_and_its_folder_and_properties_are_kept(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        f"""
        def test_kills(kraftwreck):
            run = kraftwreck.run({SHORT}, seed=5)
            assert run.valid is True
            assert run.strength["acknowledged"] > 0
            assert (run.folder / "report.html").exists()
        """
    )
    result = pytester.runpytest_subprocess(*PLUGIN, "--junitxml=junit.xml")
    result.assert_outcomes(passed=1)
    (folder,) = folders(pytester)
    text = (pytester.path / "junit.xml").read_text()
    case = Tree.fromstring(text).find(".//testcase")  # noqa: S314 - our own file
    assert case is not None
    properties = {each.get("name"): each.get("value") for each in case.iter("property")}
    assert properties["kraftwreck_seed"] == "5"
    assert properties["kraftwreck_valid"] == "True"
    assert Path(str(properties["kraftwreck_folder"])).samefile(folder)
    assert str(properties["kraftwreck_repeat"]).startswith("kraftwreck run ")


def test_a_planted_bug_fails_with_verdict_anomaly_and_repeat_command(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        """
        def test_partitions(kraftwreck):
            kraftwreck.run(BUG)
        """.replace("BUG", BUG)
    )
    result = pytester.runpytest_subprocess(*PLUGIN)
    result.assert_outcomes(failed=1)
    (folder,) = folders(pytester)
    result.stdout.fnmatch_lines(
        ["kraftwreck: INVALID (seed *)", "*: False", "  *: *: *", f"run: *{folder.name}",
         "report: *report.html", "repeat: kraftwreck run *"]
    )  # fmt: skip
    assert "Traceback" not in result.stdout.str()
    assert json.loads((folder / "results.json").read_text())["valid"] is False


def test_too_little_evidence_is_no_success(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        f"""
        def test_floor(kraftwreck):
            kraftwreck.run({SHORT}, options=("--floor", "acknowledged=1000000"))
        """
    )
    result = pytester.runpytest_subprocess(*PLUGIN)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["kraftwreck: unknown *", "  strength: too little happened: *"])


def test_seeds_run_each_test_once_per_seed(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        f"""
        def test_kills(kraftwreck):
            assert kraftwreck.run({SHORT}).seed in (1, 2)

        def test_without():
            pass
        """
    )
    result = pytester.runpytest_subprocess(*PLUGIN, "--kraftwreck-seeds", "2", "-v")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["*test_kills[[]seed-1[]] PASSED*", "*[[]seed-2[]] PASSED*"])
    assert len(folders(pytester)) == 2


def test_a_test_is_skipped_with_one_line_where_hosts_cannot_be_had(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(pytester.path))
    pytester.makepyfile("def test_hosts(kraftwreck):\n    kraftwreck.run()\n")
    result = pytester.runpytest_inprocess(*PLUGIN, "-rs")
    if "missing: apt-get install" not in result.stdout.str():
        pytest.skip("this machine has the tools outside of PATH")
    result.assert_outcomes(skipped=1)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ('"nosuch", cluster="sim"', "unknown system 'nosuch'; known systems: *kraft*"),
        ('cluster="sim", faults="fire"', "unknown fault 'fire'; known faults: *"),
    ],
)
def test_mistakes_are_one_line(pytester: pytest.Pytester, arguments: str, line: str) -> None:
    pytester.makepyfile(f"def test_wrong(kraftwreck):\n    kraftwreck.run({arguments})\n")
    result = pytester.runpytest_subprocess(*PLUGIN)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"kraftwreck: *{line}"])


def test_a_number_of_seeds_must_be_positive(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess(*PLUGIN, "--kraftwreck-seeds", "0")
    result.stderr.fnmatch_lines(["*--kraftwreck-seeds 0: give a number from 1"])


def test_the_package_declares_the_plug_in() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = project["entry-points"]["pytest11"]
    assert declared == {"kraftwreck": pytest_plugin.__name__}
