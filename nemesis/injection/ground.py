"""The state that all fault drivers share: the cluster, its down and paused nodes, active faults."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from kraftwreck.harness.environment import Environment
from kraftwreck.harness.run_errors import Trouble
from kraftwreck.nemesis.active import Active

Evidence = dict[str, Any]
Detail = dict[str, Any]


class Ground:
    """The state shared by the drivers of one injector, whose lock protects it.

    ``down`` and ``stopped`` are the nodes that faults have killed or paused; ``rising`` are those
    of them that are being started or resumed.
    """

    def __init__(self, env: Environment) -> None:
        self.env = env
        self.active: dict[int, Active] = {}
        self.down: set[str] = set()
        self.stopped: set[str] = set()
        self.rising: set[str] = set()

    def others(self, entry: Active) -> list[Active]:
        """Return the other faults in force, oldest first."""
        return [other for other in self.active.values() if other is not entry]

    def each(
        self,
        entry: Active,
        nodes: Sequence[str],
        action: Callable[[str], Evidence],
        evidence: Evidence,
    ) -> set[str]:
        """Apply ``action`` to all ``nodes``, concurrently if possible; return where it succeeded.

        A power cut hits all nodes at once, and seven sequential starts would take seven times as
        long.
        """
        told: dict[str, Callable[[], Evidence]]
        if len(nodes) > 1 and self.env.concurrent:
            with ThreadPoolExecutor(len(nodes)) as threads:
                told = {node: threads.submit(action, node).result for node in nodes}
        else:
            told = {node: partial(action, node) for node in nodes}
        return {node for node in nodes if self.call(entry, node, told[node], evidence)}

    def call(
        self, entry: Active, what: str, action: Callable[[], Evidence], evidence: Evidence
    ) -> bool:
        """Call ``action`` and add its evidence; on failure record an error and return False."""
        try:
            for key, told in action().items():
                # A node that is killed and then wiped has the evidence of both.
                known = evidence.get(key)
                if isinstance(known, dict) and isinstance(told, dict):
                    told = known | told
                evidence[key] = told
        except Exception as error:
            entry.errors.append(trouble(error, what))
            return False
        return True


class Means:
    """A fault driver: carries out faults of one kind. The defaults do nothing.

    Errors are added to ``entry.errors`` and never raised. Measurements are added to ``evidence``.
    """

    def __init__(self, ground: Ground) -> None:
        self.ground = ground

    def start(self, entry: Active, detail: Detail, evidence: Evidence) -> None:
        """Apply ``entry``, which is now in force; its targets have been chosen."""

    def stop(self, entry: Active, detail: Detail, evidence: Evidence) -> None:
        """Undo ``entry``, which is no longer in force."""

    def renew(self, entry: Active, nodes: Sequence[str], evidence: Evidence) -> None:
        """Apply the active faults again on machines of ``nodes`` that have been booted."""

    def settle(self, entry: Active) -> None:
        """Wait for operations of ``entry``, which has ended; called without the lock."""

    def stopped(self, entry: Active, detail: Detail, evidence: Evidence) -> None:
        """Finish ``entry`` after the nodes that it kept down have been started."""

    def rest(self) -> set[str] | None:
        """Return the nodes with effects that an earlier attempt could not undo, None if there are
        none. An empty set means the cluster as a whole."""
        return None

    def heal(self, entry: Active, evidence: Evidence) -> None:
        """Retry undoing the effects that :meth:`rest` returns."""


def trouble(error: Exception, what: str = "") -> Trouble:
    """Return the error as one line, with the action ``what`` if given."""
    text = " ".join(str(error).split())
    text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return Trouble.of(error, f"{what}: {text}" if what else text)
