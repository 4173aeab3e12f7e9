"""``kraftwreck check`` over files and run folders: verdicts, exit codes, one-line errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import networkx
import pytest

from kraftwreck.cli.main import status


@pytest.fixture
def good(tmp_path: Path, history: Any) -> Path:
    history.did(0, "write", 1)
    history.did(1, "read", saw=1)
    path = tmp_path / "good.jsonl"
    path.write_bytes(b"".join(msgspec.json.encode(op) + b"\n" for op in history.ops))
    return path


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    path = tmp_path / "bad.edn"
    path.write_text(
        "{:process 0 :type :invoke :f :write :value 1}\n{:process 0 :type :ok :f :write :value 1}\n"
        "{:process 0 :type :invoke :f :read :value nil}\n{:process 0 :type :ok :f :read :value 2}\n"
    )
    return path


def test_a_valid_history(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status(["check", str(good), "--model", "register"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert captured.out == f"{good}: valid\n"


def test_an_invalid_history_is_explained(bad: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status(["check", str(bad), "--model", "cas-register"]) == 1
    error = capsys.readouterr().out
    assert f"{bad}: INVALID" in error
    assert "nonlinearizable: read → 2 (process 0, operation 2–3) cannot be explained" in error


def test_several_files_one_json_line_each(
    good: Path, bad: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["check", str(good), str(bad), "--model", "register", "--json"]
    assert status(arguments) == 1
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["file"], line["valid"]) for line in lines] == [
        (str(good), True),
        (str(bad), False),
    ]
    assert lines[1]["anomalies"][0]["operations"] == [2, 3]


def test_independent_keys(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    ops = [
        {"process": 0, "type": kind, "f": f, "value": ["k", value]}
        for f, value in (("write", 1), ("read", 2))
        for kind in ("invoke", "ok")
    ]
    path.write_text(json.dumps(ops))
    assert status(["check", str(path), "--model", "register", "--independent"]) == 1
    ops[2]["value"] = ops[3]["value"] = ["other", None]
    path.write_text(json.dumps(ops))
    assert status(["check", str(path), "--model", "register", "--independent"]) == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["{good}"], "good.jsonl: a history file needs --model"),
        (["{good}", "--model", "nonsense"], "no model 'nonsense'; models: bank, "),
        (["{good}", "--model", "set", "--option", "x=1"], "model set has no option 'x'"),
        (["{good}", "--model", "set-full", "--option", "linearizable"], "is not NAME=JSON"),
        (["{good}", "--option", "x=1"], "options of a model need --model"),
        (
            ["{good}", "--model", "set", "--consistency-model", "serializable"],
            "has no option 'consistency-models'",
        ),
        (["{good}", "--model", "set-presence"], "model set-presence has no operation 'write'"),
        (["{tmp}/none.jsonl", "--model", "register"], "none.jsonl: No such file or directory"),
        (["{tmp}", "--model", "register"], "unknown kind of file; say --format"),
        (["{tmp}"], "not a run folder: test.json is missing"),
        (["{good}", "--model", "register", "--engine", "magic"], "'magic' is not"),
        ([], "Missing argument"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str],
    said: str,
    good: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    filled = [a.format(good=good, tmp=tmp_path) for a in arguments]
    assert status(["check", *filled]) == 254
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_jepsens_models_print_their_result_map(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "set.edn"
    path.write_text(
        "[{:process 0 :type :invoke :f :add :value 1} {:process 0 :type :ok :f :add :value 1}\n"
        " {:process 0 :type :invoke :f :read} {:process 0 :type :ok :f :read :value #{}}]"
    )
    assert status(["check", str(path), "--model", "SetFull", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["model"], report["valid"], report["result"]["lost"]) == ("set-full", False, [1])
    options = ["--model", "set-full", "--option", "linearizable=true"]
    assert status(["check", str(path), *options]) == 1
    error = capsys.readouterr().out
    assert "lost: Element 1 was known, but no later read has it." in error


def test_a_valid_history_prints_the_order_that_proves_it(good: Path, tmp_path: Path) -> None:
    proof = tmp_path / "proof.jsonl"
    arguments = ["check", str(good), "--model", "register", "--witness", str(proof)]
    assert status(arguments) == 0
    assert json.loads(proof.read_bytes()) == {
        "file": str(good),
        "model": "register",
        "order": [0, 2],
    }


SKEWED = [
    [["append", "x", 1], ["append", "y", 1]],
    [["append", "x", 2], ["r", "y", []]],
    [["r", "x", [1, 2]], ["r", "y", [1]]],
]


def transactions(path: Path, txns: list[Any]) -> Path:
    """Write ``txns``, one after the other, as a history."""
    rows = [
        {"process": process, "type": kind, "f": "txn", "value": txn}
        for process, txn in enumerate(txns)
        for kind in ("invoke", "ok")
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_the_cycles_of_transactions_are_written_as_graphml(tmp_path: Path) -> None:
    path, graph = transactions(tmp_path / "txns.jsonl", SKEWED), tmp_path / "cycles.graphml"
    arguments = ["--model", "list-append", "--graph", str(graph)]
    assert status(["check", str(path), *arguments]) == 1
    read: Any = networkx.read_graphml(graph, node_type=int)
    assert {"rw", "ww"} <= {kind for _, _, kind in read.edges.data("kind")}
    components: Any = networkx.strongly_connected_components(read)
    assert len(list(components)) == 1, "all nodes are on cycles"
    assert "append x 2" in read.nodes[3]["label"].replace("'", "")
    serial = transactions(path, SKEWED[:1])
    assert status(["check", str(serial), *arguments]) in (0, 2)
    assert networkx.read_graphml(graph).number_of_nodes() == 0


def test_transactions_are_checked_at_the_level_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = transactions(tmp_path / "txns.jsonl", SKEWED)
    assert status(["check", str(path), "--model", "list-append", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["result"]["not"]
    weak = ["--model", "list-append", "--consistency-model", "read-committed"]
    assert status(["check", str(path), *weak]) == 0


def test_a_malformed_value_is_refused_by_line_and_field(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "counter.jsonl"
    path.write_text(
        '{"process": 0, "type": "invoke", "f": "add", "value": 1}\n'
        '{"process": 0, "type": "ok", "f": "add", "value": "one"}\n'
    )
    assert status(["check", str(path), "--model", "counter"]) == 254
    said = "line 2: field value of 'add' must be a whole number, got \"one\""
    assert capsys.readouterr().err == f"kraftwreck check: {path}: {said}\n"


def test_a_run_folder_is_checked_again(
    tmp_path: Path,
    history: Any,
    traces: Any,
    make_run: Callable[..., Any],
    capsys: pytest.CaptureFixture[str],
) -> None:
    traces.one_epoch()
    history.did(0, "leader", saw={"leader": 2, "epoch": 1, "hw": 1, "node": 2}, node="n2")
    run = make_run(history, traces, checkers=["stats", "invariants"], name="kraft-leader", seed=1)
    (tmp_path / "test.json").write_bytes(msgspec.json.encode(run.test))
    lines = b"".join(msgspec.json.encode(op) + b"\n" for op in run.ops)
    (tmp_path / "history.jsonl").write_bytes(lines)
    for node in run.nodes:
        folder = tmp_path / "nodes" / node
        folder.mkdir(parents=True)
        own = [event for event in run.events if event.node == node]
        data = b"".join(msgspec.json.encode(event) + b"\n" for event in own)
        (folder / "trace.jsonl").write_bytes(data)
    assert status(["check", str(tmp_path), "--json"]) == 1
    (line,) = capsys.readouterr().out.splitlines()
    report = json.loads(line)
    assert report["checkers"]["stats"]["valid"] is True
    assert report["checkers"]["invariants"]["valid"] is False
    results = json.loads((tmp_path / "results.json").read_bytes())
    assert results["valid"] is False
    assert results["checkers"]["invariants"]["anomalies"][0]["type"] == "I1"


def test_a_torn_last_line_is_part_of_the_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "torn.jsonl"
    rows = [
        {"process": 0, "type": kind, "f": f, "value": value}
        for f, kind, value in (
            ("add", "invoke", 1),
            ("add", "ok", 1),
            ("read", "invoke", None),
            ("read", "ok", []),
            ("read", "invoke", None),
            ("read", "ok", [1]),
        )
    ]
    path.write_text("\n".join(map(json.dumps, rows))[:-1])
    assert status(["check", str(path), "--model", "set", "--json"]) == 2
    report = json.loads(capsys.readouterr().out)
    assert report["torn_line"] == 6
    assert report["error"] == "line 6 is torn, and may hold the missing elements"
    path.write_text(path.read_text().replace("add", "write").replace("[]", "1"))
    assert status(["check", str(path), "--model", "register"]) == 0
    said = f"{path}: valid without line 6, which is torn\n"
    assert capsys.readouterr() == (said, "")
    path.write_text(
        path.read_text().replace('"ok", "f": "read", "value": 1', '"ok", "f": "read", "value": 2')
    )
    assert status(["check", str(path), "--model", "register"]) == 1
    assert "INVALID without line 6, which is torn" in capsys.readouterr().out


def test_one_bad_file_keeps_no_other_from_its_verdict(
    good: Path, bad: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deep = tmp_path / "deep.jsonl"
    row = {"process": 0, "type": "invoke", "f": "write", "value": "deep"}
    deep.write_text(json.dumps(row).replace('"deep"', "[" * 980 + "]" * 980) + "\n")
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"process": 18446744073709551616, "type": "ok", "f": "read"}\n')
    files = list(map(str, (broken, good, tmp_path / "none.jsonl", deep, bad)))
    assert status(["check", *files, "--model", "cas-register"]) == 254
    said = capsys.readouterr()
    assert said.out.splitlines()[0] == f"{good}: valid"
    assert said.out.splitlines()[1] == f"{bad}: INVALID"
    assert len(said.err.splitlines()) == 3
    assert status(["check", *files, "--model", "cas-register", "--json"]) == 254
    lines = list(map(json.loads, capsys.readouterr().out.splitlines()))
    assert [line["file"] for line in lines] == files
    assert [line["valid"] for line in lines] == ["unknown", True, "unknown", "unknown", False]


@pytest.mark.parametrize("suffix", ["jsonl", "json", "edn"])
def test_transactions_need_no_process(
    suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edn = (
        "{:type :ok, :value [[:append :x 1] [:r :y [1]]]}\n"
        "{:type :ok, :value [[:append :y 1] [:r :x [1]]]}"
    )
    rows = [
        {"type": "ok", "f": "txn", "value": [["append", a, 1], ["r", b, [1]]]}
        for a, b in ("xy", "yx")
    ]
    path = tmp_path / f"paper.{suffix}"
    path.write_text(
        edn if suffix == "edn"
        else json.dumps(rows) if suffix == "json"
        else "\n".join(map(json.dumps, rows))
    )  # fmt: skip
    assert status(["check", str(path), "--model", "list-append"]) == 1
    assert "G1c" in capsys.readouterr().out


def test_one_client_needs_no_process(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "h.jsonl"
    lines = [
        {"type": kind, "f": f, "value": value}
        for f, value in (("write", 1), ("read", 2))
        for kind in ("invoke", "ok")
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert status(["check", str(path), "--model", "register"]) == 1
    path.write_text("".join(json.dumps(line) + "\n" for line in sorted(lines, key=str)))
    assert status(["check", str(path), "--model", "register"]) == 254
    assert "process is missing" in capsys.readouterr().err


def test_a_bank_refuses_a_register(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "h.jsonl"
    path.write_text('{"process": 0, "type": "invoke", "f": "write", "value": 5}\n')
    assert status(["check", str(path), "--model", "bank"]) == 254
    assert "line 1: model bank has no operation 'write'" in capsys.readouterr().err
