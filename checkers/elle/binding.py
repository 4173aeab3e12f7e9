"""The real Elle, called as a program.

Any command that keeps elle-cli's contract will do: ``-m MODEL -v -f json -c models -a
anomalies -s milliseconds FILE`` prints Elle's result map, as JSON or EDN. It is found by the
caller's word, by the environment variable ``KRAFTWRECK_ELLE``, or as ``elle-cli`` on the PATH;
a name that ends in ``.jar`` is run with ``java -jar``. Its exit code is not believed: elle-cli
ends with 0 for a history it could not decide.

Source: github.com/ligurio/elle-cli.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import msgspec

from checkers.elle.check import Analysis, Options, as_checker_result
from histories import edn
from histories.convert import to_json
from histories.events import plain
from histories.operation import Op
from histories.verdict import CheckerResult

MODELS = ("list-append", "rw-register")
"""What is checked here that elle-cli checks too."""
VARIABLE = "KRAFTWRECK_ELLE"
TIME_LIMIT_S = 600.0
MEMORY_MB = 8192
_LOOK_EVERY_S = 0.25
_VALID: dict[Any, Any] = {True: True, False: False, "unknown": "unknown"}


class ElleMissingError(Exception):
    """There is no Elle to call; the message says what to install."""


class ElleError(Exception):
    """Elle was called and gave no verdict; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How long Elle may take, and how much memory it and its children may hold together."""

    seconds: float = TIME_LIMIT_S
    megabytes: int = MEMORY_MB


def find_elle(command: str | None = None) -> list[str]:
    """Return the argument vector that starts Elle. Raises :class:`ElleMissingError`."""
    asked = command or os.environ.get(VARIABLE)
    words = shlex.split(asked) if asked else ["elle-cli"]
    if not words:
        raise ElleMissingError("the command for Elle is empty")
    program = words[0]
    if program.endswith(".jar"):
        if not Path(program).is_file():
            raise ElleMissingError(f"there is no {program}")
        java = shutil.which("java")
        if java is None:
            raise ElleMissingError("Elle needs java (apt-get install default-jre-headless)")
        return [java, "-jar", *words]
    found = shutil.which(program)
    if found is None:
        raise ElleMissingError(
            f"there is no {program}: install Java and elle-cli "
            f"(github.com/ligurio/elle-cli/releases) and name its jar with --elle or {VARIABLE}"
        )
    return [found, *words[1:]]


def check_with_elle(
    history: Sequence[Op],
    model: str,
    options: Options,
    *,
    command: str | None = None,
    limits: Limits | None = None,
) -> CheckerResult:
    """Return Elle's verdict of ``history``.

    ``stats["elle"]`` is its result map. A verdict it does not reach within ``limits`` is
    ``unknown`` with the reason. Raises :class:`ElleMissingError` when there is nothing to
    call, :class:`ElleError` when what was called fails or answers what is no result.
    """
    assumed = options.sequential_keys or options.linearizable_keys or options.wfr_keys
    if assumed or options.transaction_order:
        raise ElleError("elle-cli cannot be told what to assume of keys; use --engine native")
    limits = limits or Limits()
    words = find_elle(command)
    with tempfile.TemporaryDirectory(prefix="kraftwreck-elle-") as folder:
        path = Path(folder) / "history.json"
        path.write_bytes(to_json(history))
        arguments = [*words, "-m", model, "-v", "-f", "json"]
        if options.consistency_models:
            arguments += ["-c", ",".join(options.consistency_models)]
        if options.anomalies:
            arguments += ["-a", ",".join(options.anomalies)]
        arguments += ["-s", str(max(1, int(options.cycle_search_seconds * 1000))), str(path)]
        outcome = _run(arguments, Path(folder), limits)
    if isinstance(outcome, CheckerResult):
        return outcome
    result = parse_result(outcome)
    return as_checker_result(Analysis(model, result, {"engine": "elle"}))


def _run(arguments: list[str], folder: Path, limits: Limits) -> str | CheckerResult:
    """Return what the program printed, or ``unknown`` if it went beyond its limits."""
    environment = dict(os.environ)
    heap = f"-Xmx{limits.megabytes}m"
    given = environment.get("JAVA_TOOL_OPTIONS", "")
    environment["JAVA_TOOL_OPTIONS"] = f"{given} {heap}".strip()
    out, err = folder / "stdout", folder / "stderr"
    with out.open("wb") as stdout, err.open("wb") as stderr:
        process = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )
        try:
            beyond = _watch(process, limits)
        finally:
            _end(process)
    if beyond is not None:
        return CheckerResult(valid="unknown", stats={"engine": "elle"}, error=beyond)
    text = out.read_text(errors="replace")
    if process.returncode not in (0, 1):
        raise ElleError(_failure(process.returncode, text, err.read_text(errors="replace")))
    return text


def _watch(process: subprocess.Popen[bytes], limits: Limits) -> str | None:
    """Wait for the program; return what limit it went beyond, if it did.

    Its end is seen and not collected: so its number stays its own until :func:`_end`.
    """
    end = monotonic() + limits.seconds
    while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if monotonic() >= end:
            return f"Elle did not answer within {limits.seconds:g} s"
        held = _held_megabytes(process.pid)
        if held > limits.megabytes * 1.25:  # beside its heap a JVM holds its code and threads
            return f"Elle held {held} MB of memory, more than {limits.megabytes} MB of heap need"
        sleep(_LOOK_EVERY_S)
    return None


def _held_megabytes(group: int) -> int:
    """Return the resident memory of the processes of a process group."""
    total = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group:
            total += int(fields[21])
    return total * os.sysconf("SC_PAGE_SIZE") // (1 << 20)


def _end(process: subprocess.Popen[bytes]) -> None:
    # Its children too: a wrapper script leaves its JVM behind otherwise.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _failure(code: int, out: str, err: str) -> str:
    lines = [line.strip() for line in f"{err}\n{out}".splitlines() if line.strip()]
    telling = [line for line in lines if "Exception" in line or "Error" in line]
    said = (telling or lines or ["it said nothing"])[0]
    return f"Elle failed with exit code {code}: {said[:300]}"


def parse_result(text: str) -> dict[str, Any]:
    """Return the result map that Elle printed, as JSON or EDN, after lines of its log.

    Raises :class:`ElleError` for text without one.
    """
    starts = [at for at, letter in enumerate(text) if letter == "{" and text[at - 1 : at] in "\n"]
    for at in starts:
        rest = text[at:]
        found = _from_json(rest)
        if found is None:
            found = _from_edn(rest)
        if isinstance(found, dict) and "valid?" in found:
            return _checked(found)
    raise ElleError(f"Elle answered what is no result: {' '.join(text.split())[:200]!r}")


def _from_json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None


def _from_edn(text: str) -> Any:
    try:
        return plain(edn.read_all(text)[0])
    except (edn.EdnError, IndexError):
        return None


def _checked(found: dict[str, Any]) -> dict[str, Any]:
    valid = found["valid?"]
    if not isinstance(valid, bool | str) or valid not in _VALID:
        raise ElleError(f"Elle's verdict is {valid!r}, not true, false or unknown")
    result = {**found, "valid?": valid}
    for name in ("anomaly-types", "not", "also-not"):
        if result.get(name) is not None:
            result[name] = sorted(result[name])
    return result
