"""Classify a red run: the system, the harness or the machine failed."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass

from kraftwreck.histories.exit_codes import BAD_ARGUMENTS, INVALID, UNKNOWN, VALID
from kraftwreck.nightly.child import Ended
from kraftwreck.nightly.record import Class
from kraftwreck.nightly.request import Answer

_ENVIRONMENT = re.compile(
    "|".join(
        (
            r"\bssh\b|\bsftp\b|host key|authentication|no route to host|network is unreachable",
            r"connection (?:refused|reset|timed out)|name or service not known",
            r"no space left|disk (?:is )?full|disk quota|read-only file system|input/output error",
            r"memoryerror|cannot allocate memory|out of memory|too many open files",
            r"resource temporarily unavailable",
            r"operation not permitted|permission denied|(?:needs|not) root|as root",
            r"not installed|command not found|apt-get install",
            r"no such file or directory: '(?:ip|nft|tc|sshd|ssh)'",
            r"namespaces|vagrant\b",
        )
    ),
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Judged:
    """The class of one attempt, None if it is not red, and one line of reason."""

    klass: Class | None
    why: str | None


def classify(ended: Ended, answer: Answer | None, output: str, limit_s: float) -> Judged:
    """Return the class of one attempt, by its end, its answer and its output.

    A refutation by the checkers is ``system``, whatever else went wrong: a proven anomaly outranks
    everything. A timeout of the harness is ``harness``.
    """
    if answer is not None and answer.valid is False:
        first = answer.failures[0] if answer.failures else None
        why = f"{first.checker}: {first.type}: {first.explanation}" if first else "refuted"
        return Judged("system", _line(why))
    if ended.late:
        return Judged("harness", f"took longer than {limit_s:g} s and was killed")
    if answer is None:
        if ended.code == -signal.SIGKILL:
            return Judged("environment", "killed from outside: out of memory?")
        last = _last(output)
        how = f"signal {-ended.code}" if ended.code < 0 else f"exit code {ended.code}"
        klass: Class = "environment" if _ENVIRONMENT.search(last) else "harness"
        return Judged(klass, _line(f"no answer, {how}: {last}"))
    if answer.exit_code in (VALID, INVALID, UNKNOWN) and answer.trouble is None:
        unknown = "; ".join(answer.unknown)
        return Judged(None, _line(unknown) if unknown else None)
    trouble = answer.trouble or _last(output)
    if answer.exit_code == BAD_ARGUMENTS or _ENVIRONMENT.search(trouble):
        return Judged("environment", _line(trouble))
    return Judged("harness", _line(trouble))


def _last(output: str) -> str:
    """Return the last line with text; for a traceback that is the error."""
    said = [line.strip() for line in output.splitlines() if line.strip()]
    return said[-1] if said else "it printed nothing"


def _line(text: str, most: int = 500) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1] + "…"
