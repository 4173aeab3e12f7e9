"""The interface of clusters: named hosts, reachable over SSH with pinned host keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from kraftwreck.histories.exit_codes import BAD_ARGUMENTS, FAILED, CommandError


class ClusterError(CommandError):
    """A cluster cannot be brought up or used; the message is one line for the user.

    ``exit_code`` is 254 if the user must change something (an argument, a missing tool), and 255
    for other failures.
    """

    def __init__(self, message: str, exit_code: int = FAILED) -> None:
        super().__init__(" ".join(message.split()))
        self.exit_code = exit_code


class ClusterUnavailable(ClusterError):  # noqa: N818 - a state of the machine, not a mistake
    """This machine cannot run such a cluster at all; another provider may work."""

    def __init__(self, message: str) -> None:
        super().__init__(message, exit_code=BAD_ARGUMENTS)


class FirstUse:
    """Whether hosts that were made on this machine are still as they came up.

    All hosts of a cluster share one. The first deployment takes it, and then knows that no earlier
    run has left anything on any of them.
    """

    def __init__(self) -> None:
        self._left = [True]

    def take(self) -> bool:
        """Return True to the first caller only."""
        try:
            return self._left.pop()
        except IndexError:
            return False


@dataclass(frozen=True, slots=True)
class Host:
    """One machine, real or not.

    ``ip`` is its address among the hosts: its service listens there, and peers drop packets by it.
    ``ssh_address`` is where the control node reaches its sshd, if that differs. ``host_key`` is the
    only accepted host key, as in ``"ssh-ed25519 AAAA..."``. ``key`` is a private key file; None
    means the user's agent and default keys. ``become`` is put before every command: empty for root,
    ``"sudo -n"`` otherwise. ``gateway`` is the directory of the cluster whose network the host is
    in, if no network of this machine leads there (:mod:`harness.clusters.gateway`). ``clock`` is
    ``"machine"`` if the machine's own wall clock may be changed, provided that no other host shares
    it (:mod:`harness.on_host.date`). ``first_use`` is None if the host may have been used before.
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
    first_use: FirstUse | None = field(default=None, compare=False, repr=False)

    @property
    def ssh_endpoint(self) -> tuple[str, int]:
        """Address and port of the host's sshd."""
        return self.ssh_address or self.ip, self.port

    def as_json(self) -> dict[str, Any]:
        """Return the host as plain JSON values, without its first use."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        paths = {"key": self.key, "gateway": self.gateway}
        del values["first_use"]
        return values | {name: path and str(path) for name, path in paths.items()}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Host:
        """Return the host from the result of :meth:`as_json`. Raises TypeError."""
        paths = {name: values.get(name) for name in ("key", "gateway")}
        return cls(**values | {name: Path(path) if path else None for name, path in paths.items()})


class Cluster(Protocol):
    """Hosts for one run. Every method raises :class:`ClusterError` with one line."""

    name: str

    def up(self) -> list[Host]:
        """Bring the hosts up (if the provider starts them) and return them in node order."""
        ...

    def heal(self) -> dict[str, dict[str, object]]:
        """Undo all drops and pauses on the hosts; return the evidence by host name."""
        ...

    def down(self) -> None:
        """Release the hosts. Harmless when they are not up."""
        ...


@runtime_checkable
class Machines(Protocol):
    """A cluster whose hosts can be crashed. Both raise :class:`ClusterError` with one line."""

    def crash(self, name: str) -> dict[str, Any]:
        """Cut the power of a host; return evidence."""
        ...

    def boot(self, name: str) -> dict[str, Any]:
        """Boot a crashed host; return evidence once its sshd is up."""
        ...


def node_names(count: int) -> Sequence[str]:
    """Return ``n1`` … ``n<count>``."""
    return [f"n{number}" for number in range(1, count + 1)]
