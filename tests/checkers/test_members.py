"""Members at one position must hold the same; histories in which they do not must fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from kraftwreck.checkers.members import check
from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.checkers.registry import check as check_all
from kraftwreck.histories.members import FILE, Member, differing
from kraftwreck.histories.tables import HistoryError


def run(folder: Path, **members: Member) -> RunData:
    (folder / "test.json").write_text("{}")
    if members:
        (folder / FILE).write_bytes(msgspec.json.encode(members))
    return RunData.from_folder(folder)


SAME = {"1": "a", "2": [3, 4], "3": {"x": 1}}


@pytest.mark.parametrize(
    ("other", "shown"),
    [
        ({**SAME, "1": "b"}, '1: n1 has "a", n3 has "b"'),
        ({**SAME, "1": None}, '1: n1 has "a", n3 has null'),
        ({"1": "a", "2": [3, 4]}, '3: n1 has {"x":1}, n3 has nothing'),
        ({**SAME, "4": 5}, "4: n1 has nothing, n3 has 5"),
        ({**SAME, "3": {"x": 2}}, "3 x: n1 has 1, n3 has 2"),
        ({**SAME, "2": [3]}, "2: n1 has 4, n3 has nothing"),
        ({**SAME, "2": [4, 3]}, "2: n1 has [3,4], n3 has [4,3]"),
        ({**SAME, "2": [3, 4, 4]}, "2: n1 has [3,4], n3 has [3,4,4]"),
        ({**SAME, "3": {"x": True}}, "3 x: n1 has 1, n3 has true"),
        ({**SAME, "3": {"x": "1"}}, '3 x: n1 has 1, n3 has "1"'),
        ([1], "the state: n1 has"),
    ],
)
def test_different_states_at_one_position_are_invalid(
    tmp_path: Path, other: Any, shown: str
) -> None:
    found = check(run(tmp_path, n1=Member(9, SAME), n2=Member(9, SAME), n3=Member(9, other)))
    assert found.valid is False
    (anomaly,) = found.anomalies
    assert anomaly.type == "members-differ"
    assert "n1 and n3 are both at position 9" in anomaly.explanation
    assert "differ in 1 place: " in anomaly.explanation
    assert shown in anomaly.explanation


def test_many_differences_are_counted_and_a_few_shown(tmp_path: Path) -> None:
    one, other = ({str(key): key * factor for key in range(1, 41)} for factor in (1, 2))
    found = check(run(tmp_path, n1=Member([2, "x"], one), n2=Member([2, "x"], other)))
    (anomaly,) = found.anomalies
    assert 'position [2,"x"], but their states differ in 40 places: 1: n1 has 1, n2 has 2;' in (
        anomaly.explanation
    )
    assert anomaly.explanation.endswith("; and 35 more.")


def test_equal_members_are_valid(tmp_path: Path) -> None:
    turned = dict(reversed(SAME.items()))
    found = check(run(tmp_path, n1=Member(9, SAME), n2=Member(9, turned), n3=Member(9, SAME)))
    assert (found.valid, found.error, found.stats["compared"]) == (True, None, 3)


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ({}, "no member was asked for its state"),
        ({"n1": Member(9, SAME)}, "a single member has none to be compared with"),
        ({"n1": Member(9, SAME), "n2": Member(8, {})}, "differ: n1 at 9; n2 at 8"),
        (
            {"n1": Member(9, SAME), "n2": Member(9, SAME), "n3": Member(error="no route")},
            "not all members were compared: n3: no route",
        ),
    ],
)
def test_without_a_common_position_nothing_is_proven(
    tmp_path: Path, members: dict[str, Member], why: str
) -> None:
    found = check(run(tmp_path, **members))
    assert found.valid == "unknown"
    assert why in str(found.error)


def test_a_missing_member_hides_no_difference_of_the_others(tmp_path: Path) -> None:
    found = check(run(tmp_path, n1=Member(9, 1), n2=Member(error="gone"), n3=Member(9, 2)))
    assert found.valid is False


def test_a_damaged_file_is_unknown(tmp_path: Path) -> None:
    damaged = run(tmp_path)
    (tmp_path / FILE).write_text('{"n1": 3}')
    with pytest.raises(HistoryError, match=FILE):
        check(damaged)
    verdict = check_all(RunData.from_folder(tmp_path), ["members"])
    assert verdict.valid == "unknown"


def test_what_ends_a_test_early_is_a_finding(tmp_path: Path) -> None:
    """Two texts of one number are two states, for the harness and for the checker."""
    members = {"n1": Member(9, {"a": 0.0}), "n2": Member(9, {"a": -0.0})}
    assert any(differing(members))
    [found] = check(run(tmp_path, **members)).anomalies
    assert "differ in 1 place: the state: n1 has" in found.explanation
