"""Stand-ins for evidence, so that a test states just the times and offsets that a rule compares."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any, cast

from kraftwreck.checkers.kraft.invariants.evidence import Evidence
from kraftwreck.checkers.kraft.quorum_model.log_chain import LogChain
from kraftwreck.histories.message import Message


class _Heard:
    """A report that keeps the ids of broken invariants, without their explanations."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.facts: dict[str, int] = {}

    def held(self, invariant: str, facts: int = 1) -> None:
        self.facts[invariant] = self.facts.get(invariant, 0) + facts

    def unseen(self, invariant: str, why: str) -> None:
        pass

    def broken(self, invariant: str, *_: Any, **__: Any) -> None:
        self.found.append(invariant)


def heard() -> Any:
    """Return a report with ``found``, the ids of broken invariants, and ``facts``. A class of its
    own, as none can be derived from one that mypyc has compiled."""
    return _Heard()


def thing(**fields: Any) -> Any:
    return SimpleNamespace(**fields)


def event(at: int, kind: str = "", node: str = "n1", **more: Any) -> Any:
    """An event of a trace that happened at ``at`` (ns)."""
    fields = {"detail": {}, "incarnation": 1, "seq": 0, "epoch": 1, "state": "", "leader": 1}
    return SimpleNamespace(at=at, kind=kind, node=node, **{**fields, **more})


def message(api: str, sent: int, time: int, **more: Any) -> Message:
    """An exchange: node 2 asks node 1."""
    fields = {"asker": 2, "replier": 1, "request": {}, "response": {}}
    return Message(api=api, sent=sent, time=time, **{**fields, **more})


def chain(committed: dict[int, Any], batches: dict[Any, Any]) -> LogChain:
    """Logs with these batches, by their ids, of which some are committed, by their offsets."""
    found = LogChain(lambda *_: None)
    found.committed, found.batches = committed, batches
    return found


def evidence(messages: Iterable[Message] = (), events: Iterable[Any] = (), **more: Any) -> Evidence:
    """Nodes n1, n2 and n3 with exact clocks. ``derived`` are results by the name of their cache;
    ``run`` and ``trace`` are fields of the run and of its trace."""
    kept, derived = list(messages), more.pop("derived", {})
    test = more.pop("test", {"simulated": True})
    run = {
        "test": test, "events": list(events), "faults": [], "calls": [], "images": [],
        "capture": thing(dropped=0, messages=kept), "derived": lambda name, _: derived[name],
    }  # fmt: skip
    trace = {
        "gaps": [], "count": 1, "voter_changes": 0, "claims": [], "leaders": {},
        "tracks": {f"n{i}": thing(id=i) for i in (1, 2, 3)},
    }  # fmt: skip
    fields = {
        "of": lambda api: [each for each in kept if each.api == api],
        "messages": {each.api: [m for m in kept if m.api == each.api] for each in kept},
        "name": lambda node: f"n{node}",
        "names": {1: "n1", 2: "n2", 3: "n3"},
        "ids": {"n1": 1, "n2": 2, "n3": 3},
        "moment": lambda at: None if at is None else at.at,
        "dated": lambda some: [(each.at, each) for each in some],
        "instant": lambda _, mono: mono,
        "after": lambda _, since, span: since + span,
        "setting": lambda _, default, *__: default,
        "settings_of": lambda _: test,
        "is_broker": lambda each: each.replier > 3,
        "pauses": {},
        "captured": True,
        "own_inputs": False,
        "high_watermark": -1,
        "run": thing(**{**run, **more.pop("run", {})}),
    }
    trace = {**trace, **more.pop("trace", {})}
    return cast(Evidence, thing(**{**fields, **more}, trace=thing(**trace)))


def breaks(judge: Callable[..., None], *known: Any) -> list[str]:
    """Return the ids that ``judge(evidence, report, …)`` reports as broken."""
    report = heard()
    judge(known[0], report, *known[1:])
    found: list[str] = report.found
    return found
