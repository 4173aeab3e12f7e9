"""The content of the page, without a browser: words, escaping, torn and missing files."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from kraftwreck.checkers import members
from kraftwreck.histories.reading import convert_run
from kraftwreck.histories.verdict import Anomaly, CheckerResult, Suspicion, Verdict
from kraftwreck.reports.plain import meaning
from kraftwreck.reports.run_folder import RunFolderError, load_run
from kraftwreck.reports.run_report import write_report
from tests.reports.fake_run import HOSTILE, write_fake_run


def text_of(folder: Path) -> str:
    """The report of ``folder``, as written."""
    return write_report(folder).read_text(encoding="utf-8")


def element(page: str, name: str) -> str:
    """The content of the script element ``name``."""
    found = re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', page, re.S)
    assert found
    return found.group(1)


def test_suspicions_have_a_section_with_their_rule_and_their_reason(run_copy: Path) -> None:
    file = run_copy / "results.json"
    verdict = msgspec.json.decode(file.read_bytes(), type=Verdict)
    event = {"node": "n1", "kind": "append", "state": "leader", "epoch": 4, "mono": 7}
    late = Suspicion(
        type="I18",
        explanation="n1 still leads <epoch> 4.",
        why="A machine may stand still.",
        operations=[3],
        events=[event],
    )
    verdict.checkers = {"epochs": CheckerResult(valid=True, suspicions=[late])}
    verdict.valid = True
    file.write_bytes(msgspec.json.encode(verdict))
    page = text_of(run_copy)
    section = page.partition('id="suspicions"')[2].partition("</section>")[0]
    assert "n1 still leads &lt;epoch&gt; 4." in section
    assert f"If true, it{meaning('I18').removeprefix('It')}" in section
    assert "Only suspected by epochs: A machine may stand still." in section
    assert "n1 append, leader of epoch 4" in section
    assert "operations 3" in section
    assert "1 suspicion of epochs: I18 is no proof on hosts." in page
    assert 'id="anomalies"' not in page
    assert "no anomaly; 1 suspicion" in page


def test_the_page_is_whole_and_needs_nothing_else(run_copy: Path) -> None:
    page = text_of(run_copy)
    assert page.startswith("<!doctype html>")
    assert page.rstrip().endswith("</html>")
    assert not re.findall(r"<(?:link|img|iframe|object|embed|base)\b", page)
    assert not re.findall(r"""(?:src|href)=["']?(?:https?:)?//""", page)
    assert "default-src &#39;none&#39;" in page
    assert not (run_copy / "report.html.tmp").exists()


def test_hostile_text_never_becomes_markup(run_copy: Path) -> None:
    page = text_of(run_copy)
    assert "alert(1)" in page, "the text is shown"
    assert "<script>alert" not in page
    assert page.lower().count("<script") == 4
    assert page.lower().count("</script") == 4
    data = msgspec.json.decode(element(page, "run-data"))
    assert HOSTILE in {a["type"] for a in data["anomalies"]}, "and kept as it is in the data"


@pytest.mark.parametrize(
    ("verdict", "label", "words"),
    [
        (Verdict.of({"epochs": CheckerResult(valid=True)}), "valid", "1 checker found no anomaly"),
        (
            Verdict.of({"epochs": CheckerResult(valid="unknown", error="out of time")}),
            "unknown",
            "No anomaly was found in",
        ),
        (
            Verdict.of(
                {
                    "epochs": CheckerResult(
                        valid=False, anomalies=[Anomaly(type="I1", explanation="Two leaders.")]
                    )
                }
            ),
            "INVALID",
            "1 anomaly in 1,000 operations",
        ),
        (None, "not checked", "No checker has judged this run"),
    ],
)
def test_the_verdict_is_described_in_plain_words(
    run_copy: Path, verdict: Verdict | None, label: str, words: str
) -> None:
    (run_copy / "results.json").unlink()
    if verdict is not None:
        (run_copy / "results.json").write_bytes(msgspec.json.encode(verdict))
    page = text_of(run_copy)
    assert f"<h1>{label}</h1>" in page
    assert words in page


def test_every_anomaly_has_its_operations_and_its_trace_events(run_copy: Path) -> None:
    verdict = load_run(run_copy).verdict
    assert verdict is not None
    page = text_of(run_copy)
    lost = verdict.checkers["linearizable"].anomalies[0]
    for index in lost.operations:
        assert re.search(rf">{index}–\d+<|>\d+–{index}<", page), f"operation {index} is listed"
    assert "Trace events that prove it" in page
    assert "Not found in the history: 999999999" in page


def test_members_that_differ_come_before_what_clients_saw(run_copy: Path) -> None:
    file = run_copy / "results.json"
    verdict = msgspec.json.decode(file.read_bytes(), type=Verdict)
    seen = verdict.checkers["linearizable"].anomalies[0]
    assert seen.operations
    differ = Anomaly(type=members.DIFFER, explanation="n1 and n2 have other hashes.")
    late = CheckerResult(valid=False, anomalies=[differ])
    verdict.checkers = {"linearizable": verdict.checkers["linearizable"], "members": late}
    file.write_bytes(msgspec.json.encode(verdict))
    page = text_of(run_copy).partition('id="anomalies"')[2]
    assert 0 < page.index("n1 and n2 have other hashes.") < page.index(f">{seen.type}<")


def test_trace_times_become_history_times(run_copy: Path) -> None:
    run = load_run(run_copy)
    data = msgspec.json.decode(element(text_of(run_copy), "run-data"))
    first = next(e for e in run.traces["n3"] if e.kind == "high_watermark" and e.hw > 0)
    offset = run.test["clock"]["n3"]["offset_us"]
    watermarks = next(n for n in data["nodes"] if n["node"] == "n3")["hw"]
    assert [first.mono - offset, first.hw] in watermarks


def test_unmeasured_clocks_are_reported(run_copy: Path) -> None:
    test = msgspec.json.decode((run_copy / "test.json").read_bytes())
    del test["clock"]
    (run_copy / "test.json").write_bytes(msgspec.json.encode(test))
    assert "Node clocks were not measured" in text_of(run_copy)


def test_a_killed_node_is_down_until_it_is_started_again(run_copy: Path) -> None:
    run = load_run(run_copy)
    data = msgspec.json.decode(element(text_of(run_copy), "run-data"))
    kill = next(f for f in run.faults if f.kind == "kill" and f.phase == "start")
    node = next(n for n in data["nodes"] if n["node"] == kill.targets[0])
    start, end = node["down"][0]
    stop = next(f for f in run.faults if f.id == kill.id and f.phase == "stop")
    assert start == kill.time // 1000
    assert end == pytest.approx(stop.done // 1000, abs=1)
    assert not any(s[0] < end and s[1] > start for s in node["segments"]), "no state while down"


def test_a_torn_last_line_is_left_out_and_reported(run_copy: Path) -> None:
    for name in ("history.jsonl", "faults.jsonl", "nodes/n1/trace.jsonl"):
        path = run_copy / name
        path.write_bytes(path.read_bytes()[:-20])
    page = text_of(run_copy)
    for name in ("history.jsonl", "faults.jsonl", "nodes/n1/trace.jsonl"):
        assert f"{name}: the last line is torn" in page


def test_a_broken_line_in_the_middle_is_reported(run_copy: Path) -> None:
    path = run_copy / "history.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    lines[10] = b'{"index": \xff\n'
    path.write_bytes(b"".join(lines))
    assert "history.jsonl: 1 unreadable line" in text_of(run_copy)


def test_an_operation_that_never_ended_is_open(tmp_path: Path) -> None:
    folder = write_fake_run(tmp_path / "run", count=50)
    path = folder / "history.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:11]))
    assert re.search(r"\d+ ok, .*1 open", text_of(folder))


def test_parquet_shows_the_same_as_json_lines(run_copy: Path) -> None:
    before = text_of(run_copy)
    convert_run(run_copy)
    for path in (run_copy / "history.jsonl", *run_copy.glob("nodes/*/trace.jsonl")):
        path.unlink()
    after = text_of(run_copy)
    for name in ("run-plot", "run-data", "run-details"):
        assert element(after, name) == element(before, name), name


def test_a_run_that_left_nothing_but_its_options_is_shown(tmp_path: Path) -> None:
    (tmp_path / "test.json").write_text('{"system": "kraft", "workload": "metadata", "seed": 1}')
    page = text_of(tmp_path)
    assert "<h1>not checked</h1>" in page
    assert "There is no history" in page
    assert "kraftwreck run kraft -w metadata --seed 1" in page


Break = Callable[[Path], object]


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda run: (run / "test.json").unlink(), "test.json is missing"),
        (lambda run: (run / "test.json").write_text("{"), "cannot be read as JSON"),
        (lambda run: (run / "test.json").write_text("[]"), "must hold a JSON object"),
    ],
)
def test_a_broken_folder_is_one_clear_line(run_copy: Path, damage: Break, told: str) -> None:
    damage(run_copy)
    with pytest.raises(RunFolderError, match=told) as caught:
        write_report(run_copy)
    assert "\n" not in str(caught.value)
    assert str(run_copy) in str(caught.value)


def test_a_broken_parquet_is_one_clear_line(run_copy: Path) -> None:
    (run_copy / "history.jsonl").unlink()
    (run_copy / "history.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(RunFolderError) as caught:
        write_report(run_copy)
    assert "\n" not in str(caught.value)


def test_the_size_stays_small(tmp_path: Path) -> None:
    small = write_report(write_fake_run(tmp_path / "a", count=1000)).stat().st_size
    large = write_report(write_fake_run(tmp_path / "b", count=20_000, clients=20)).stat().st_size
    assert small < 200_000
    assert (large - small) / 19_000 < 20, "bytes per operation"
