"""The error codes that a state of the metadata allows an answer to have."""

from __future__ import annotations

import pytest

from kraftwreck.checkers.kraft.controller_model.refusals import Allowed

DONE, WRONG, PERHAPS, OTHER = 0, 40, 41, 42


@pytest.mark.parametrize(
    ("allowed", "codes"),
    [
        (Allowed(), {DONE}),
        (Allowed(WRONG), {WRONG}),
        (Allowed(may=[PERHAPS]), {DONE, PERHAPS}),
        (Allowed(WRONG, may=[PERHAPS]), {WRONG, PERHAPS}),
        (Allowed(may=[PERHAPS]).join(Allowed(WRONG)), {WRONG, PERHAPS}),
    ],
    ids=["nothing-wrong", "must", "may", "both", "joined"],
)
def test_an_answer_succeeds_only_where_no_code_must_be(allowed: Allowed, codes: set[int]) -> None:
    assert allowed.codes == codes
    assert {code for code in (DONE, WRONG, PERHAPS, OTHER) if code in allowed} == codes


def test_a_further_reason_may_be_given_as_well() -> None:
    allowed = Allowed(may=[PERHAPS])
    allowed.add(WRONG, OTHER)
    assert (allowed.must, allowed.may) == ({WRONG, OTHER}, {PERHAPS})
