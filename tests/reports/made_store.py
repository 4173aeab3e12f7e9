"""A made-up store of any size: runs, nights, and what they reached, drawn by key from a seed.

It is no simulator: verdicts are drawn, anomalies are written. Mostly small files with what lists
read; real runs can be put beside them.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from kraftwreck.nemesis.coverage import fault_classes
from kraftwreck.nodes.draw import draw_below, draw_unit
from kraftwreck.pipeline.schemas import GOLD
from tests.reports.fake_run import HOSTILE

FIRST_DAY = datetime(2026, 11, 1, 22, 0, tzinfo=UTC)
WORKLOADS = ("metadata", "register", "leader", "partitions", "requests")
SYSTEMS = ("kraft", "raft")
FAULTS = (
    ("partition",), ("kill",), ("partition", "kill"), ("partition", "kill", "pause"), ("clock",),
    ("disk", "power"), ("membership",), (),
)  # fmt: skip
BROKEN = {
    "register": (
        "linearizable", "nonlinearizable",
        "A read of register-3 at 12.410 s returned 17, which had been overwritten by 18 at "
        "11.902 s: no order of the operations explains it.",
    ),
    "metadata": (
        "committed", "lost-create",
        "Topic t-9 was acknowledged at 8.120 s and is missing from every later complete read.",
    ),
    "leader": ("epochs", "two-leaders", "n2 and n4 both led epoch 7 between 4.1 s and 4.9 s."),
    "partitions": (
        "invariants", "C4", "p3-17-0 at offset 26: leader 1010 is none of [1009, 1011].",
    ),
    "requests": ("invariants", "I22", "n1 leads epoch 3 and took snapshot (77, 1) (load)."),
}  # fmt: skip
MUTANTS = ("C02", "I07", "M11")
CASE = {
    "kraftwreck_case": 1, "workload": "register", "nodes": 3, "time_limit_s": 5.0, "rate": 16.0,
    "concurrency": 4, "seed": 2, "knobs": {"latency_min": 1000, "latency_max": 1000},
    "operations": [[3, 13], [3, 14], [3, 17]],
}  # fmt: skip


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` as JSON, making the folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.encode(value))


def write_gold(
    store: Path, tables: dict[str, list[dict[str, Any]]], runs: list[str], staged: str = ""
) -> None:
    """Write ``tables`` as an analysis of ``runs`` would, by the pipeline's own schemas."""
    named: dict[str, list[str]] = {}
    for name, rows in tables.items():
        file = f"gold/{name}/000001/rows.parquet"
        path = store / "analysis" / ("staging" if name == staged else "") / file
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows, schema=GOLD[name]), path)
        named[f"gold/{name}"] = [file]
    write_json(
        store / "analysis" / "manifest.json",
        {
            "schema": 1, "generation": 1, "tables": named,
            "runs": {run: {"fingerprint": "x", "batch": "000001"} for run in runs},
            "quarantined": {"kraft-x/bad": {"fingerprint": "x", "reason": f"torn {HOSTILE}"}},
        },
    )  # fmt: skip


def make_run(store: Path, seed: int, i: int, at: datetime, /, **changes: Any) -> str:
    """Write the ``i``-th run; return its path in the store. ``changes`` go into test.json."""
    system = SYSTEMS[draw_below(10, seed, "system", i) == 0]
    workload = WORKLOADS[draw_below(len(WORKLOADS), seed, "workload", i)]
    faults = FAULTS[draw_below(len(FAULTS), seed, "faults", i)]
    cluster = ("sim", "sim", "netns")[draw_below(3, seed, "cluster", i)]
    number = draw_below(10**6, seed, "seed", i)
    odds = draw_unit(seed, "verdict", i)
    valid = False if odds < 0.02 else "unknown" if odds < 0.035 else True
    test = {
        "system": system, "workload": workload, "name": f"{system}-{workload}",
        "faults": list(faults), "cluster": cluster, "seed": number, "mutant": None,
        "nodes": ["n1", "n2", "n3"], "time_limit_s": 30.0, "rate": 20.0, "concurrency": 5,
        "healed": 30_000_000_000 + draw_below(4_000_000_000, seed, "healed", i),
        "recovered_s": round(0.05 + 3 * draw_unit(seed, "recovered", i) ** 6, 3),
        "simulated": cluster == "sim", "errors": [], "interrupted": False,
        "started_wall": at.isoformat(),
        "repeat": f"kraftwreck run {system} -w {workload} -n {','.join(faults) or 'none'} -t 30 "
        f"-c {cluster} --nodes 3 --seed {number}",
        "schedule": [{"at": k, "kind": "kill", "shape": "one", "duration": 1} for k in range(20)],
        **changes,
    }  # fmt: skip
    path = f"{test['name']}/{at.strftime('%Y%m%dT%H%M%S')}.{i % 1000:03d}Z-{number}"
    folder = store / path
    write_json(folder / "test.json", test)
    checkers: dict[str, Any] = {
        name: {"valid": True, "anomalies": [], "stats": {}, "error": None}
        for name in ("stats", "epochs", "invariants", "committed")
    }
    if valid is False:
        checker, kind, text = BROKEN[str(test["workload"])]
        found = {"type": kind, "explanation": text, "operations": [12, 19], "events": []}
        checkers[checker] = {"valid": False, "anomalies": [found], "stats": {}, "error": None}
    elif valid == "unknown":
        checkers["linearizable"] = {
            "valid": "unknown", "anomalies": [], "stats": {}, "error": "out of time after 60 s",
        }  # fmt: skip
    write_json(folder / "results.json", {"valid": valid, "checkers": checkers})
    (folder / "report.html").write_text("<!doctype html><title>made up</title><h1>made up</h1>")
    return path


def reached(seed: int, runs: int, share: float = 0.5) -> dict[str, Any]:
    """Counters as ``coverage.json`` holds them, in which ``share`` of all there is was met."""
    classes = [c for c in fault_classes() if not c.startswith("storage")]
    states = ("leader", "follower", "candidate", "unattached", "down")
    follows = {
        f"{a} > {b}": 1 + draw_below(max(runs, 1), seed, "follows", a, b)
        for a in classes
        for b in classes
        if draw_unit(seed, "met", a.split("/")[0], b.split("/")[0]) * draw_unit(seed, "pair", a, b)
        < share * share
    }
    struck = {
        f"{state} {fault}": 1 + draw_below(max(runs, 1), seed, "struck", state, fault)
        for state in states
        for fault in classes
        if draw_unit(seed, "struck?", state, fault) < share
    }
    return {"runs": runs, "follows": follows, "struck": struck, "edges": {"12": 1}}


def make_store(store: Path, runs: int, nights: int = 0, seed: int = 7, days: int = 20) -> Path:
    """Write ``runs`` runs over ``days`` days and ``nights`` nights beside them."""
    for i in range(runs):
        at = FIRST_DAY + timedelta(days=i * days // max(runs, 1), seconds=i % 20000)
        make_run(store, seed, i, at)
    for night in range(nights):
        make_night(store, seed, night, FIRST_DAY + timedelta(days=days - nights + night))
    return store


def make_night(store: Path, seed: int, night: int, at: datetime, runs: int = 220) -> str:
    """Write a night of ``runs`` runs, a tenth on hosts, with a few reds; return its id."""
    name = f"{at.strftime('%Y%m%dT%H%M%SZ')}-mixed"
    folder = store / "nights" / name
    lines: list[dict[str, Any]] = []
    for n in range(runs):
        line = _line(store, seed, night, n, at + timedelta(seconds=60 * n))
        lines.append(line)
        if line["shrunk"]:
            write_json(folder / line["shrunk"], CASE)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "runs.jsonl").write_bytes(b"".join(msgspec.json.encode(x) + b"\n" for x in lines))
    counts = {k: sum(x["class"] == k for x in lines) for k in ("system", "harness", "flake")}
    write_json(
        folder / "night.json",
        {
            "format": 1, "id": name, "name": "mixed", "seed": seed, "state": "complete",
            "reason": "hours", "began": at.isoformat(),
            "ended": (at + timedelta(hours=6)).isoformat(), "spent_s": 21421.5, "sessions": 1,
            "counts": {"runs": runs, **counts}, "given_up": {}, "exit_code": 1,
        },
    )  # fmt: skip
    by_cluster = {
        "sim": reached(seed, runs - 20, 0.6),
        "netns": reached(seed + 99, 20, 0.2),
    }
    write_json(folder / "coverage.json", by_cluster)
    by_test: dict[str, dict[str, Any]] = {}
    shapes = ("kill/one", "kill/leader", "pause/one", "partition/halves")
    for line in lines:
        test = {name: line[name] for name in ("system", "workload", "faults", "cluster", "tree")}
        key = str(test)
        if key not in by_test:
            met = [f"{a} > {b}" for a in shapes for b in shapes if draw_unit(seed, key, a, b) < 0.3]
            struck = {f"leader {a}": 1 for a in shapes if draw_unit(seed, key, a) < 0.4}
            by_test[key] = {**test, "runs": 1, "follows": dict.fromkeys(met, 1), "struck": struck}
    write_json(folder / "coverage_by_test.json", list(by_test.values()))
    (folder / "summary.md").write_text(f"# Night {name}\n\n{runs} runs.\n")
    return name


def _line(store: Path, seed: int, night: int, n: int, at: datetime) -> dict[str, Any]:
    key = (seed, "night", night, n)
    workload = WORKLOADS[draw_below(len(WORKLOADS), *key, "workload")]
    faults = FAULTS[draw_below(len(FAULTS), *key, "faults")]
    cluster = "netns" if n % 11 == 10 else "sim"
    tree = f"mutant:{MUTANTS[n // 9 % 3]}" if n % 9 == 4 else "clean"
    odds = draw_unit(*key, "verdict")
    valid: Any = True
    red: str | None = None
    if tree != "clean":
        valid, red = (False, "system") if odds < 0.7 and not tree.endswith("M11") else (True, None)
    elif night % 3 == 1 and n in (37, 120, 171):
        valid, red, workload = False, "system", "register"
    elif n == 88 and night % 2:
        valid, red, cluster = "unknown", "harness", "netns"
    elif n == 131 and night % 2:
        valid, red, cluster = "unknown", "environment", "netns"
    elif n == 140 and night % 4 == 3:
        valid, red = True, "flake"
    number = draw_below(10**6, *key, "seed")
    failures, why = [], None
    if valid is False:
        checker, kind, text = BROKEN[workload]
        failures, why = [{"checker": checker, "type": kind, "explanation": text}], text
    elif red == "harness":
        why = "the run ended with exit code 255: IndexError in kraftwreck.harness.remote.session"
    elif red == "environment":
        why = "no space left on device while copying /var/lib/kraftwreck"
    elif red == "flake":
        why = "the second attempt had another digest"
    run = None
    if valid is False and tree == "clean":
        run = make_run(
            store, seed, 500_000 + 1000 * night + n, at, workload=workload,
            name=f"kraft-{workload}", system="kraft", faults=list(faults), cluster=cluster,
            seed=number,
        )  # fmt: skip
        checker, kind, text = BROKEN[workload]
        found = {"type": kind, "explanation": text, "operations": [12, 19], "events": []}
        write_json(
            store / run / "results.json",
            {"valid": False, "checkers": {checker: {"valid": False, "anomalies": [found]}}},
        )
    return {
        "n": n, "kind": "cell", "cell": f"kraft {workload}", "system": "kraft",
        "workload": workload, "faults": list(faults), "cluster": cluster, "tree": tree,
        "planted": tree != "clean", "seed": number, "valid": valid, "class": red, "was": None,
        "why": why, "failures": failures, "run": run, "case": None,
        "shrunk": f"reds/{n}/shrunk.json" if valid is False and n % 2 else None, "like": None,
        "repeat": f"kraftwreck sim kraft -w {workload} -n {','.join(faults) or 'none'} -t 30 "
        f"--seeds {number}..{number}", "started": at.isoformat(),
        "seconds": round(1 + 60 * draw_unit(*key, "s") * (cluster != "sim"), 2),
        "cpu_s": round(0.5 + draw_unit(*key, "cpu"), 2), "sim_s": 30.0 if cluster == "sim" else 0.0,
        "digest": None, "attempts": 1, "at_s": 60.0 * n,
    }  # fmt: skip
