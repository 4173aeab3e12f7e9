"""A Python program in a fork of the agent: it runs, and its failure is one line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kraftwreck.harness.on_host.process import RefusedError
from kraftwreck.harness.on_host.program import run_program


def program(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "program.py"
    path.write_text(text)
    return [sys.executable, str(path), "format", str(tmp_path / "out")]


@pytest.mark.parametrize("end", ["", "sys.exit(0)\n", "sys.exit()\n"])
def test_a_program_gets_its_arguments_and_ends(tmp_path: Path, end: str) -> None:
    text = "import sys\nopen(sys.argv[2], 'w').write(f'{__name__} {sys.argv[1]}')\n" + end
    before = list(sys.argv)
    run_program(program(tmp_path, text))
    assert (tmp_path / "out").read_text() == "__main__ format"
    assert sys.argv == before


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import sys\nprint('one')\nprint('two', file=sys.stderr)\nsys.exit(254)\n", "two"),
        ("import sys\nsys.exit(3)\n", "exit status 3"),
        ("raise ValueError('bad')\n", "ValueError: bad"),
        ("import os\nos.kill(os.getpid(), 9)\n", "exit status -9"),
    ],
)
def test_the_last_line_of_a_program_that_fails_is_the_error(
    tmp_path: Path, text: str, said: str
) -> None:
    with pytest.raises(RefusedError) as error:
        run_program(program(tmp_path, text))
    assert str(error.value) == said
