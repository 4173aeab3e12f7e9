"""``kraftwreck check`` of transactions: models, anomalies, engines, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kraftwreck.cli.check import cli

SKEW = [
    (0, "invoke", [["r", 1, None], ["append", 2, 1]]),
    (1, "invoke", [["r", 2, None], ["append", 1, 1]]),
    (0, "ok", [["r", 1, None], ["append", 2, 1]]),
    (1, "ok", [["r", 2, None], ["append", 1, 1]]),
]


@pytest.fixture
def skew(tmp_path: Path) -> Path:
    path = tmp_path / "skew.jsonl"
    rows = [
        {"index": at, "process": process, "type": kind, "f": "txn", "value": value, "time": at}
        for at, (process, kind, value) in enumerate(SKEW)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def test_a_history_is_held_against_a_consistency_model(skew: Path) -> None:
    strict = run(skew, "--model", "list-append")
    assert strict.exit_code == 1
    assert "G2-item: Let T1 = operation " in strict.stdout
    weak = run(skew, "--model", "list-append", "--consistency-model", "snapshot-isolation")
    assert weak.exit_code == 0
    asked = run(
        skew,
        "-m",
        "list-append",
        "--consistency-model",
        "snapshot-isolation",
        "--anomaly",
        "G2-item",
    )
    assert asked.exit_code == 1


def test_json_holds_elles_result(skew: Path) -> None:
    found = json.loads(run(skew, "-m", "list-append", "--json").stdout)
    assert found["valid"] is False
    assert found["result"]["valid?"] is False
    assert found["result"]["anomaly-types"] == ["G2-item"]
    assert found["result"]["not"] == ["repeatable-read"]
    assert found["anomalies"][0]["operations"]


def test_an_unknown_name_is_one_line(skew: Path) -> None:
    found = run(skew, "-m", "list-append", "--consistency-model", "serialisable")
    assert found.exit_code == 254
    assert "no consistency model 'serialisable'; there are PL-1, " in found.stderr
    assert found.stderr.count("\n") == 1


def test_a_history_of_another_model_is_refused(skew: Path) -> None:
    found = run(skew, "-m", "rw-register")
    assert found.exit_code == 254
    assert 'operation 0: rw-register knows "r" and "w", got \'append\'' in found.stderr


def test_without_elle_the_error_names_the_package_to_install(
    skew: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KRAFTWRECK_ELLE", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    found = run(skew, "-m", "list-append", "--engine", "elle")
    assert found.exit_code == 254
    assert "install Java and elle-cli" in found.stderr
    assert found.stderr.count("\n") == 1


def test_elle_judges_where_it_is_asked_to(skew: Path, tmp_path: Path) -> None:
    elle = tmp_path / "elle"
    elle.write_text('#!/bin/sh\necho \'{"valid?": "unknown", "anomaly-types": ["G9"]}\'\n')
    elle.chmod(0o755)
    found = run(skew, "-m", "list-append", "--engine", "elle", "--elle", elle)
    assert found.exit_code == 2
    elle.write_text("#!/bin/sh\necho broken >&2; exit 255\n")
    failed = run(skew, "-m", "list-append", "--engine", "elle", "--elle", elle)
    assert failed.exit_code == 255
    assert "Elle failed with exit code 255: broken" in failed.stderr


def test_elle_judges_only_transactions(skew: Path) -> None:
    found = run(skew, "-m", "set", "--engine", "elle")
    assert found.exit_code == 2
    assert "--engine elle needs --model list-append or rw-register" in found.stderr


def test_a_model_that_cannot_be_decided_is_refused_with_the_nearest_one(skew: Path) -> None:
    for engine in ("native", "elle"):
        found = run(skew, "-m", "list-append", "--consistency-model", "causal", "--engine", engine)
        assert found.exit_code == 254
        assert "'causal' cannot be decided; the nearest one that is: strong-ses" in found.stderr
        assert found.stderr.count("\n") == 1
    asked = run(skew, "-m", "list-append", "-o", "consistency-models=[]", "-a", "G-monotonic")
    assert asked.exit_code == 254
    assert "'G-monotonic' is not detected; the nearest one that is: G-single" in asked.stderr
