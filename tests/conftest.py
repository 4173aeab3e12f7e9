"""Rules for all tests: which need namespaces, and which must not run side by side."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path

import hypothesis
import pytest

from kraftwreck.harness.clusters.cluster import ClusterUnavailable
from kraftwreck.harness.clusters.netns import probe
from tests.busy import BUSY
from tests.groups import Machine, longest_first, put_into_groups
from tests.stages import run_nowhere

TIMED = ("cluster", "browser", "wall_clock")
"""Markers of tests that wait for things that really happen, on a machine others use, too."""

NICE = os.getpriority(os.PRIO_PROCESS, 0)
NICER = NICE if BUSY in os.environ else min(NICE + 5, 19)
"""The nice values of tests that others give way to, and of those others. Beside busy loops both
are the same: the loops would take the share that the others give away."""

FULL_SHARE = ("flaky", "spark", "slow")
"""Markers of tests that others give way to."""

HOSTS = {"five", "namespace_hosts"}
"""Fixtures that bring namespace hosts up."""

MACHINE = Machine(Path(__file__).parents[1] / "build")
"""The machine, for the tests with hosts."""

# Deadlines measure wall time: on a busy machine they fail a test that is right.
hypothesis.settings.register_profile("tests", deadline=None)
hypothesis.settings.load_profile("tests")


def pytest_configure(config: pytest.Config) -> None:
    """Let Ctrl-C end the commands that tests start: a shell that runs the tests in the background
    has it ignored, and what they start would inherit that. Let pytest-xdist keep our order.

    The garbage collector waits until all tests are known: they stay, and it would look at them
    again and again, in each worker."""
    gc.disable()
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Let the garbage collector look at nothing that is there already, and begin."""
    gc.freeze()
    gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of ``tests/frames`` and ``tests/consensus/transcripts``."""
    group = parser.getgroup("frames")
    group.addoption("--frames", type=int, default=3_000, help="frames for each of five seeds")
    group.addoption("--frames-seed", type=int, default=1, help="the first of the five seeds")
    about = "record what the transcripts of the consensus core print now"
    parser.getgroup("transcripts").addoption("--rewrite", action="store_true", help=about)


@pytest.fixture(scope="session")
def netns_possible() -> None:
    """Skip where root's namespaces are refused, with the reason. The namespaces of a plain user
    are tested by ``tests/clusters/test_rootless.py``, under the user of the tests."""
    if os.geteuid() != 0:
        pytest.skip("this test is of hosts that only root can have")
    try:
        probe()
    except ClusterUnavailable as error:
        pytest.skip(str(error))


@dataclass
class Ended:
    """How a command ended: its exit code and what it printed."""

    code: int
    out: str
    err: str


@pytest.fixture
def kraftwreck(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """Run the command line in this process, as in ``kraftwreck("run", "-t", "5")``."""
    from kraftwreck.cli.main import status

    def run(*arguments: object) -> Ended:
        capsys.readouterr()
        code = status([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return Ended(code, printed.out, printed.err)

    return run


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """Keep tests with hosts from tests that compare the whole machine before and after.

    The last tests to end are those that wait for other programs and the slow ones, so others give
    way to them; only root can take a smaller share back.
    """
    if os.geteuid() == 0:
        waits = any(item.get_closest_marker(marker) for marker in FULL_SHARE)
        os.setpriority(os.PRIO_PROCESS, 0, NICE if waits else NICER)
    if item.get_closest_marker("cluster") is None:
        return (yield)
    alone = item.get_closest_marker("whole_machine") is not None
    MACHINE.take(alone=alone)
    try:
        return (yield)
    finally:
        if not (alone and nextitem and nextitem.get_closest_marker("whole_machine")):
            MACHINE.leave()


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put tests into the groups of ``tests/groups.py``; workers get the longest first.

    A test that uses the shared hosts belongs to them even without its marker. A test that
    depends on the speed of other programs is tried once more before it counts as failed, and
    pytest's summary names it; not without the plugin for that.
    """
    again = config.pluginmanager.hasplugin("rerunfailures")
    nowhere = run_nowhere(items)
    if nowhere:
        raise pytest.UsageError(f"no stage of .ci/run runs this test: {nowhere[0]}")
    for item in items:
        if HOSTS & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.cluster)
        if again and any(item.get_closest_marker(marker) is not None for marker in TIMED):
            item.add_marker(pytest.mark.flaky(reruns=1))
    put_into_groups(items)
    if hasattr(config, "workerinput"):
        longest_first(items)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show the first failure of each test that was tried again: the second may be its result."""
    for report in terminalreporter.stats.get("rerun", ()):
        terminalreporter.section(f"first attempt of {report.nodeid}")
        terminalreporter.line(report.longreprtext)
