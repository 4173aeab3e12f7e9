"""Pictures of anomalies: the longest legal orders, and cycles of transactions."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kraftwreck.checkers.calls import pair
from kraftwreck.checkers.elle.check import check_transactions
from kraftwreck.checkers.linearizability.keyed import check_calls
from kraftwreck.checkers.linearizability.models import MODELS
from kraftwreck.checkers.linearizability.witness import verify
from kraftwreck.histories.operation import Op
from kraftwreck.histories.verdict import Anomaly, CheckerResult, Verdict
from kraftwreck.reports.cycle_view import Boxes, cycles_of, draw_cycle
from kraftwreck.reports.drawing import Drawing
from kraftwreck.reports.linearization import Window, windows_of
from kraftwreck.reports.run_report import write_report
from kraftwreck.reports.window_view import draw_window
from tests.reports.pictured_runs import cycle_ops, stale_read_ops, write_judged_run


@pytest.fixture(scope="module")
def ops() -> list[Op]:
    return stale_read_ops()


@pytest.fixture(scope="module")
def window(ops: list[Op]) -> Window:
    found = windows_of(check_calls(MODELS["cas-register"], pair(ops)), ops)
    assert list(found) == [0]
    return found[0]


def test_the_window_holds_the_read_that_fits_nowhere(window: Window, ops: list[Op]) -> None:
    stuck = next(call for call in window.calls if call.start == window.stuck)
    assert stuck.f == "read"
    assert stuck.value == 1, "the value that was overwritten before"
    for order in window.orders:
        assert window.stuck not in order.calls or len(order.calls) < len(window.calls)


def test_origin_names_the_write_and_the_overwrite_of_a_stale_value(window: Window) -> None:
    assert re.fullmatch(
        r"1 was written by operation 0 and overwritten by write \d \(operation \d+\)\.",
        window.origin,
    )


def test_every_order_is_legal_and_cannot_go_on(window: Window, ops: list[Op]) -> None:
    calls = {call.start: call for call in pair(ops)}
    earlier = sorted(calls)[: window.placed]
    for order in window.orders:
        chosen = [*earlier, *order.calls]
        assert verify(MODELS["cas-register"], [calls[s] for s in sorted(chosen)], chosen) is None
        assert order.blocked, "what could not be next is told"
        assert len(order.states) == len(order.calls)


def test_orders_differ_and_the_longest_come_first(window: Window) -> None:
    lengths = [len(order.calls) for order in window.orders]
    assert lengths == sorted(lengths, reverse=True)
    assert len({frozenset(order.calls) for order in window.orders}) == len(window.orders)


def test_longer_order_than_the_checkers_own_comes_before_it(ops: list[Op]) -> None:
    result = check_calls(MODELS["cas-register"], pair(ops))
    prefix = result.stats["longest_legal_prefix"]
    prefix['"x"'] = prefix['"x"'][:-2]
    result.stats["windows"]['"x"']["placed"] = len(prefix['"x"'])
    found = windows_of(result, ops)[0].orders
    assert len(found[0].calls) > len(prefix['"x"'])


def test_points_of_an_order_run_from_left_to_right_on_their_bars(window: Window) -> None:
    drawing = draw_window(window)
    for layout in (drawing.wide, drawing.narrow):
        points_follow_bars(layout, window)


def points_follow_bars(drawing: Drawing, window: Window) -> None:
    """Check that the paths of all orders run from left to right over the bars they order."""
    assert len(drawing.paths) == len(window.orders)
    for path, order in zip(drawing.paths, window.orders, strict=True):
        xs = [point.x for point in path.points]
        assert xs == sorted(xs)
        assert [point.number for point in path.points] == list(range(1, len(order.calls) + 1))
        bars = dict(zip([c.start for c in window.calls], drawing.bars, strict=True))
        for start, point in zip(order.calls, path.points, strict=True):
            bar = bars[start]
            assert bar.x <= point.x <= bar.x + bar.width + 6
    assert sum(bar.stuck for bar in drawing.bars) == 1


@pytest.mark.parametrize(
    "stats",
    [
        {},
        {"windows": {}},
        {"windows": {'"x"': {"operations": [{"index": 999}], "stuck": 999, "states": []}}},
        {"windows": {'"x"': {"operations": [{"index": 0}], "stuck": 77, "states": []}}},
        {"windows": {'"x"': ["somebody's own"], "y": {"operations": [1]}}},
    ],
)
def test_unknown_parts_of_an_anomaly_are_not_drawn(ops: list[Op], stats: dict[str, Any]) -> None:
    anomaly = Anomaly(type="nonlinearizable", explanation="", operations=[0, 1])
    assert windows_of(CheckerResult(valid=False, anomalies=[anomaly], stats=stats), ops) == {}


def test_an_unknown_model_still_shows_the_reported_order(ops: list[Op]) -> None:
    result = check_calls(MODELS["cas-register"], pair(ops))
    result.stats["model"] = "somebody's own"
    window = windows_of(result, ops)[0]
    assert len(window.orders) == 1
    assert set(window.orders[0].states) == {""}
    assert draw_window(window).wide.paths[0].points


def test_each_cycle_belongs_to_its_anomaly() -> None:
    result = check_transactions(cycle_ops(), "list-append")
    found = cycles_of(result)
    assert len(found) == len(result.anomalies) == 2
    for position, case in found.items():
        indices = {op["index"] for op in case["cycle"]}
        assert indices == set(result.anomalies[position].operations)


def test_a_cycle_is_drawn_with_its_edges_named() -> None:
    result = check_transactions(cycle_ops(), "list-append")
    drawn = {
        result.anomalies[position].type: draw_cycle(case)
        for position, case in cycles_of(result).items()
    }
    skew = drawn["G2-item"]
    assert skew is not None
    assert [edge.kind for edge in skew.wide.edges] == ["rw", "rw"]
    assert {edge.label for edge in skew.narrow.edges} == {"rw · key 1", "rw · key 2"}
    assert all(any(needed for _, needed in box.lines) for box in skew.wide.boxes)
    assert "did not observe" in skew.words[0]
    stale = drawn["G-single-item-realtime"]
    assert stale is not None
    assert "realtime" in {edge.kind for edge in stale.wide.edges}


@pytest.mark.parametrize("count", [2, 3, 5, 12])
def test_boxes_of_a_cycle_never_overlap(count: int) -> None:
    ops = [
        {"index": i, "process": i, "type": "ok", "value": [["append", i, i], ["r", i + 1, [1]]]}
        for i in range(count)
    ]
    steps = [{"type": "wr", "key": i, "value": 1} for i in range(count)]
    drawing = draw_cycle({"cycle": [*ops, ops[0]], "steps": steps, "type": "G1c"})
    assert drawing is not None
    for layout in (drawing.wide, drawing.narrow):
        boxes_are_apart(layout)


def boxes_are_apart(drawing: Boxes) -> None:
    """Check that all boxes are in the picture, and none touches another."""
    for i, a in enumerate(drawing.boxes):
        assert a.x >= 0
        assert a.y >= 0
        assert a.x + a.width <= drawing.width
        assert a.y + a.height <= drawing.height
        for b in drawing.boxes[i + 1 :]:
            apart = (
                a.x + a.width < b.x
                or b.x + b.width < a.x
                or a.y + a.height < b.y
                or b.y + b.height < a.y
            )
            assert apart, (a.name, b.name)


def test_a_cycle_too_long_for_a_picture_is_none() -> None:
    ops = [{"index": i, "process": i, "type": "ok", "value": []} for i in range(40)]
    steps = [{"type": "process", "process": 1} for _ in ops]
    assert draw_cycle({"cycle": [*ops, ops[0]], "steps": steps, "type": "G1c"}) is None


def test_a_cycle_in_another_format_is_not_drawn() -> None:
    assert draw_cycle({"cycle": [1, 2, 1], "steps": ["ww", "rw"]}) is None
    assert draw_cycle({"cycle": "T1 T2", "steps": [{}, {}]}) is None
    result = CheckerResult(
        valid=False,
        anomalies=[Anomaly(type="G0", explanation="")],
        stats={"elle": {"anomalies": {"G0": 3}}},
    )
    assert cycles_of(result) == {}


def test_the_page_shows_both(tmp_path: Path) -> None:
    ops = stale_read_ops()
    result = check_calls(MODELS["cas-register"], pair(ops))
    folder = write_judged_run(tmp_path / "a", ops, Verdict.of({"linearizable": result}))
    page = write_report(folder).read_text(encoding="utf-8")
    for words in ('class="order shown"', "None of these can come next", "bar ok stuck"):
        assert words in page
    ops = cycle_ops()
    elle = check_transactions(ops, "list-append")
    folder = write_judged_run(tmp_path / "b", ops, Verdict.of({"elle": elle}))
    page = write_report(folder).read_text(encoding="utf-8")
    for words in ("edge rw", "edge realtime", "T1 must come before T2"):
        assert words in page


def test_hostile_values_stay_text_in_pictures(tmp_path: Path) -> None:
    hostile = "</svg><script>alert(1)</script>"
    ops = stale_read_ops()
    for op in ops:
        op.key = hostile
        if op.value is not None:
            op.value = f"{hostile}{op.value}"
    result = check_calls(MODELS["cas-register"], pair(ops))
    folder = write_judged_run(tmp_path / "run", ops, Verdict.of({"linearizable": result}))
    page = write_report(folder).read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert page.lower().count("<script") == 4
    assert msgspec.json.decode((folder / "results.json").read_bytes())["valid"] is False
