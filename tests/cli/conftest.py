"""Run the command line in this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from kraftwreck.main import status


@dataclass
class Ended:
    """How a command ended: its exit code and what it printed."""

    code: int
    out: str
    err: str


@pytest.fixture
def kraftwreck(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """Return ``kraftwreck("run", "-t", "5")``."""

    def run(*arguments: object) -> Ended:
        capsys.readouterr()
        code = status([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return Ended(code, printed.out, printed.err)

    return run
