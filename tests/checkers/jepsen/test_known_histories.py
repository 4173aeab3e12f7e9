"""Histories of Jepsen's and Knossos' own tests, where a folder of them is at hand.

The folder is named by ``KRAFTWRECK_CASES`` and holds ``unit-open.tar.xz``; nothing of it is
part of the project.
"""

from __future__ import annotations

import os
import tarfile
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kraftwreck.checkers.catalogue import Report, Settings, find, options_of
from kraftwreck.histories.source import HistoryFile

_COMPARED = frozenset({"op", "op-index"})
_FOLDERS = ("jepsen_checker_unit", "jepsen_kafka_unit", "knossos_unit")


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    named = os.environ.get("KRAFTWRECK_CASES")
    if not named:
        pytest.skip("KRAFTWRECK_CASES names no folder of histories with known verdicts")
    archive = Path(named) / "unit-open.tar.xz"
    if not archive.exists():
        pytest.skip(f"{archive} does not exist")
    folder = tmp_path_factory.mktemp("cases")
    with tarfile.open(archive) as tar:
        for member in tar:
            file = tar.extractfile(member) if member.isfile() else None
            if file is not None:
                path = folder / Path(member.name).parent.name / Path(member.name).name
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(file.read())
    listed = msgspec.json.decode((folder / "manifest.json").read_bytes())
    ours = [case for case in listed if case["file"].startswith(_FOLDERS)]
    assert ours
    return folder, ours


@pytest.mark.parametrize("form", ["file", "edn"])
def test_verdicts_and_results_agree(cases: tuple[Path, list[dict[str, Any]]], form: str) -> None:
    folder, listed = cases
    wrong: list[Any] = []
    for case in listed:
        report = _judged(folder / case[form], case)
        expected = case["expected"]
        told = _expected_result(folder, case)
        if "valid" in expected and report.result.valid is not _validity(expected["valid"]):
            wrong.append((case["source"], report.result.valid, expected["valid"]))
        elif "error_types" in expected and report.details["error-types"] != sorted(
            expected["error_types"]
        ):
            wrong.append((case["source"], report.details["error-types"], expected["error_types"]))
        for name, value in told.items():
            mine = report.details.get(name)
            if (
                name not in ("valid?", "final-queue", "errors", "worst-stale", "worst-realtime-lag")
                and mine != value
            ):
                wrong.append((case["source"], name, mine, value))
    assert wrong == []


def _validity(value: Any) -> Any:
    return value if isinstance(value, bool) else "unknown"


def _expected_result(folder: Path, case: dict[str, Any]) -> dict[str, Any]:
    if "expected_file" not in case:
        return {}
    told = msgspec.json.decode((folder / case["expected_file"]).read_bytes())
    result: dict[str, Any] = told["result"]
    return result


def _judged(path: Path, case: dict[str, Any]) -> Report:
    entry = find(case["model"])
    given = (
        dict((case["opts"].get("checker") or {}).get("checker-opts") or {})
        if "opts" in case
        else {}
    )
    if "initial" in case:
        text = case["initial"].removeprefix("{:value ").removesuffix("}")
        given["initial"] = None if text == "nil" else int(text)
    settings = Settings(options=options_of(entry, given))
    return entry.judge(HistoryFile(path), settings)
