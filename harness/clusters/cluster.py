"""What a cluster is: named hosts that can be reached over SSH with pinned host keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from histories.exit_codes import BAD_ARGUMENTS, FAILED, CommandError


class ClusterError(CommandError):
    """A cluster cannot be brought up or used; the message is one line for the user.

    ``exit_code`` is 254 for what the user must change (arguments, missing tool) and 255
    for what failed on the way.
    """

    def __init__(self, message: str, exit_code: int = FAILED) -> None:
        super().__init__(" ".join(message.split()))
        self.exit_code = exit_code


class ClusterUnavailable(ClusterError):  # noqa: N818 - a state of the machine, no mistake
    """This machine cannot run such a cluster at all; another provider may do."""

    def __init__(self, message: str) -> None:
        super().__init__(message, exit_code=BAD_ARGUMENTS)


@dataclass(frozen=True, slots=True)
class Host:
    """One machine, real or not.

    ``ip`` is its address among the hosts (where its service listens, and what peers drop);
    ``ssh_address`` where the control node reaches its sshd, when that is another one.
    ``host_key`` is the only accepted host key, as in ``"ssh-ed25519 AAAA..."``. ``key`` is
    a private key file, None to ask the user's agent and default keys. ``become`` is put
    before every command: empty for root, ``"sudo -n"`` otherwise. ``gateway`` is the directory of
    the cluster whose network the host is in, where none of this machine's leads there
    (:mod:`harness.clusters.gateway`). ``clock`` is ``"machine"`` where the machine's own wall clock
    may be put wrong, if it turns out to have one for itself (:mod:`harness.on_host.date`).
    """

    name: str
    node_id: int
    ip: str
    host_key: str
    port: int = 22
    user: str = "root"
    key: Path | None = None
    become: str = ""
    ssh_address: str = ""
    gateway: Path | None = None
    clock: str = ""

    @property
    def ssh_endpoint(self) -> tuple[str, int]:
        """Address and port of the host's sshd."""
        return self.ssh_address or self.ip, self.port

    def as_json(self) -> dict[str, Any]:
        """Return the host as plain JSON values."""
        paths = {"key": self.key, "gateway": self.gateway}
        return asdict(self) | {name: path and str(path) for name, path in paths.items()}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Host:
        """Return the host of what :meth:`as_json` returned. Raises TypeError."""
        paths = {name: fields.get(name) for name in ("key", "gateway")}
        return cls(**fields | {name: Path(path) if path else None for name, path in paths.items()})


class Cluster(Protocol):
    """Hosts for one run. Every method raises :class:`ClusterError` with one line."""

    name: str

    def up(self) -> list[Host]:
        """Bring the hosts up (where that is ours to do) and return them in node order."""
        ...

    def heal(self) -> dict[str, dict[str, object]]:
        """Undo every drop and pause left on the hosts; return the evidence by host name."""
        ...

    def down(self) -> None:
        """Give the hosts back. Harmless when they are not up."""
        ...


@runtime_checkable
class Machines(Protocol):
    """A cluster whose hosts can be crashed. Both raise :class:`ClusterError` with one line."""

    def crash(self, name: str) -> dict[str, Any]:
        """Let a host lose its power; return evidence."""
        ...

    def boot(self, name: str) -> dict[str, Any]:
        """Start a host that crashed; return evidence once its sshd is up."""
        ...


def node_names(count: int) -> Sequence[str]:
    """Return ``n1`` … ``n<count>``."""
    return [f"n{number}" for number in range(1, count + 1)]
