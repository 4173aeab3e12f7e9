"""The native engine compared with the real Elle; the comparison itself with fake programs.

With ``KRAFTWRECK_ELLE`` (elle-cli, its jar, or a command that keeps its contract) 2,000 random
histories are judged by both; without it the machinery is tested alone.
"""

from __future__ import annotations

import json
import os
import stat
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.checkers.peers import elle_differential as differential
from kraftwreck.checkers.elle.binding import VARIABLE
from kraftwreck.checkers.elle.check import Options
from kraftwreck.histories.operation import Op

Build = Callable[[Sequence[tuple[Any, ...]]], list[Op]]
Program = Callable[[str], str]
ROOT = Path(__file__).parents[3]


@pytest.mark.skipif(
    not os.environ.get(VARIABLE),
    reason=f"{VARIABLE} names no Elle: set it to elle-cli or its jar to compare the engines",
)
def test_engine_and_elle_differ_only_for_known_causes() -> None:
    found = differential.compare_random(2000, seed=1)
    print(found.table())
    assert [differential.shown(one) for one in found.unexplained] == []
    assert found.causes.total() == 2000
    assert {verdict.rpartition(" ")[2] for verdict in found.verdicts} == {
        "True", "False", "unknown",
    }  # fmt: skip


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """Write a stand-in: Python text that sets ``result`` from ``ops``; return its path."""

    def write(text: str) -> str:
        path = tmp_path / "elle-cli"
        body = textwrap.indent(textwrap.dedent(text), "    ")
        path.write_text(
            f"#!{sys.executable}\nimport json, sys\nsys.path.insert(0, {str(ROOT)!r})\n"
            "options = dict(zip(sys.argv[6::2], sys.argv[7:12:2]))\n"
            "for path in sys.argv[12:]:\n    ops = json.load(open(path))\n"
            f"{body}\n    print(json.dumps(result, indent=1))\n"
        )
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    return write


@pytest.mark.parametrize("model", ["list-append", "rw-register"])
def test_stand_in_with_the_same_engine_differs_for_no_unknown_cause(
    program: Program, model: str
) -> None:
    elle = program(
        f"""
        from kraftwreck.checkers.elle.check import Options, analyze
        from kraftwreck.histories.operation import Op
        history = [Op(**op) for op in ops]
        asked = Options(consistency_models=["serializable"], indeterminate_reads=True)
        result = analyze(history, {model!r}, asked).result
        """
    )
    histories = [
        differential.random_history(3, number, model == "list-append") for number in range(150)
    ]
    found = differential.Comparison()
    for one in differential.compare(
        histories, model, Options(consistency_models=["serializable"]), elle
    ):
        found.add(one)
    assert found.unexplained == []
    assert set(found.causes) <= {differential.SAME, differential.INDETERMINATE}
    assert f"| {differential.SAME} | {found.causes[differential.SAME]} |" in found.table()


def test_stand_in_that_calls_everything_valid_is_found_out(program: Program) -> None:
    histories = [differential.random_history(4, number, True) for number in range(60)]
    elle = program('result = {"valid?": True}')
    found = differential.Comparison()
    for one in differential.compare(histories, "list-append", Options(), elle):
        found.add(one)
    assert {one.ours["valid?"] for one in found.unexplained} >= {False, "unknown"}
    assert found.unexplained[0].cause == differential.UNEXPLAINED
    assert '"type":"invoke"' in differential.shown(found.unexplained[0])


SKEW: list[tuple[Any, ...]] = [
    ("begin", 0, "rx_ ax1"), ("begin", 1, "rx_ ax2"),
    ("end", 0, "rx[] ax1", "info"), ("end", 1, "rx[] ax2"),
]  # fmt: skip
G2_ITEM = {
    "valid?": False,
    "anomaly-types": ["G2-item"],
    "not": ["repeatable-read"],
    "also-not": ["serializable", "strong-serializable", "strong-session-serializable"],
}


@pytest.mark.parametrize(
    ("lines", "model", "theirs", "cause"),
    [
        (SKEW, "list-append", G2_ITEM, differential.INDETERMINATE),
        ([(0, "ax1"), (1, "rx[7]")], "list-append", None, differential.GARBAGE),
        ([(0, "wx1"), (1, "rx7")], "rw-register", {"valid?": True}, differential.GARBAGE),
        ([(0, "rx1 wx1"), (1, "rx1")], "rw-register", {"valid?": True}, differential.FUTURE),
        ([(0, "rx_ wx1")], "rw-register", {"valid?": True}, differential.LOOP),
        ([(0, "ax1")], "list-append", {"valid?": True}, differential.UNEXPLAINED),
        ([(0, "ax1"), (1, "rx[1]")], "list-append", G2_ITEM, differential.UNEXPLAINED),
        ([(0, "ax1"), (1, "rx[1]")], "list-append", None, differential.UNEXPLAINED),
        (
            [(0, "ax1"), (1, "rx[1]")],
            "list-append",
            {"valid?": True, "anomaly-types": ["G1c"]},
            differential.KINDS,
        ),
    ],
)
def test_each_difference_gets_its_cause(
    build: Build,
    program: Program,
    lines: list[tuple[Any, ...]],
    model: str,
    theirs: dict[str, Any] | None,
    cause: str,
) -> None:
    answer = "sys.exit('AssertionError')" if theirs is None else f"result = {theirs!r}"
    (found,) = differential.compare([build(lines)], model, Options(), program(answer))
    assert found.cause == cause, json.dumps(found.ours["valid?"])
