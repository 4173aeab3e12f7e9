"""I31: a node knows the voters at every offset from its latest snapshot on."""

from __future__ import annotations

import pytest

from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.consensus.kraft.voters import LISTENER, Voter, VoterHistory, VoterSet
from kraftwreck.systems.kraft.simulated.history_watch import Change, forgotten

pytestmark = pytest.mark.interpreted


def voters(*ids: int) -> VoterSet:
    return VoterSet({i: Voter(i, bytes([i]) * 16, ((LISTENER, Endpoint("h", i)),)) for i in ids})


SNAPSHOT = Change(20, voters(1, 2), 1)
LATER = (Change(30, voters(1, 2, 3), None), Change(40, voters(2, 3), None))


def history() -> VoterHistory:
    """The history of a log with changes at 10, 30 and 40, and kraft.version 1 since 5."""
    made = VoterHistory(voters(1))
    made.add_level(5, 1)
    made.add_voters(10, voters(1, 2))
    for change in LATER:
        assert change.voters is not None
        made.add_voters(change.offset, change.voters)
    return made


def test_a_whole_history_agrees_with_its_log() -> None:
    assert forgotten(history(), SNAPSHOT, LATER) == []
    cleaned = history()
    cleaned.clean(20)
    assert forgotten(cleaned, SNAPSHOT, LATER) == []
    # Without a snapshot nothing is known of what came before the first change.
    assert forgotten(cleaned, Change(0, None, None), LATER) == []


def test_voters_in_force_at_the_start_of_the_log_are_missed() -> None:
    cleaned = VoterHistory(voters(1))
    cleaned.add_level(5, 1)
    for change in LATER:
        assert change.voters is not None
        cleaned.add_voters(change.offset, change.voters)
    below, cut = forgotten(cleaned, SNAPSHOT, LATER)
    assert "below offset 30" in below
    assert "after a cut at offset 30" in cut


def test_an_outdated_end_is_missed() -> None:
    cut = history()
    cut.truncate(40)
    (text,) = forgotten(cut, SNAPSHOT, LATER)
    assert "at the end" in text


def test_levels_are_compared() -> None:
    made = VoterHistory(voters(1, 2))
    assert forgotten(made, Change(0, voters(1, 2), 0), ()) == []
    texts = forgotten(made, Change(0, voters(1, 2), 0), (Change(7, None, 1),))
    assert texts == ["would use kraft.version 0 at the end; its log has 1."]


@pytest.mark.parametrize("left", [1, 2])
def test_a_cut_that_keeps_a_change_is_found(left: int, monkeypatch: pytest.MonkeyPatch) -> None:
    truncate = VoterHistory.truncate
    monkeypatch.setattr(VoterHistory, "truncate", lambda self, end: truncate(self, end + left))
    texts = forgotten(history(), SNAPSHOT, LATER)
    assert [text.partition(" after ")[2][:22] for text in texts] == [
        "a cut at offset 30; it",
        "a cut at offset 40; it",
    ]
