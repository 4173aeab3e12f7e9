"""Service to clients, from a run's history: latency, failures, seconds without service."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kraftwreck.reports import words
from kraftwreck.reports.store.index import clip, stamp

MAX_EVENTS = 4_000_000
LARGEST_LINES = 256 << 20
MAX_SECONDS = 3600
_TYPES = {"invoke": 0, "ok": 1, "fail": 2, "info": 3}
_COLUMNS = ["process", "type", "f", "time", "index"]
Ints = npt.NDArray[np.int64]


class _Line(msgspec.Struct):
    process: int
    type: str
    f: str
    time: int
    index: int = -1


@dataclass(frozen=True)
class Row:
    """Operations of one ``f``: counts by result, and the latency (µs) of ok operations."""

    ok: int
    fail: int
    info: int
    quantiles: tuple[float, ...]

    @property
    def counts(self) -> str:
        """``120 ok, 3 fail, 1 info``."""
        return f"{self.ok:,} ok, {self.fail:,} fail, {self.info:,} info"

    @property
    def latency(self) -> str:
        """``p50 2 ms, p95 9 ms, p99 40 ms, max 1 s``."""
        if not self.quantiles:
            return "none ended ok"
        names = ("p50", "p95", "p99", "max")
        return ", ".join(
            f"{name} {words.span_text(value)}"
            for name, value in zip(names, self.quantiles, strict=True)
        )


@dataclass
class Service:
    """Rows by ``f`` ("all" for all of them); operations invoked and completed ok per second."""

    rows: dict[str, Row] = field(default_factory=dict)
    invoked: list[int] = field(default_factory=list)
    ok: list[int] = field(default_factory=list)
    note: str = ""

    @property
    def availability(self) -> str:
        """The share of seconds in which an operation succeeded, of those with invocations."""
        tried = [ok for invoked, ok in zip(self.invoked, self.ok, strict=True) if invoked]
        if not tried:
            return "–"
        good = sum(ok > 0 for ok in tried)
        return f"{100 * good / len(tried):.1f} % ({good} of {len(tried)} s)"


def service(folder: Path) -> Service:
    """Return the service to the run's clients; :attr:`Service.note` if it is unreadable."""
    try:
        found = _events(folder)
    except (OSError, ValueError, pa.ArrowException, msgspec.MsgspecError, KeyError) as error:
        return Service(note=f"The history cannot be read ({clip(error, 120)}).")
    if isinstance(found, str):
        return Service(note=found)
    process, kind, name, time, index, names = found
    order = np.lexsort((index, process))
    process, kind, name, time = process[order], kind[order], name[order], time[order]
    invokes = np.flatnonzero(kind == 0)
    after = np.minimum(invokes + 1, len(kind) - 1)
    ended = (after > invokes) & (process[after] == process[invokes]) & (kind[after] != 0)
    ending = np.where(ended, kind[after], 3)
    latency = np.where(ended, (time[after] - time[invokes]) / 1000, 0.0)
    result = Service()
    of = name[invokes]
    present = np.unique(of).tolist()
    chosen = [(names[i], of == i) for i in present]
    for label, mask in [*chosen, ("all", np.ones(len(of), dtype=bool))]:
        ok = latency[mask & (ending == 1)]
        quantiles = tuple(np.percentile(ok, (50, 95, 99, 100)).tolist()) if len(ok) else ()
        counts = np.bincount(ending[mask], minlength=4).tolist()
        result.rows[clip(label, 60)] = Row(counts[1], counts[2], counts[3], quantiles)
    second = np.clip(time[invokes] // 1_000_000_000, 0, MAX_SECONDS - 1)
    length = int(second.max()) + 1 if len(second) else 0
    result.invoked = np.bincount(second, minlength=length).tolist()
    result.ok = np.bincount(second[ending == 1], minlength=length).tolist()
    return result


def _events(folder: Path) -> tuple[Ints, Ints, Ints, Ints, Ints, list[str]] | str:
    shards = folder / "history.parquet"
    if shards.is_dir() and not shards.is_symlink():
        files = [p for p in sorted(shards.glob("*.parquet")) if stamp(str(p)) is not None]
        if sum(pq.read_metadata(path).num_rows for path in files) > MAX_EVENTS:
            return f"The history has more than {MAX_EVENTS:,} events, too many to be analyzed."
        table = pa.concat_tables(pq.read_table(path, columns=_COLUMNS) for path in files)
        kinds = pc.cast(table["type"], pa.string()).to_pylist()
        fs = pc.cast(table["f"], pa.string()).combine_chunks().dictionary_encode()
        return (
            _ints(table["process"]),
            np.array([_TYPES.get(kind, 3) for kind in kinds], dtype=np.int64),
            fs.indices.to_numpy(zero_copy_only=False).astype(np.int64),
            _ints(table["time"]),
            _ints(table["index"]),
            fs.dictionary.to_pylist(),
        )
    lines = stamp(str(folder / "history.jsonl"))
    if lines is None:
        return "There is no history: neither history.parquet nor history.jsonl."
    if lines[1] > LARGEST_LINES:
        return "history.jsonl is too large to be read, and there is no history.parquet."
    return _from_lines((folder / "history.jsonl").read_bytes())


def _from_lines(data: bytes) -> tuple[Ints, Ints, Ints, Ints, Ints, list[str]]:
    decoder = msgspec.json.Decoder(_Line)
    names: dict[str, int] = {}
    rows = []
    lines = data.splitlines()
    for number, line in enumerate(lines):
        try:
            op = decoder.decode(line)
        except msgspec.DecodeError:
            if number == len(lines) - 1:
                break  # a torn last line
            raise
        of = names.setdefault(op.f, len(names))
        place = op.index if op.index >= 0 else number
        rows.append((op.process, _TYPES.get(op.type, 3), of, op.time, place))
    table = np.array(rows, dtype=np.int64).reshape(-1, 5)
    columns = [np.ascontiguousarray(table[:, i]) for i in range(5)]
    return columns[0], columns[1], columns[2], columns[3], columns[4], list(names)


def _ints(column: Any) -> Ints:
    values: Ints = column.to_numpy().astype(np.int64)
    return values
