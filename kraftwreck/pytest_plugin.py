"""The pytest plug-in: fault-injection runs as ordinary tests, by the fixture ``kraftwreck``.

    def test_registers_survive_kills(kraftwreck):
        kraftwreck.run("mine", workload="register", faults="kill", seconds=20)

A test fails unless the verdict is valid, and shows verdict, anomalies and the command that repeats
the run. It is skipped, with one line, where hosts cannot be had.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import pytest

SHOWN_ANOMALIES = 3
LONGEST_EXPLANATION = 2000
_SEEDS = "kraftwreck_seeds"
_STORE = "kraftwreck_store"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options and the setting of this plug-in."""
    group = parser.getgroup("kraftwreck", "fault-injection runs")
    group.addoption(
        "--kraftwreck-seeds",
        dest=_SEEDS,
        type=int,
        metavar="N",
        help="run every test that uses the fixture kraftwreck with the seeds 1 to N",
    )
    group.addoption(
        "--kraftwreck-store",
        dest=_STORE,
        metavar="DIR",
        help="where run folders are kept [default: store in the root directory]",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Refuse a number of seeds that is not positive."""
    count = config.getoption(_SEEDS)
    if count is not None and count < 1:
        raise pytest.UsageError(f"--kraftwreck-seeds {count}: give a number from 1")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test once for each seed, if seeds were given."""
    count = metafunc.config.getoption(_SEEDS)
    if count and "kraftwreck" in metafunc.fixturenames:
        seeds = range(1, count + 1)
        ids = [f"seed-{seed}" for seed in seeds]
        metafunc.parametrize("kraftwreck", seeds, indirect=True, ids=ids)


@dataclass(frozen=True, slots=True)
class Run:
    """A run that ended: its folder, verdict (``"unknown"`` is no proof), and how to repeat it.

    ``checkers`` has the verdict of each checker, ``strength`` the measurements that the verdict
    rests on, ``anomalies`` the first ones in words, ``errors`` those of the harness.
    """

    folder: Path
    valid: bool | str
    seed: int
    repeat: str
    checkers: dict[str, bool | str]
    strength: dict[str, Any] = field(default_factory=dict)
    anomalies: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()

    def __str__(self) -> str:
        word = "valid" if self.valid is True else "INVALID" if self.valid is False else "unknown"
        lines = [f"kraftwreck: {word} (seed {self.seed})"]
        lines += [
            f"  {name}: {valid}" for name, valid in self.checkers.items() if valid is not True
        ]
        lines += [f"  {anomaly}" for anomaly in self.anomalies]
        lines += [f"  harness: {error}" for error in self.errors]
        report = self.folder / "report.html"
        return "\n".join(
            [*lines, f"run:    {self.folder}", f"report: {report}", f"repeat: {self.repeat}"]
        )


class Kraftwreck:
    """The fixture: runs tests with ``kraftwreck run`` and judges them."""

    def __init__(self, store: Path, seed: int | None, request: pytest.FixtureRequest) -> None:
        self._store = store
        self._seed = seed
        self._request = request

    def run(
        self,
        system: str | None = None,
        *,
        workload: str | None = None,
        faults: str | Sequence[str] | None = None,
        seconds: float = 20.0,
        cluster: str = "netns",
        nodes: int | None = None,
        rate: float | None = None,
        concurrency: int | None = None,
        seed: int | None = None,
        options: Sequence[str] = (),
    ) -> Run:
        """Run one test; return it if its verdict is valid.

        The arguments are those of ``kraftwreck run``; ``options`` are more of them, word by word.
        Without ``system`` or ``faults`` they are the defaults of ``kraftwreck run``; without
        ``seed`` it is the one of ``--kraftwreck-seeds``, or random. Fails the test for any other
        verdict and for errors of the harness, and skips it where ``cluster`` cannot be had.
        """
        skip_without_hosts(cluster)
        if seed is None:
            seed = secrets.randbelow(1 << 31) if self._seed is None else self._seed
        words = [] if system is None else [system]
        if faults is not None:
            words += ["-n", faults if isinstance(faults, str) else ",".join(faults)]
        words += ["-t", f"{seconds:g}", "-c", cluster, "--seed", str(seed)]
        for option, value in (
            ("-w", workload),
            ("--nodes", nodes),
            ("--rate", rate),
            ("--concurrency", concurrency),
        ):
            if value is not None:
                words += [option, str(value)]
        words += ["--store", str(self._store), *options]
        run = self._judged(words, seed)
        self._record(run)
        if run.valid is not True or run.errors:
            pytest.fail(str(run), pytrace=False)
        return run

    def _judged(self, words: Sequence[str], seed: int) -> Run:
        command = [sys.executable, "-m", "kraftwreck", "run", *words, "--json", "--no-tables"]
        # Plug-ins that this process can import must be found there, too.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stderr is not None
        said: list[str] = []
        reader = threading.Thread(target=_pass_on, args=(process.stderr, said), daemon=True)
        reader.start()
        try:
            printed = process.stdout.read()
        finally:
            process.wait()  # After an interrupt it heals and gives the hosts back.
            reader.join(5.0)
        try:
            told = json.loads(printed)
        except ValueError:
            last = said[-1] if said else f"exit status {process.returncode}"
            pytest.fail(f"kraftwreck: {last}", pytrace=False)
        folder = Path(told["run"])
        return Run(
            folder=folder,
            valid=told["valid"],
            seed=seed,
            repeat=told["repeat"],
            checkers=told["checkers"],
            strength=told["strength"],
            anomalies=anomalies_of(folder),
            errors=tuple(told["errors"]),
        )

    def _record(self, run: Run) -> None:
        """Add the run to the properties of the test, which go to the JUnit file."""
        for name in ("seed", "valid", "folder", "repeat"):
            value = str(getattr(run, name))
            self._request.node.user_properties.append((f"kraftwreck_{name}", value))


def _pass_on(stream: IO[str], said: list[str]) -> None:
    """Print the lines of the run where pytest captures them, and keep them."""
    for line in stream:
        said.append(line.rstrip("\n"))
        sys.stderr.write(line)


def skip_without_hosts(cluster: str) -> None:
    """Skip the test, with the reason in one line, where ``cluster`` cannot be had."""
    if cluster != "netns":
        return
    from kraftwreck.harness.clusters.cluster import ClusterUnavailable
    from kraftwreck.harness.clusters.netns import probe

    try:
        probe()
    except ClusterUnavailable as error:
        pytest.skip(f"kraftwreck: {error}")


def anomalies_of(folder: Path) -> tuple[str, ...]:
    """Return the first anomalies of each checker of the run in ``folder``, in words."""
    try:
        checkers = json.loads((folder / "results.json").read_text())["checkers"]
    except (OSError, ValueError, KeyError):
        return ()
    found = []
    for name, result in checkers.items():
        anomalies = result.get("anomalies", [])
        for anomaly in anomalies[:SHOWN_ANOMALIES]:
            explanation = str(anomaly.get("explanation", ""))[:LONGEST_EXPLANATION]
            found.append(f"{name}: {anomaly.get('type')}: {explanation}")
        if len(anomalies) > SHOWN_ANOMALIES:
            found.append(f"{name}: {len(anomalies) - SHOWN_ANOMALIES} more")
        if result.get("error"):
            found.append(f"{name}: {result['error']}")
    return tuple(found)


@pytest.fixture
def kraftwreck(request: pytest.FixtureRequest) -> Kraftwreck:
    """Run fault-injection tests: ``kraftwreck.run("mine", faults="kill", seconds=20)``."""
    config = request.config
    chosen = config.getoption(_STORE)
    store = config.rootpath / "store" if chosen is None else Path(chosen).absolute()
    return Kraftwreck(store, getattr(request, "param", None), request)
