"""Changes of a group's members, one at a time, for all families that cause them."""

from __future__ import annotations

from typing import Any

from kraftwreck.harness.capabilities import MEMBERSHIP
from kraftwreck.nemesis.family import Active, Effect, FaultState


class MemberChanges(Effect):
    """The changes in progress. Two at once could leave a group whose majority is gone for good."""

    def __init__(self, state: FaultState) -> None:
        super().__init__(state)
        self.ended: list[dict[str, Any]] = []
        """Results of changes that no fault has recorded yet."""
        self.changing: list[Active] = []
        """The faults that change members, until these have been added back."""

    def no_change(self, active: Active) -> str | None:
        """Return why ``active`` cannot change members now, None if it can."""
        env = self.state.env
        lacking = env.why_not(MEMBERSHIP)
        if lacking is not None:
            return lacking
        if not active.targets:
            return "its targets include no member"
        if any(other is not active and other.targets for other in self.changing):
            return "another change is in force"
        changes = env[MEMBERSHIP].member_changes()
        self.ended.extend(changes["ended"])
        return "an earlier change is not complete" if changes["open"] else None
