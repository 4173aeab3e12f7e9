"""Classification of red runs by cause."""

from __future__ import annotations

import signal

import pytest

from kraftwreck.nightly.child import Ended
from kraftwreck.nightly.classify import classify
from kraftwreck.nightly.record import Failure
from kraftwreck.nightly.request import Answer

FINE = Ended(0, 1.0, 1.0)
LOST = Failure(checker="committed", type="lost", explanation="gone")


def classified(ended: Ended, answer: Answer | None, output: str = "") -> tuple[str | None, str]:
    judged = classify(ended, answer, output, 60.0)
    return judged.klass, judged.why or ""


def test_a_valid_run_is_not_red() -> None:
    assert classified(FINE, Answer(valid=True)) == (None, "")


def test_a_proven_anomaly_outranks_other_errors() -> None:
    answer = Answer(valid=False, exit_code=255, failures=[LOST], trouble="ssh: connection reset")
    assert classified(FINE, answer) == ("system", "committed: lost: gone")


@pytest.mark.parametrize(
    "said",
    [
        "n3: SSH: authentication failed",
        "n1: connection refused",
        "store/x: No space left on device",
        "MemoryError",
        "OSError: [Errno 12] Cannot allocate memory",
        "this needs root",
        "nft is not installed: apt-get install nftables",
        "[Errno 1] Operation not permitted",
        "n2: host key does not match",
        "namespaces are refused here",
    ],
)
def test_machine_failures_are_known_by_their_messages(said: str) -> None:
    answer = Answer(valid="unknown", exit_code=255, trouble=said)
    assert classified(FINE, answer) == ("environment", said)
    assert classified(Ended(255, 1.0, 1.0), None, f"some line\n{said}\n\n")[0] == "environment"


@pytest.mark.parametrize(
    "said", ["final operations: KeyError: 'n3'", "heal: n1 answers nonsense", "the harness failed"]
)
def test_everything_else_is_ours(said: str) -> None:
    answer = Answer(valid="unknown", exit_code=255, trouble=said)
    assert classified(FINE, answer) == ("harness", said)


def test_a_valid_run_whose_harness_failed_is_red() -> None:
    answer = Answer(valid=True, exit_code=255, trouble="collect: n2: nonsense")
    assert classified(FINE, answer)[0] == "harness"


def test_bad_arguments_and_missing_tools_are_of_the_machine() -> None:
    answer = Answer(valid="unknown", exit_code=254)
    klass, why = classified(FINE, answer, "kraftwreck run: give another file\n")
    assert (klass, why) == ("environment", "kraftwreck run: give another file")


def test_a_time_out_is_ours() -> None:
    klass, why = classified(Ended(-9, 60.0, 1.0, late=True), None)
    assert (klass, why) == ("harness", "took longer than 60 s and was killed")


def test_killed_workers_blame_the_machine_and_crashed_ones_the_harness() -> None:
    assert classified(Ended(-signal.SIGKILL, 1.0, 1.0), None)[0] == "environment"
    klass, why = classified(Ended(-signal.SIGSEGV, 1.0, 1.0), None)
    assert klass == "harness"
    assert "signal 11" in why


def test_an_unknown_checker_makes_no_red_run() -> None:
    answer = Answer(valid="unknown", exit_code=2, unknown=["a: out of time", "b: out of memory"])
    assert classified(FINE, answer) == (None, "a: out of time; b: out of memory")


def test_reasons_are_one_short_line() -> None:
    answer = Answer(valid="unknown", exit_code=255, trouble="a\nb" + "x" * 1000)
    _, why = classified(FINE, answer)
    assert "\n" not in why
    assert len(why) <= 500
