"""A run as a trace for Perfetto and chrome://tracing.

Source: "Trace Event Format" (Chrome, JSON object form). The clients, the nemesis and every node
are a process each. Clients have a thread per client, with its operations as slices. A node has
its role by epoch, its down and paused times, the faults that hit it and its trace events, and
counters for log end offset and high watermark. Times are microseconds since the start of the test.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from kraftwreck.reports.bands import Band, join_faults
from kraftwreck.reports.node_lanes import Clocks, NodeLane, clocks, node_lane
from kraftwreck.reports.operations import NEVER, TYPES, Operations, join_operations
from kraftwreck.reports.run_folder import Run
from kraftwreck.reports.words import run_name

CLIENTS, NEMESIS, FIRST_NODE = 1, 2, 10
"""Process ids; those of nodes start at :data:`FIRST_NODE`."""

ROLE, ABSENT, FAULTS, EVENTS = 1, 2, 3, 4
"""Thread ids of a node."""

MAX_EVENTS = 500_000
"""Trace events of all nodes that become instants at most; the counters have all."""

_COLOURS = {"ok": "good", "fail": "bad", "info": "terrible", "open": "terrible"}
Event = dict[str, Any]


def write_perfetto(run: Run, path: Path) -> Path:
    """Write the trace of ``run`` to ``path`` (compressed, if it ends in ``.gz``); return it."""
    encode = msgspec.json.Encoder(enc_hook=repr).encode
    temporary = path.with_name(path.name + ".tmp")
    # A fixed time stamp: the same run gives the same bytes.
    with temporary.open("wb") as raw:
        file = gzip.GzipFile("", "wb", 6, raw, mtime=0) if path.suffix == ".gz" else raw
        head = {"displayTimeUnit": "ms", "otherData": {"run": run_name(run.test)}}
        file.write(encode(head)[:-1] + b',"traceEvents":[\n')
        for n, event in enumerate(trace_events(run)):
            file.write((b",\n" if n else b"") + encode(event))
        file.write(b"\n]}\n")
        if file is not raw:
            file.close()
    temporary.replace(path)
    return path


def trace_events(run: Run) -> Iterator[Event]:
    """Yield the events of the trace, the names of processes and threads first."""
    concurrency = run.test.get("concurrency")
    ops = join_operations(run.ops, concurrency if isinstance(concurrency, int) else None)
    bands = join_faults(run.faults)
    clock = clocks(run.test, run.traces)
    moments = [ops.end, *(b.end or b.start for b in bands)]
    end = max(max(moments, default=0), 1)
    yield _name("process_name", CLIENTS, 0, "clients")
    for number, lane in enumerate(ops.lanes):
        yield _name("thread_name", CLIENTS, number + 1, lane)
    yield from _operations(ops, end)
    yield _name("process_name", NEMESIS, 0, "faults")
    yield from _nemesis(bands, end)
    budget = MAX_EVENTS
    for number, node in enumerate(run.nodes):
        pid = FIRST_NODE + number
        events = run.traces.get(node, [])
        lane_of_node = node_lane(node, events, run.faults, clock, end)
        yield _name("process_name", pid, 0, node)
        yield {**_name("process_sort_index", pid, 0, ""), "args": {"sort_index": pid}}
        for tid, text in ((ROLE, "role"), (ABSENT, "down, paused"), (FAULTS, "faults")):
            yield _name("thread_name", pid, tid, text)
        yield _name("thread_name", pid, EVENTS, "trace")
        yield from _roles(lane_of_node, pid, run.nodes)
        hit = [band for band in bands if node in band.targets]
        yield from (_fault(band, pid, FAULTS, end) for band in hit)
        yield from _told(events, pid, clock, budget)
        budget = max(budget - len(events), 0)


def _name(kind: str, pid: int, tid: int, text: str) -> Event:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": text}}


def _slice(pid: int, tid: int, name: str, start: int, end: int, args: Event) -> Event:
    length = max(end - start, 0)
    return {
        "ph": "X", "pid": pid, "tid": tid, "name": name, "ts": start, "dur": length, "args": args,
    }  # fmt: skip


def _operations(ops: Operations, end: int) -> Iterator[Event]:
    """Yield the operations; one that overlaps the last of its lane goes to an extra lane."""
    free: dict[int, int] = {}
    extra = len(ops.lanes)
    texts = ops.texts
    for row in range(len(ops)):
        start, latency = int(ops.start[row]), int(ops.latency[row])
        until = end if latency == NEVER else start + latency
        tid = base = int(ops.lane[row]) + 1
        while free.get(tid, 0) > start:
            tid += extra
        if tid != base and tid not in free:
            yield _name("thread_name", CLIENTS, tid, f"{ops.lanes[base - 1]}, overlapping")
        free[tid] = until
        kind = TYPES[int(ops.type[row])]
        f, key = texts[int(ops.f[row])], texts[int(ops.key[row])]
        sent, seen = texts[int(ops.sent[row])], texts[int(ops.seen[row])]
        args: Event = {
            "type": kind,
            "process": int(ops.process[row]),
            "index": int(ops.invoke[row]),
        }
        for name, text in (
            ("key", key), ("sent", sent), ("seen", seen),
            ("node", texts[int(ops.node[row])]), ("error", texts[int(ops.error[row])]),
        ):  # fmt: skip
            if text:
                args[name] = text
        title = f"{f} {key}".strip() if kind == "ok" else f"{f} {key} ({kind})".replace("  ", " ")
        event = _slice(CLIENTS, tid, title, start, until, args)
        yield {**event, "cat": kind, "cname": _COLOURS[kind]}


def _fault(band: Band, pid: int, tid: int, end: int) -> Event:
    name = f"{band.kind} {band.shape}".strip()
    args: Event = {"id": band.id, "targets": band.targets, "healed": band.end is not None}
    return _slice(pid, tid, name, band.start, end if band.end is None else band.end, args)


def _nemesis(bands: Iterable[Band], end: int) -> Iterator[Event]:
    """Yield the faults; those that overlap go to separate threads."""
    free: list[tuple[str, int]] = []
    for band in bands:
        row = next(
            (
                i
                for i, (kind, until) in enumerate(free)
                if kind == band.kind and until <= band.start
            ),
            len(free),
        )
        taken = (band.kind, end if band.end is None else band.end)
        if row == len(free):
            free.append(taken)
            yield _name("thread_name", NEMESIS, row + 1, band.kind)
        free[row] = taken
        yield _fault(band, NEMESIS, row + 1, end)


def _roles(lane: NodeLane, pid: int, nodes: list[str]) -> Iterator[Event]:
    for s in lane.segments:
        leader = nodes[s.leader - 1] if 0 < s.leader <= len(nodes) else "unknown"
        args: Event = {"epoch": s.epoch, "leader": leader, "incarnation": s.incarnation}
        yield _slice(pid, ROLE, f"{s.state} e{s.epoch}", s.start, s.end, args)
    for name, spans in (("down", lane.down), ("paused", lane.paused)):
        for start, until in spans:
            yield _slice(pid, ABSENT, name, start, until, {})


def _told(events: Iterable[Any], pid: int, clock: Clocks, budget: int) -> Iterator[Event]:
    """Yield a node's trace events as instants, and its offsets as counters."""
    before: tuple[int, int] | None = None
    for n, event in enumerate(events):
        at = max(clock.history_time(event.node, event.mono), 0)
        if n < budget:
            args = {"epoch": event.epoch, "seq": event.seq, **event.detail}
            yield {
                "ph": "i", "s": "t", "pid": pid, "tid": EVENTS, "name": event.kind, "ts": at,
                "args": args,
            }  # fmt: skip
        if (event.leo, event.hw) != before:
            before = event.leo, event.hw
            args = {"log end offset": event.leo, "high watermark": max(event.hw, 0)}
            yield {"ph": "C", "pid": pid, "name": "offsets", "ts": at, "args": args}
