"""Additions of KRaft to the faults of any system."""

from __future__ import annotations

from typing import Final

from kraftwreck.nemesis.registry import DEFAULT, SystemFaults
from kraftwreck.systems.kraft.faults.brokers import (
    BrokerHost,
    BrokerKill,
    BrokerPartition,
    BrokerPause,
    BrokerPower,
    BrokerTerminate,
    QuorumNetwork,
    QuorumWire,
)
from kraftwreck.systems.kraft.faults.membership import Voters
from kraftwreck.systems.kraft.faults.roles import (
    Roles,
    RolesKill,
    RolesOutrun,
    RolesPause,
    RolesSlow,
)
from kraftwreck.systems.kraft.faults.transitions import TRANSITIONS
from kraftwreck.systems.kraft.options import BROKER, CONTROLLER

FAULTS: Final = SystemFaults(
    families=(
        BrokerPartition,
        BrokerKill,
        BrokerTerminate,
        BrokerPause,
        BrokerPower,
        Voters,
        QuorumNetwork,
        QuorumWire,
        BrokerHost,
        Roles,
        RolesKill,
        RolesPause,
        RolesSlow,
        RolesOutrun,
    ),
    default=(*DEFAULT, "power", "membership"),
    transitions=TRANSITIONS,
    roles=(CONTROLLER, BROKER),
)
