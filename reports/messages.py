"""Messages and trace events of nodes near anomalies, as a space-time diagram.

Simulated runs record the messages of nodes in ``messages.jsonl``; real nodes record those that they
receive in their input logs. The page contains those near an anomaly, or near an election if there
is no anomaly. Times are microseconds since the start of the test.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from kraftwreck.checkers.recorded.captured import INPUTS
from kraftwreck.histories.system_name import system_of
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.nodes.consensus.effects import RequestReceived, ResponseReceived
from kraftwreck.nodes.server.plain import from_plain
from kraftwreck.reports.log_positions import SAMPLED
from kraftwreck.reports.node_lanes import Clocks
from kraftwreck.reports.operations import Interned
from kraftwreck.reports.run_folder import Run
from kraftwreck.systems.shown import Shown, shown

FILE = "messages.jsonl"
NEAR_US = 1_500_000
MAX_MESSAGES = 4000
MAX_EVENTS = 4000
MAX_INPUTS = 64 << 20
"""Bytes of input logs to read; the report of a longer run has no messages."""

_BETWEEN_NODES = re.compile(rb'"(Request|Response)Received"')

Span = tuple[int, int]


class Arrow(NamedTuple):
    """One message from lane to lane; ``sent`` is -1 if only its arrival is known."""

    sent: int
    arrived: int
    source: int
    target: int
    api: str
    label: str
    contents: str


@dataclass
class Diagram:
    """Arrows and events near the chosen moments; ``known`` counts all messages of the run,
    ``colours`` are those of messages by name."""

    arrows: list[Arrow] = field(default_factory=list)
    events: list[tuple[int, int, str, str]] = field(default_factory=list)
    known: int = 0
    note: str = ""
    colours: dict[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return the data of the page's chart: each text once, and rows of numbers."""
        texts = Interned()
        return {
            "arrows": [
                [
                    a.sent,
                    a.arrived,
                    a.source,
                    a.target,
                    *map(texts.add, (a.api, a.label, a.contents)),
                ]
                for a in self.arrows
            ],
            "events": [
                [at, lane, texts.add(kind), texts.add(text)] for at, lane, kind, text in self.events
            ],
            "texts": texts.texts,
            "known": self.known,
            "colours": self.colours,
        }


def diagram(run: Run, moments: Sequence[Span], clock: Clocks) -> Diagram:
    """Return the messages and trace events near ``moments``; of too many, the nearest ones."""
    own = shown(system_of(run.test))
    result = Diagram(colours=dict(own.colours))
    lanes = {number: number - 1 for number in range(1, len(run.nodes) + 1)}
    try:
        arrows = list(_simulated(run.folder / FILE, lanes, own))
        result.known = len(arrows)
        if not arrows:
            arrows = list(_heard(run, lanes, clock, own, moments, result))
    except (OSError, msgspec.MsgspecError, KeyError, TypeError, ValueError) as error:
        result.note = f"The messages cannot be read ({' '.join(str(error).split())})."
        arrows = []
    result.arrows = sorted(
        _nearest(arrows, [a.arrived for a in arrows], moments, MAX_MESSAGES),
        key=lambda a: (a.arrived, a.sent),
    )
    events = list(_events(run, moments, clock))
    chosen = _nearest(events, [at for at, _, _ in events], moments, MAX_EVENTS)
    result.events = sorted(
        (at, lane, e.kind, _words({"epoch": e.epoch, "state": e.state, "hw": e.hw} | e.detail))
        for at, lane, e in chosen
    )
    return result


def _events(
    run: Run, moments: Sequence[Span], clock: Clocks
) -> Iterator[tuple[int, int, TraceEvent]]:
    """Yield (time, lane, event) of the trace events near ``moments``."""
    for lane, node in enumerate(run.nodes):
        events = run.traces.get(node, [])
        begin = 0
        for start, end in moments:  # the clock of a node never decreases
            low = clock.reading(node, start - NEAR_US)
            high = clock.reading(node, end + NEAR_US)
            begin = max(begin, bisect_left(events, low, key=lambda e: e.mono))
            while begin < len(events) and events[begin].mono <= high:
                if events[begin].kind != SAMPLED:  # They have a picture of their own.
                    yield clock.history_time(node, events[begin].mono), lane, events[begin]
                begin += 1


def moments_of(
    anomalies: Iterable[tuple[int | None, int | None]], elections: Sequence[int]
) -> list[Span]:
    """Return the moments of the anomalies, or of the elections if there are none."""
    spans = [(a, b) for a, b in anomalies if a is not None and b is not None]
    return sorted(spans or [(at, at) for at in elections])


def _nearest(rows: Sequence[Any], times: Sequence[int], spans: Sequence[Span], most: int) -> Any:
    """Return up to ``most`` rows that are at most :data:`NEAR_US` from ``spans``, nearest first."""
    if not spans:
        return []
    starts = [start for start, _ in spans]

    def distance(at: int) -> int:
        place = bisect_left(starts, at)
        near = spans[max(place - 3, 0) : place + 2]
        return min(max(start - at, at - end, 0) for start, end in near)

    ranked = [(distance(at), i) for i, at in enumerate(times)]
    chosen = sorted(pair for pair in ranked if pair[0] <= NEAR_US)[:most]
    return [rows[i] for _, i in chosen]


def _words(values: Mapping[str, Any] | None) -> str:
    """Return values as one line: ``epoch 3, offset 12``."""
    if not values:
        return ""
    shown = (
        (name.replace("_", " "), v)
        for name, v in values.items()
        if v is not None and not (v == 0 and name in ("error", "partition_error"))
    )
    text = ", ".join(
        f"{name} {v if isinstance(v, str | int) and not isinstance(v, bool) else _json(v)}"
        for name, v in shown
    )
    return text if len(text) <= 300 else text[:299] + "…"


def _json(value: Any) -> str:
    return msgspec.json.encode(value, enc_hook=repr).decode()


def _simulated(path: Path, lanes: Mapping[int, int], own: Shown) -> Iterator[Arrow]:
    if not path.is_file():
        return
    answered: dict[tuple[int, int], int] = {}
    decode = msgspec.json.Decoder(dict[str, Any]).decode
    with path.open("rb") as file:
        for line in file:
            m = decode(line)
            asker, replier, api, time = m["asker"], m["replier"], m["api"], m["time"] // 1000
            asked, answer, records = m.get("asked"), m.get("answer"), m.get("records")
            if replier < -1:  # a bootstrap server: the response does not name the node
                continue
            if asker not in lanes or replier not in lanes:
                continue
            contents = "; ".join(
                f"{word}: {text}"
                for word, text in (("request", _words(asked)), ("response", _words(answer)))
                if text
            )
            if asked is not None:
                label = own.asked(api, asked)
                if api == "Fetch":
                    answered[asker, replier] = time
                elif answer is not None:
                    label = f"{label} {own.answered(api, answer, records)}"
                sent = m["sent"] // 1000 if m["sent"] >= 0 else -1
                yield Arrow(sent, time, lanes[asker], lanes[replier], api, label, contents)
            elif answer is not None:
                label = own.answered(api, answer, records)
                sent = answered.get((asker, replier), -1)
                kind = f"{api} answer"
                yield Arrow(sent, time, lanes[replier], lanes[asker], kind, label, contents)


class _Line(msgspec.Struct):
    now: int = -1
    event: msgspec.Raw = msgspec.Raw(b"")


def _heard(
    run: Run,
    lanes: Mapping[int, int],
    clock: Clocks,
    own: Shown,
    moments: Sequence[Span],
    result: Diagram,
) -> Iterator[Arrow]:
    """Yield the messages near ``moments`` of the nodes' input logs, and count all in ``result``.

    Input logs do not record send times. Only messages that may be drawn are decoded.
    """
    paths = [
        (lane, name, run.folder / "nodes" / name / INPUTS) for lane, name in enumerate(run.nodes)
    ]
    present = [entry for entry in paths if entry[2].is_file()]
    if sum(path.stat().st_size for _, _, path in present) > MAX_INPUTS:
        result.note = "The input logs are too long to draw messages from."
        return
    decode = msgspec.json.Decoder(_Line).decode
    heard: list[tuple[int, int, msgspec.Raw]] = []
    for lane, name, path in present:
        with path.open("rb") as file:
            for text in file:
                if not _BETWEEN_NODES.search(text, 0, 120):
                    continue
                try:
                    line = decode(text)
                except msgspec.MsgspecError:
                    continue  # torn by a crash
                heard.append((clock.history_time(name, line.now), lane, line.event))
    result.known = len(heard)
    for at, lane, event in _nearest(heard, [at for at, _, _ in heard], moments, MAX_MESSAGES):
        arrow = _arrow(at, lane, event, lanes, own)
        if arrow is not None:
            yield arrow


def _arrow(
    at: int, lane: int, event: msgspec.Raw, lanes: Mapping[int, int], own: Shown
) -> Arrow | None:
    """Return a message that the node of ``lane`` received, None if its sender is not known."""
    received = from_plain(msgspec.json.decode(event))
    message = getattr(received, "message", None)
    fields = own.facts(message)
    if fields is None:
        return None
    api = type(message).__name__.removesuffix("Request").removesuffix("Response")
    if isinstance(received, RequestReceived):
        asker = lanes.get(own.asker(api, message))
        if asker is None:
            return None
        label = own.asked(api, fields)
        return Arrow(-1, at, asker, lane, api, label, f"request: {_words(fields)}")
    if isinstance(received, ResponseReceived) and received.source in lanes:
        label = own.answered(api, fields, None)
        contents = f"response: {_words(fields)}"
        return Arrow(-1, at, lanes[received.source], lane, f"{api} answer", label, contents)
    return None
