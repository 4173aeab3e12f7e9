"""How commands fail: one line, and an exit status."""

from __future__ import annotations

from typing import Final

DONE: Final = 0
NOT_DONE: Final = 1
"""The cluster was not reached, or did not do it in time: repeat the command."""
REFUSED: Final = 254
"""Wrong arguments, or something that the cluster refuses: change the command."""


class AdminError(Exception):
    """The command ends here; the text says in one line what was wrong, where, and what to do."""

    def __init__(self, text: str, status: int = REFUSED) -> None:
        super().__init__(text)
        self.status = status
