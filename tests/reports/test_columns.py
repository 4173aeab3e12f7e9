"""Operations, faults and packing on small examples."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import msgspec
import numpy as np
import pytest

from kraftwreck.histories.fault import FaultEvent
from kraftwreck.histories.operation import Op
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.reports.bands import join_faults
from kraftwreck.reports.evidence import draw_evidence
from kraftwreck.reports.node_lanes import Clocks, killed_at, node_lane, paused_spans
from kraftwreck.reports.operations import NEVER, join_operations, seconds
from kraftwreck.reports.packing import pack_columns, script_json

MS = 1_000_000


def op(index: int, process: int, kind: Any, at_ms: int, f: str = "read", **more: Any) -> Op:
    return Op(index=index, process=process, type=kind, f=f, time=at_ms * MS, **more)


def event(
    seq: int, at: int, state: str, epoch: int, incarnation: int = 1, hw: int = 0
) -> TraceEvent:
    return TraceEvent(
        node="n1", incarnation=incarnation, seq=seq, mono=at, wall=at, kind=state, state=state,
        epoch=epoch, leader=1, voted=-1, leo=hw, hw=hw,
    )  # fmt: skip


def fault(number: int, phase: Any, kind: str, at_ms: int) -> FaultEvent:
    return FaultEvent(
        id=number, phase=phase, kind=kind, shape="one", targets=["n1"], time=at_ms * MS,
        done=at_ms * MS,
    )  # fmt: skip


def test_invocations_and_completions_are_joined() -> None:
    ops = join_operations(
        [
            op(0, 0, "invoke", 1, "write", value=5),
            op(1, 1, "invoke", 2),
            op(2, 1, "ok", 3, value=None),
            op(3, 0, "info", 9, "write", value=5, error="late"),
            op(4, 2, "invoke", 10),
            op(5, 7, "ok", 11),
        ],
        concurrency=2,
    )
    assert ops.start.tolist() == [1000, 2000, 10_000]
    assert ops.latency.tolist() == [8000, 1000, NEVER]
    assert ops.type.tolist() == [2, 0, 3]
    assert ops.lane.tolist() == [0, 1, 0], "process 2 goes on where process 0 ended"
    assert ops.rows_of([0, 3, 1, 2, 4, -1, 9]) == {0: 0, 3: 0, 1: 1, 2: 1, 4: 2}
    assert ops.orphans == 1
    assert ops.texts[int(ops.error[0])] == "late"


def test_no_operations_at_all() -> None:
    ops = join_operations([])
    assert len(ops) == 0
    assert ops.end == 0
    assert seconds(ops)["ok"] == [0]


def test_a_long_value_is_cut_and_its_length_shown() -> None:
    ops = join_operations([op(0, 0, "invoke", 1), op(1, 0, "ok", 2, value=["x" * 9] * 99)])
    text = ops.texts[int(ops.seen[0])]
    assert len(text) < 200
    assert "characters" in text


def test_seconds_hold_quantiles_by_invocation_and_counts_by_completion() -> None:
    events = [op(0, 0, "invoke", 100), op(1, 0, "ok", 300), op(2, 0, "invoke", 900)]
    events += [op(3, 0, "ok", 2100), op(4, 0, "invoke", 2200), op(5, 0, "fail", 2300)]
    series = seconds(join_operations(events))
    assert series["p50"] == [700_000, None, None]
    assert series["ok"] == [1, 0, 1]
    assert series["fail"] == [0, 0, 1]


def test_columns_come_back_from_their_byte_planes() -> None:
    wide = np.array([1, 70_000, NEVER], dtype=np.uint32)
    packed = pack_columns({"wide": wide, "narrow": np.array([1, 2, 3], dtype=np.uint8)})
    data = zlib.decompress(base64.b64decode(packed["data"]), -15)
    assert packed["columns"] == [["wide", "u32"], ["narrow", "u8"]]
    planes = np.frombuffer(data[:12], dtype=np.uint8).reshape(4, 3)
    assert planes.T.copy().view("<u4").ravel().tolist() == wide.tolist()
    assert list(data[12:]) == [1, 2, 3]


def test_columns_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="differ in length"):
        pack_columns({"a": np.zeros(1, dtype=np.uint8), "b": np.zeros(2, dtype=np.uint8)})


@pytest.mark.parametrize("text", ["</script>", "<!--", "a&b", "\u2028", "]]>"])
def test_embedded_json_holds_no_markup_and_means_the_same(text: str) -> None:
    written = script_json({"x": text})
    assert not set("<>&\u2028") & set(written)
    assert msgspec.json.decode(str(written)) == {"x": text}


def test_faults_are_joined_by_id_and_may_stay_open() -> None:
    bands = join_faults(
        [fault(0, "start", "kill", 1), fault(1, "start", "pause", 2), fault(0, "stop", "kill", 3)]
    )
    assert [(b.id, b.start, b.end) for b in bands] == [(0, 1000, 3000), (1, 2000, None)]


def test_a_node_that_crashed_by_itself_is_down_until_its_next_life() -> None:
    events = [event(0, 0, "follower", 1), event(1, 100, "follower", 1)]
    events.append(event(0, 500, "unattached", 1, incarnation=2))
    lane = node_lane("n1", events, [], Clocks({}, known=True), end=1000)
    assert lane.down == [(100, 500)]
    assert [(s.start, s.end, s.state) for s in lane.segments] == [
        (0, 100, "follower"),
        (500, 1000, "unattached"),
    ]


def test_a_paused_node_keeps_its_state_and_is_marked() -> None:
    faults = [fault(0, "start", "pause", 1), fault(0, "stop", "pause", 2)]
    lane = node_lane("n1", [event(0, 0, "leader", 3)], faults, Clocks({}, known=True), end=5000)
    assert lane.paused == [(1000, 2000)]
    assert [(s.start, s.end, s.epoch) for s in lane.segments] == [(0, 5000, 3)]


def test_overlapping_pauses_end_with_the_last_and_at_a_kill() -> None:
    second = fault(1, "start", "pause", 2)
    second.detail = {"skipped": {"n1": "paused already"}}
    held = fault(0, "stop", "pause", 3)
    held.detail = {"skipped": {"n1": "held by another fault"}}
    faults = [fault(0, "start", "pause", 1), second, held]
    assert paused_spans([*faults, fault(1, "stop", "pause", 4)], "n1", 9000) == [(1000, 4000)]
    assert paused_spans([*faults, fault(2, "start", "kill", 5)], "n1", 9000) == [(1000, 5000)]
    assert paused_spans(faults, "n1", 9000) == [(1000, 9000)]


def test_a_kill_of_a_node_that_was_down_already_is_none() -> None:
    again = fault(1, "start", "kill", 2)
    again.detail = {"skipped": {"n1": "down already"}}
    assert killed_at([fault(0, "start", "kill", 1), again], "n1") == [1000]


def test_states_before_time_zero_leave_only_the_last() -> None:
    events = [event(0, -900, "unattached", 0), event(1, -500, "leader", 1)]
    lane = node_lane("n1", events, [], Clocks({}, known=True), end=1000)
    assert [(s.start, s.state) for s in lane.segments] == [(0, "leader")]


def test_watermarks_are_thinned_but_keep_their_last_value_and_every_fall() -> None:
    events = [event(i, i * 10, "leader", 1, hw=i) for i in range(50_000)]
    events.append(event(50_000, 500_010, "leader", 1, hw=7))
    lane = node_lane("n1", events, [], Clocks({}, known=True), end=600_000)
    assert len(lane.watermarks) < 2100
    assert lane.watermarks[-1] == (500_010, 7)
    assert max(hw for _, hw in lane.watermarks) == 49_999


def test_bars_overlap_exactly_when_operations_were_concurrent() -> None:
    events = [op(0, 0, "invoke", 1), op(1, 1, "invoke", 2), op(2, 0, "ok", 9000)]
    events += [op(3, 0, "invoke", 9001), op(4, 1, "ok", 9002), op(5, 2, "invoke", 60_000)]
    drawing = draw_evidence(join_operations(events), [0, 1, 2, 3])
    assert drawing is not None
    first, second, third, last = drawing.wide.bars
    assert second.x < first.x + first.width, "0 and 1 overlap"
    assert third.x > first.x + first.width, "0 and 2 do not"
    assert second.x + second.width > third.x
    assert last.type == "open"
    assert draw_evidence(join_operations(events), [0]) is None, "the table says it all"
