"""The unit files are what systemd, cron and GitHub can read, and name options that exist."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from kraftwreck.cli.nightly import cli

ROOT = Path(__file__).resolve().parents[2]
UNITS = ROOT / "nightly" / "units"
OPTIONS = {option for parameter in cli.params for option in parameter.opts}


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    names = sorted(path.name for path in UNITS.glob("kraftwreck-*"))
    assert names == [
        "kraftwreck-machines.service", "kraftwreck-machines.timer",
        "kraftwreck-nightly-resume.service", "kraftwreck-nightly.service",
        "kraftwreck-nightly.timer",
    ]  # fmt: skip
    for name in names:
        # The command must exist to be verified; here it is at another place.
        text = (
            (UNITS / name).read_text().replace("/opt/kraftwreck/.venv/bin/kraftwreck", "/bin/true")
        )
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *(str(tmp_path / name) for name in names)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    said = [line for line in done.stderr.splitlines() if "kraftwreck" in line]
    assert said == []


def test_the_workflow_is_one_and_runs_a_night() -> None:
    workflow = yaml.safe_load((UNITS / "github-actions.yml").read_text())
    # YAML 1.1 reads the key "on" as true.
    assert {"schedule", "workflow_dispatch"} == set(workflow[True])
    steps = workflow["jobs"]["night"]["steps"]
    commands = [step["run"] for step in steps if "run" in step]
    assert any("kraftwreck nightly nightly/example.toml" in command for command in commands)
    assert any("GITHUB_STEP_SUMMARY" in command for command in commands)
    assert all("@v" in step["uses"] for step in steps if "uses" in step)
    assert (ROOT / "nightly" / "example.toml").exists()


def test_machines_with_kernels_of_their_own_are_brought_up_every_night() -> None:
    command = "make vagrant-test PROVIDER=libvirt"
    workflow = yaml.safe_load((UNITS / "github-actions.yml").read_text())
    assert any(command in step.get("run", "") for step in workflow["jobs"]["machines"]["steps"])
    assert command in (UNITS / "kraftwreck-machines.service").read_text()
    assert command in (UNITS / "crontab").read_text()
    assert (ROOT / "tests" / "vagrant" / "test_by_libvirt.py").exists()


def test_the_crontab_starts_each_evening_and_continues_after_a_reboot() -> None:
    jobs = [
        line for line in (UNITS / "crontab").read_text().splitlines()
        if line and not line.startswith("#") and not re.match(r"[A-Z]+=", line)
    ]  # fmt: skip
    assert [job.split()[:5] for job in jobs[:1]] == [["0", "21", "*", "*", "*"]]
    assert jobs[1].startswith("@reboot ")
    assert "--resume" in jobs[1]
    assert all("%" not in job for job in jobs)


@pytest.mark.parametrize("path", sorted(UNITS.iterdir()), ids=lambda path: path.name)
def test_only_options_that_exist_are_used(path: Path) -> None:
    for line in path.read_text().splitlines():
        if "kraftwreck nightly" in line and not line.lstrip().startswith("#"):
            used = re.findall(r"--[a-z-]+", line.partition("kraftwreck nightly")[2])
            assert set(used) <= OPTIONS
