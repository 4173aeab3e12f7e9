"""Generated histories: planted anomalies are found, and no others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.checkers.transactions import PLANTED, history, write
from kraftwreck.checkers.elle import check_transactions
from kraftwreck.checkers.elle.files import read_history_file

ASSUMED: dict[str, Any] = {
    "wfr_keys": True,
    "sequential_keys": True,
    "linearizable_keys": True,
}


@pytest.mark.parametrize("model", ["list-append", "rw-register"])
@pytest.mark.parametrize("clients", [5, 50])
def test_answers_of_a_correct_store_are_valid(tmp_path: Path, model: str, clients: int) -> None:
    path = tmp_path / "history.parquet"
    assert write(path, history(model, 2000, clients, 7)) > 3900
    options = ASSUMED if model == "rw-register" else {}
    result = check_transactions(read_history_file(path), model, **options)
    assert result.valid is True
    assert result.stats["edges"] > 2000


@pytest.mark.parametrize("model", ["list-append", "rw-register"])
@pytest.mark.parametrize("planted", sorted(PLANTED))
def test_planted_anomalies_are_found(tmp_path: Path, model: str, planted: str) -> None:
    path = tmp_path / "history.parquet"
    write(path, history(model, 1000, 10, 3, planted))
    result = check_transactions(read_history_file(path), model)
    assert result.valid is False
    assert planted in {anomaly.type for anomaly in result.anomalies}
    assert all("1000000000" in anomaly.explanation for anomaly in result.anomalies)


def test_a_seed_says_all(tmp_path: Path) -> None:
    assert list(history("list-append", 200, 5, 1)) == list(history("list-append", 200, 5, 1))
    assert list(history("list-append", 200, 5, 1)) != list(history("list-append", 200, 5, 2))
