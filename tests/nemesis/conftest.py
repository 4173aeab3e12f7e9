"""A cluster of five that only writes down what is done to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kraftwreck.harness.capabilities import (
    CAPABILITIES,
    MEMBERSHIP,
    Capability,
    ClockSetting,
    Environment,
    Grudge,
    MemberChange,
)
from kraftwreck.histories.disturbance import Disturbance

NODES = ("n1", "n2", "n3", "n4", "n5")


class FakeEnvironment(Environment):
    """Remembers what was done; ``failing`` names methods that raise.

    ``electing`` are the members, and ``fixed`` is why they cannot be changed.
    """

    def __init__(self, leader: str | None = "n1") -> None:
        super().__init__(NODES, dict.fromkeys(CAPABILITIES, self), concurrent=False)
        self.electing: tuple[str, ...] = NODES
        self.fixed: str | None = None
        self.open_changes = 0
        self.busiest_node: str | None = None
        self.current_leader = leader
        self.calls: list[tuple[str, Any]] = []
        self.failing: set[str] = set()
        self.dropped: dict[str, set[str]] = {}
        self.down: set[str] = set()
        self.disturbances: list[Disturbance] = []
        self.clocks: dict[str, ClockSetting] = {}
        self.paused: set[str] = set()
        self.damaged: set[str] = set()

    def why_not(self, capability: Capability[Any]) -> str | None:
        if capability is MEMBERSHIP and self.fixed is not None:
            return self.fixed
        return super().why_not(capability)

    def leader(self) -> str | None:
        self._did("leader", None)
        return self.current_leader

    def _did(self, name: str, what: Any) -> None:
        if name != "leader":
            self.calls.append((name, what))
        if name in self.failing:
            raise RuntimeError(f"{name} does\nnot work")

    def drop(self, grudge: Grudge) -> dict[str, Any]:
        self._did("drop", grudge)
        self.dropped = {node: set(held) for node, held in grudge.items() if held}
        return {node: {"dropping": sorted(held)} for node, held in grudge.items()}

    def heal(self) -> dict[str, Any]:
        self._did("heal", None)
        self.dropped = {}
        return {node: {"dropped_packets": 7} for node in self.nodes}

    def kill(self, node: str) -> dict[str, Any]:
        self._did("kill", node)
        self.down.add(node)
        self.paused.discard(node)
        return {node: {"pid": 42, "gone": True}}

    def start(self, node: str) -> dict[str, Any]:
        self._did("start", node)
        if node in self.damaged:
            return {node: {"started": False, "refused": "corrupt"}}
        self.down.discard(node)
        return {node: {"pid": 43}}

    def run_command(self, node: str, argv: Sequence[str]) -> dict[str, Any]:
        self._did("run_command", (node, *argv))
        return {node: {"output": ""}}

    def pause(self, node: str) -> dict[str, Any]:
        self._did("pause", node)
        assert node not in self.down, "no process to pause"
        self.paused.add(node)
        return {node: {"state": "T"}}

    def resume(self, node: str) -> dict[str, Any]:
        self._did("resume", node)
        assert node not in self.down, "no process to resume"
        self.paused.discard(node)
        return {node: {"state": "S"}}

    def cut_power(self, node: str) -> dict[str, Any]:
        self._did("cut_power", node)
        self.down.add(node)
        self.paused.discard(node)
        return {node: {"power_lost": True}}

    def stop(self, node: str) -> dict[str, Any]:
        self._did("stop", node)
        self.down.add(node)
        return {node: {"signal": "SIGTERM"}}

    def upgrade(self, node: str) -> dict[str, Any]:
        self._did("upgrade", node)
        assert node in self.down, "its code is in use"
        return {node: {"code": "other"}}

    def crash_host(self, node: str) -> dict[str, Any]:
        self._did("crash_host", node)
        self.down.add(node)
        return {node: {"host": "crashed"}}

    def boot_host(self, node: str) -> dict[str, Any]:
        self._did("boot_host", node)
        return {node: {"host": "booted"}}

    def busiest(self) -> str | None:
        return self.busiest_node

    def wipe(self, node: str) -> dict[str, Any]:
        self._did("wipe", node)
        assert node in self.down, "its disk is in use"
        self.damaged.discard(node)
        return {node: {"wiped": True}}

    def disturb(self, wanted: Sequence[Disturbance]) -> dict[str, Any]:
        self._did("disturb", list(wanted))
        self.disturbances = list(wanted)
        return {"network": {"disturbances": len(wanted)}}

    def set_clock(self, node: str, setting: ClockSetting) -> dict[str, Any]:
        self._did("set_clock", (node, setting))
        self.clocks[node] = setting
        return {node: {"set": True}}

    def trouble_disk(self, node: str, trouble: str, draw: int) -> dict[str, Any]:
        self._did("trouble_disk", (node, trouble))
        return {node: {"trouble": trouble}}

    def damage_disk(self, node: str, draw: int) -> dict[str, Any]:
        self._did("damage_disk", node)
        assert node in self.down, "its disk is in use"
        self.damaged.add(node)
        return {node: {"flipped": True}}

    def tear_log(self, node: str, draw: int) -> dict[str, Any]:
        self._did("tear_log", node)
        assert node in self.down, "its disk is in use"
        return {node: {"torn": True}}

    def disk_damaged(self, node: str) -> bool:
        return node in self.damaged

    def mend_disk(self, node: str) -> dict[str, Any]:
        self._did("mend_disk", node)
        self.damaged.discard(node)
        return {node: {}}

    def squeeze(self, node: str, resource: str, draw: int) -> dict[str, Any]:
        self._did("squeeze", (node, resource))
        if resource == "oom":
            self.down.add(node)
        return {node: {"squeezed": resource}}

    def release(self, node: str) -> dict[str, Any]:
        self._did("release", node)
        return {node: {"released": True}}

    def launch(self, node: str) -> dict[str, Any]:
        self._did("launch", node)
        return {node: {"launched": True}}

    def members(self) -> Sequence[str]:
        return self.electing

    def change_members(self, changes: Sequence[MemberChange]) -> dict[str, Any]:
        self._did("change_members", [(change.action, change.node) for change in changes])
        return {change.node: {"asked": change.action} for change in changes}

    def member_changes(self) -> dict[str, Any]:
        return {"ended": [], "open": self.open_changes}


@pytest.fixture
def env() -> FakeEnvironment:
    return FakeEnvironment()
