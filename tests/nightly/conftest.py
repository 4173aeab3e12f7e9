"""Nights with faked runs: which run ends how is written in a file of rules."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.nightly.record import Record, read_records
from kraftwreck.nightly.totals import Night

from .fake_night import make_night

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent

Rules = dict[str, list[dict[str, Any]]]


@dataclass
class FakeNight:
    """A night's configuration and rules, and what it left."""

    folder: Path
    config: Path

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Begin or continue the night in its own process."""
        return subprocess.Popen(
            [sys.executable, str(HERE / "fake_night.py"), str(self.config), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )

    def run(self, *arguments: str) -> tuple[int, str]:
        """Run it to its end in this process; return exit code and output."""
        said: list[str] = []
        code = make_night(self.config, "--new" in arguments, said.append)
        return code, "\n".join(said)

    @property
    def nights(self) -> list[Path]:
        return sorted((self.folder / "store" / "nights").iterdir())

    @property
    def path(self) -> Path:
        return self.nights[-1]

    @property
    def records(self) -> list[Record]:
        return read_records(self.path)

    def record(self, seed: int) -> Record:
        return next(record for record in self.records if record.seed == seed)

    @property
    def night(self) -> Night:
        import msgspec

        return msgspec.json.decode((self.path / "night.json").read_bytes(), type=Night)

    @property
    def calls(self) -> list[dict[str, Any]]:
        """The calls of the workers, in order."""
        log = self.folder / "calls.jsonl"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


@pytest.fixture
def fake_night(tmp_path: Path) -> Callable[..., FakeNight]:
    """Return ``fake_night(rules, seeds="0..5", block="…", top="…", jobs=2)``.

    Of two workers either may be the first to say what it was asked: a test of the order in
    which runs begin has ``jobs=1``.
    """

    def make(
        rules: Rules | None = None,
        *,
        seeds: str = "0..5",
        block: str = "",
        top: str = "",
        jobs: int = 2,
    ) -> FakeNight:
        config = tmp_path / "night.toml"
        budget = "" if "[budget]" in top else "[budget]\nruns = 1000\n"
        limits = "" if "[limits]" in top else "[limits]\nfree_bytes = 0\n"
        config.write_text(
            f'name = "fake"\nstore = "{tmp_path / "store"}"\njobs = {jobs}\nseed = 1\n'
            f'{top}\n{budget}{limits}[[matrix]]\nworkloads = ["register"]\n'
            f'seeds = "{seeds}"\n{block}\n'
        )
        (tmp_path / "rules.json").write_text(json.dumps(rules or {}))
        return FakeNight(tmp_path, config)

    return make


def refuted(
    kind: str = "lost", checker: str = "committed", digest: str | None = None
) -> dict[str, Any]:
    """A rule: the checkers refuted the run."""
    failure = {"checker": checker, "type": kind, "explanation": "it was there, and is gone"}
    answer: dict[str, Any] = {"valid": False, "exit_code": 1, "failures": [failure]}
    if digest is not None:
        answer["digest"] = digest
    return {"answer": answer}
