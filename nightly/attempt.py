"""One attempt at a planned run: its process, its answer, and its class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec

from kraftwreck.histories.undecodable import UNDECODABLE
from kraftwreck.nightly.cells import MUTANT, Cell
from kraftwreck.nightly.child import Child, Ended
from kraftwreck.nightly.classify import Judged, classify
from kraftwreck.nightly.config import CLEAN, SIM, Config
from kraftwreck.nightly.plan import Planned
from kraftwreck.nightly.request import Answer, Request, Tools
from kraftwreck.nightly.trees import Trees

ANSWER, CASE, OUTPUT = "answer.json", "case.json", "output.txt"
HEAL_S = 120.0
_TAIL = 20_000


class InterruptedRun(Exception):  # noqa: N818 - not an error: the night ends, the run is repeated
    """The run was stopped because the night ends."""


class ChildRegistry(Protocol):
    """A registry of child processes, so that Ctrl-C reaches them."""

    def add(self, child: Child) -> None:
        """Add a child that is about to run; end it at once if the night ends."""

    def remove(self, child: Child) -> None:
        """Remove a child that has ended."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """The end of the process, its answer (None: there is none), and the class of the result."""

    ended: Ended
    answer: Answer | None
    judged: Judged

    @property
    def answer_run(self) -> str | None:
        """The run folder that its answer names."""
        return None if self.answer is None else self.answer.run

    @property
    def cpu_s(self) -> float:
        """CPU seconds of its processes."""
        answered = self.answer.cpu_s if self.answer is not None else 0.0
        return max(self.ended.cpu_s, answered)


class Attempts:
    """Makes attempts; used from several threads."""

    def __init__(self, config: Config, trees: Trees, tools: Tools, children: ChildRegistry) -> None:
        self._config = config
        self._trees = trees
        self._tools = tools
        self._children = children

    def make(
        self, planned: Planned, red: Path, *, keep: bool, began: Callable[[int], None]
    ) -> Attempt:
        """Run ``planned`` in a separate process, which writes its files to the folder ``red``.

        ``began`` is called with its process id. After a timeout its cluster is healed. Raises
        :class:`InterruptedRun` when the night ends meanwhile.
        """
        red.mkdir(parents=True, exist_ok=True)
        answer_file, output = red / ANSWER, red / OUTPUT
        answer_file.unlink(missing_ok=True)
        request = self._request(planned, red, keep)
        limit_s = self._config.limits.run_s
        tree = CLEAN if planned.cell is None or request.do != SIM else planned.cell.tree
        ended = self._child(request, output, limit_s, tree, began)
        if request.do == "cluster" and ended.late:
            self.heal(request.cluster, output)
        if ended.stopped:
            raise InterruptedRun
        answer = read_answer(answer_file)
        answer_file.unlink(missing_ok=True)
        judged = classify(ended, answer, _tail(output), limit_s)
        return Attempt(ended, answer, judged)

    def heal(self, cluster: str, output: Path) -> None:
        """Undo what a killed run left on the hosts of ``cluster``, or remove dead clusters."""
        request = Request(do="heal", answer=str(output.with_name(ANSWER)), cluster=cluster)
        self._child(request, output, HEAL_S, CLEAN, lambda process: None)

    def _child(
        self,
        request: Request,
        output: Path,
        limit_s: float,
        tree: str,
        began: Callable[[int], None],
    ) -> Ended:
        child = Child(polite=request.do == "cluster")
        self._children.add(child)
        try:
            return child.run(
                self._tools.worker,
                given=msgspec.json.encode(request),
                output=output,
                limit_s=limit_s,
                environment=self._tools.environment(self._trees.nodes(tree)),
                began=began,
            )
        finally:
            self._children.remove(child)

    def _request(self, planned: Planned, red: Path, keep: bool) -> Request:
        answer, case = str((red / ANSWER).resolve()), str((red / CASE).resolve())
        cell = planned.cell
        if cell is None:
            return Request(do="case", answer=answer, given=planned.case, case=case)
        mutant, patch = self.planted(cell)
        return Request(
            do="sim" if cell.cluster == SIM else "cluster",
            answer=answer,
            case=case,
            system=cell.system,
            workload=cell.workload,
            faults=cell.faults,
            cluster=cell.cluster,
            seed=planned.seed,
            block=self._config.matrix[cell.block],
            store=self._config.store,
            keep=keep,
            mutant=mutant,
            patch=patch,
        )

    def planted(self, cell: Cell) -> tuple[str | None, str | None]:
        """Return the id of the mutant or the patch file of a cell's build."""
        kind, _, name = cell.tree.partition(":")
        if kind == MUTANT:
            return name, None
        return None, str(self._trees.patch(cell.tree)) if cell.planted else None


def read_answer(path: Path) -> Answer | None:
    """Return the answer in ``path``, None if it is missing or unreadable."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Answer)
    except (OSError, *UNDECODABLE):
        return None


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""
