"""Namespace hosts shared by the tests of this folder, and a service to put on them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from kraftwreck.harness.clusters.cluster import Host
from kraftwreck.harness.clusters.netns import NetnsCluster
from kraftwreck.harness.remote.session import Remote
from kraftwreck.systems.kraft.remote.deployment import Deployment
from kraftwreck.systems.kraft.remote.environment import RemoteEnvironment
from kraftwreck.systems.kraft.remote.settings import Settings

SERVICE_SOURCE = '''
"""Listens as configured, and says so in its trace and its data directory."""
import json, os, signal, socket, sys, threading

text = open(sys.argv[sys.argv.index("--config") + 1]).read()
config = dict(line.split("=", 1) for line in text.splitlines())
if sys.argv[1] == "format":
    sys.exit(0)
ip, port = config["listeners"].partition("://")[2].rsplit(":", 1)
with open(config["kraftwreck.trace.file"], "a") as trace:
    trace.write(json.dumps({"node": config["kraftwreck.node.name"], "pid": os.getpid()}) + "\\\\n")
with open(os.path.join(config["log.dirs"], "written"), "a") as data:
    data.write("start\\\\n")
if os.path.exists("/etc/kraftwreck/broken"):
    sys.exit("the configuration is broken")
open(config["kraftwreck.input.log"], "a").close()
listener = socket.create_server((ip, int(port)))
print("listening", flush=True)
while True:
    connection, _ = listener.accept()
    connection.sendall(b"hello")
    connection.close()
'''


@pytest.fixture(scope="session", autouse=True)
def own_state_directories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Keep the tests' clusters apart from the user's."""
    before = os.environ.get("XDG_RUNTIME_DIR")
    runtime = tmp_path_factory.mktemp("runtime")
    os.environ["XDG_RUNTIME_DIR"] = str(runtime)
    yield runtime / "kraftwreck"
    if before is None:
        del os.environ["XDG_RUNTIME_DIR"]
    else:
        os.environ["XDG_RUNTIME_DIR"] = before
    shutil.rmtree(runtime, ignore_errors=True)


@pytest.fixture(scope="session")
def service_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree of node code: a small service instead of a node."""
    tree = tmp_path_factory.mktemp("service") / "nodes"
    tree.mkdir()
    (tree / "__init__.py").touch()
    (tree / "__main__.py").write_text(SERVICE_SOURCE.replace("\\\\n", "\\n"))
    return tree


@pytest.fixture(scope="module")
def five(netns_possible: None, own_state_directories: Path) -> Iterator[list[Host]]:
    """Five hosts for all tests of a module, which leave them as they were."""
    cluster = NetnsCluster(5)
    hosts = cluster.up()
    yield hosts
    cluster.down()


@pytest.fixture(scope="module")
def remotes(five: list[Host]) -> Iterator[dict[str, Remote]]:
    """A session with each of the five hosts."""
    sessions = {host.name: Remote(host) for host in five}
    yield sessions
    for session in sessions.values():
        session.close()


@pytest.fixture(scope="module")
def installed(five: list[Host], service_tree: Path) -> Iterator[Deployment]:
    """The service, installed on all five hosts."""
    deployment = Deployment(five, Settings(seed=7, tree=service_tree))
    deployment.install()
    yield deployment
    deployment.stop_all()
    deployment.close()


@pytest.fixture
def environment(installed: Deployment) -> Iterator[RemoteEnvironment]:
    """The service running everywhere and no fault; so again at the end of the test."""
    installed.start_all()
    environment = RemoteEnvironment(installed)
    assert environment.restore() == []
    yield environment
    assert environment.restore() == []
    environment.close()
