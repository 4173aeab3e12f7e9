"""A lost host is reported once; until then errors do not change."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kraftwreck.harness.remote.session import RemoteError, UnreachableError, on_all
from kraftwreck.harness.run_errors import Trouble, merge

N1 = UnreachableError("n1", "SSH to root@10.77.0.1:22: Connection refused")
N3 = UnreachableError("n3", "SSH to root@10.77.0.3:22: no answer")
N2 = RemoteError("n2", "kill: the service does not run")


def all_at_once(*errors: RemoteError) -> RemoteError:
    """Return the error that is raised when several hosts fail at once."""
    by_name = {error.host: error for error in errors}

    def fail(name: str) -> None:
        raise by_name[name]

    with pytest.raises(RemoteError) as raised:
        on_all(list(by_name), fail)
    return raised.value


def trouble(phase: str, error: RemoteError, what: Callable[[RemoteError], str] = str) -> Trouble:
    return Trouble.of(error, what(error), phase)


def test_a_lost_host_is_one_line_where_it_was_missed_first() -> None:
    lost = Trouble.of(N1, f"heal: {N1}")
    both = all_at_once(N1, N3)
    assert isinstance(both, UnreachableError)
    assert both.hosts == ("n1", "n3")
    again = Trouble.together([lost, Trouble.of(both, str(both))], f"heal stop: {lost}; {both}")
    errors = [
        Trouble.together([lost], f"partition stop: {lost}").during("fault"),
        trouble("fault", N2),
        again.during("fault"),
        trouble("restore", N1),
        trouble("stop", both),
        trouble("collect", N3),
    ]
    assert merge(errors) == [
        f"{N1} (4 times: fault, restore, stop)",
        f"fault: {N2}",
        f"{N3} (3 times: fault, stop, collect)",
    ]


def test_other_errors_are_unchanged() -> None:
    mixed = all_at_once(N1, N2)
    assert not isinstance(mixed, UnreachableError)
    assert str(mixed) == f"{N1}; {N2}"
    assert merge([trouble("stop", mixed), trouble("collect", N1)]) == [
        f"stop: {N1}; {N2}",
        f"{N1} (1 times: collect)",
    ]
    full = OSError(28, "No space left on device")
    assert merge([Trouble.of(full, "history.jsonl: full", "run")]) == ["run: history.jsonl: full"]
    assert merge([]) == []


def test_a_line_that_only_looks_like_a_lost_host_is_none() -> None:
    """A program's message about its own SSH connection does not mean a lost host."""
    said = RemoteError("n1", "`ssh` gave status 255: n4: SSH to root@x: no answer")
    assert merge([trouble("stop", said)]) == [f"stop: {said}"]


def test_several_as_one_are_a_lost_host_only_if_each_is() -> None:
    lost, other = Trouble.of(N1, str(N1)), Trouble.of(N2, str(N2))
    assert Trouble.together([lost, lost], "text").lost == {"n1": N1.said}
    assert Trouble.together([lost, other], "text").lost == {}
    assert Trouble.together([], "text").lost == {}
