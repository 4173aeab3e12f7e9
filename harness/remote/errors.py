"""Why a host could not do what it was asked: errors that know which host they are about."""

from __future__ import annotations

from collections.abc import Sequence

from histories.exit_codes import CommandError


class RemoteError(CommandError):
    """A host could not be asked, or answered with a failure; one line says which and what.

    ``said`` is the line without the host. ``parts`` are the errors of single hosts, where several
    were asked at once.
    """

    def __init__(self, host: str, message: str, parts: Sequence[RemoteError] = ()) -> None:
        self.host = host
        self.said = " ".join(message.split())
        self.parts = tuple(parts) or (self,)
        super().__init__(f"{host}: {self.said}")

    @property
    def hosts(self) -> tuple[str, ...]:
        """All hosts that failed."""
        return tuple(part.host for part in self.parts)


class UnreachableError(RemoteError):
    """There is no session with the host, and none could be had: nothing was done there."""
