"""Bugs in the host code of a node are found by tests in which nodes run in shells."""

from __future__ import annotations

import difflib
from dataclasses import replace
from pathlib import Path

import pytest

from kraftwreck.campaigns.campaign import run_seed
from kraftwreck.campaigns.hunting import hunt_patch
from kraftwreck.harness.archive import PROJECT_TREE
from kraftwreck.systems.simulators import everything

BUGS = {
    "messages-first": (
        "shell.py",
        "        try:\n            if self._files is not None:\n",
        "        for effect in effects:\n"
        "            if isinstance(effect, Send):\n"
        "                self.send(effect)\n"
        "        effects = [each for each in effects if not isinstance(each, Send)]\n"
        "        try:\n            if self._files is not None:\n",
    ),
    "traces-first": (
        "shell.py",
        "                self._storage.carry_out(effects)\n",
        "                self._traces.write(effects, now, wall_us)\n"
        "                self._storage.carry_out(effects)\n"
        "                effects = [each for each in effects if not isinstance(each, Trace)]\n",
    ),
    "timer-not-set-again": (
        "shell.py",
        "        self._step(event)\n        self._settle()\n",
        "        self._step(event)\n",
    ),
    "timer-not-set-after-a-flush": (
        "shell.py",
        "            return\n        self._settle()\n        while self._later",
        "            return\n        while self._later",
    ),
    "only-one-event-after-a-flush": (
        "shell.py",
        "        while self._later and not self._is_flushing:\n",
        "        if self._later and not self._is_flushing:\n",
    ),
    "shutdown-without-end": (
        "shell.py",
        "            self._loop.call_later(self._shutdown_limit_s, self._give_up)\n",
        "",
    ),
    "disk-error-ignored": (
        "shell.py",
        "        except (OSError, ValueError) as error:\n"
        "            self.work_failed(error)\n            return\n",
        "        except (OSError, ValueError):\n            pass\n",
    ),
    "flush-left-out": (
        "storage.py",
        "                self._log.flush()\n",
        "                pass\n",
    ),
    "truncation-left-out": (
        "storage.py",
        "                self._log.truncate(effect.end_offset)\n",
        "                pass\n",
    ),
    "effects-reversed": (
        "storage.py",
        "        for effect in effects:\n",
        "        for effect in reversed(effects):\n",
    ),
    "clean-stop-file-kept": ("clean_shutdown.py", "    media.unlink(path)\n", ""),
    "quorum-state-of-even-epochs-left-out": (
        "storage.py",
        "                quorum_state.write(self._directory, effect, self._media)\n",
        "                if effect.epoch % 2:\n"
        "                    quorum_state.write(self._directory, effect, self._media)\n",
    ),
}

FIRST_SEEDS = {"traces-first": 17, "disk-error-ignored": 307, "clean-stop-file-kept": 30}
"""Seeds at which hunts of rare bugs begin. They were found from seed 0. If the code has changed,
a hunt continues from here."""

SOON = ("messages-first", "timer-not-set-again", "only-one-event-after-a-flush")
"""Bugs that the first runs find. ``make test`` hunts these only."""


def _patch(folder: Path, name: str) -> Path:
    file, old, new = BUGS[name]
    path = f"nodes/server/{file}"
    text = (PROJECT_TREE / "server" / file).read_text()
    assert text.count(old) == 1
    lines = difflib.unified_diff(
        text.splitlines(keepends=True),
        text.replace(old, new).splitlines(keepends=True),
        f"a/{path}",
        f"b/{path}",
    )
    patch = folder / f"{name}.patch"
    patch.write_text("".join(lines))
    return patch


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in SOON else [pytest.mark.whole_run]) for name in BUGS],
)
def test_a_bug_of_the_host_code_is_found(name: str, tmp_path: Path) -> None:
    first = FIRST_SEEDS.get(name, 0)
    hunted = hunt_patch(_patch(tmp_path, name), 120.0, first_seed=first)
    assert hunted.not_its == {}, "the simulator passes without a bug"
    assert hunted.found


@pytest.mark.parametrize("seed", range(4))
def test_shells_without_a_bug_pass(seed: int) -> None:
    campaign = replace(everything(), time_limit_s=10.0, system_options=("shells=yes",))
    tested = run_seed(campaign, seed, keep=False)
    assert not tested.found
