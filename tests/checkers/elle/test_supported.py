"""Every accepted model and anomaly has a history that it rejects; other names are refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.checkers.elle import check_transactions, models, supported
from kraftwreck.checkers.elle.models import UnknownModelError
from kraftwreck.histories.operation import Op

Lines = Sequence[tuple[Any, ...]]
Build = Callable[[Lines], list[Op]]
DOCS = Path(__file__).parents[3] / "docs" / "transactions.md"


def at_once(*texts: str) -> Lines:
    """Transactions of different processes that all begin before any of them ends."""
    begun = [("begin", process, text) for process, text in enumerate(texts)]
    return [*begun, *(("end", process, text) for process, text in enumerate(texts))]


def ordered(suffix: str) -> dict[str, Lines]:
    """Cycles with one edge of the process order, or only of real time, by their names."""
    one, other = (5, 5) if suffix == "-process" else (5, 6)
    around = [("begin", 7, "ay1"), ("begin", 8, "ry_ rx_"), (one, "ax1"), (other, "ry_"),
              ("end", 7, "ay1"), ("end", 8, "ry[1] rx_")]  # fmt: skip
    cycles: dict[str, Lines] = {
        "G1c": [(one, "rx[1]"), (other, "ax1")],
        "G-single-item": [(one, "ax1"), (other, "rx_")],
        "G-nonadjacent-item": around,
        "G2-item": [("begin", 7, "ax1 ry_"), (one, "ay1"), (other, "rx_"),
                    ("end", 7, "ax1 ry_")],
    }  # fmt: skip
    return {name + suffix: lines for name, lines in cycles.items()}


BOTH: dict[str, Lines] = {
    "G1a": [(0, "ax1", "fail"), (1, "rx[1]")],
    "G1b": at_once("ax1 ax2", "rx[1]"),
    "G1c": at_once("ax1 ry[1]", "ay1 rx[1]"),
    "G-single-item": at_once("ax1 ay1", "rx_ ry[1]"),
    "G-nonadjacent-item": at_once("ax1", "ay1", "rx[1] ry_", "ry[1] rx_"),
    "G2-item": at_once("rx_ ay1", "ry_ ax1"),
    "internal": at_once("ax1", "rx_ rx[1]"),
    "future-read": at_once("rx[1] ax1", "ay1"),
    "garbage-read": at_once("rx[7]", "ax1"),
    "lost-update": at_once("rx_ ax1", "rx_ ax2"),
    "empty-transaction-graph": at_once("ax1", "ay1"),
    **ordered("-process"),
    **ordered("-realtime"),
}
LISTS: dict[str, Lines] = {
    "G0": [*at_once("ax1 ay2", "ax2 ay1"), (9, "rx[1,2] ry[1,2]")],
    "G0-process": [(0, "ax1"), (0, "ax2"), (1, "rx[2,1]")],
    "G0-realtime": [(0, "ax1"), (2, "ax2"), (1, "rx[2,1]")],
    "duplicate-elements": [(0, "ax1"), (1, "rx[1,1]")],
    "incompatible-order": [*at_once("ax1", "ax2"), (2, "rx[1,2]"), (3, "rx[2,1]")],
    "dirty-update": [(0, "ax1", "fail"), (1, "ax2"), (2, "rx[1,2]")],
}
REGISTERS: dict[str, Lines] = {
    "G0": [(0, "wx1"), *at_once("rx1 wx2 ry4 wy5", "rx2 wx3 ry3 wy4"), (1, "wy3")],
    "G0-process": [(0, "rx1 wx2"), (0, "wx1")],
    "G0-realtime": [(0, "rx1 wx2"), (1, "wx1")],
    "cyclic-versions": at_once("rx1 wx2", "rx2 wx1"),
}


def as_registers(line: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a line about lists of one element as one about registers."""
    return tuple(
        part.replace("a", "w").replace("[", "").replace("]", "")
        if isinstance(part, str) and any(sign.isdigit() or sign == "_" for sign in part)
        else part
        for part in line
    )


def corpus(build: Build, model: str) -> dict[str, list[Op]]:
    """Return a history for each anomaly that the checker of ``model`` reports."""
    if model == "list-append":
        return {name: build(lines) for name, lines in {**BOTH, **LISTS}.items()}
    lines_of = {name: [as_registers(line) for line in lines] for name, lines in BOTH.items()}
    return {name: build(lines) for name, lines in {**lines_of, **REGISTERS}.items()}


def rejects(ops: list[Op], model: str, name: str) -> bool:
    """Return whether ``name``, forbidden alone, makes the history invalid."""
    more: dict[str, Any] = {"wfr_keys": model == "rw-register"}
    if name == "cycle-search-timeout":
        more["cycle_search_seconds"] = 1e-9
    result = check_transactions(ops, model, consistency_models=[], anomalies=[name], **more)
    return result.valid is False


@pytest.mark.parametrize("model", ["list-append", "rw-register"])
def test_every_accepted_anomaly_has_a_history_that_it_rejects(build: Build, model: str) -> None:
    histories = corpus(build, model)
    missed = [
        name
        for name in sorted(supported.ACCEPTED[model])
        if not any(rejects(ops, model, name) for ops in histories.values())
    ]
    assert missed == []


@pytest.mark.parametrize("model", ["list-append", "rw-register"])
def test_every_reported_anomaly_is_found_by_its_own_name(build: Build, model: str) -> None:
    histories = corpus(build, model)
    reported = supported.DETECTED[model] - {"cycle-search-timeout"}
    assert reported <= histories.keys()
    for name in sorted(reported):
        more: dict[str, Any] = {"wfr_keys": model == "rw-register"}
        result = check_transactions(
            histories[name], model, consistency_models=[], anomalies=[name], **more
        )
        assert name in result.stats["elle"]["anomaly-types"], name


def predicate_history(*lines: tuple[int, list[Any]]) -> list[Op]:
    """Return transactions over x and y that all overlap, after their ``init``."""
    rows: list[tuple[int, str, str, Any]] = [
        (99, "invoke", "init", {"x": 0, "y": 0}), (99, "ok", "init", {"x": 0, "y": 0}),
    ]  # fmt: skip
    rows += [(process, "invoke", "txn", value) for process, value in lines]
    rows += [(process, "ok", "txn", value) for process, value in lines]
    return [
        Op(index=at, process=process, type=kind, f=f, value=value, time=at)  # type: ignore[arg-type]
        for at, (process, kind, f, value) in enumerate(rows)
    ]


def test_anomalies_of_predicate_reads_are_rejected_by_name() -> None:
    miss = predicate_history((0, [["rp", "true", {"x": 0}]]), (1, [["w", "z", 1]]))
    assert rejects(miss, "closed-predicate", "predicate-read-miss")
    phantoms = predicate_history(
        (0, [["rp", ["=", 1], {}], ["w", "y", 1]]), (1, [["rp", ["=", 1], {}], ["w", "x", 1]])
    )
    assert rejects(phantoms, "closed-predicate", "G2")
    assert not rejects(phantoms, "closed-predicate", "G2-item")


@pytest.mark.parametrize("name", sorted(supported.MODELS))
def test_every_accepted_model_has_a_history_that_it_rejects(build: Build, name: str) -> None:
    rejected = [
        anomaly
        for anomaly, ops in corpus(build, "list-append").items()
        if check_transactions(ops, "list-append", consistency_models=[name]).valid is False
    ]
    assert rejected
    # One of them breaks this model by what its own definition forbids.
    assert models.implied(rejected) & set(models.FORBIDS[models.canonical(name)])


@pytest.mark.parametrize("name", sorted(models.MODELS - supported.MODELS))
@pytest.mark.parametrize("history_model", sorted(supported.ACCEPTED))
def test_models_that_cannot_be_decided_are_refused_with_the_nearest_one(
    name: str, history_model: str
) -> None:
    nearest = supported.NEAREST_MODEL[models.canonical(name)]
    assert nearest in supported.MODELS
    with pytest.raises(UnknownModelError, match=f"{name!r} cannot be decided.*: {nearest}$"):
        supported.forbidden(history_model, [name], ())


@pytest.mark.parametrize("name", sorted(supported.NEAREST_ANOMALY))
def test_anomalies_that_nothing_reports_are_refused_with_the_nearest_one(name: str) -> None:
    nearest = supported.NEAREST_ANOMALY[name]
    assert nearest in supported.ACCEPTED["list-append"]
    with pytest.raises(UnknownModelError, match=f"{name!r} is not detected.*: {nearest}$"):
        supported.forbidden("list-append", (), [name])


def test_anomalies_of_other_histories_are_refused_with_their_model() -> None:
    with pytest.raises(
        UnknownModelError, match=r"'predicate-read-miss' is .* in closed-predicate$"
    ):
        supported.forbidden("list-append", (), ["predicate-read-miss"])
    with pytest.raises(UnknownModelError, match=r"no anomaly 'G9'; there are G-SI, "):
        supported.forbidden("list-append", (), ["G9"])


def test_every_anomaly_of_a_model_is_reported_or_has_a_reported_neighbour() -> None:
    known = {*supported.NEAREST_ANOMALY, *frozenset().union(*supported.ACCEPTED.values())}
    for name in supported.MODELS:
        forbidden = models.forbidden([name])
        assert {one for one in forbidden if not one.endswith("-cycle-exists")} <= known, name


def test_docs_hold_the_tables_of_the_code() -> None:
    assert supported.tables() in DOCS.read_text()
