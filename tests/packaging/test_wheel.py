"""The wheel, installed beside other people's packages, with the base dependencies only."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest

from tests.test_tidy import ROOT

pytestmark = pytest.mark.xdist_group("wheel")  # One wheel and one environment for all tests.
BASE = (
    "click", "crc32c", "jinja2", "markupsafe", "msgspec", "networkx", "numba", "llvmlite", "numpy",
    "pyarrow",
)  # fmt: skip
"""The packages that pip installs for ``kraftwreck`` without any extra."""
TAKEN = ("nodes", "reports", "systems", "checkers", "tests")
"""Names that people give to packages of their own."""
PLUGIN = """
from kraftwreck.systems.kraft.workloads.register import RegisterWorkload


class Mine(RegisterWorkload):
    name = "mine"
    about = "registers from a package elsewhere"


WORKLOAD = Mine()
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = ["pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder)]
    subprocess.run([sys.executable, "-m", *build, str(ROOT)], check=True)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def project(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with an environment of its own, in ``env``, and packages named like folders of
    ours, both in the project and installed."""
    project = tmp_path_factory.mktemp("project")
    venv.create(project / "env", symlinks=True)
    (site,) = (project / "env" / "lib").glob("python3*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    for name in BASE:
        for file in distribution(name).files or ():
            top = file.parts[0]
            if top not in ("..", "__pycache__") and not (site / top).exists():
                (site / top).symlink_to(Path(str(distribution(name).locate_file(top))))
    for place in (project, site):
        for name in TAKEN:
            (place / name).mkdir()
            (place / name / "__init__.py").write_text(f"WHOSE = {str(place)!r}\n")
    facts = site / "mine-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[kraftwreck.workloads]\nmine = mine:WORKLOAD\n")
    (site / "mine.py").write_text(PLUGIN)
    return project


def kraftwreck(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    python = project / "env" / "bin" / "python"
    return subprocess.run(
        [python, "-m", "kraftwreck", *words], cwd=project, capture_output=True, text=True
    )


def test_a_wheel_adds_one_package(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {name for name in tops if not name.endswith(".dist-info")} == {"kraftwreck"}
    assert "kraftwreck/py.typed" in names
    assert "kraftwreck/mutants/catalogue.toml" in names
    assert any(name.startswith("kraftwreck/reports/assets/") for name in names)


def test_the_command_starts_beside_packages_of_the_same_names(project: Path) -> None:
    ended = kraftwreck(project, "sim", "--help")
    assert ended.returncode == 0, ended.stderr
    assert "--seeds" in ended.stdout


@pytest.fixture(scope="module")
def simulated(project: Path) -> Path:
    """The folder of a run, of a workload from a package elsewhere."""
    ended = kraftwreck(
        project, "run", "-c", "sim", "-w", "mine", "-t", "5", "--seed", "3", "--floor", "none",
        "--store", "one", "--json",
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    said = json.loads(ended.stdout)
    assert said["valid"] is True
    return project / str(said["run"])


def test_simulated_runs_need_no_extra(project: Path, simulated: Path) -> None:
    folder = simulated
    assert (folder / "report.html").stat().st_size > 10_000
    again = kraftwreck(project, "report", str(folder))
    assert again.returncode == 0, again.stderr
    replayed = kraftwreck(project, "replay", str(folder))
    assert replayed.returncode == 0, replayed.stderr


def test_campaigns_need_no_extra(project: Path) -> None:
    ended = kraftwreck(project, "sim", "--seeds", "0..1", "-t", "5", "--jobs", "2", "--json")
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["runs"] == 2


def test_planted_bugs_need_no_extra(project: Path) -> None:
    ended = kraftwreck(project, "mutants", "R01", "--budget", "20", "--json")
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["mutants"][0]["found"]


def test_histories_are_judged_without_any_extra(project: Path) -> None:
    history = project / "history.jsonl"
    lines = [
        ("invoke", "write", 1),
        ("ok", "write", 1),
        ("invoke", "read", None),
        ("ok", "read", 2),
    ]
    history.write_text(
        "".join(
            json.dumps({"index": i, "time": i, "process": 0, "type": t, "f": f, "value": v}) + "\n"
            for i, (t, f, v) in enumerate(lines)
        )
    )
    ended = kraftwreck(project, "check", str(history), "-m", "register")
    assert ended.returncode == 1, ended.stderr
    assert "INVALID" in ended.stdout


@pytest.mark.parametrize("words", [("run", "-c", "netns", "-t", "5"), ("cluster", "up")])
def test_hosts_without_their_extra_are_refused_in_one_line(
    project: Path, words: tuple[str, ...]
) -> None:
    ended = kraftwreck(project, *words)
    assert ended.returncode == 254, ended.stderr
    assert "pip install 'kraftwreck[hosts]'" in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_spark_without_its_extra_is_refused_in_one_line(project: Path, simulated: Path) -> None:
    ended = kraftwreck(project, "analyze", "one")
    assert ended.returncode == 254, ended.stderr
    assert ended.stderr == (
        "kraftwreck analyze: Spark needs pyspark: pip install 'kraftwreck[spark]'\n"
    )


def test_hosts_by_default_without_the_extra_are_the_simulator(project: Path) -> None:
    ended = kraftwreck(
        project, "run", "-t", "5", "--seed", "3", "--floor", "none", "--store", "store"
    )
    assert ended.returncode == 0, ended.stderr
    assert "(in the simulator: hosts need fabric and paramiko: pip install" in ended.stdout
