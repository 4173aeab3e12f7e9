"""Hosts as Vagrant machines: the machines ``n1`` … of a Vagrantfile, controlled with vagrant.

Host keys are pinned when a machine is first seen. They are read through ``vagrant ssh``, which logs
in with the key that Vagrant put into the machine. They are kept next to Vagrant's own machine id in
``.vagrant/kraftwreck/`` (below ``VAGRANT_DOTFILE_PATH``, if that is set). A machine with another id
is a new machine and is pinned again; the same machine with another key is rejected.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kraftwreck.harness.clusters.cluster import ClusterError, ClusterUnavailable, Host, node_names
from kraftwreck.harness.clusters.healing import heal_hosts
from kraftwreck.harness.clusters.hosts import check_logins
from kraftwreck.harness.patience import PATIENCE
from kraftwreck.harness.remote.ssh import paramiko
from kraftwreck.histories.exit_codes import BAD_ARGUMENTS

PROJECT = Path(__file__).resolve().parents[2]
ADDRESS_FILE = "/etc/kraftwreck/address"
"""The file with the machine's address among the machines, written by vagrant/provision.sh."""
HOST_KEY_FILE = "/etc/ssh/ssh_host_ed25519_key.pub"

_QUERY_TIMEOUT_S = 180 * PATIENCE
_UP_TIMEOUT_S = 3600 * PATIENCE


class VagrantCluster:
    """The first ``nodes`` machines of the Vagrantfile in ``directory``.

    ``up`` starts the machines that are not running; ``down`` halts only those that ``up`` started.
    """

    name = "vagrant"

    def __init__(self, nodes: int = 5, directory: Path = PROJECT) -> None:
        self.directory = directory
        self.names = list(node_names(nodes))
        self.hosts: list[Host] = []
        self._started: list[str] = []
        self._checked: dict[str, str] = {}

    def up(self) -> list[Host]:
        """Start the machines if needed and return them as hosts.

        Raises :class:`ClusterUnavailable` if vagrant is missing, otherwise ClusterError.
        """
        states = self._checked or self.status()
        self._checked = {}
        unknown = [name for name in self.names if name not in states]
        if unknown:
            raise ClusterError(
                f"the Vagrantfile in {self.directory} has no machine {unknown[0]}: "
                f"it has {', '.join(states) or 'none'}",
                exit_code=BAD_ARGUMENTS,
            )
        self._started = [name for name in self.names if states[name] != "running"]
        if self._started:
            self._vagrant(["up", *self._started], _UP_TIMEOUT_S, show=True)
        return self._use(self.names)

    def attach(self) -> list[Host]:
        """Return the machines that are running as hosts; start none."""
        running = [name for name, state in self.status().items() if state == "running"]
        return self._use([name for name in running if re.fullmatch("n[1-9][0-9]*", name)])

    def _use(self, names: Sequence[str]) -> list[Host]:
        """Log in to running machines and return them as hosts; raise ClusterError."""
        self.hosts = []
        if names:
            config = self._vagrant(["ssh-config", *names], _QUERY_TIMEOUT_S)
            self.hosts = [self._host(name, parse_ssh_config(config, name)) for name in names]
            check_logins(self.hosts)
        return list(self.hosts)

    @property
    def state(self) -> Path:
        """The directory of Vagrant's state and of the pinned host keys."""
        return self.directory / (os.environ.get("VAGRANT_DOTFILE_PATH") or ".vagrant")

    def check(self) -> None:
        """Raise like :meth:`up` if vagrant, its provider or the Vagrantfile is missing."""
        self._checked = self.status()

    def _check_tools(self) -> None:
        if shutil.which("vagrant") is None:
            raise ClusterUnavailable("vagrant is missing: apt-get install vagrant")
        if not (self.directory / "Vagrantfile").is_file():
            raise ClusterError(
                f"there is no Vagrantfile in {self.directory}: run it from a source tree, or use"
                " other hosts with -c hosts:FILE",
                exit_code=BAD_ARGUMENTS,
            )

    def status(self) -> dict[str, str]:
        """Return the state of every machine of the Vagrantfile (``running`` …).

        Raises like :meth:`up`.
        """
        self._check_tools()
        output = self._vagrant(["status", "--machine-readable"], _QUERY_TIMEOUT_S)
        rows = [line.split(",") for line in output.splitlines()]
        return {row[1]: row[3] for row in rows if len(row) > 3 and row[2] == "state"}

    def _host(self, name: str, settings: dict[str, Any]) -> Host:
        pin = self._pin(name)
        user = settings.get("user", "vagrant")
        return Host(
            name=name,
            node_id=int(name[1:]),
            ip=pin["ip"],
            host_key=pin["host_key"],
            port=int(settings.get("port", 22)),
            user=user,
            key=Path(settings["identityfile"][0]),
            become="" if user == "root" else "sudo -n",
            ssh_address=settings["hostname"],
            clock="machine",
        )

    def _pin(self, name: str) -> dict[str, str]:
        """Return address and host key of a machine; ask the machine only when it is new."""
        machine = self._machine_id(name)
        file = self.state / "kraftwreck" / f"{name}.json"
        try:
            pin: dict[str, str] = json.loads(file.read_text())
            if pin["machine"] == machine and pin["ip"] and pin["host_key"]:
                return pin
        except (OSError, ValueError, KeyError, TypeError):
            pass
        output = self._vagrant(
            ["ssh", name, "-c", f"cat {ADDRESS_FILE} {HOST_KEY_FILE}"], _QUERY_TIMEOUT_S
        )
        ip = re.search(r"^([0-9]+(?:\.[0-9]+){3})\s*$", output, re.MULTILINE)
        key = re.search(r"^(ssh-ed25519 [A-Za-z0-9+/=]+)", output, re.MULTILINE)
        if ip is None or key is None:
            raise ClusterError(
                f"machine {name} has no {ADDRESS_FILE if ip is None else HOST_KEY_FILE}: "
                f"run `vagrant provision {name}`"
            )
        pin = {"machine": machine, "ip": ip[1], "host_key": key[1]}
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(pin, indent=1))
        return pin

    def _machine_id(self, name: str) -> str:
        """Return Vagrant's id of the machine; it changes when the machine is recreated."""
        ids = sorted((self.state / "machines" / name).glob("*/id"))
        if not ids:
            raise ClusterError(f"machine {name} has not been created: run `vagrant up {name}`")
        return f"{ids[0].parent.name}:{ids[0].read_text().strip()}"

    def heal(self) -> dict[str, dict[str, object]]:
        """Undo all drops and pauses on the machines."""
        return heal_hosts(self.hosts)

    def down(self) -> None:
        """Halt the machines that ``up`` started."""
        started, self._started, self.hosts = self._started, [], []
        if started:
            self._vagrant(["halt", *started], _UP_TIMEOUT_S, show=True)

    def halt(self) -> None:
        """Halt every machine, also those that ``up`` did not start."""
        if shutil.which("vagrant") is None:
            raise ClusterUnavailable("vagrant is missing: apt-get install vagrant")
        self._started = []
        self._vagrant(["halt"], _UP_TIMEOUT_S, show=True)

    def _vagrant(self, arguments: Sequence[str], timeout_s: float, show: bool = False) -> str:
        """Run vagrant; with ``show`` copy its progress to standard error."""
        command = ["vagrant", *arguments]
        try:
            done = subprocess.run(
                command,
                cwd=self.directory,
                env={**os.environ, "VAGRANT_CHECKPOINT_DISABLE": "1", "VAGRANT_NO_COLOR": "1"},
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr if show else subprocess.PIPE,
                stderr=None if show else subprocess.PIPE,
                text=True,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise ClusterError(
                f"`{' '.join(command)}` gave no result in {timeout_s:g} s"
            ) from error
        except OSError as error:
            raise ClusterUnavailable(f"vagrant cannot be run: {error.strerror}") from error
        if "Errors::NoDefaultProvider" in (done.stdout or ""):
            raise ClusterUnavailable(
                "vagrant has no provider here: apt-get install vagrant-libvirt, docker.io, "
                "vagrant-lxc or virtualbox, or set VAGRANT_DEFAULT_PROVIDER"
            )
        if done.returncode != 0:
            raise ClusterError(
                f"`{' '.join(command)}` gave status {done.returncode}: {_complaint(done)}"
            )
        return done.stdout or ""


def _complaint(done: subprocess.CompletedProcess[str]) -> str:
    """Return the first sentence of vagrant's error message."""
    for line in (done.stdout or "").splitlines():
        fields = line.split(",", 4)
        if len(fields) == 5 and fields[2] == "error-exit":
            return fields[4].replace("%!(VAGRANT_COMMA)", ",").split("\\n")[0]
    said = (done.stderr or "").strip().splitlines()
    return said[0][:300] if said else "see its messages above"


def parse_ssh_config(text: str, name: str) -> dict[str, Any]:
    """Return the output of ``vagrant ssh-config`` on one machine; raise ClusterError."""
    settings: dict[str, Any] = dict(paramiko.SSHConfig.from_text(text).lookup(name))
    if not settings.get("identityfile") or settings.get("hostname", name) == name:
        raise ClusterError(f"`vagrant ssh-config` does not list {name}: is it running?")
    return settings
