"""Two namespace hosts, and a server that misbehaves as its arguments say."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from kraftwreck.harness.clusters.cluster import Host
from kraftwreck.harness.clusters.netns import NetnsCluster
from kraftwreck.harness.deploy.artefacts import Files
from kraftwreck.harness.deploy.cache import ArtefactCache
from kraftwreck.harness.deploy.declaration import Place, Process
from kraftwreck.harness.deploy.deployment import PlainDeployment
from kraftwreck.harness.remote.session import RemoteError

SERVER = '''
"""serve [--ignore-term] [--late S] [--leave-child] | exit N | background | fill FOLDER | silent"""
import http.server, os, signal, socket, subprocess, sys, time

ip, port, mode, *more = sys.argv[1:]
if mode == "exit":
    sys.stdout.write("about to end: \\x00\\x1b[31m\\n")
    sys.stdout.flush()
    os.write(1, bytes(range(256)) + b"\\nthe configuration is broken\\n")
    sys.exit(int(more[0]))
if mode == "background":
    if os.fork():
        os._exit(0)
    time.sleep(0.3)
if mode == "fill":
    with open(os.path.join(more[0], "big"), "wb") as file:
        while True:
            file.write(os.urandom(1 << 20))
            file.flush()
            time.sleep(0.01)
if "--ignore-term" in more:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "--leave-child" in more:
    child = os.fork()
    if child == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(1000)
    os.waitpid(child, 0)
if "--late" in more:
    time.sleep(float(more[more.index("--late") + 1]))
if mode == "silent":
    time.sleep(1000)

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/healthy" else 503)
        self.end_headers()
        self.wfile.write(os.environ.get("GREETING", "").encode())

print("ready to serve", flush=True)
http.server.ThreadingHTTPServer((ip, int(port)), Handler).serve_forever()
'''
PYTHON = "/usr/bin/python3"


@pytest.fixture(scope="session")
def own_state_directories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Keep the tests' clusters apart from the user's."""
    before = os.environ.get("XDG_RUNTIME_DIR")
    runtime = tmp_path_factory.mktemp("runtime")
    os.environ["XDG_RUNTIME_DIR"] = str(runtime)
    yield runtime
    if before is None:
        del os.environ["XDG_RUNTIME_DIR"]
    else:
        os.environ["XDG_RUNTIME_DIR"] = before
    shutil.rmtree(runtime, ignore_errors=True)


@pytest.fixture(scope="module")
def namespace_hosts(netns_possible: None, own_state_directories: Path) -> Iterator[list[Host]]:
    """Two hosts for all tests of a module."""
    cluster = NetnsCluster(2)
    yield cluster.up()
    cluster.down()


Deploy = Callable[..., PlainDeployment]


@pytest.fixture
def deploy(namespace_hosts: list[Host], tmp_path: Path) -> Iterator[Deploy]:
    """Return a function that declares processes on the first host; not started yet."""
    (tmp_path / "server.py").write_text(SERVER)
    made: list[PlainDeployment] = []

    def declare(*processes: Process, squeezable: bool = False) -> PlainDeployment:
        artefact = Files(name="server", paths=(tmp_path / "server.py",))
        fetched = ArtefactCache(tmp_path / "cache").fetch_all([artefact])
        host = namespace_hosts[0]
        deployment = PlainDeployment(
            [host],
            {host.name: Place.of(host, "node")},
            {host.name: processes},
            fetched,
            squeezable=squeezable,
        )
        made.append(deployment)
        return deployment

    yield declare
    for deployment in made:
        with suppress(RemoteError):
            deployment.stop_all(0.0)
        deployment.close()


@pytest.fixture
def command(namespace_hosts: list[Host]) -> Callable[..., tuple[str, ...]]:
    """Return a function that gives the command of the server in a mode, on a port."""
    place = Place.of(namespace_hosts[0], "node")

    def argv(mode: str, *more: object, port: int = 7000) -> tuple[str, ...]:
        script = f"{place.artefact('server')}/server.py"
        words: Sequence[object] = (PYTHON, script, place.ip, port, mode, *more)
        return tuple(map(str, words))

    return argv
