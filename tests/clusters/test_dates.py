"""Wall clocks of machines of their own, set by date(1); and never that of anybody else.

No test sets any clock: namespace hosts have no right to, and what they call ``date`` here is a
program that only remembers what it was asked for.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.harness.capabilities import ClockSetting
from kraftwreck.harness.clusters import healing
from kraftwreck.harness.clusters.healing import heal_hosts
from kraftwreck.harness.clusters.netns import NetnsCluster
from kraftwreck.harness.clusters.state import boot_id
from kraftwreck.harness.on_host import date
from kraftwreck.harness.on_host.clock import Setting
from kraftwreck.harness.on_host.date import FILE
from kraftwreck.harness.remote import agent as agents
from kraftwreck.harness.remote.agent import Agent
from kraftwreck.harness.remote.preloads import CLOCK
from kraftwreck.harness.remote.session import Remote, RemoteError
from kraftwreck.systems.kraft.remote.deployment import Deployment
from kraftwreck.systems.kraft.remote.environment import RemoteEnvironment
from kraftwreck.systems.kraft.remote.settings import Settings

pytestmark = pytest.mark.cluster

HOUR_US = 3_600_000_000
FAKE = """#!/usr/bin/python3
import os, sys, time
path = "/run/fake-date"
ahead = float(open(path).read()) if os.path.exists(path) else 0.0
with open("/run/fake-date.log", "a") as log:
    log.write(" ".join(sys.argv[1:]) + "\\n")
if sys.argv[1] == "-s":
    open(path, "w").write(repr(float(sys.argv[2][1:]) - time.time()))
elif sys.argv[1] == "+%s.%N":
    print(f"{time.time() + ahead:.9f}")
"""
OWN_KERNEL = ("may_set", "container")
"""Checks that pass on a machine with its own kernel."""


@pytest.fixture(scope="module")
def env(
    netns_possible: None, own_state_directories: Path, service_tree: Path
) -> Iterator[RemoteEnvironment]:
    """Two hosts whose inventory says that their machines' clocks may be put wrong."""
    cluster = NetnsCluster(2)
    try:
        hosts = [replace(host, clock="machine") for host in cluster.up()]
        deployment = Deployment(hosts, Settings(seed=3, tree=service_tree, own_clocks=True))
        deployment.install()
        environment = RemoteEnvironment(deployment)
        yield environment
        environment.close()
        deployment.close()
    finally:
        cluster.down()


@pytest.fixture(autouse=True)
def the_machines_own_clock() -> Iterator[None]:
    """Check that a test does not disturb this machine's clock."""
    before = time.time_ns() - time.monotonic_ns()
    yield
    assert abs(time.time_ns() - time.monotonic_ns() - before) < 500_000_000


@pytest.fixture
def elsewhere(env: RemoteEnvironment, monkeypatch: pytest.MonkeyPatch) -> Iterator[Remote]:
    """n1, which believes that it has a kernel of its own, whose clock what it calls date sets."""
    known = agents.sources
    remote = env.deployment.remotes["n1"]

    def patched(names: Any) -> list[tuple[str, str]]:
        own = dict(known(names))
        for function in OWN_KERNEL:
            head = f"def {function}() -> str:"
            yes = f"{head}\n    return ''\n\n\ndef not_{function}() -> str:"
            assert own["kraftwreck.harness.on_host.date"].count(head) == 1
            own["kraftwreck.harness.on_host.date"] = own["kraftwreck.harness.on_host.date"].replace(
                head, yes
            )
        return list(own.items())

    remote.put(FAKE.encode(), "/usr/local/bin/date", mode=0o755)
    monkeypatch.setattr(agents, "sources", patched)
    monkeypatch.setattr(env.deployment, "_control", "another kernel")
    monkeypatch.setattr(healing, "control_boot_id", lambda: "another kernel")
    env.deployment.agents["n1"].close()
    yield remote
    env.deployment.agents["n1"].close()
    remote.run(["rm", "-f", "/usr/local/bin/date", "/run/fake-date", "/run/fake-date.log", FILE])


def ask(env: RemoteEnvironment, control: str) -> dict[str, Any]:
    remote_agent = Agent(env.deployment.remotes["n1"])
    try:
        return remote_agent.ask("clock_means", control=control)
    finally:
        remote_agent.close()


def by_date(remote: Remote) -> float:
    """Return how many seconds what n1 calls date is ahead."""
    return float(remote.run(["date", "+%s.%N"]).text) - time.time()


def in_library(remote: Remote) -> Setting:
    """Return the settings of the node's preloaded library."""
    script = "import sys; sys.path.insert(0, ''); from pathlib import Path; " + (
        "from struct import unpack_from; c = Path(sys.argv[1]).read_bytes(); "
        "n = unpack_from('<Q', c)[0] & 1; import json; "
        "print(json.dumps(unpack_from('<5q', c, 8 + n * 80 + 40)))"
    )
    return Setting(*json.loads(remote.run(["/usr/bin/python3", "-c", script, CLOCK]).text))


def test_the_control_nodes_own_kernel_is_never_set(env: RemoteEnvironment) -> None:
    told = ask(env, boot_id())
    assert told["means"] == "library"
    assert told["why"] == "the kernel is the control node's own, and with it the clock"
    assert env.deployment.clock_means == {"n1": "library", "n2": "library"}


def test_a_clock_of_an_unknown_owner_is_left_alone(env: RemoteEnvironment) -> None:
    assert ask(env, "")["why"] == "it is unknown whether the kernel is the control node's own"


def test_a_clock_that_the_host_may_not_set_is_left_alone(env: RemoteEnvironment) -> None:
    told = ask(env, "another kernel")
    assert told["means"] == "library"
    assert "CAP_SYS_TIME" in told["why"] or "it is a container" in told["why"]


def test_a_mounted_boot_id_is_no_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    """LXC gives one to each container, so it is not the control node's where the clock is."""
    monkeypatch.setattr(date, "BOOT_ID", "/proc")
    why = "it is a container (its boot id is not its kernel's), which shares its clock"
    monkeypatch.setattr(date, "boot_id", lambda: "a container's")
    assert date.shared("another kernel") == why


def test_a_host_refuses_whatever_the_control_node_has_found(
    env: RemoteEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks again each time; and what it calls date is not even asked what time it is."""
    remote = env.deployment.remotes["n1"]
    remote.put(FAKE.encode(), "/usr/local/bin/date", mode=0o755)
    monkeypatch.setattr(env.deployment, "clock_means", {"n1": "date"})
    for control in (boot_id(), "", "another kernel"):
        monkeypatch.setattr(env.deployment, "_control", control)
        with pytest.raises(RemoteError, match=r"^n1: set_clock: the clock of this host is not"):
            env.set_clock("n1", ClockSetting(wall_us=HOUR_US))
    remote.run(["rm", "/usr/local/bin/date"])
    assert remote.run(["ls", "/run/fake-date.log", FILE], check=False).stdout == b""


def test_hosts_of_one_kernel_share_their_clock(
    env: RemoteEnvironment, elsewhere: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    """n1 could; but n2 would have its clock put wrong with it."""
    env.deployment._find_clock_means()
    assert env.deployment.clock_means == {"n1": "library", "n2": "library"}
    with monkeypatch.context() as only:
        only.setattr(env.deployment, "hosts", {"n1": env.deployment.hosts["n1"]})
        env.deployment._find_clock_means()
        assert env.deployment.clock_means["n1"] == "date"
    env.deployment.clock_means.clear()


def test_a_jump_is_set_by_date_and_set_right_again(
    env: RemoteEnvironment, elsewhere: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(env.deployment, "clock_means", {"n1": "date"})
    told = env.set_clock("n1", ClockSetting(wall_us=HOUR_US))["n1"]
    assert told["machine"]["means"] == "date"
    assert told["machine"]["ahead_us"] == pytest.approx(HOUR_US, abs=250_000)
    assert by_date(elsewhere) == pytest.approx(3600, abs=1)
    assert in_library(elsewhere).wall == 0

    again = env.set_clock("n1", ClockSetting(wall_us=-HOUR_US, rate_ppm=50_000))["n1"]
    assert again["machine"]["ahead_before_us"] == pytest.approx(HOUR_US, abs=250_000)
    assert by_date(elsewhere) == pytest.approx(-3600, abs=1), "from what is right, not from then"
    assert in_library(elsewhere).rate_ppm == 50_000, "what date cannot do"

    strobe = env.set_clock("n1", ClockSetting(wall_us=HOUR_US, strobe_us=20_000))["n1"]
    assert strobe["machine"]["ahead_us"] == pytest.approx(0, abs=250_000)
    assert in_library(elsewhere).wall == HOUR_US * 1000

    env.set_clock("n1", ClockSetting())
    assert abs(by_date(elsewhere)) < 1


def test_a_machine_that_is_slow_to_set_its_clock_is_asked_for_more(
    env: RemoteEnvironment, elsewhere: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As emulated ones are: by the time date has begun, what it was asked for is over."""
    slow = FAKE.replace('    open(path, "w")', '    time.sleep(0.6)\n    open(path, "w")')
    assert slow != FAKE
    elsewhere.put(slow.encode(), "/usr/local/bin/date", mode=0o755)
    monkeypatch.setattr(env.deployment, "clock_means", {"n1": "date"})
    told = env.set_clock("n1", ClockSetting(wall_us=HOUR_US))["n1"]
    assert told["machine"]["ahead_us"] == pytest.approx(HOUR_US, abs=250_000)
    env.set_clock("n1", ClockSetting())


def test_healing_finds_a_clock_that_a_killed_run_has_left_wrong(
    env: RemoteEnvironment, elsewhere: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(env.deployment, "clock_means", {"n1": "date"})
    env.set_clock("n1", ClockSetting(wall_us=HOUR_US))
    for each in env.deployment.agents.values():
        each.close()  # else healing waits for what they may be at
    healed = heal_hosts(list(env.deployment.hosts.values()))
    assert {name for name, done in healed.items() if done.get("clock")} == {"n1"}
    assert abs(by_date(elsewhere)) < 1
    assert elsewhere.run(["ls", FILE], check=False).stdout == b""
    again = heal_hosts(list(env.deployment.hosts.values()))
    assert not any(done.get("clock") for done in again.values())
