"""A checker that judges by key says the same as a Spark job, history by history."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench.checkers.random_histories import machine, registers
from kraftwreck.checkers.catalogue import Settings, find
from kraftwreck.cli.main import status
from kraftwreck.histories.operation import Op
from kraftwreck.histories.parquet import write_history
from kraftwreck.histories.source import HistoryFile
from kraftwreck.histories.tables import HISTORY_SCHEMA, to_table
from kraftwreck.histories.verdict import CheckerResult
from kraftwreck.pipeline import check_histories
from kraftwreck.pipeline.background import Handle
from kraftwreck.pipeline.keyed import BY_KEY, merge

MACHINES = (
    "lock", "fifo-queue", "unordered-queue", "linearizable-set", "linearizable-counter",
    "multi-register", "log",
)  # fmt: skip


def several(model: str, number: int) -> list[Op]:
    """Three histories of one key each, taking turns, as one history of three keys."""
    parts = [machine(model, 5, 3 * number + key) for key in range(3)]
    ops: list[Op] = []
    while any(parts):
        for key, part in enumerate(parts):
            if part:
                op = part.pop(0)
                at, process = len(ops), op.process * 3 + key
                ops.append(
                    msgspec.structs.replace(op, index=at, time=at, process=process, key=f"k{key}")
                )
    return ops


def make(folder: Path, number: int) -> tuple[str, Path]:
    """Write history ``number``; return its model and its file, or folder of shards."""
    if number % 2:
        model, ops = "cas-register", registers(5, number)
    else:
        model = MACHINES[number // 2 % len(MACHINES)]
        ops = several(model, number)
    if number % 10 == 3:
        path = folder / f"{number}.parquet"
        write_history(to_table(ops, HISTORY_SCHEMA), path, shards=3)
    else:
        path = folder / f"{number}.jsonl"
        path.write_bytes(b"".join(msgspec.json.encode(op) + b"\n" for op in ops))
    return model, path


def told(result: CheckerResult) -> tuple[Any, ...]:
    anomalies = {(a.type, a.explanation, tuple(a.operations)) for a in result.anomalies}
    return (result.valid, anomalies, result.stats.get("keys"), result.stats.get("operations"))


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("count", [100, pytest.param(1000, marks=pytest.mark.whole_run)])
def test_histories_get_the_same_verdicts(worker: Handle, tmp_path: Path, count: int) -> None:
    made = {str(number): make(tmp_path, number) for number in range(count)}
    jobs = [
        {"history": name, "file": str(path), "model": model, "shards": 2}
        for name, (model, path) in made.items()
    ]
    answer = worker.ask({"check": jobs}, timeout_s=1800)
    results = msgspec.convert(answer["results"], dict[str, CheckerResult])
    expected = {
        name: told(find(model).judge(HistoryFile(path), Settings()).result)
        for name, (model, path) in made.items()
    }
    assert {name: told(result) for name, result in results.items()} == expected
    verdicts = [valid for valid, *_ in expected.values()]
    assert min(verdicts.count(True), verdicts.count(False)) > count // 10, "both are tested"


class Borrowed:
    """The tests' Spark in place of one that the command would start."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def ask(self, *arguments: Any, **named: Any) -> Any:
        return self._handle.ask(*arguments, **named)

    def wait(self) -> None:
        pass


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.xdist_group("spark")
def test_the_command_judges_a_history_with_spark(
    worker: Handle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(check_histories, "start", lambda **_: Borrowed(worker))
    _, path = make(tmp_path, 1)
    here = status(["check", str(path), "-m", "cas-register", "--json"])
    local = json.loads(capsys.readouterr().out)
    master = ["--master", "local[*]"]
    assert status(["check", str(path), "-m", "cas-register", "--json", *master]) == here
    spread = json.loads(capsys.readouterr().out)
    assert (spread["valid"], spread["anomalies"]) == (local["valid"], local["anomalies"])
    assert status(["check", str(tmp_path / "no.jsonl"), "-m", "lock", *master]) == 254
    assert "No such file" in capsys.readouterr().err


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.xdist_group("spark")
def test_a_bad_file_keeps_no_other_from_its_verdict(
    worker: Handle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Spark and the command alone say the same about each file, and exit alike."""
    monkeypatch.setattr(check_histories, "start", lambda **_: Borrowed(worker))
    monkeypatch.chdir(tmp_path)
    write = '{"process":0,"type":"invoke","f":"write","value":1}\n'
    read = (
        '{"process":0,"type":"invoke","f":"read"}\n{"process":0,"type":"ok","f":"read","value":2}\n'
    )
    for name, text in {
        "invalid.jsonl": read,
        "garbage.jsonl": write + "{]\n" + write,
        "shape.jsonl": write + write,
        "deep.jsonl": write.replace("1}", "[" * 100_000 + "]" * 100_000 + "}"),
        "word.txt": write,
        "valid.jsonl": write,
    }.items():
        Path(name).write_text(text)
    files = sorted(each.name for each in tmp_path.iterdir())
    words = ["check", *files, "missing.jsonl", "-m", "register"]
    told = {}
    for master in ([], ["--master", "local[*]"]):
        code = status([*words, *master, "--json"])
        printed = capsys.readouterr()
        reports = [json.loads(line) for line in printed.out.splitlines()]
        verdicts = [(each["file"], each["valid"], each.get("error")) for each in reports]
        told[bool(master)] = code, printed.err, verdicts
    assert told[True] == told[False]
    code, err, verdicts = told[True]
    assert code == 254
    assert err.count("\n") == 5, err
    judged = {file: valid for file, valid, _ in verdicts}
    assert (judged["invalid.jsonl"], judged["valid.jsonl"]) == (False, True)


def test_transactions_reach_over_keys_and_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text("")
    assert status(["check", str(path), "-m", "list-append", "--master", "local"]) == 254
    assert "--master needs a model that judges each key alone" in capsys.readouterr().err


def test_merged_results_are_in_the_order_of_the_history() -> None:
    merged = merge(
        [
            CheckerResult(
                valid=True, stats={"keys": 2, "invalid_keys": ["b"], "windows": {"b": 1}}
            ),
            CheckerResult(valid="unknown", stats={"keys": 1, "invalid_keys": ["a"]}, error="late"),
        ]
    )
    assert merged.valid == "unknown"
    assert merged.stats == {"keys": 3, "invalid_keys": ["a", "b"], "windows": {"b": 1}}
    assert merged.error == "late"
    assert set(MACHINES) < BY_KEY


def test_a_part_without_a_key_that_could_be_checked_decides_nothing() -> None:
    nothing = CheckerResult(valid="unknown", stats={"keys": 0, "operations": 2}, error="nothing")
    held = CheckerResult(valid=True, stats={"keys": 2, "operations": 4})
    merged = merge([nothing, held])
    assert (merged.valid, merged.error) == (True, None)
    assert merged.stats == {"keys": 2, "operations": 6}
    assert merge([nothing, nothing]).valid == "unknown"
