"""Anomalies for readers: Elle's maps, plain sentences, and graphs to draw.

Source: the maps are those of elle.txn and elle.core (``explain-cycle``), key for key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from kraftwreck.checkers.elle.cycles import Cycle
from kraftwreck.checkers.elle.graph import NAMES, PROCESS, REALTIME
from kraftwreck.checkers.elle.transactions import Transactions


class Explainer(Protocol):
    """Explains a ww, wr or rw edge between two transactions."""

    def explain(self, source: int, target: int, kind: int) -> dict[str, Any] | None:
        """Return Elle's map of the step."""


FEW = 10
"""The most micro-operations of a transaction that a sentence lists."""

Sentence = Callable[[dict[str, Any], str, str], str]
"""Puts a step of a cycle into words; the strings name the two transactions."""


def append_sentence(step: dict[str, Any], a: str, b: str) -> str:
    """Describe a dependency between list-append transactions."""
    key, value, after = step["key"], step.get("value"), step.get("value'")
    if step["type"] == "ww":
        return f"{b} appended {after!r} after {a} appended {value!r} to {key!r}"
    if step["type"] == "wr":
        return f"{b} observed {a}'s append of {value!r} to key {key!r}"
    if value == "init":
        return f"{a} observed the initial (empty) state of {key!r}, and {b} appended {after!r}"
    return f"{a} did not observe {b}'s append of {after!r} to {key!r}"


def register_sentence(step: dict[str, Any], a: str, b: str) -> str:
    """Describe a dependency between register transactions."""
    key, value, after = step["key"], step.get("value"), step.get("value'")
    if step["type"] == "wr":
        return f"{a} wrote {value!r} to key {key!r}, which {b} read"
    did = "set" if step["type"] == "ww" else "read"
    return (
        f"{a} {did} key {key!r} = {value!r}, and {b} set it to {after!r}, which comes later in "
        "the order of versions"
    )


def predicate_sentence(step: dict[str, Any], a: str, b: str) -> str:
    """Describe a dependency between transactions with predicate reads."""
    key, value, after = step["key"], step.get("value"), step.get("value'")
    predicate = step.get("predicate-read")
    if step["type"] == "ww":
        return f"{a} set key {key!r} to {value!r}, which {b} overwrote with {after!r}"
    if step["type"] in ("wr", "wrp"):
        how = f" in {predicate!r}" if predicate is not None else ""
        return f"{a} set key {key!r} to {value!r}, which {b} saw{how}"
    how = f"its predicate read {predicate!r} selected" if predicate is not None else "it read"
    return f"of {a} {how} {value!r} of key {key!r}, which {b} replaced by {after!r}"


SENTENCES: dict[str, Sentence] = {
    "closed-predicate": predicate_sentence,
    "list-append": append_sentence,
    "rw-register": register_sentence,
}
"""By model."""


def cycle_map(transactions: Transactions, explainer: Explainer, cycle: Cycle) -> dict[str, Any]:
    """Return a cycle as Elle writes it: ``{cycle, steps, type}``."""
    steps = [_step(transactions, explainer, *step) for step in cycle.steps]
    ops = [transactions.op(a) for a, _, _ in cycle.steps]
    return {"cycle": [*ops, ops[0]], "steps": steps, "type": cycle.type}


def _step(
    transactions: Transactions, explainer: Explainer, a: int, b: int, kind: int
) -> dict[str, Any]:
    if kind == PROCESS:
        return {"type": "process", "process": int(transactions.events.process[a])}
    if kind == REALTIME:
        begun = int(transactions.invoked[b])
        invocation = transactions.op(begun if begun >= 0 else b)
        return {"type": "realtime", "a'": transactions.op(a), "b": invocation}
    step = explainer.explain(a, b, kind)
    if step is None:
        raise AssertionError(f"no {NAMES[kind]} edge from {a} to {b} can be shown")
    return step


def cycle_text(sentence: Sentence, found: dict[str, Any]) -> str:
    """Return a cycle as a contradiction, step by step."""
    ops, steps = found["cycle"][:-1], found["steps"]
    names = [f"T{number}" for number in range(1, len(ops) + 1)]
    keys = [step["key"] for step in steps if "key" in step]
    let = "; ".join(f"{name} = {op_text(op, keys)}" for name, op in zip(names, ops, strict=True))
    reasons = []
    for at, step in enumerate(steps):
        a, b = names[at], names[(at + 1) % len(names)]
        reasons.append(f"{a} < {b}, because {_reason(sentence, step, a, b)}")
    reasons[-1] = f"however, {reasons[-1]}: a contradiction"
    return f"Let {let}. Then {'; '.join(reasons)}."


def _reason(sentence: Sentence, step: dict[str, Any], a: str, b: str) -> str:
    if step["type"] == "process":
        return f"process {step['process']} executed {a} before {b}"
    if step["type"] == "realtime":
        ended, begun = step["a'"], step["b"]
        return (
            f"{a} had ended (operation {ended['index']}) before {b} was invoked "
            f"(operation {begun['index']})"
        )
    return sentence(step, a, b)


def op_text(op: dict[str, Any], keys: Sequence[Any] = ()) -> str:
    """Describe an operation briefly: its index, outcome and micro-operations.

    Of more than :data:`FEW`, those on ``keys`` are shown, or the first if there are none.
    """
    value = op["value"] or ()
    mops = repr(value) if isinstance(value, dict) else _mops_text(value, keys)
    ended = (
        "" if op["type"] == "ok" else f" ({'no answer' if op['type'] == 'invoke' else op['type']})"
    )
    return f"operation {op['index']}{ended} {mops}"


def _mops_text(mops: Sequence[Any], keys: Sequence[Any]) -> str:
    shown = mops
    if len(mops) > FEW:
        shown = [mop for mop in mops if mop[1:] and mop[1] in keys][:FEW] or mops[:FEW]
    text = " ".join(map(_mop_text, shown))
    more = len(mops) - len(shown)
    return f"{text} and {more} more" if more else text


def _mop_text(mop: Any) -> str:
    return f"[{' '.join([str(mop[0]), *map(repr, mop[1:])])}]"


def _reader(case: dict[str, Any]) -> str:
    return op_text(case["op"], [case["mop"][1]])


def _writer(case: dict[str, Any]) -> str:
    return op_text(case["writer"], [case["mop"][1]])


def _internal(case: dict[str, Any]) -> str:
    return (
        f"{_reader(case)} read {case['mop']!r}, which contradicts its own earlier reads and "
        f"writes: it should have seen {case['expected']!r}."
    )


def _dirty(case: dict[str, Any]) -> str:
    aborted, _, committed = case["txns"]
    return (
        f"{op_text(committed, [case['key']])} committed on top of {case['values'][0]!r} of key "
        f"{case['key']!r}, which {op_text(aborted, [case['key']])} wrote before it aborted."
    )


_TEXTS: dict[str, Callable[[dict[str, Any]], str]] = {
    "G1a": lambda case: (
        f"{_reader(case)} read {case['mop']!r}, which contains a value that "
        f"{_writer(case)} wrote before it aborted."
    ),
    "G1b": lambda case: (
        f"{_reader(case)} read {case['mop']!r}, an intermediate state of "
        f"{_writer(case)}, which wrote the same key again."
    ),
    "internal": _internal,
    "future-read": lambda case: (
        f"{_reader(case)} read {case['mop']!r}, which holds {case['element']!r} before "
        "the same transaction wrote it."
    ),
    "duplicate-elements": lambda case: (
        f"{_reader(case)} read {case['mop']!r}, in which "
        + ", ".join(f"{value!r} is {times} times" for value, times in case["duplicates"].items())
        + ", although it was appended once."
    ),
    "garbage-read": lambda case: (
        f"{_reader(case)} read {case['mop']!r}, but no transaction tried to write "
        f"{case['element']!r}."
    ),
    "incompatible-order": lambda case: (
        f"Key {case['key']!r} was read as {case['values'][0]!r} and as {case['values'][1]!r}: "
        "neither is a prefix of the other."
    ),
    "dirty-update": _dirty,
    "predicate-read-miss": lambda case: (
        f"{op_text(case['op'], [case['key']])} did not see key {case['key']!r} in "
        f"{case['mop']!r}, although each of its versions {case['versions']!r} matches."
    ),
    "lost-update": lambda case: (
        f"{len(case['txns'])} transactions read {case['value']!r} from key {case['key']!r} and "
        "wrote it again, so all but one of the updates are lost: "
        + "; ".join(op_text(op, [case["key"]]) for op in case["txns"][:3])
        + ("; ..." if len(case["txns"]) > 3 else ".")
    ),
    "cyclic-versions": lambda case: (
        f"The versions {case['scc']!r} of key {case['key']!r} come before each other, as "
        f"inferred from {', '.join(case['sources'])}."
    ),
}


def text_of(name: str, case: Any, sentence: Sentence) -> str:
    """Return one anomaly's map in plain sentences."""
    if isinstance(case, dict):
        if "steps" in case:
            return cycle_text(sentence, case)
        if name in _TEXTS:
            return _TEXTS[name](case)
        if name.endswith("-cycle-exists"):
            return (
                f"There is a cycle among {case['scc-size']} transactions, so the history is not "
                f"{case['not']}; the time limit ended the search for a shortest one."
            )
        if name == "cycle-search-timeout":
            return (
                f"The search for {case['anomaly-spec-type']} among {case['scc-size']} "
                "transactions reached its time limit."
            )
    return "No transaction depends on another, so the history proves nothing."


def operations_of(case: Any) -> list[int]:
    """Return the indices of the operations an anomaly's map shows, without repeats."""
    if not isinstance(case, dict):
        return []
    ops = [case.get("op"), case.get("writer"), *case.get("cycle", ()), *case.get("txns", ())]
    indices = [op["index"] for op in ops if isinstance(op, dict)]
    if name := case.get("scc-size"):
        indices.extend(case.get("scc", ())[: int(name)])
    return list(dict.fromkeys(indices))
