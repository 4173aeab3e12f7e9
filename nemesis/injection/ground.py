"""What all kinds of faults stand on: the cluster, who is down or paused, and what is in force."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from harness.environment import Environment
from harness.run_errors import Trouble
from nemesis.active import Active

Evidence = dict[str, Any]
Detail = dict[str, Any]


class Ground:
    """Shared by the means of one injector, whose lock protects it.

    ``down`` and ``stopped`` are the nodes that faults have ended or paused; ``rising`` those of
    them that are being started or resumed.
    """

    def __init__(self, env: Environment) -> None:
        self.env = env
        self.active: dict[int, Active] = {}
        self.down: set[str] = set()
        self.stopped: set[str] = set()
        self.rising: set[str] = set()

    def others(self, entry: Active) -> list[Active]:
        """Return the faults in force beside ``entry``, oldest first."""
        return [other for other in self.active.values() if other is not entry]

    def each(
        self,
        entry: Active,
        nodes: Sequence[str],
        action: Callable[[str], Evidence],
        evidence: Evidence,
    ) -> set[str]:
        """Do one thing to all ``nodes``, at once where that can be; return where it succeeded.

        A power cut hits all at once; and seven nodes started one by one take as many seconds.
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
        """Do one thing, collect its evidence; False (and an error in the event) if it failed."""
        try:
            for key, told in action().items():
                # A node that is killed and then wiped has evidence of both.
                known = evidence.get(key)
                if isinstance(known, dict) and isinstance(told, dict):
                    told = known | told
                evidence[key] = told
        except Exception as error:
            entry.errors.append(trouble(error, what))
            return False
        return True


class Means:
    """How faults of one kind are carried out; by default nothing is done.

    Errors go to ``entry.errors``; none is raised. What was measured goes to ``evidence``.
    """

    def __init__(self, ground: Ground) -> None:
        self.ground = ground

    def start(self, entry: Active, detail: Detail, evidence: Evidence) -> None:
        """Let ``entry``, which is in force from now on, bite; its targets are chosen."""

    def stop(self, entry: Active, detail: Detail, evidence: Evidence) -> None:
        """Undo what ``entry``, no longer in force, did."""

    def renew(self, entry: Active, nodes: Sequence[str], evidence: Evidence) -> None:
        """The machines of ``nodes`` have been booted: let what is in force be so there, too."""

    def settle(self, entry: Active) -> None:
        """Wait for what ``entry``, no longer in force, has under way; called without the lock."""

    def stopped(self, entry: Active, detail: Detail, evidence: Evidence) -> None:
        """Do what has to wait until the nodes that ``entry`` kept down have been started."""

    def rest(self) -> set[str] | None:
        """Return the nodes to which something is still done that an earlier attempt could not
        undo (empty: to the cluster as a whole), None when there is nothing of the kind."""
        return None

    def heal(self, entry: Active, evidence: Evidence) -> None:
        """Try once more what :meth:`rest` tells of."""


def trouble(error: Exception, what: str = "") -> Trouble:
    """Return what went wrong, perhaps with ``what`` was being done, as one line."""
    text = " ".join(str(error).split())
    text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return Trouble.of(error, f"{what}: {text}" if what else text)
