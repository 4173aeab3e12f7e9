"""The measurement of acknowledged records that a loss of power takes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from bench.acknowledgements import FLUSHES, MODES, lost, powerless
from kraftwreck.histories.operation import Op


def result(*ops: Op) -> Any:
    return cast(Any, SimpleNamespace(ops=list(ops)))


def op(kind: str, f: str, value: Any, **more: Any) -> Op:
    return Op(index=0, process=0, type=kind, f=f, value=value, time=0, **more)  # type: ignore[arg-type]


SENT = op("ok", "send", [["send", 4, [0, 10]], ["send", 4, [1, 11]]])
OPEN = op("info", "send", [["send", 4, 12]])


def test_acknowledged_records_that_the_final_read_lacks_are_lost() -> None:
    early = op("ok", "poll", [["poll", {"4": [[0, 10], [1, 11]]}]])
    final = op("ok", "poll", [["poll", {"4": [[0, 10]]}]], final=True)
    assert lost(result(SENT, OPEN, early, final)) == (2, 1)


def test_nothing_is_counted_without_a_final_read() -> None:
    with pytest.raises(LookupError):
        lost(result(SENT))


@pytest.mark.whole_run
@pytest.mark.parametrize("mode", MODES)
def test_nothing_that_was_acknowledged_from_the_disk_is_lost(mode: str) -> None:
    run = powerless({**MODES[mode], **FLUSHES["disk, flush.messages=1"]}, 0)
    acknowledged, gone = lost(run)
    assert run.failures == []
    assert acknowledged > 50
    assert gone == 0
