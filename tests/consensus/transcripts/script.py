"""Transcripts: commands in a text file, with what they printed below each.

A file begins with two comments: one sentence about the situation, and its source. Commands are not
indented; their output is indented by four spaces. ``quietly`` before a command suppresses its
output, but not the invariants.

    python -m tests.consensus.transcripts.script               # how situations now differ
    python -m tests.consensus.transcripts.script --commands    # the commands

``pytest tests/consensus/transcripts --rewrite`` records what the core does now.
"""

from __future__ import annotations

import difflib
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.consensus.transcripts.commands import COMMANDS, Session, UsageError

SITUATIONS = Path(__file__).parent / "situations"
INDENT = "    "


class ScriptError(Exception):
    """A transcript is wrong; the message begins with file and line."""


@dataclass
class Step:
    """One command, its line number, the lines before it (comments, blank) and its output."""

    line: int
    command: str
    before: list[str] = field(default_factory=list)
    output: list[str] = field(default_factory=list)


@dataclass
class Transcript:
    """The steps of one file, and the lines after the last one."""

    name: str
    steps: list[Step]
    rest: list[str]

    def text(self) -> str:
        """Return the file with the present output."""
        lines: list[str] = []
        for step in self.steps:
            lines += [*step.before, step.command, *(INDENT + line for line in step.output)]
        return "\n".join([*lines, *self.rest]) + "\n"


def parse(text: str, name: str) -> Transcript:
    """Read a transcript. Raises :class:`ScriptError`."""
    lines = text.splitlines()
    header = [line for line in lines[:3] if line.startswith("#")]
    if not header or not lines[0].startswith("#") or not any("Source: " in h for h in header):
        raise ScriptError(f"{name}:1: begin with '# ' and a sentence, then '# Source: ...'")
    steps: list[Step] = []
    before: list[str] = []
    for number, line in enumerate(lines, 1):
        if line.startswith(INDENT):
            if not steps or before:
                raise ScriptError(f"{name}:{number}: output without a command above it")
            steps[-1].output.append(line.removeprefix(INDENT))
        elif not line.strip() or line.startswith("#"):
            before.append(line)
        elif line.startswith(" "):
            raise ScriptError(f"{name}:{number}: indent output by four spaces, commands by none")
        else:
            steps.append(Step(number, line, before))
            before = []
    return Transcript(name, steps, before)


def play(transcript: Transcript) -> Transcript:
    """Return the transcript with the output that its commands have now.

    Raises :class:`ScriptError` for a command that cannot be carried out, and AssertionError, with
    file and line, for a broken invariant.
    """
    session = Session()
    steps = []
    for step in transcript.steps:
        place = f"{transcript.name}:{step.line}"
        try:
            output = session.run(step.command)
        except UsageError as error:
            raise ScriptError(f"{place}: {error}") from error
        except AssertionError as error:
            raise AssertionError(f"{place}: {step.command}: {error}") from error
        steps.append(Step(step.line, step.command, step.before, output))
    return Transcript(transcript.name, steps, transcript.rest)


def difference(path: Path) -> str:
    """Return how the output differs from the file, "" if it does not; a failure is a difference."""
    text = path.read_text()
    try:
        now = play(parse(text, path.name)).text()
    except Exception as error:  # A planted bug may raise anything.
        return f"{path.name}: {type(error).__name__}: {error}"
    lines = difflib.unified_diff(
        text.splitlines(), now.splitlines(), path.name, "now", lineterm="", n=2
    )
    return "\n".join(lines)


def main() -> None:
    """Print all differences, and exit with 1 if there are any; or the commands."""
    if sys.argv[1:] == ["--commands"]:
        for name, command in COMMANDS.items():
            print(f"{' '.join([name, *command.parameters]):<46} {command.about}")
        return
    found = [text for path in sorted(SITUATIONS.glob("*.txt")) if (text := difference(path))]
    print("\n".join(found))
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
