"""Vagrant machines without Vagrant: namespace hosts behind a stand-in for the tool."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.harness.clusters.cluster import Host
from kraftwreck.harness.clusters.netns import NetnsCluster


@pytest.fixture(scope="session")
def namespace_hosts(
    netns_possible: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Host]]:
    before = os.environ.get("XDG_RUNTIME_DIR")
    os.environ["XDG_RUNTIME_DIR"] = str(tmp_path_factory.mktemp("runtime"))
    cluster = NetnsCluster(3)
    yield cluster.up()
    cluster.down()
    if before is None:
        del os.environ["XDG_RUNTIME_DIR"]
    else:
        os.environ["XDG_RUNTIME_DIR"] = before


class Project:
    """A folder with a Vagrantfile; its machines are namespace hosts."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def describe(self, machines: dict[str, dict[str, Any]]) -> None:
        (self.directory / "machines.json").write_text(json.dumps(machines))

    def machines(self) -> dict[str, dict[str, Any]]:
        machines: dict[str, dict[str, Any]] = json.loads(
            (self.directory / "machines.json").read_text()
        )
        return machines

    def calls(self) -> list[str]:
        """The vagrant commands run so far."""
        return (self.directory / "calls").read_text().splitlines()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    directory = tmp_path / "project"
    directory.mkdir()
    (directory / "Vagrantfile").touch()
    tool = tmp_path / "bin" / "vagrant"
    tool.parent.mkdir()
    fake = Path(__file__).with_name("fake_vagrant.py")
    tool.write_text(f'#!/bin/sh\nexec {sys.executable} -S {fake} "$@"\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    return Project(directory)


@pytest.fixture
def machines(project: Project, namespace_hosts: list[Host]) -> Project:
    """Three machines that are not running."""
    project.describe({
        host.name: {
            "state": "poweroff", "address": host.ip, "user": host.user, "port": host.port,
            "key": str(host.key), "said": f"{host.ip}\n{host.host_key} root@{host.name}",
        }
        for host in namespace_hosts
    })  # fmt: skip
    return project
