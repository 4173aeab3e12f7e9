"""The evidence by which the simulator judges what brokers say of their logs."""

from __future__ import annotations

from dataclasses import dataclass

from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.record_watch import RecordWatch
from kraftwreck.systems.kraft.simulated.replica_positions import ReplicaPositions
from kraftwreck.systems.kraft.simulated.step_logs import StepLogs


@dataclass(slots=True, frozen=True)
class AnswerEvidence:
    """``watch`` knows the logs, ``steps`` what they were during the last step, ``positions`` the
    replicas before and after it. Rules add to ``failures``."""

    world: World
    failures: Failures
    watch: RecordWatch
    steps: StepLogs
    positions: ReplicaPositions
