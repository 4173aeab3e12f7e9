"""The replay detects every change of a node's records: of its inputs and of its outputs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from kraftwreck.nodes.consensus.effects import ApiRequest, Event, FlushLog, Tick, Trace
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.consensus.recovered import Recovered
from kraftwreck.nodes.draw import draw_below
from kraftwreck.nodes.effects import NodeEffect
from kraftwreck.nodes.node import Node
from kraftwreck.nodes.node_config import NodeConfig
from kraftwreck.nodes.server.input_log import InputLog
from kraftwreck.nodes.server.line_file import (
    DamagedError,
    LineFile,
    Seal,
    encode_line,
    sealed_lines,
)
from kraftwreck.nodes.server.recorded_trace import RecordedTrace
from kraftwreck.nodes.server.reexecution import Replayed, replay
from kraftwreck.nodes.server.trace_file import TraceFile

D = b"\x01" * 16
INPUTS, TRACE = "inputs.log", "trace.jsonl"


class Life:
    """One life of a single voter that forgets its disk; every life has a new one."""

    def __init__(self, folder: Path, incarnation: int) -> None:
        self.now = incarnation * 10_000_000
        config = NodeConfig(
            1,
            "c",
            bytes([incarnation]) * 16,
            {1: Endpoint("127.0.0.1", 9093)},
            seed=5,
            incarnation=incarnation,
        )
        self.inputs = InputLog(folder / INPUTS)
        self.trace = TraceFile(folder / TRACE, "n1", incarnation)
        self.node = Node(config, Recovered(), self.now, self.now // 1000)
        effects = self.node.start(self.now, self.now // 1000)
        self.inputs.start(config, Recovered(), self.now, self.now, effects)
        self.trace.write(effects, self.now, self.now)

    def step(self, event: Event) -> list[NodeEffect]:
        self.now += 10_007
        effects = self.node.step(event, self.now, self.now // 1000)
        self.inputs.step(event, self.now, self.now, effects)
        self.trace.write(effects, self.now, self.now)
        return effects


def creation(name: str) -> ApiRequest:
    topic = {
        "name": name,
        "num_partitions": 1,
        "replication_factor": 1,
        "assignments": [],
        "configs": [],
    }
    body = {"topics": [topic], "timeout_ms": 1000, "validate_only": False}
    return ApiRequest(1, "CreateTopics", 7, body)


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """Return the records of a node that was started twice."""
    for incarnation in (1, 2):
        life = Life(tmp_path, incarnation)
        for number in range(12):
            life.step(creation(f"t{number}") if number % 4 == 3 else Tick())
    return tmp_path


def run(folder: Path) -> Replayed:
    return replay(folder / INPUTS, trace=folder / TRACE, node="n1")


Change = Callable[[list[bytes]], list[bytes]]


def rewrite(path: Path, change: Change) -> None:
    path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))


def test_compared_steps_are_counted(recorded: Path) -> None:
    result = run(recorded)
    assert result.mismatch is None
    assert (result.starts, result.inputs, result.torn) == (2, 24, 0)
    assert result.outputs > result.inputs
    assert result.traced == len((recorded / TRACE).read_bytes().splitlines()) > 10


@pytest.mark.parametrize("name", [INPUTS, TRACE])
def test_any_byte_that_is_changed_is_found(recorded: Path, name: str) -> None:
    path = recorded / name
    content = path.read_bytes()
    assert run(recorded).mismatch is None
    for trial in range(60):
        place = draw_below(len(content), trial, "place")
        changed = bytearray(content)
        changed[place] ^= 1 << draw_below(7, trial, "bit")
        path.write_bytes(changed)
        # Where the first line opens no process start any more, that is said.
        with contextlib.suppress(ValueError):
            assert run(recorded).mismatch is not None, f"byte {place}"


@pytest.mark.parametrize("name", [INPUTS, TRACE])
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda lines: lines[:7] + lines[8:], id="a line is dropped"),
        pytest.param(lambda lines: lines[:7] + lines[6:], id="a line is doubled"),
        pytest.param(
            lambda lines: [*lines[:7], lines[8], lines[7], *lines[9:]], id="two lines swap places"
        ),
        pytest.param(
            lambda lines: [*lines[:7], lines[7][:30] + b"\n", *lines[8:]], id="a line is cut off"
        ),
        pytest.param(
            lambda lines: [*lines[:7], lines[7].rstrip(), *lines[8:]], id="a newline is missing"
        ),
        pytest.param(lambda lines: [*lines[:7], b"\n", *lines[7:]], id="an empty line is added"),
        pytest.param(lambda lines: lines[len(lines) // 2 :], id="the first life is left out"),
        pytest.param(lambda lines: [*lines, lines[-1]], id="the last line comes again"),
        pytest.param(
            lambda lines: [*lines[:-1], lines[-1][:50] + b"\n"], id="the end is no torn tail"
        ),
    ],
)
def test_moved_lines_are_detected(recorded: Path, name: str, change: Change) -> None:
    rewrite(recorded / name, change)
    assert run(recorded).mismatch is not None


def test_an_input_without_any_consequence_cannot_be_left_out_either(recorded: Path) -> None:
    """The last tick of a life did nothing: no output would miss it."""
    life = Life(recorded, 3)
    assert life.step(Tick()) == []
    assert run(recorded).mismatch is None
    life.step(creation("last"))
    rewrite(recorded / INPUTS, lambda lines: [*lines[:-2], lines[-1]])
    found = run(recorded).mismatch
    assert found is not None
    assert found.reason == "the line was changed after it was written"


@pytest.mark.parametrize("cut", [1, 20, 60])
def test_a_torn_tail_of_the_inputs_is_treated_as_a_crash(recorded: Path, cut: int) -> None:
    """The step that was being written was not carried out: it has no trace."""
    life = Life(recorded, 3)
    traced = (recorded / TRACE).read_bytes()
    life.step(creation("last"))
    (recorded / TRACE).write_bytes(traced)
    path = recorded / INPUTS
    path.write_bytes(path.read_bytes()[:-cut])
    result = run(recorded)
    assert result.mismatch is None
    assert result.torn == (1 if cut > 1 else 0), "only its newline is missing"
    Life(recorded, 4).step(Tick())
    assert run(recorded).mismatch is None


def test_a_torn_tail_stays_where_it_is_when_the_node_starts_again(recorded: Path) -> None:
    path = recorded / INPUTS
    with path.open("ab") as file:
        file.write(b'{"now":17,"wall')
    Life(recorded, 3).step(Tick())
    result = run(recorded)
    assert result.mismatch is None
    assert (result.starts, result.torn) == (3, 1)


def test_inputs_cut_off_at_the_end_of_a_line_leave_a_trace_that_says_more(recorded: Path) -> None:
    life = Life(recorded, 3)
    while not any(type(effect).__name__ == "Trace" for effect in life.step(creation("t"))):
        pass
    rewrite(recorded / INPUTS, lambda lines: lines[:-1])
    found = run(recorded).mismatch
    assert found is not None
    assert "is from a step that the input log lacks" in found.reason


def test_the_trace_of_a_step_that_was_cut_short_may_be_torn_or_missing(recorded: Path) -> None:
    path = recorded / TRACE
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    life = Life(recorded, 3)
    while not any(type(effect).__name__ == "Trace" for effect in life.step(creation("t"))):
        pass
    last = path.read_bytes().splitlines(keepends=True)[-1]
    assert last not in lines
    for torn in (b"", last[:40]):
        path.write_bytes(path.read_bytes().removesuffix(last) + torn)
        assert run(recorded).mismatch is None
        path.write_bytes(path.read_bytes().removesuffix(torn) + last)


def test_a_trace_without_more_than_its_last_step_is_detected(recorded: Path) -> None:
    rewrite(recorded / TRACE, lambda lines: lines[:-15])
    found = run(recorded).mismatch
    assert found is not None
    assert found.reason == "the trace lacks this step"


@pytest.mark.parametrize("flushes", [True, False])
def test_traces_of_the_data_plane_may_wait_for_a_flush_that_never_ended(
    tmp_path: Path, flushes: bool
) -> None:
    """The process dies during its second step; two steps of the data plane were over before."""
    path = tmp_path / TRACE
    steps: list[list[NodeEffect]] = [[_trace(number)] for number in range(4)]
    if flushes:
        steps[1].append(FlushLog())
    file = TraceFile(path, "n1", 1)
    file.write(steps[0], 10, 10)
    trace = RecordedTrace(path, "n1")
    trace.begin(1)
    trace.step(1, steps[0], 10, 10)
    trace.step(2, steps[1], 11, 11)
    with contextlib.nullcontext() if flushes else pytest.raises(DamagedError):
        for number in (2, 3):
            trace.step(number + 1, steps[number], 10 + number, 10 + number, of_records=True)
        trace.end()


def test_traces_of_the_quorum_do_not_wait_for_another_step(tmp_path: Path) -> None:
    TraceFile(tmp_path / TRACE, "n1", 1).write([_trace(0)], 10, 10)
    trace = RecordedTrace(tmp_path / TRACE, "n1")
    trace.begin(1)
    trace.step(1, [_trace(0)], 10, 10)
    trace.step(2, [_trace(1), FlushLog()], 11, 11)
    with pytest.raises(DamagedError, match="lacks this step"):
        trace.step(3, [_trace(2)], 12, 12)


def _trace(number: int) -> Trace:
    return Trace("step", "leader", 1, 1, 1, 1, 1, {"number": number})


def test_a_trace_of_another_node_is_found(recorded: Path) -> None:
    found = replay(recorded / INPUTS, trace=recorded / TRACE, node="n2").mismatch
    assert found is not None


def test_lines_are_sealed_from_where_the_file_ends(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    long = {"start": 1, "text": "x" * 200_000}
    for line in ({"start": 0}, long, {"start": 2}):
        file = LineFile(path, sealed=True)
        file.write([encode_line(line)])
        file.close()
    assert [number for number, _ in sealed_lines(path)] == [1, 2, 3]
    assert [line and line["start"] for _, line in sealed_lines(path)] == [0, 1, 2]


def test_a_line_that_was_never_sealed_is_not_taken_for_a_torn_one(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    seal = Seal()
    path.write_bytes(seal.close(b'{"start":1}') + b'\n{"now":1}\n' + seal.close(b'{"start":2}'))
    with pytest.raises(DamagedError, match="line 2: the line was changed after it was written"):
        list(sealed_lines(path))
