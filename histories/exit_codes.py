"""The exit codes of every command, and errors that end a command with one line.

Source: Jepsen's ``jepsen.cli``: 0 valid, 1 invalid, 2 unknown, 254 bad arguments, 255 crashed.
"""

from __future__ import annotations

from kraftwreck.histories.verdict import Validity

VALID = 0
"""Valid, perhaps with suspicions. ``replay``: the same run. ``shrink``: a smaller case.
``mutants``: every bug found."""
INVALID = 1
"""Invalid. ``replay``: a different run. ``mutants``: a bug was missed."""
UNKNOWN = 2
"""Unknown. ``replay``: a node left no input log. ``shrink``: the run shows no failure."""
INTERRUPTED = 130
"""Ended by Ctrl-C."""
BAD_ARGUMENTS = 254
"""Bad arguments, bad input, or a tool that is not installed: the user can change that."""
FAILED = 255
"""The harness itself failed."""

MEANINGS: dict[int, str] = {
    VALID: "valid",
    INVALID: "invalid",
    UNKNOWN: "unknown",
    BAD_ARGUMENTS: "bad arguments or a missing tool",
    FAILED: "the harness itself failed",
    INTERRUPTED: "interrupted",
}
"""All codes for help texts, in reading order."""

_BY_VERDICT: dict[Validity, int] = {True: VALID, False: INVALID, "unknown": UNKNOWN}


def of_verdict(valid: Validity) -> int:
    """Return the exit code of a verdict."""
    return _BY_VERDICT[valid]


class CommandError(Exception):
    """An error whose message is one line for the user; it ends a command with ``exit_code``."""

    exit_code: int = FAILED


class BadInputError(CommandError):
    """The user can fix the cause: an argument, a file, a missing tool."""

    exit_code = BAD_ARGUMENTS
