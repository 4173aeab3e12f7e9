"""A host that is lost is told of once."""

from __future__ import annotations

from harness.run_errors import merge

LOST = "n1: SSH to root@10.77.0.1:22: Connection refused"


def test_a_lost_host_is_one_line_where_it_was_missed_first() -> None:
    errors = [
        f"fault: partition stop: heal: RemoteError: {LOST}",
        "fault: kill start: n2: RemoteError: n2: kill: the service does not run",
        f"fault: heal stop: heal: RemoteError: {LOST}; n1: RemoteError: {LOST}",
        f"restore: {LOST}",
        f"stop: {LOST}; n3: SSH to root@10.77.0.3:22: no answer",
        "collect: n3: SSH to root@10.77.0.3:22: no answer",
    ]
    assert merge(errors) == [
        f"{LOST} (5 times: fault, restore, stop)",
        errors[1],
        "n3: SSH to root@10.77.0.3:22: no answer (2 times: stop, collect)",
    ]


def test_what_else_went_wrong_is_kept_as_it_is() -> None:
    more = f"stop: {LOST}; n2: `true` gave status 1: no message"
    assert merge([more, f"collect: {LOST}"]) == [more, f"{LOST} (1 times: collect)"]
    assert merge(["run: history.jsonl: No space left on device"]) == [
        "run: history.jsonl: No space left on device"
    ]
    assert merge([]) == []
