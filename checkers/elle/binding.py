"""The real Elle, called as a program.

Any command with elle-cli's interface is accepted: ``-m MODEL -v -f json -c models -a
anomalies -s milliseconds FILE...`` prints Elle's result map of each file, as JSON or EDN.
:func:`find_elle` takes the given command, the environment variable
``KRAFTWRECK_ELLE``, or ``elle-cli`` on the PATH. A name that ends in ``.jar`` is run with
``java -jar``. The exit code is no verdict: elle-cli ends with 0 for a history it could not
decide.

Source: github.com/ligurio/elle-cli.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from kraftwreck.checkers.elle.check import Analysis, Options, as_checker_result
from kraftwreck.checkers.elle.closed import Closed
from kraftwreck.histories import edn
from kraftwreck.histories.convert import to_json
from kraftwreck.histories.events import plain
from kraftwreck.histories.operation import Op
from kraftwreck.histories.verdict import CheckerResult

MODELS = ("list-append", "rw-register")
"""The models that elle-cli checks too."""
VARIABLE = "KRAFTWRECK_ELLE"
TIME_LIMIT_S = 600.0
MEMORY_MB = 8192
_LOOK_EVERY_S = 0.25
_LIFELINE = Path(__file__).with_name("lifeline.py")
_OUT, _ERR = "stdout", "stderr"
_VALID: dict[Any, Any] = {True: True, False: False, "unknown": "unknown"}


class ElleMissingError(Exception):
    """There is no Elle to call; the message names the program to install."""


class ElleError(Exception):
    """Elle was called and gave no verdict; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The time limit of Elle, and the memory limit of it and its children together."""

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
    call, :class:`ElleError` when the program fails or prints no result.
    """
    (verdict,) = check_all_with_elle([history], model, options, command=command, limits=limits)
    if isinstance(verdict, ElleError):
        raise verdict
    return verdict


def check_all_with_elle(
    histories: Sequence[Sequence[Op]],
    model: str,
    options: Options,
    *,
    command: str | None = None,
    limits: Limits | None = None,
) -> list[CheckerResult | ElleError]:
    """Return Elle's verdict of each of ``histories``, or why it gave none.

    One process checks them all, within ``limits``. If a history ends the process, another one
    continues with the next history. Raises as :func:`check_with_elle` does for the options.
    """
    options.forbidden(model)
    assumed = options.sequential_keys or options.linearizable_keys or options.wfr_keys
    if assumed or options.transaction_order:
        raise ElleError("elle-cli has no option for assumptions about keys; use --engine native")
    limits = limits or Limits()
    # Both lists are always passed: elle-cli's defaults are strict-serializable and G0.
    arguments = [
        *find_elle(command), "-m", model, "-v", "-f", "json",
        "-c", ",".join(options.consistency_models), "-a", ",".join(options.anomalies),
        "-s", str(max(1, int(options.cycle_search_seconds * 1000))),
    ]  # fmt: skip
    closed = [Closed.of(history) for history in histories]
    verdicts: list[CheckerResult | ElleError] = []
    with tempfile.TemporaryDirectory(prefix="kraftwreck-elle-") as name:
        folder = Path(name)
        paths = [folder / f"history-{at}.json" for at in range(len(closed))]
        for path, history in zip(paths, closed, strict=True):
            path.write_bytes(to_json(history.ops))
        while len(verdicts) < len(paths):
            rest = paths[len(verdicts) :]
            failure = _run([*arguments, *map(str, rest)], folder, limits)
            results = parse_results((folder / _OUT).read_text(errors="replace"))
            if failure is None and len(results) < len(rest):
                failure = ElleError(_failure(folder, "Elle printed no result"))
            elif isinstance(failure, ElleError):
                results = results[: len(rest) - 1]
            for result in results[: len(rest)]:
                shown = closed[len(verdicts)].restored(result)
                verdicts.append(as_checker_result(Analysis(model, shown, {"engine": "elle"})))
            if failure is not None and len(verdicts) < len(paths):
                verdicts.append(failure)
    return verdicts


def _run(arguments: list[str], folder: Path, limits: Limits) -> CheckerResult | ElleError | None:
    """Run the program; return why it ended early, None if it did not."""
    environment = dict(os.environ)
    heap = f"-Xmx{limits.megabytes}m"
    given = environment.get("JAVA_TOOL_OPTIONS", "")
    environment["JAVA_TOOL_OPTIONS"] = f"{given} {heap}".strip()
    with (folder / _OUT).open("wb") as stdout, (folder / _ERR).open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_LIFELINE), *arguments],
            stdin=subprocess.PIPE,
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
    if process.returncode not in (0, 1):
        return ElleError(_failure(folder, f"Elle failed with exit code {process.returncode}"))
    return None


def _watch(process: subprocess.Popen[bytes], limits: Limits) -> str | None:
    """Wait for the program; return the limit that it exceeded, None if it did not.

    Its exit is not collected here, so its process id stays reserved until :func:`_end`.
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
    if process.stdin is not None:
        process.stdin.close()


def _failure(folder: Path, what: str) -> str:
    """Return ``what`` and the most informative line that the program printed."""
    texts = [(folder / name).read_text(errors="replace") for name in (_ERR, _OUT)]
    lines = [line.strip() for text in texts for line in text.splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith("Picked up JAVA_TOOL_OPTIONS")]
    telling = [line for line in lines if "Exception" in line or "Error" in line]
    said = (telling or lines or ["it printed nothing"])[0]
    return f"{what}: {said[:300]}"


def parse_results(text: str) -> list[dict[str, Any]]:
    """Return the result maps that Elle printed, as JSON or EDN, among lines of its log.

    Raises :class:`ElleError` for a result without a verdict.
    """
    # Only a map that is not inside another one begins a line.
    starts = [at for at, letter in enumerate(text) if letter == "{" and text[at - 1 : at] in "\n"]
    found: list[dict[str, Any]] = []
    for at, end in itertools.pairwise([*starts, len(text)]):
        part = text[at:end]
        value = _from_json(part)
        if value is None:
            value = _from_edn(part)
        if isinstance(value, dict) and "valid?" in value:
            found.append(_checked(value))
    return found


def _from_json(text: str) -> Any:
    try:
        return json.JSONDecoder().raw_decode(text)[0]
    except ValueError:
        return None


def _from_edn(text: str) -> Any:
    try:
        return plain(next(edn.read_each([text]))[1])
    except (edn.EdnError, StopIteration):
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
