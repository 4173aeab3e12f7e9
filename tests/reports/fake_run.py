"""A made-up run folder that looks like a real one, for trying reports at any size.

Everything is drawn by key from the seed. It is no simulator: leaders change because the
list of faults says so, and anomalies are written, not found.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from kraftwreck.histories.fault import FaultEvent
from kraftwreck.histories.operation import Op
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.histories.verdict import Anomaly, CheckerResult, Verdict
from kraftwreck.nodes.draw import draw_below, draw_unit

SECOND = 1_000_000_000
START_MONO_US = 5_000_000_000
NODES = ("n1", "n2", "n3", "n4", "n5")
HOSTILE = "</script><script>alert(1)</script>"


def write_lines(path: Path, rows: list[Any]) -> None:
    """Write ``rows`` as JSON lines, making the folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))


def fake_faults(seed: int, seconds: int) -> list[FaultEvent]:
    """A fault of each kind in turn, about every eight seconds; the last is not healed."""
    events: list[FaultEvent] = []
    count = max(seconds // 8, 3)
    for i in range(count):
        kind = ("partition", "kill", "pause")[i % 3]
        targets = [NODES[draw_below(5, seed, "target", i)]]
        shape = {"partition": ("one", "halves", "ring"), "kill": ("one",), "pause": ("leader",)}[
            kind
        ][draw_below(3, seed, "shape", i) % (3 if kind == "partition" else 1)]
        at = int((i + 0.3 + 0.3 * draw_unit(seed, "at", i)) * seconds / count * SECOND)
        length = int((0.25 + 0.3 * draw_unit(seed, "for", i)) * seconds / count * SECOND)
        node = targets[0]
        pid = 4000 + draw_below(900, seed, "pid", i)
        dropped = 40 + draw_below(400, seed, "drops", i)
        proofs: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
            "partition": ({"dropped": 0}, {"dropped": dropped}),
            "kill": ({"pid": pid, "state": "gone"}, {"pid": pid + 31, "state": "S"}),
            "pause": ({"pid": pid, "state": "T"}, {"pid": pid, "state": "S"}),
        }
        before, after = ({node: proof} for proof in proofs[kind])
        common: dict[str, Any] = {"id": i, "kind": kind, "shape": shape, "targets": targets}
        events.append(
            FaultEvent(
                **common, phase="start", time=at, done=at + 8_000_000, evidence=before,
                detail={"planned_at": at},
            )
        )  # fmt: skip
        if i < count - 1:
            events.append(
                FaultEvent(
                    **common, phase="stop", time=at + length, done=at + length + 5_000_000,
                    evidence=after,
                )
            )  # fmt: skip
    return events


def fake_ops(
    seed: int, count: int, seconds: int, clients: int, faults: list[FaultEvent]
) -> list[Op]:
    """``count`` operations of a register workload, slower and less sure under faults."""
    stops = {e.id: e.time for e in faults if e.phase == "stop"}
    spans = [(e.time, stops.get(e.id, seconds * SECOND)) for e in faults if e.phase == "start"]
    pace = seconds * SECOND * clients / count
    rows: list[tuple[int, int, Op]] = []
    for client in range(clients):
        now, process = int(draw_unit(seed, "begin", client) * pace), client
        value: dict[int, int] = {}
        for n in range(count // clients):
            key = draw_below(8, seed, "key", client, n)
            f = ("read", "write", "write", "cas")[draw_below(4, seed, "f", client, n)]
            sent: Any = n * clients + client if f == "write" else [None, n] if f == "cas" else None
            stress = any(a <= now <= b for a, b in spans)
            luck, unit = draw_unit(seed, "luck", client, n), draw_unit(seed, "latency", client, n)
            latency = min(int(1_500_000 / (1.0001 - unit) ** 0.7), int(pace * 0.9))
            kind: Any = "fail" if f == "cas" and luck < 0.6 else "ok"
            if stress and luck > 0.93:
                kind, latency = "info", min(5 * SECOND, int(pace * 20))
            elif stress:
                latency = min(latency * 6, int(pace * 3))
            node = NODES[draw_below(5, seed, "node", client, n)]
            common: dict[str, Any] = {"index": 0, "process": process, "f": f, "key": key}
            rows.append((now, 0, Op(**common, type="invoke", value=sent, time=now)))
            end = now + latency
            error = {"info": "no answer in 5000 ms", "fail": "TOPIC_ALREADY_EXISTS"}.get(kind)
            if f == "write" and kind == "ok":
                value[key] = sent
            seen = value.get(key) if f == "read" else sent
            rows.append(
                (end, 1, Op(**common, type=kind, value=seen, time=end, node=node, error=error))
            )
            if kind == "info":
                process += clients
            now = max(end + 1000, now + int(pace))
    rows.sort(key=lambda row: row[:2])
    for index, (_, _, op) in enumerate(rows):
        op.index = index
    return [op for _, _, op in rows]


def fake_trace(
    seed: int, seconds: int, faults: list[FaultEvent], offsets: dict[str, int]
) -> dict[str, list[TraceEvent]]:
    """Elections at each fault, high watermarks in between, a restart after each kill."""
    traces: dict[str, list[TraceEvent]] = {n: [] for n in NODES}
    lives, seqs = dict.fromkeys(NODES, 1), dict.fromkeys(NODES, 0)
    down: dict[str, bool] = dict.fromkeys(NODES, False)

    def add(node: str, at: int, kind: str, state: str, epoch: int, leader: int, hw: int) -> None:
        if down[node]:
            return
        mono = at // 1000 + START_MONO_US + offsets[node]
        traces[node].append(
            TraceEvent(
                node=node, incarnation=lives[node], seq=seqs[node], mono=mono,
                wall=1_790_000_000_000_000 + mono, kind=kind, state=state, epoch=epoch,
                leader=leader, voted=-1, leo=hw + 1, hw=hw,
            )
        )  # fmt: skip
        seqs[node] += 1

    epoch, leader, hw = 1, 1, 0
    moments: list[tuple[int, FaultEvent | None]] = [(e.time, e) for e in faults]
    moments += [(i * SECOND // 4, None) for i in range(seconds * 4)]
    for node in NODES:
        add(node, -SECOND, "started", "unattached", 0, -1, -1)
        add(node, -SECOND // 2, "follower", "leader" if node == "n1" else "follower", 1, 1, 0)
    for at, fault in sorted(moments, key=lambda m: m[0]):
        if fault is None:
            hw += 1 + draw_below(20, seed, "hw", at)
            for number, node in enumerate(NODES, 1):
                state = "leader" if number == leader else "follower"
                add(node, at, "high_watermark", state, epoch, leader, hw)
            continue
        node = fault.targets[0]
        if fault.kind == "kill" and fault.phase == "start":
            down[node] = True
        if fault.kind == "kill" and fault.phase == "stop":
            down[node] = False
            lives[node], seqs[node] = lives[node] + 1, 0
            add(node, fault.done, "started", "unattached", epoch, -1, 0)
        if fault.phase == "start" and node == NODES[leader - 1]:
            leader = leader % 5 + 1
            epoch += 1
            winner = NODES[leader - 1]
            add(winner, at + SECOND, "prospective", "prospective", epoch - 1, -1, hw)
            add(winner, at + SECOND + 150_000_000, "candidate", "candidate", epoch, -1, hw)
            add(winner, at + SECOND + 220_000_000, "leader", "leader", epoch, leader, hw)
    return traces


def fake_verdict(ops: list[Op], traces: dict[str, list[TraceEvent]], *, invalid: bool) -> Verdict:
    """All is well, or two checkers found anomalies, one of them in text that is hostile."""
    stats = {"operations": len(ops) // 2, "by type": {"ok": sum(o.type == "ok" for o in ops)}}
    checkers = {
        "stats": CheckerResult(valid=True, stats=stats),
        "epochs": CheckerResult(valid=True, stats={"epochs": 7}),
        "linearizable": CheckerResult(valid=True),
        "committed": CheckerResult(valid=True),
    }
    if invalid:
        writes = [o for o in ops if o.type == "ok" and o.f == "write"]
        first = writes[len(writes) // 3]
        later = [o for o in ops if o.type == "ok" and o.key == first.key and o.time > first.time]
        lost = Anomaly(
            type="lost-write",
            explanation=f"The write of {first.value} to key {first.key} was acknowledged, but the "
            "reads after it returned older values.",
            operations=[first.index, *(o.index for o in later[:4])],
        )
        hostile = Anomaly(
            type=HOSTILE, explanation=f"Read {HOSTILE} & nothing else.", operations=[3, 999_999_999]
        )
        pair = [traces["n2"][len(traces["n2"]) // 2], traces["n3"][len(traces["n3"]) // 2]]
        leaders = Anomaly(
            type="I1",
            explanation="n2 and n3 both led epoch 4.",
            events=[{**msgspec.to_builtins(e), "state": "leader", "epoch": 4} for e in pair],
        )
        checkers["linearizable"] = CheckerResult(valid=False, anomalies=[lost, hostile])
        checkers["epochs"] = CheckerResult(valid=False, anomalies=[leaders])
        checkers["committed"] = CheckerResult(valid="unknown", error="no final read of n5")
    return Verdict.of(checkers)


def write_fake_run(
    folder: Path,
    *,
    seed: int = 7,
    count: int = 1000,
    seconds: int = 60,
    clients: int = 5,
    invalid: bool = False,
) -> Path:
    """Write a run of ``count`` operations over ``seconds`` to ``folder`` and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    offsets = {n: draw_below(1_000_000_000, seed, "offset", n) for n in NODES}
    faults = fake_faults(seed, seconds)
    ops = fake_ops(seed, count, seconds, clients, faults)
    traces = fake_trace(seed, seconds, faults, offsets)
    if invalid:
        ops[6].key = HOSTILE
    clock = {node: {"offset_us": o + START_MONO_US} for node, o in offsets.items()}
    test = {
        "name": "kraft-register", "system": "kraft", "workload": "register",
        "faults": ["partition", "kill", "pause"], "nodes": list(NODES), "seed": seed,
        "time_limit_s": seconds, "rate": count / seconds, "concurrency": clients,
        "cluster": "netns", "started_wall": "2026-11-21T02:00:00Z", "clock": clock,
        "start_mono_us": START_MONO_US, "mutant": HOSTILE if invalid else None,
        "versions": {"kraftwreck": "0.1.0", "python": "3.11.2"},
    }  # fmt: skip
    (folder / "test.json").write_bytes(msgspec.json.encode(test))
    write_lines(folder / "history.jsonl", list(ops))
    write_lines(folder / "faults.jsonl", list(faults))
    for node, events in traces.items():
        write_lines(folder / "nodes" / node / "trace.jsonl", list(events))
        (folder / "nodes" / node / "stdout.log").write_text(f"{node} started\n")
    verdict = fake_verdict(ops, traces, invalid=invalid)
    (folder / "results.json").write_bytes(msgspec.json.encode(verdict))
    return folder
