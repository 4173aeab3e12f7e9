"""The page's tables and one-line texts, which are also the alternatives to its charts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import numpy as np

from kraftwreck.reports import words
from kraftwreck.reports.node_lanes import NodeLane
from kraftwreck.reports.operations import NEVER, TYPES, Operations

MAX_FILES = 200


def pretty(value: Any) -> str:
    """Return ``value`` as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(value), indent=1).decode()


def brief(evidence: Mapping[str, Any], limit: int = 120) -> str:
    """Return evidence as one short line: ``n1 pid 812 → 907, n2 dropped 41``."""
    if not evidence:
        return "no evidence recorded"

    def flat(value: Any) -> str:
        if isinstance(value, Mapping):
            return " ".join(k if v is True else f"{k} {flat(v)}" for k, v in value.items())
        if isinstance(value, list):
            return "+".join(map(flat, value))
        return "null" if value is None else str(value)

    text = ", ".join(f"{key}: {flat(value)}" for key, value in evidence.items())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def type_counts(ops: Operations) -> str:
    """Return the number of operations by result, as text."""
    counts = np.bincount(ops.type, minlength=len(TYPES)).tolist()
    return ", ".join(f"{n:,} {name}" for n, name in zip(counts, TYPES, strict=True) if n)


def _quantiles(latency: np.ndarray[Any, np.dtype[np.int64]]) -> list[str]:
    if not len(latency):
        return ["–"] * 4
    return [words.span_text(float(v)) for v in np.percentile(latency, (50, 95, 99, 100))]


def latency_words(ops: Operations) -> str:
    """Return the latency quantiles of ok operations, as text."""
    p50, p95, p99, _ = _quantiles(ops.latency[ops.type == 0])
    return f"median {p50}, p95 {p95}, p99 {p99} of ok operations"


def numbers(ops: Operations) -> list[list[str]]:
    """Return the table of operations by f: counts, and latency quantiles of ok operations."""
    names = np.unique(ops.f).tolist()
    groups = [(ops.texts[i], ops.f == i) for i in names]
    if len(groups) != 1:
        groups.append(("all", np.ones(len(ops), dtype=bool)))
    rows = []
    for name, chosen in groups:
        types = np.bincount(ops.type[chosen], minlength=len(TYPES)).tolist()
        counts = [types[0], types[1], types[2] + types[3]]
        ok = ops.latency[chosen & (ops.type == 0) & (ops.latency != NEVER)]
        rows.append([name, *(f"{n:,}" for n in counts), *_quantiles(ok)])
    return rows


def leaders(lanes: list[NodeLane]) -> list[list[str]]:
    """Return epoch, leader, start and end of each leadership, the text version of the lanes."""
    rows = [
        (s.epoch, s.start, s.end, lane.node)
        for lane in lanes
        for s in lane.segments
        if s.state == "leader"
    ]
    return [
        [str(epoch), node, words.seconds_text(start), words.seconds_text(end)]
        for epoch, start, end, node in sorted(rows)
    ]


def files(folder: Path) -> list[dict[str, str]]:
    """Return the interesting files beside the report, with relative links."""
    names = [
        path
        for pattern in ("*.json", "*.jsonl", "*.xml", "*.parquet", "*.log", "nodes/*/*.*")
        for path in sorted(folder.glob(pattern))
        if not path.name.endswith(".tmp")
    ]
    found = []
    for path in names[:MAX_FILES]:
        name = path.relative_to(folder).as_posix()
        size = path.stat().st_size if path.is_file() else None
        found.append(
            {"name": name, "href": quote(name), "size": "" if size is None else size_text(size)}
        )
    return found


def size_text(size: int) -> str:
    """Return a file size for people: ``12 B``, ``3.4 kB``, ``5.6 MB``."""
    if size < 1000:
        return f"{size} B"
    return f"{size / 1000:.1f} kB" if size < 1_000_000 else f"{size / 1e6:.1f} MB"
