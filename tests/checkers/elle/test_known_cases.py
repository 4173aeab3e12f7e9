"""Agreement with Elle itself on histories whose results are known (not part of the project)."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kraftwreck.checkers.elle.check import Options, analyze
from kraftwreck.histories.convert import load

# Fragments with reads of values that nothing wrote: garbage-read here, which Elle does not report.
UNWRITTEN = {f"elle_unit/{number}-rw-register-checker-test" for number in ("052", "072", "076")}
# Elle refused it for mixing kinds of integers that neither JSON nor EDN tells apart.
UNTOLD = "elle_unit/078-rw-register-type-sanity"


def _contents(name: str) -> dict[str, bytes]:
    folder = os.environ.get("KRAFTWRECK_CASES")
    if not folder:
        pytest.skip("KRAFTWRECK_CASES names no folder of histories with known verdicts")
    archive = Path(folder) / name
    if not archive.exists():
        pytest.skip(f"{archive} does not exist")
    with tarfile.open(archive) as tar:
        files = {member.name: tar.extractfile(member) for member in tar if member.isfile()}
        return {name: file.read() for name, file in files.items() if file is not None}


def _options(asked: dict[str, Any]) -> Options:
    return Options(
        consistency_models=asked.get("consistency-models", ["strict-serializable"]) or (),
        anomalies=asked.get("anomalies") or (),
        sequential_keys=bool(asked.get("sequential-keys?")),
        linearizable_keys=bool(asked.get("linearizable-keys?")),
        wfr_keys=bool(asked.get("wfr-keys?")),
    )


def _differences(path: Path, model: str, asked: dict[str, Any], expected: Any) -> list[Any]:
    result = analyze(load(path), model, _options(asked)).result
    ours = (result["valid?"], result.get("not", []), result.get("also-not", []))
    theirs = (expected["valid"], expected["not"] or [], expected["also_not"] or [])
    return [] if ours == theirs else [(asked, ours, theirs)]


@pytest.mark.parametrize(("folder", "model"), [("append", "list-append"), ("wr", "rw-register")])
def test_it_agrees_with_elle_on_random_histories(tmp_path: Path, folder: str, model: str) -> None:
    contents = _contents("differential-open.tar.xz")
    lines = contents[f"{folder}.expected.jsonl"].splitlines()
    assert len(lines) >= 100
    wrong = []
    for line in lines:
        case = msgspec.json.decode(line)
        path = tmp_path / "history.jsonl"
        path.write_bytes(contents[case["file"]])
        for expected in case["results"]:
            wrong += _differences(path, model, expected["opts"], expected)
    assert wrong == []


def test_it_agrees_with_elles_own_tests(tmp_path: Path) -> None:
    contents = _contents("unit-open.tar.xz")
    wrong, checked = [], 0
    for case in msgspec.json.decode(contents["manifest.json"]):
        if case.get("model") not in ("list-append", "rw-register", "closed-predicate"):
            continue
        for name in (case["file"], case["edn"]):
            if name.startswith(UNTOLD):
                continue
            path = tmp_path / Path(name).name
            path.write_bytes(contents[name])
            checked += 1
            differences = _differences(path, case["model"], case["opts"], case["expected"])
            if Path(name).with_suffix("").as_posix() in UNWRITTEN:
                assert [ours[:2] for _, ours, _ in differences] == [(False, ["read-committed"])]
            else:
                wrong += differences
    assert wrong == []
    assert checked >= 90
