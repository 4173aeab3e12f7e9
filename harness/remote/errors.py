"""Errors of hosts, which record the hosts they are about."""

from __future__ import annotations

from collections.abc import Sequence

from kraftwreck.histories.exit_codes import CommandError


class RemoteError(CommandError):
    """A host could not be reached or returned a failure; one line with the host and the reason.

    ``said`` is the line without the host. ``parts`` are the errors of single hosts, if several
    requests were made at once.
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
    """No session with the host could be opened: no command was executed there."""
