"""Faults planted in the checkers themselves: each must make some test fail.

    pytest -m campaign tests/checkers/test_checker_mutants.py

Each fault is one replacement in one file of a copy of ``checkers/``, against which the tests
of that part run in a process of their own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kraftwreck.harness.patched_nodes import overlay

ROOT = Path(__file__).resolve().parents[2]
NARROW = "tests/checkers/test_narrowing.py"
LOGS = "tests/checkers/linearizability/logs"
JEPSEN, ZONES = "tests/checkers/jepsen", "tests/checkers/linearizability/zones"
MACHINES = "tests/checkers/linearizability/machines"
SEARCH = "tests/checkers/test_compiled_search.py"
PLAIN = "tests/checkers/test_linearizability.py"

Fault = tuple[str, str, str, str]
FAULTS: list[Fault] = [
    ("jepsen/sets.py", "unexpected = final - attempts", "unexpected = set()", JEPSEN),
    ("jepsen/sets.py", "lost = adds - final", "lost = set()", JEPSEN),
    ("jepsen/sets.py", "recovered = ok - adds", "recovered = ok", JEPSEN),
    ("jepsen/set_full.py", "if count > 1:", "if count < 1:", JEPSEN),
    ("jepsen/set_full.py", "known.position < without.position", "True", JEPSEN),
    ("jepsen/set_full.py", "life.known = life.known or moment\n    return", "return", JEPSEN),
    ("jepsen/set_full.py", "(linearizable and stale)", "False", JEPSEN),
    ("jepsen/queues.py", "pending[element] -= 1", "pass", JEPSEN),
    ("jepsen/queues.py", "lost = enqueues - dequeues", "lost = enqueues - enqueues", JEPSEN),
    ("jepsen/queues.py", "if e not in attempts", "if False", JEPSEN),
    ("jepsen/queues.py", "duplicated = dequeues - attempts - unexpected",
     "duplicated = dequeues - attempts", JEPSEN),
    ("jepsen/unique_ids.py", "if count > 1}", "if count > 2}", JEPSEN),
    ("jepsen/counters.py", 'completion.type != "fail"', "True", JEPSEN),
    ("jepsen/counters.py", "may_up + down", "may_up", JEPSEN),
    ("jepsen/counters.py", "up + may_down", "sure_up + may_down", JEPSEN),
    ("jepsen/banks.py", "if below and not negative:", "if below:", JEPSEN),
    ("jepsen/banks.py", "if sum(amounts) != total:", "if sum(amounts) > total:", JEPSEN),
    ("jepsen/banks.py", "if nils:", "if False:", JEPSEN),
    ("jepsen/banks.py", "if strangers:", "if False:", JEPSEN),
    ("jepsen/long_fork.py", "if a & b != a\n    ]", "if False\n    ]", JEPSEN),
    ("jepsen/long_fork.py", "if key in written and twice is None:", "if False:", JEPSEN),
    ("jepsen/monotonic.py", 'lost = added["ok"] - read', "lost = set()", JEPSEN),
    ("jepsen/monotonic.py", 'revived = read & added["fail"]', "revived = set()", JEPSEN),
    ("jepsen/monotonic.py", '"sts", _not_less)', '"sts", _less_or_more)', JEPSEN),
    ("jepsen/sequential.py", "parts[seen[0] :]", "parts[:0]", JEPSEN),
    ("jepsen/causal.py", 'if link not in ("init", position):', "if False:", JEPSEN),
    ("jepsen/causal.py", "event.value == counter + 1", "True", JEPSEN),
    ("jepsen/precedence.py", "before[value] = len(completed)", "before[value] = 0", JEPSEN),
    ("jepsen/statistics.py", '"valid?": counts["ok"] > 0', '"valid?": True', JEPSEN),
    ("jepsen/kafka/losses.py", "if len(values) > 1\n", "if len(values) > 2\n", JEPSEN),
    ("jepsen/kafka/losses.py", "if len(offsets) > 1", "if len(offsets) > 2", JEPSEN),
    ("jepsen/kafka/losses.py", "if value in read or writer is None", "if writer is None", JEPSEN),
    ("jepsen/kafka/losses.py", "or not logs.committed(writer)", "", JEPSEN),
    ("jepsen/kafka/losses.py", "if value in logs.failed.get(key, ())", "if False", JEPSEN),
    ("jepsen/kafka/logs.py", "(sends or not send)", "True", JEPSEN),
    ("jepsen/kafka/order.py", 'if operation.type in ("ok", "info"):\n', "if True:\n", JEPSEN),
    ("jepsen/kafka/order.py", 'if operation.type == "ok":\n', "if True:\n", JEPSEN),
    ("jepsen/kafka/order.py", "if delta > 0:", "if False:", JEPSEN),
    ("jepsen/kafka/cycles.py", "if realtime:\n", "if False:\n", JEPSEN),
    ("jepsen/kafka/checker.py", "allowed |= _WITH_WW", "pass", JEPSEN),
    ("linearizability/zones/decide.py", "overlap = np.flatnonzero(low[1:] < high[:-1])",
     "overlap = np.flatnonzero(low[1:] < low[:-1])", ZONES),
    ("linearizability/zones/decide.py", "inside = np.flatnonzero((around >= 0) &",
     "inside = np.flatnonzero((around < -1) &", ZONES),
    ("linearizability/zones/decide.py", "clusters.first_end < start)",
     "clusters.first_end < -1)", ZONES),
    ("linearizability/zones/decide.py", "keep[mutator] = True", "pass", ZONES),
    ("linearizability/zones/decide.py", "np.minimum(blocks.lo, blocks.hi)[block]",
     "blocks.hi[block]", ZONES),
    ("linearizability/zones/window.py", "low = middle + 1", "low = high", ZONES),
    ("linearizability/zones/searched.py", "made[0] = True", "pass", ZONES),
    ("linearizability/zones/searched.py", "operations.end < operations.never\n",
     "operations.end >= 0\n", ZONES),
    ("linearizability/zones/operations.py", "known: dict[Any, int] = {freeze(initial): 0}",
     "known: dict[Any, int] = {...: 0}", ZONES),
    ("linearizability/zones/operations.py", "and not isinstance(initial, bool)", "", ZONES),
    ("linearizability/zones/key_values.py", "if ways > 1:", "if ways > 2:", MACHINES),
    ("linearizability/zones/key_values.py", "if one in seen_by:", "if one in behind:", MACHINES),
    ("linearizability/zones/key_values.py", "known(call, moment)", "call", MACHINES),
    ("linearizability/zones/key_values.py", "del column[shared + 1 :]", "pass", MACHINES),
    ("linearizability/logs/kernels.py", "mine[BOUND] > level", "mine[BOUND] > level + 4", LOGS),
    ("linearizability/logs/kernels.py", "level > scalars[TOP]", "level > scalars[TOP] + 4", LOGS),
    ("linearizability/logs/stream.py", "doubtful[mine, kernels.BOUND] > 4",
     "doubtful[mine, kernels.BOUND] > 99",
     LOGS),
    ("linearizability/logs/levels.py", "placed.level[lows] + 1]", "placed.level[lows]]", MACHINES),
    ("linearizability/logs/decide.py", "4 * offsets[kept] + 1", "4 * offsets[kept]", MACHINES),
    ("linearizability/logs/decide.py", "np.where(nothing, 0, 2)",
     "np.where(nothing, 2, 2)", MACHINES),
    ("linearizability/machines/models.py", "return None if held else", "return", MACHINES),
    ("linearizability/machines/models.py", "return state if not state else None",
     "return state", MACHINES),
    ("linearizability/machines/search.py", "if count < available:", "if False:", MACHINES),
    ("linearizability/machines/elements.py", "if call.f == \"dequeue\" and element is None:",
     "if False:",
     MACHINES),
    ("linearizability/machines/narrowing.py", "if self._impossible(fewer):", "if True:", MACHINES),
    ("linearizability/machines/narrowing.py", "(state, *self._machine",
     "(*self._machine", MACHINES),
    ("linearizability/machines/fifo.py", "moment > call.end", "False", MACHINES),
    ("linearizability/machines/fifo.py", "takers[number].start > until", "False", MACHINES),
    ("linearizability/machines/fifo.py", "max(value.hi, least)",
     "max(value.put_start, least)", MACHINES),
    ("linearizability/search_kernel.py", "and group_level[member] <= level", "", SEARCH),
    ("linearizability/search_kernel.py", "better = False", "better = True", SEARCH),
    ("linearizability/search_kernel.py", "next_mask = mask ^ bit", "next_mask = mask", SEARCH),
    ("linearizability/narrowing.py", "initial = kernel.UNKNOWN",
     "initial = problem.initial", NARROW),
    ("linearizability/narrowing.py", "reaches = (problem.end < 0) | (problem.end >= open_from)",
     "reaches = problem.end >= open_from", NARROW),
    ("linearizability/decide.py", "count < available\n", "True\n", PLAIN),
    ("linearizability/models.py", "if call.type == FAIL:\n            continue",
     "if False:\n            continue", PLAIN),
    ("linearizability/witness.py", "if call.end < latest:", "if False:", PLAIN),
]  # fmt: skip


def test_every_fault_is_one_replacement() -> None:
    assert len(FAULTS) >= 50
    for file, old, new, _ in FAULTS:
        text = (ROOT / "checkers" / file).read_text()
        assert text.count(old) == 1, (file, old)
        assert old != new


@pytest.mark.campaign
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault[0]}: {fault[1][:40]}")
def test_a_fault_is_caught(fault: Fault, tmp_path: Path) -> None:
    file, old, new, tests = fault
    copy = overlay(tmp_path) / "checkers"
    shutil.copytree(ROOT / "checkers", copy, ignore=shutil.ignore_patterns("__pycache__"))
    path = copy / file
    path.write_text(path.read_text().replace(old, new, 1))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [str(Path(sys.executable).parent / "pytest"), "-q", "-x", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, tests], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 1, f"not caught: {done.stdout[-2000:]}"
