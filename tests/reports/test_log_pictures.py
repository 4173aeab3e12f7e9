"""The section of a report with the logs of partitions: which come first, and what is drawn."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kraftwreck.histories.system_name import system_of
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.reports.log_pictures import DRAWN, LEFT, log_pictures
from kraftwreck.reports.log_positions import partition_logs
from kraftwreck.reports.node_lanes import clocks, node_lane
from kraftwreck.reports.run_folder import Run, load_run
from kraftwreck.reports.run_report import write_report
from kraftwreck.systems.shown import shown
from tests.reports.conftest import Opened
from tests.reports.fake_run import START_MONO_US, write_fake_run

SECOND = 1_000_000
Open = Callable[..., Opened]
TOPIC = "ab" * 16
POSITIONS, ROLE, CUT = (f"replica-{word}" for word in ("positions", "role", "truncate"))


def rows(number: int, *offsets: int, topic: str = TOPIC) -> dict[str, Any]:
    """The detail of a sample of one replica: start, checkpoint, flushed, high watermark, end."""
    return {"replicas": [[topic, number, *offsets]], "topics": {topic: "orders"}}


def of(number: int, **detail: Any) -> dict[str, Any]:
    """The detail of another event of a replica."""
    return {"topic_id": TOPIC, "partition": number, **detail}


IN_SYNC = ("replica-isr", of(0, isr=[1, 2], partition_epoch=4))
STEPS: list[tuple[str, int, float, str, dict[str, Any]]] = [
    # node, incarnation, seconds, kind, detail
    ("n1", 1, 1, POSITIONS, rows(0, 0, 0, 0, 0, 0)),
    ("n1", 1, 1, ROLE, of(0, leader=1, epoch=3, start=0)),
    ("n2", 1, 1, POSITIONS, rows(0, 0, 0, 0, 0, 0)),
    ("n2", 1, 1, POSITIONS, rows(1, 0, 0, 0, 0, 90)),
    ("n1", 1, 5, POSITIONS, rows(0, 0, 10, 16, 20, 24)),
    ("n2", 1, 5, POSITIONS, rows(0, 0, 10, 16, 20, 22)),
    ("n1", 1, 6, *IN_SYNC),
    ("n1", 2, 20, POSITIONS, rows(0, 0, 10, 16, 10, 16)),
    ("n2", 1, 12, ROLE, of(0, leader=2, epoch=4, start=22)),
    ("n1", 2, 21, CUT, of(0, **{"from": 16, "to": 15})),
    ("n1", 2, 21, CUT, of(0, **{"from": 15, "to": 15})),
    ("n1", 2, 22, POSITIONS, rows(0, 2, 10, 16, 22, 22)),
]


def write_log_run(folder: Path, *more: TraceEvent, seconds: int = 60) -> Path:
    """A run in which a power loss at 10 s takes records of n1, and n2 leads next."""
    write_fake_run(folder, count=100, seconds=seconds)
    clock = msgspec.json.decode((folder / "test.json").read_bytes())["clock"]
    for node in ("n1", "n2"):
        events = [
            TraceEvent(
                node=node, incarnation=incarnation, seq=place,
                mono=int(at * SECOND) + clock[node]["offset_us"], wall=0, kind=kind,
                state="follower", epoch=1, leader=1, voted=-1, leo=0, hw=0, detail=detail,
            )
            for place, (_, incarnation, at, kind, detail) in enumerate(STEPS) if _ == node
        ]  # fmt: skip
        lines = [msgspec.json.encode(e) for e in [*events, *(m for m in more if m.node == node)]]
        (folder / "nodes" / node / "trace.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    fault: dict[str, Any] = {"id": 1, "kind": "kill", "shape": "one", "targets": ["n1"]}
    start = {**fault, "phase": "start", "time": 10**10, "done": 10**10}
    (folder / "faults.jsonl").write_bytes(msgspec.json.encode(start) + b"\n")
    return folder


def logs_of(run: Run, end: int = 60 * SECOND) -> list[Any]:
    clock = clocks(run.test, run.traces)
    lanes = [node_lane(n, run.traces.get(n, []), run.faults, clock, end) for n in run.nodes]
    return partition_logs(run.traces, lanes, clock, end, shown(system_of(run.test)))


def section(page: str) -> str:
    return page.partition('id="positions"')[2].partition("</section>")[0]


def test_the_partition_with_removed_records_comes_first(tmp_path: Path) -> None:
    first, second = logs_of(load_run(write_log_run(tmp_path / "run")))
    assert (first.name, second.name) == ("orders, partition 0", "orders, partition 1")
    assert (first.removed, first.changes) == (8 + 1, 3)
    assert [text for _, text in first.events] == [
        "n1 leads epoch 3 from offset 0 on.",
        "The in-sync replicas are n1, n2.",
        "n2 leads epoch 4 from offset 22 on.",
        "n1 starts with a log that ends at 16, not at 24.",
        "n1 truncates its log from 16 to 15.",
    ]


def test_lines_end_with_their_process_and_areas_with_the_flushed_offset(tmp_path: Path) -> None:
    run = load_run(write_log_run(tmp_path / "run"))
    picture = log_pictures(logs_of(run), 60 * SECOND)[0]
    lane = picture.narrow.lanes[0]
    width = picture.narrow.width - 2 - LEFT
    assert [line for line, _ in lane.lines] == ["checkpoint", "end", "hw"]
    ends = dict(lane.lines)["end"]
    assert ends.count("M") == 2, "one path for each process"
    died = LEFT + 10 / 60 * width
    assert float(re.findall(r"H([\d.]+)M", ends)[0]) == pytest.approx(died, abs=0.2)
    ((since, length),) = lane.down
    assert since == pytest.approx(died, abs=0.2)
    assert length == pytest.approx(10 / 60 * width, abs=0.2)
    assert len(lane.cuts) == 1, "a truncation that removes nothing is not drawn"
    assert [strip.label for strip in picture.wide.lanes[0].leads] == ["leads epoch 3"]
    assert lane.flushed != lane.log
    assert picture.rows[0] == ["n1", "2", "10", "16", "22", "22"]


def test_a_page_has_the_most_eventful_partitions_and_says_how_many_there_are(
    tmp_path: Path,
) -> None:
    folder = write_log_run(tmp_path / "run")
    many = [
        TraceEvent(
            node="n1", incarnation=2, seq=20 + n, mono=START_MONO_US + 70 * SECOND, wall=0,
            kind=POSITIONS, state="follower", epoch=1, leader=1, voted=-1, leo=0, hw=0,
            detail=rows(5 + n, 0, 0, 0, 0, 1),
        )
        for n in range(9)
    ]  # fmt: skip
    page = section(write_report(write_log_run(tmp_path / "many", *many)).read_text())
    assert page.count('<details class="logs"') == DRAWN
    assert page.count('<details class="logs" open>') == 1
    assert f"The {DRAWN} most eventful of 11 partitions." in page
    assert "most eventful of" not in section(write_report(folder).read_text())


def test_events_of_other_forms_are_skipped(tmp_path: Path) -> None:
    forms: list[tuple[str, dict[str, Any]]] = [
        (POSITIONS, {"replicas": [[TOPIC, 0, 1]]}),
        (POSITIONS, {"replicas": 7}),
        (ROLE, {"start": "<b>"}),
        (IN_SYNC[0], of(0)),
        (CUT, of(0, **{"from": "a", "to": []})),
    ]
    strange = [
        TraceEvent(
            node="n1", incarnation=2, seq=20 + n, mono=START_MONO_US + 70 * SECOND, wall=0,
            kind=kind, state="x", epoch=1, leader=1, voted=-1, leo=0, hw=0, detail=detail,
        )
        for n, (kind, detail) in enumerate(forms)
    ]  # fmt: skip
    run = load_run(write_log_run(tmp_path / "run", *strange))
    assert [len(each.events) for each in logs_of(run)] == [5, 0]
    assert "&lt;b&gt;" not in section(write_report(run.folder).read_text())


def test_a_run_without_records_has_no_such_section(report: Path) -> None:
    assert 'id="positions"' not in report.read_text()


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 420])
def test_the_pictures_fit_the_screen(opened: Open, tmp_path: Path, width: int) -> None:
    view = opened(write_report(write_log_run(tmp_path / "run")))
    view.page.set_viewport_size({"width": width, "height": 900})
    view.settle()
    boxes = view.page.evaluate(
        """() => [...document.querySelectorAll("#positions *")].filter(e => e.checkVisibility())
        .filter(e => !e.closest(".scroll *")).map(e => e.getBoundingClientRect().right)"""
    )
    assert max(boxes) <= width
    shown = view.page.locator("#positions details[open] svg:visible")
    assert shown.count() == 1
    assert shown.get_attribute("class") == ("wide" if width > 1000 else "narrow")
    sizes = view.page.evaluate(
        """() => [...document.querySelectorAll("#positions details[open] svg text")]
        .filter(e => e.checkVisibility()).map(e => e.getBoundingClientRect().height)"""
    )
    assert min(sizes) >= 9, "no text is shrunk until it cannot be read"
    assert view.complaints == []
    assert view.page.locator("#positions details").nth(1).get_attribute("open") is None
    view.page.locator("#positions summary").nth(1).click()
    assert view.page.locator("#positions details").nth(1).locator("svg:visible").count() == 1
